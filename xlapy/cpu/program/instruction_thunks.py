"""Lowers instructions with thunks of their own: constants, in-place updates, sorts, device ids and random state.

Responsible for the operands and results of these thunks. Does not depend on what their kernels do inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.element_types import U8
from xlapy.base.shape import Shape
from xlapy.codegen.emitters import random_state, scatter_copies
from xlapy.codegen.emitters.matmul.ragged_problem import has_ragged_problem
from xlapy.codegen.emitters.sort import sort, top_k_buffer
from xlapy.cpu.program import buffer_reuse
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.thunks import KernelThunk
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import ShapeIndex


@THUNK_RULES.rule(opcodes.CONSTANT)
def _lower_constant(context: LoweringContext, instruction: Instruction) -> None:
    slices = [
        context.builder.add_constant(np.asarray(_literal_leaf(instruction.literal, index)), leaf, instruction.name)
        for index, leaf in array_leaves(instruction.shape)
    ]
    context.define(instruction, slices)


def _literal_leaf(literal: Any, index: ShapeIndex) -> Any:
    for position in index:
        literal = literal.elements[position]
    return literal.array


@THUNK_RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def _lower_dynamic_update_slice(context: LoweringContext, instruction: Instruction) -> None:
    """Updates the operand in place."""
    operand, update, *_ = instruction.operands
    target = context.reuse_or_copy(instruction, operand)
    _define_in_place(context, instruction, [target], changes=bool(update.shape.size))
    if update.shape.size:
        kernel = buffer_reuse.update_kernel(instruction)
        slices = [context.slice_of(o) for o in instruction.operands[1:]]
        context.thunks.append(KernelThunk(kernel, [*slices, target], instruction.name))


@THUNK_RULES.rule(opcodes.SCATTER)
def _lower_scatter(context: LoweringContext, instruction: Instruction) -> None:
    """Updates the operands in place."""
    count = len(instruction.operands) // 2
    targets = [context.reuse_or_copy(instruction, operand) for operand in instruction.operands[:count]]
    changes = bool(instruction.operands[-1].shape.size)
    _define_in_place(context, instruction, targets, changes=changes)
    if changes:
        found = scatter_copies.scatter_kernels(instruction, host_target())
        slices = [context.slice_of(o) for o in instruction.operands[count:]]
        further = [BufferSlice(Shape.array(U8, (size,)), name=instruction.name) for size in found.temporaries]
        for kernel in found.kernels:
            context.thunks.append(KernelThunk(kernel, [*slices, *targets, *further], instruction.name))


def _define_in_place(
    context: LoweringContext, instruction: Instruction, slices: Sequence[BufferSlice], *, changes: bool
) -> None:
    """Records the slices of results, which replace the first operands. changes: whether a thunk writes them; otherwise
    the results are the operands."""
    operands = [context.alias_analysis.value(operand) for operand in instruction.operands[: len(slices)]]
    context.define(instruction, slices, numbers=None if changes else [context.numbers[value] for value in operands])


@THUNK_RULES.rule(opcodes.SELECT_AND_SCATTER)
def _lower_select_and_scatter(context: LoweringContext, instruction: Instruction) -> None:
    context.add_kernels(instruction)


@THUNK_RULES.rule(opcodes.RAGGED_DOT)
def _lower_ragged_dot(context: LoweringContext, instruction: Instruction) -> None:
    """Calls the host for a form that has neither a kernel nor an expansion."""
    if has_ragged_problem(instruction):
        context.add_kernels(instruction)
    else:
        context.add_host_callback(instruction, "its form has neither a kernel nor an expansion")


@THUNK_RULES.rule(opcodes.SORT)
def _lower_sort(context: LoweringContext, instruction: Instruction) -> None:
    """Sorts the operands in place, or copies of them."""
    results = [context.reuse_or_copy(instruction, operand) for operand in instruction.operands]
    shape = instruction.operands[0].shape
    changes = shape.size > 0 and shape.dimensions[instruction.dimension] > 1
    _define_in_place(context, instruction, results, changes=changes)
    if changes:
        kernels = sort.sort_kernels(instruction, host_target())
        temporaries = [BufferSlice(Shape.array(U8, (size,)), name=instruction.name) for size in kernels.temporaries]
        slices = [*results, *temporaries]
        for kernel, numbers in kernels.steps:
            context.thunks.append(KernelThunk(kernel, [slices[number] for number in numbers], instruction.name))


@THUNK_RULES.rule(opcodes.TOPK)
def _lower_top_k(context: LoweringContext, instruction: Instruction) -> None:
    results = context.allocate(instruction)
    if results[0].shape.size:
        kernel = top_k_buffer.top_k_kernel(instruction, host_target())
        slices = [context.slice_of(instruction.operands[0]), *results]
        context.thunks.append(KernelThunk(kernel, slices, instruction.name))


@THUNK_RULES.rule(opcodes.PARTITION_ID, opcodes.REPLICA_ID)
def _lower_device_id(context: LoweringContext, instruction: Instruction) -> None:
    context.define(instruction, [context.builder.implicit_argument(instruction.op, instruction.shape)])


@THUNK_RULES.rule(opcodes.RNG_GET_AND_UPDATE_STATE)
def _lower_rng_get_and_update_state(context: LoweringContext, instruction: Instruction) -> None:
    state = context.builder.random_state()
    kernel = random_state.random_state_kernel(instruction, host_target())
    context.thunks.append(KernelThunk(kernel, [*context.allocate(instruction), state], instruction.name))
