"""Locations of MLIR as metadata of HLO: the framework's name of an operation, and the stack of the user's program.

Owns: `Locations`, the tables of stack frames, names of instructions. Must not know: operations.

As XLA has it: the outermost name is the `op_name` (what follows an `@` is left out), a name that ends in `:` around
another is the `op_type`; a place in a file with a name is a stack frame, its function the innermost name. The
instruction is named after the last part of `op_name`: `jit(f)/add` gives `add`.
"""

from __future__ import annotations

from typing import TypeVar

from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import FileLocation, StackFrame, StackFrames
from xlapy.stablehlo import ir

_Noted = tuple[OpMetadata | None, str | None]
_DEEPEST = 256
T = TypeVar("T")


class Locations:
    """The locations of one program."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[ir.FileLocation, _Noted]] = {}
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._places: dict[FileLocation, int] = {}
        self._frames: dict[StackFrame, int] = {}

    def note(self, location: ir.FileLocation) -> _Noted:
        """The metadata of what stands at a location, and the name it gives to an instruction; None for none."""
        if location is ir.UNKNOWN_LOCATION:
            return None, None
        found = self._noted.get(id(location))
        if found is None:
            found = self._noted[id(location)] = (location, self._read(location))
        return found[1]

    def frames(self) -> StackFrames | None:
        """The tables that the metadata point into; None if there are none."""
        if not self._frames:
            return None
        return StackFrames(list(self._files), list(self._functions), list(self._places), list(self._frames))

    def _read(self, location: ir.FileLocation) -> _Noted:
        names = location.names
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
            stack_frame_id=self._frame(location) if names and location.file else 0,
        )
        return metadata, op_name.rpartition("/")[2] or None

    def _frame(self, location: ir.FileLocation) -> int:
        """The number of the frame, after those that called it."""
        number = 0
        stack = [location]
        while stack[-1].callers and len(stack) < _DEEPEST:
            stack.extend(stack[-1].callers)
        for each in reversed(stack):
            number = self._one_frame(each, number)
        return number

    def _one_frame(self, location: ir.FileLocation, parent: int) -> int:
        place = FileLocation(
            _number(self._files, location.file),
            _number(self._functions, location.names[-1] if location.names else ""),
            location.line,
            location.line,
            location.column,
            location.column,
        )
        return _number(self._frames, StackFrame(_number(self._places, place), parent))


def _number(table: dict[T, int], key: T) -> int:
    return table.setdefault(key, len(table) + 1)
