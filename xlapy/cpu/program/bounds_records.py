"""The accesses that are checked if the flag `check_bounds` is set, and the error of one that is out of bounds.

Responsible for these records. Does not depend on programs or LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.thunks import BoundsThunk
from xlapy.loops import Buffer


@dataclass(frozen=True, slots=True)
class CheckedAccess:
    """An access of a kernel. verb: `loads` or `stores`. slice_: None for memory of the kernel itself."""

    op_name: str
    kernel: str
    verb: str
    buffer: Buffer
    slice_: BufferSlice | None

    @property
    def size(self) -> int:
        """The number of elements, of the buffer's type, that may be accessed."""
        return self.buffer.size if self.slice_ is None else self.slice_.size // self.buffer.type.byte_size

    def error(self, element: int) -> ExecutionError:
        """Returns the error of an access to an element, or to a vector that begins with it."""
        memory = "memory of the kernel" if self.slice_ is None else str(self.slice_)
        return ExecutionError(
            codes.ACCESS_BOUNDS,
            f"{self.op_name}: kernel {self.kernel} {self.verb} element {element} of {self.buffer.name} ({memory}), "
            f"which has {self.size} elements of {self.buffer.type.byte_size} bytes; this is an error of the compiler, "
            "not of the program",
        )


@dataclass(slots=True)
class BoundsChecks:
    """The accesses of a program that are checked; `thunk` reports one that is out of bounds."""

    thunk: BoundsThunk
    accesses: list[CheckedAccess] = field(default_factory=list[CheckedAccess])

    @property
    def record(self) -> BufferSlice:
        """The memory for the number of an access, from 1, and its position; 0 if there is none."""
        return self.thunk.operands[0]

    def number(self, access: CheckedAccess) -> int:
        """Returns a new number, from 1, for an access."""
        self.accesses.append(access)
        return len(self.accesses)
