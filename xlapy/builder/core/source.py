"""The position in the user's program: the first frame outside the builder, for metadata and messages.

Responsible for finding that frame and formatting its position. Does not depend on ops or instructions.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from xlapy.hlo.metadata import OpMetadata, shown_path

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LAYERS = [os.path.join(_PACKAGE, layer) + os.sep for layer in ("base", "opcodes", "hlo", "builder")]
_OWN = (*_LAYERS, os.path.join(_PACKAGE, "ops.py"))


def user_line() -> tuple[str, int]:
    """Returns (source file, 1-based line) of the innermost running frame outside the builder and the layers below it.

    Returns ("", 0) if there is no such frame.
    """
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN):
        outer = frame.f_back
        if outer is None:
            return "", 0
        frame = outer
    return frame.f_code.co_filename, frame.f_lineno


def user_metadata() -> OpMetadata | None:
    """Returns metadata with the user's line; None if there is no frame of the user's."""
    file, line = user_line()
    return _metadata(file, line) if line else None


def located(message: str) -> str:
    """Returns `model.py:12: message`. The file is relative to the working directory if it is inside of it."""
    file, line = user_line()
    return f"{shown_path(file)}:{line}: {message}" if line else message


@lru_cache(maxsize=4096)
def _metadata(file: str, line: int) -> OpMetadata:
    return OpMetadata(source_file=file, source_line=line)
