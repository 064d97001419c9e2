"""Bounds checks: what native code checks and reports if the flag `check_bounds` is set.

Each access of a kernel to memory is checked before it happens. The first that is out of bounds stores its number and
the position in a record at the end of the arena, and the program ends with an error. What is known when the program is
compiled, such as the sizes of copies and the places of slices in the arena, is checked then.

Responsible for the record, for the numbers of accesses, and for the errors. Does not depend on LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xlapy.analysis.memory.graph import ALIGNMENT
from xlapy.base.element_types import S64
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.cpu.program.bounds_records import BoundsChecks
from xlapy.cpu.program.buffer_slices import AccessedRange, BufferSlice, StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import BoundsThunk, Thunk, walk_thunks
from xlapy.hlo.instruction import Instruction

_RECORD_SHAPE = Shape.array(S64, (2,))


def add_bounds_checks(program: NativeProgram, instruction: Instruction) -> None:
    """Makes a program check accesses. instruction: the root of the program, for errors about the run as a whole."""
    record = BufferSlice(_RECORD_SHAPE, name="bounds-record")
    thunk = BoundsThunk(len(program.host_calling_thunks), instruction, [record], [], instruction.name)
    program.host_calling_thunks.append(thunk)
    program.bounds_checks = BoundsChecks(thunk)


def place_bounds_record(program: NativeProgram) -> None:
    """Places the record at the end of the arena, where it is live in the whole program, and checks all slices."""
    assert program.bounds_checks is not None
    program.bounds_checks.record.offset = program.arena_size
    program.arena_size += ALIGNMENT
    for thunk in walk_thunks(program.thunks):
        for range_ in (*_places(program, thunk), *thunk.ranges()):
            _check(thunk, range_)


def bounds_error(program: NativeProgram, record: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ExecutionError:
    """Returns the error that a record describes."""
    assert program.bounds_checks is not None
    number, element = map(int, record)
    return program.bounds_checks.accesses[number - 1].error(element)


def _places(program: NativeProgram, thunk: Thunk) -> Iterator[AccessedRange]:
    """Yields the places of a thunk's temporaries in the arena or in the memory of a result."""
    for slice_ in thunk.accesses:
        if slice_.storage is StorageClass.TEMPORARY:
            memory = program.arena_size if slice_.number < 0 else program.results[slice_.number].size
            yield AccessedRange(f"the place of {slice_}", slice_.offset, slice_.size, memory)


def _check(thunk: Thunk, accessed: AccessedRange) -> None:
    """Raises `ExecutionError` unless a range lies in its memory."""
    end = accessed.offset + accessed.size
    if accessed.offset < 0 or end > accessed.capacity:
        raise ExecutionError(
            codes.ACCESS_BOUNDS,
            f"{thunk.op_name or type(thunk).__name__}: {accessed.what} reaches from byte {accessed.offset} to {end} of "
            f"{accessed.capacity} bytes; this is an error of the compiler, not of the program",
        )
