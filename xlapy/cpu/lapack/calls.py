"""Lowers custom calls of LAPACK to thunks.

All arrays are row-major here, and a LAPACK matrix is the transpose of one (`use_lapack` adds the transposes).

Responsible for the memory in which a function works and for the division of a batch into tasks. Does not depend on the
order of a function's arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.analysis.aliasing import array_leaves
from xlapy.analysis.cost.reference_machine import MIN_PARALLEL_CYCLES
from xlapy.base.element_types import U8
from xlapy.base.shape import Shape
from xlapy.cpu.lapack.arguments import IN_PLACE, UNWRITTEN, ArrayArgument, arguments_of
from xlapy.cpu.lapack.eigenvectors import eigenvector_kernel
from xlapy.cpu.lapack.small_matrices import has_kernel, small_matrix_kernel
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import LoweringContext
from xlapy.cpu.program.thunks import KernelThunk, LibraryArray, LibraryCallThunk
from xlapy.custom_calls.lapack import FINITE_ONLY, LapackCall, lapack_call
from xlapy.hlo.instruction import Instruction

MAX_TASKS = 64
"""The largest number of tasks of a batch, because each task has workspace of its own."""

MAX_SCRATCH_BYTES = 1 << 26
"""The largest workspace in bytes of all tasks together, unless a single task needs more."""

_OPERATIONS_PER_CYCLE = 4
"""The operations that LAPACK does in a cycle, on matrices of ten to a hundred rows."""

_CALL_CYCLES = 100
"""The cycles that a call takes besides."""


def add_lapack_call(context: LoweringContext, instruction: Instruction) -> None:
    """Appends the thunks of a LAPACK call."""
    call = lapack_call(instruction)
    if has_kernel(call):
        _add_kernel(context, instruction, call)
        return
    operands = [context.slice_of(operand) for operand in instruction.operands]
    in_place = IN_PLACE.get(call.routine, {0: 0})
    leaves = [leaf for _, leaf in array_leaves(instruction.shape)]
    made = {r: context.reuse_or_copy(instruction, instruction.operands[o]) for o, r in in_place.items()}
    results = [made.get(number) or BufferSlice(leaf, name=instruction.name) for number, leaf in enumerate(leaves)]
    temporaries = _geev_memory(context, instruction, call)
    context.define(instruction, results)
    if not math.prod(call.batch):
        return
    thunk = _thunk(call, operands, results, temporaries)
    thunk.op_name = instruction.name
    context.thunks.append(thunk)
    if temporaries[1:]:
        kernel = eigenvector_kernel(instruction.name, call)
        for columns, vectors in zip(temporaries[1:], results[2:4], strict=True):
            context.thunks.append(KernelThunk(kernel, [columns, results[1], vectors], instruction.name))


def _add_kernel(context: LoweringContext, instruction: Instruction, call: LapackCall) -> None:
    """Appends the kernel of a batch of small matrices."""
    operands = [context.slice_of(operand) for operand in instruction.operands]
    kernel = small_matrix_kernel(instruction.name, call)
    results = context.kernel_results(instruction, instruction.operands, kernel)
    context.thunks.append(KernelThunk(kernel, [*operands, *results], instruction.name))


def _geev_memory(context: LoweringContext, instruction: Instruction, call: LapackCall) -> list[BufferSlice]:
    """Returns the memory in which geev works: its matrices and, if they are real, the columns that eigenvectors are
    built from."""
    if call.routine != "geev":
        return []
    copy = context.reuse_or_copy(instruction, instruction.operands[0])
    shape = instruction.operands[0].shape
    columns = [] if call.element_type.is_complex else [BufferSlice(shape, name=instruction.name) for _ in range(2)]
    return [copy, *columns]


def _thunk(
    call: LapackCall,
    operands: Sequence[BufferSlice],
    results: Sequence[BufferSlice],
    temporaries: Sequence[BufferSlice],
) -> LibraryCallThunk:
    """Returns the thunk that calls the function for all matrices of a batch. Its last slice is the workspace."""
    found = arguments_of(call)
    kinds = {"o": list(operands), "r": list(results), "c": list(temporaries)}
    slices = list(dict.fromkeys(slice_ for group in kinds.values() for slice_ in group))
    written = {slice_ for group in (results, temporaries) for slice_ in group}
    count = math.prod(call.batch)
    cleared = _zero_initialized(call, results, temporaries)

    def array(argument: ArrayArgument) -> LibraryArray:
        slice_ = kinds[argument.kind][argument.number]
        size = slice_.size // count
        return LibraryArray(slices.index(slice_), size, argument.offset * slice_.shape.element_type.byte_size)

    arguments = [array(a) if isinstance(a, ArrayArgument) else a for a in found.arguments]
    info = slices.index(results[-1]) if _has_status(call) else None
    if info is not None:
        arguments[-1] = LibraryArray(info, 4)
    matrix = temporaries[0] if temporaries else results[0]
    grain = _grain(call, count, found.scratch_size)
    scratch = BufferSlice(Shape.array(U8, (found.scratch_size * -(-count // grain),)), name="workspace")
    return LibraryCallThunk(
        symbol=found.symbol,
        arguments=tuple(arguments),
        character_arguments=found.letters,
        slices=[*slices, scratch],
        written=frozenset(n for n, slice_ in enumerate(slices) if slice_ in written),
        zero_initialized=tuple(LibraryArray(slices.index(slice_), slice_.size // count) for slice_ in cleared),
        must_be_finite=LibraryArray(slices.index(matrix), matrix.size // count)
        if call.routine in FINITE_ONLY
        else None,
        element_bytes=call.element_type.byte_size // (2 if call.element_type.is_complex else 1),
        batch=count,
        grain=grain,
        scratch_size=found.scratch_size,
        call_cost=_call_cost(call),
    )


def _has_status(call: LapackCall) -> bool:
    return call.routine not in ("trsm", "geqrf", "geqp3", "orgqr", "ormqr")


def _zero_initialized(
    call: LapackCall, results: Sequence[BufferSlice], temporaries: Sequence[BufferSlice]
) -> list[BufferSlice]:
    """Returns the slices that are filled with zeros first: results that the function may leave unchanged."""
    if call.routine in FINITE_ONLY:  # the function is not called if the matrix is not finite
        begun = [] if temporaries else results[:1]
        return [slice_ for slice_ in (*results[:-1], *temporaries[1:]) if slice_ not in begun]
    if not all(call.sizes[letter] for letter in ("m", "n") if letter in call.sizes):
        return [
            slice_ for number, slice_ in enumerate(results) if number not in IN_PLACE.get(call.routine, {0: 0}).values()
        ]
    unwritten = UNWRITTEN.get(call.routine, {})
    return [results[number] for number, letter in unwritten.items() if call.letters[letter] == "N"]


def _call_cost(call: LapackCall) -> int:
    """Estimates the cycles per matrix."""
    sizes = [max(1, size) for letter, size in call.sizes.items() if letter in "mnstk"]
    return 4 * max(sizes) * math.prod(sorted(sizes)[-2:]) // _OPERATIONS_PER_CYCLE + _CALL_CYCLES


def _grain(call: LapackCall, count: int, scratch_size: int) -> int:
    """Returns the number of matrices per task, which depends only on the shapes."""
    tasks = min(MAX_TASKS, count, max(1, MAX_SCRATCH_BYTES // max(1, scratch_size)))
    return max(-(-count // tasks), min(count, MIN_PARALLEL_CYCLES // _call_cost(call)), 1)
