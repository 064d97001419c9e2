"""Lowers custom calls to thunks: what native code passes to a target, and the memory layout that the target expects.

Operands and results with a layout other than row-major get memory of their own, and transposes convert their elements.
A result that aliases an operand is computed in the operand's memory. Which code is called is determined when the
program runs (`call_frames`); the host executes calls without native code.

Responsible for these thunks. Does not depend on targets or LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import emit_kernels, plan_of
from xlapy.cpu.lapack.calls import add_lapack_call
from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.thunks import CallbackThunk, CallingConvention, KernelThunk
from xlapy.cpu.target import host_target
from xlapy.custom_calls.native import operand_layout_shapes
from xlapy.custom_calls.registry import PythonTarget, find_target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import ShapeIndex
from xlapy.interpreter.core import is_dynamic
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes
from xlapy.opcodes.movement import DimensionsAttributes

_NUMBERS = {version: number for number, version in enumerate(CustomCallApiVersion)}


def calling_convention_of(instruction: Instruction) -> CallingConvention | None:
    """Returns how native code can call the target of a custom call; None if it cannot."""
    version = instruction.attributes_as(CustomCallAttributes).api_version
    if (
        version is CustomCallApiVersion.UNSPECIFIED
        or is_dynamic(instruction)
        or not all(map(_has_plain_layout, _declared_arrays(instruction)))
    ):
        return None
    operands = [leaf for operand in instruction.operands for _, leaf in operand.shape.leaves()]
    results = [leaf for _, leaf in instruction.shape.leaves()]
    return CallingConvention(
        _NUMBERS[version], _array_positions(operands), _array_positions(results), not instruction.shape.is_tuple
    )


def _reason_against_target(instruction: Instruction) -> str:
    """Why the host calls the target of a custom call; empty if native code does."""
    target = find_target(instruction.custom_call_target, "cpu")
    if target is None:
        return "its built-in target is evaluated by the interpreter"
    return "its target is a function of Python" if isinstance(target, PythonTarget) else ""


def _declared_arrays(instruction: Instruction) -> list[Shape]:
    """Returns the arrays whose layouts the call declares."""
    declared = (instruction.shape, *(instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or ()))
    return [leaf for shape in declared for _, leaf in shape.leaves() if leaf.is_array]


def _has_plain_layout(leaf: Shape) -> bool:
    """Whether the layout is only an order of dimensions, without tiles or element sizes."""
    return leaf.layout is None or not (leaf.layout.tiles or leaf.layout.element_size_in_bits)


def _array_positions(leaves: Sequence[Shape]) -> tuple[int, ...]:
    return tuple(number for number, leaf in enumerate(leaves) if leaf.is_array)


@THUNK_RULES.rule(opcodes.CUSTOM_CALL)
def _custom_call(context: LoweringContext, instruction: Instruction) -> None:
    if calls_lapack(instruction):
        add_lapack_call(context, instruction)
        return
    convention = calling_convention_of(instruction)
    if convention is None:
        context.add_host_callback(instruction, "its API version, dynamic dimensions or tiled layouts")
        return
    operands = _operand_slices(context, instruction)
    results: list[BufferSlice] = []
    aliased = _aliased_operands(instruction)
    for path, leaf in array_leaves(instruction.shape):
        place = aliased.get(path)
        if place is None:
            results.append(BufferSlice(_slice_shape(leaf), name=instruction.name))
            continue
        results.append(_overwritable_operand(context, instruction, place, leaf.layout))
        operands[place] = results[-1]
    thunks = context.builder.program.host_calling_thunks
    thunk = CallbackThunk(len(thunks), instruction, list(operands.values()), results, instruction.name, convention)
    thunk.reason = _reason_against_target(instruction)
    thunks.append(thunk)
    context.thunks.append(thunk)
    leaves = [leaf for _, leaf in array_leaves(instruction.shape)]
    made = [_to_row_major(context, slice_, leaf) for slice_, leaf in zip(results, leaves, strict=True)]
    context.define(instruction, made)


def _operand_slices(context: LoweringContext, instruction: Instruction) -> dict[ShapeIndex, BufferSlice]:
    """Returns the slices of the operands' arrays in the layouts that the target expects.

    Indices start with the number of the operand.
    """
    whole = operand_layout_shapes(instruction)
    found: dict[ShapeIndex, BufferSlice] = {}
    for number, operand in enumerate(instruction.operands):
        for path, leaf in array_leaves(operand.shape):
            layout = None if whole is None else whole.subshape((number, *path)).layout
            found[number, *path] = _to_layout(context, instruction, context.slice_of(operand, path), leaf, layout)
    return found


def _aliased_operands(instruction: Instruction) -> dict[ShapeIndex, ShapeIndex]:
    """Returns the operand arrays that arrays of the result alias."""
    return {
        path: (alias.operand, *alias.operand_index, *path[len(alias.output_index) :])
        for alias in instruction.attributes_as(CustomCallAttributes).output_to_operand_aliasing
        for path, _ in array_leaves(instruction.shape)
        if path[: len(alias.output_index)] == alias.output_index
    }


def _overwritable_operand(
    context: LoweringContext, instruction: Instruction, place: ShapeIndex, layout: Layout | None
) -> BufferSlice:
    """Returns memory with the elements of an operand's array that the call may overwrite."""
    number, *path = place
    operand = instruction.operands[number]
    leaf = operand.shape.subshape(path)
    slice_ = _to_layout(context, instruction, context.slice_of(operand, tuple(path)), leaf, layout)
    is_copy = _major_to_minor(slice_.shape) is not None
    return slice_ if is_copy else context.reuse_or_copy(instruction, operand, tuple(path))


