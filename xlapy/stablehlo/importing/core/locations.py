"""Imports MLIR locations as HLO metadata: the framework's name of an operation and the user's call stack.

Responsible for `LocationImporter`, the tables of stack frames and the names of instructions. Does not depend on
operations. Follows XLA:

- the outermost name is the `op_name`, up to an `@`;
- an outermost name that ends in `:` and contains another name is the `op_type`;
- a file position with a name is a stack frame, and its innermost name is the function;
- the instruction is named after the last component of `op_name`: `jit(f)/add` gives `add`.
"""

from __future__ import annotations

from typing import TypeVar

from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import FileLocation, StackFrame, StackFrames
from xlapy.stablehlo import ir

_MetadataAndName = tuple[OpMetadata | None, str | None]
_MAX_NAME_CHARACTERS = 4096
"""The rest of longer names is left out: each instruction is named after its location, which thousands can share."""
_MAX_INSTRUCTION_NAME = 256
"""Characters of the name of an instruction. The number that makes it unique copies the name."""
_MAX_STACK_FRAMES = 256
"""Callers beyond this depth of a call stack are left out."""
_MAX_FRAMES = 1 << 17
"""The most frames of a program. Each of thousands of deep call stacks can be hundreds of frames that no other has."""
T = TypeVar("T")


class LocationImporter:
    """Converts the locations of one program and collects their stack frames.

    The tables map each entry to its number, counted from 1, as HLO's stack frame index does.
    """

    def __init__(self) -> None:
        self._cache: dict[int, tuple[ir.FileLocation, _MetadataAndName]] = {}
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._file_locations: dict[FileLocation, int] = {}
        self._frames: dict[StackFrame, int] = {}

    def metadata_and_name(self, location: ir.FileLocation) -> _MetadataAndName:
        """Returns the metadata of an instruction at a location and the instruction's name; each None if unknown."""
        if location is ir.UNKNOWN_LOCATION:
            return None, None
        found = self._cache.get(id(location))
        if found is None:
            found = self._cache[id(location)] = (location, self._convert(location))
        return found[1]

    def stack_frames(self) -> StackFrames | None:
        """Returns the tables that `stack_frame_id` in the metadata refers to, or None if they are empty."""
        if not self._frames:
            return None
        return StackFrames(list(self._files), list(self._functions), list(self._file_locations), list(self._frames))

    def _convert(self, location: ir.FileLocation) -> _MetadataAndName:
        names = [name[:_MAX_NAME_CHARACTERS] for name in location.names]
        op_type = ""
        if len(names) > 1 and names[0].endswith(":"):
            op_type, names = names[0][:-1], names[1:]
        op_name = names[0].partition("@")[0] if names else ""
        if not (op_name or location.file):
            return None, None
        metadata = OpMetadata(
            op_type=op_type,
            op_name=op_name,
            source_file=location.file,
            source_line=location.line,
            source_column=location.column,
            stack_frame_id=self._frame_id(location) if names and location.file else 0,
        )
        return metadata, op_name.rpartition("/")[2][:_MAX_INSTRUCTION_NAME] or None

    def _frame_id(self, location: ir.FileLocation) -> int:
        """Returns the number of a location's stack frame; adds it and the frames of its callers, outermost first.

        Returns 0, no frame, once there are too many.
        """
        if len(self._frames) > _MAX_FRAMES:
            return 0
        frame_id = 0
        stack = [location]
        while stack[-1].callers and len(stack) < _MAX_STACK_FRAMES:
            stack.extend(stack[-1].callers)
        for each in reversed(stack):
            frame_id = self._add_frame(each, frame_id)
        return frame_id

    def _add_frame(self, location: ir.FileLocation, parent: int) -> int:
        position = FileLocation(
            _number_of(self._files, location.file),
            _number_of(self._functions, location.names[-1] if location.names else ""),
            location.line,
            location.line,
            location.column,
            location.column,
        )
        return _number_of(self._frames, StackFrame(_number_of(self._file_locations, position), parent))


def _number_of(table: dict[T, int], key: T) -> int:
    """Returns the number of a key in a table, counted from 1; adds the key if it is new."""
    return table.setdefault(key, len(table) + 1)
