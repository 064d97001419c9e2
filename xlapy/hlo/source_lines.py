"""The line of the user's program that an instruction comes from, for messages and tools.

Responsible for finding the line in the metadata of an instruction or in the stack frames of its module, and for the
form of a path in a message. Does not depend on how a module was made.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlapy.hlo.instruction import Instruction


def source_of(instruction: Instruction) -> str:
    """Returns the file and line of the user's program that the instruction comes from, `f.py:12`; "" if unknown."""
    file, line = _file_and_line(instruction)
    return _position(file, line)


def shown_source_of(instruction: Instruction) -> str:
    """Returns `source_of` with the path that messages show."""
    file, line = _file_and_line(instruction)
    return _position(shown_path(file), line) if file else ""


def shown_path(file: str) -> str:
    """Returns the path relative to the working directory if the file is inside of it, else the path."""
    try:
        return _relative(file, os.getcwd())
    except OSError:  # the working directory no longer exists
        return file


def _position(file: str, line: int) -> str:
    return f"{file}:{line}" if file and line else file


def _file_and_line(instruction: Instruction) -> tuple[str, int]:
    metadata = instruction.metadata
    if metadata is None:
        return "", 0
    if metadata.source_file:
        return metadata.source_file, metadata.source_line
    module = instruction.parent.module if instruction.parent is not None else None
    frames = module.stack_frames if module is not None else None
    if frames is None or not 0 < metadata.stack_frame_id <= len(frames.frames):
        return "", 0
    location = frames.file_locations[frames.frames[metadata.stack_frame_id - 1].file_location_id - 1]
    return frames.file_names[location.file_name_id - 1], location.line


@lru_cache(maxsize=4096)
def _relative(file: str, folder: str) -> str:
    try:
        relative = os.path.relpath(file, folder)
    except ValueError:  # on another drive, or a null character
        return file
    return file if relative.startswith(os.pardir) else relative