# -- layouts


def _major_to_minor(shape: Shape) -> tuple[int, ...] | None:
    """Returns the dimensions from major to minor; None for row-major."""
    order = None if shape.layout is None else tuple(shape.layout.minor_to_major[::-1])
    return None if order == tuple(range(shape.rank)) else order


def _slice_shape(leaf: Shape) -> Shape:
    """Returns the shape of a slice, which has no layout if it is row-major."""
    return leaf if _major_to_minor(leaf) is not None else Shape.array(leaf.element_type, leaf.dimensions)


def _to_layout(
    context: LoweringContext, instruction: Instruction, slice_: BufferSlice, leaf: Shape, layout: Layout | None
) -> BufferSlice:
    """Returns the slice, or a new one with its elements in the order of a layout.

    A slice that reshapes share has the shape of one of them, which may differ from that of the array.
    """
    shape = Shape.array(leaf.element_type, leaf.dimensions, layout=layout)
    order = _major_to_minor(shape)
    if order is None:
        return slice_
    made = BufferSlice(shape, name=instruction.name)
    _append_transpose(context, slice_, made, leaf.dimensions, order)
    return made


def _to_row_major(context: LoweringContext, slice_: BufferSlice, leaf: Shape) -> BufferSlice:
    """Returns the slice, or a new row-major slice with its elements."""
    order = _major_to_minor(slice_.shape)
    if order is None:
        return slice_
    made = BufferSlice(Shape.array(leaf.element_type, leaf.dimensions), name=slice_.name)
    physical = tuple(leaf.dimensions[d] for d in order)
    _append_transpose(context, slice_, made, physical, tuple(order.index(d) for d in range(len(order))))
    return made


def _append_transpose(
    context: LoweringContext,
    source: BufferSlice,
    target: BufferSlice,
    dimensions: Sequence[int],
    order: tuple[int, ...],
) -> None:
    """Appends the kernel of a transpose, for an array of the given dimensions."""
    if not source.size:
        return
    element_type = source.shape.element_type
    given = Instruction(opcodes.PARAMETER, Shape.array(element_type, dimensions), name=source.name)
    moved = Shape.array(element_type, [dimensions[d] for d in order])
    transpose = Instruction(opcodes.TRANSPOSE, moved, [given], DimensionsAttributes(dimensions=order), name=target.name)
    region = region_of(transpose, host_target())
    for kernel in emit_kernels(plan_of(transpose, region).plan, region):
        context.thunks.append(KernelThunk(kernel, [source, target], target.name))
