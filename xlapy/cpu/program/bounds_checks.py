"""Bounds checks: what native code checks and reports if the flag `check_bounds` is set.

Each access of a kernel to memory is checked before it happens. The first that is out of bounds stores its number and
the position in a record at the end of the arena, and the program ends with an error. What is known when the program is
compiled, such as the sizes of copies and the places of slices in the arena, is checked then.

Responsible for the record, for the numbers of accesses, and for the errors. Does not depend on LLVM.
"""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import S64
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.cpu.program.bounds_records import BoundsChecks
from xlapy.cpu.program.buffer_assignment import ALIGNMENT
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import (
    BoundsThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    LibraryArray,
    LibraryCallThunk,
    Thunk,
    WhileThunk,
    used_slices,
    walk_thunks,
)
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
        for slice_ in used_slices(thunk):
            _check_place(program, thunk, slice_)
        _check_sizes(thunk)


def bounds_error(program: NativeProgram, record: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ExecutionError:
    """Returns the error that a record describes."""
    assert program.bounds_checks is not None
    number, element = map(int, record)
    return program.bounds_checks.accesses[number - 1].error(element)


def _check_place(program: NativeProgram, thunk: Thunk, slice_: BufferSlice) -> None:
    if slice_.storage is not StorageClass.TEMPORARY:
        return
    memory = program.arena_size if slice_.number < 0 else program.results[slice_.number].size
    _require(slice_.offset, slice_.size, memory, thunk, f"the place of {slice_}")


def _check_sizes(thunk: Thunk) -> None:
    if isinstance(thunk, CopyThunk):
        _require(0, thunk.source.size, thunk.target.size, thunk, f"the copy to {thunk.target}")
    elif isinstance(thunk, WhileThunk):
        _require(0, 1, thunk.predicate.size, thunk, f"the predicate {thunk.predicate}")
    elif isinstance(thunk, ConditionalThunk):
        _require(0, thunk.index.shape.element_type.byte_size, thunk.index.size, thunk, f"the index {thunk.index}")
    elif isinstance(thunk, LibraryCallThunk):
        _check_library_call(thunk)
    elif isinstance(thunk, CollectiveThunk) and not thunk.direct:
        _check_staging(thunk)


def _check_library_call(thunk: LibraryCallThunk) -> None:
    arrays = [
        a for a in (*thunk.arguments, *thunk.zero_initialized, thunk.must_be_finite) if isinstance(a, LibraryArray)
    ]
    for array in arrays:
        slice_ = thunk.slices[array.slice_index]
        last = array.offset + (thunk.batch - 1) * array.size
        _require(array.offset, array.size, slice_.size, thunk, f"the first call's part of {slice_}")
        _require(last, array.size - array.offset, slice_.size, thunk, f"the last call's part of {slice_}")
    tasks = -(-thunk.batch // thunk.grain)
    _require(0, tasks * thunk.scratch_size, thunk.slices[-1].size, thunk, f"the workspace {thunk.slices[-1]}")


def _check_staging(thunk: CollectiveThunk) -> None:
    for participant in thunk.participants:
        for offsets, slices in (
            (participant.send_offsets, thunk.operands),
            (participant.receive_offsets, thunk.received),
        ):
            for offset, slice_ in zip(offsets, slices, strict=False):
                if offset >= 0:
                    _require(offset, slice_.size, thunk.staging_size, thunk, f"the staging memory of {slice_}")


def _require(offset: int, size: int, memory: int, thunk: Thunk, what: str) -> None:
    """Raises `ExecutionError` unless `size` bytes from an offset on lie in memory of a size."""
    if offset < 0 or offset + size > memory:
        name = getattr(thunk, "op_name", "") or type(thunk).__name__
        raise ExecutionError(
            f"{name}: {what} reaches from byte {offset} to {offset + size} of {memory} bytes; this is an error of the "
            "compiler, not of the program"
        )
