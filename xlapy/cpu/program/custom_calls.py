"""Custom calls as thunks: what native code is told, and the order in which it finds elements in memory.

Operands and results of another layout than the row-major one get memory of their own, from and to which transposes
bring the elements. A result that lives in the memory of an operand is made there. Which code is called is known when
the program runs (`targets`); the host carries out what has none.

Owns: these thunks. Must not know: targets, LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.codegen.region import region_of
from xlapy.cpu.lapack.calls import add_lapack_call
from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.kernel_selection import select_kernels
from xlapy.cpu.program.thunks import CallbackThunk, CallingConvention, KernelThunk
from xlapy.cpu.target import host_target
from xlapy.custom_calls.native import operand_layout_shapes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import ShapeIndex
from xlapy.interpreter.core import is_dynamic
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes
from xlapy.opcodes.movement import DimensionsAttributes

_NUMBERS = {version: number for number, version in enumerate(CustomCallApiVersion)}


def calling_convention_of(instruction: Instruction) -> CallingConvention | None:
    """How native code would be called for a custom call; None if none can be."""
    version = instruction.attributes_as(CustomCallAttributes).api_version
    if (
        version is CustomCallApiVersion.UNSPECIFIED
        or is_dynamic(instruction)
        or not all(map(_is_order, _laid(instruction)))
    ):
        return None
    operands = [leaf for operand in instruction.operands for _, leaf in operand.shape.leaves()]
    results = [leaf for _, leaf in instruction.shape.leaves()]
    return CallingConvention(_NUMBERS[version], _places(operands), _places(results), not instruction.shape.is_tuple)


def _laid(instruction: Instruction) -> list[Shape]:
    """The arrays whose layouts the call declares."""
    declared = (instruction.shape, *(instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or ()))
    return [leaf for shape in declared for _, leaf in shape.leaves() if leaf.is_array]


def _is_order(leaf: Shape) -> bool:
    """Whether the layout is no more than an order of dimensions."""
    return leaf.layout is None or not (leaf.layout.tiles or leaf.layout.element_size_in_bits)


def _places(leaves: Sequence[Shape]) -> tuple[int, ...]:
    return tuple(number for number, leaf in enumerate(leaves) if leaf.is_array)


@THUNK_RULES.rule(opcodes.CUSTOM_CALL)
def _custom_call(context: LoweringContext, instruction: Instruction) -> None:
    if calls_lapack(instruction):
        add_lapack_call(context, instruction)
        return
    convention = calling_convention_of(instruction)
    if convention is None:
        context.add_host_callback(instruction)
        return
    operands = _operands(context, instruction)
    results: list[BufferSlice] = []
    shared = _shared(instruction)
    for path, leaf in array_leaves(instruction.shape):
        place = shared.get(path)
        if place is None:
            results.append(BufferSlice(_physical(leaf), name=instruction.name))
            continue
        results.append(_own(context, instruction, place, leaf.layout))
        operands[place] = results[-1]
    callbacks = context.builder.program.callbacks
    thunk = CallbackThunk(len(callbacks), instruction, list(operands.values()), results, instruction.name, convention)
    callbacks.append(thunk)
    context.thunks.append(thunk)
    leaves = [leaf for _, leaf in array_leaves(instruction.shape)]
    made = [_restored(context, slice_, leaf) for slice_, leaf in zip(results, leaves, strict=True)]
    context.define(instruction, made)


def _operands(context: LoweringContext, instruction: Instruction) -> dict[ShapeIndex, BufferSlice]:
    """The memory of each array of the operands as the code takes it; paths begin with the operand's number."""
    whole = operand_layout_shapes(instruction)
    found: dict[ShapeIndex, BufferSlice] = {}
    for number, operand in enumerate(instruction.operands):
        for path, leaf in array_leaves(operand.shape):
            layout = None if whole is None else whole.subshape((number, *path)).layout
            found[number, *path] = _laid_out(context, instruction, context.slice_of(operand, path), leaf, layout)
    return found


def _shared(instruction: Instruction) -> dict[ShapeIndex, ShapeIndex]:
    """The arrays of the result that live in the memory of an operand's."""
    return {
        path: (alias.operand, *alias.operand_index, *path[len(alias.output_index) :])
        for alias in instruction.attributes_as(CustomCallAttributes).output_to_operand_aliasing
        for path, _ in array_leaves(instruction.shape)
        if path[: len(alias.output_index)] == alias.output_index
    }


def _own(context: LoweringContext, instruction: Instruction, place: ShapeIndex, layout: Layout | None) -> BufferSlice:
    """Memory that the call may overwrite, with the elements of an operand's array."""
    number, *path = place
    operand = instruction.operands[number]
    leaf = operand.shape.subshape(path)
    laid = _laid_out(context, instruction, context.slice_of(operand, tuple(path)), leaf, layout)
    return laid if _order(laid.shape) is not None else context.reuse_or_copy(instruction, operand, tuple(path))


# -- layouts


def _order(shape: Shape) -> tuple[int, ...] | None:
    """The dimensions from major to minor; None for row-major."""
    order = None if shape.layout is None else tuple(shape.layout.minor_to_major[::-1])
    return None if order == tuple(range(shape.rank)) else order


def _physical(leaf: Shape) -> Shape:
    """The shape of a slice_: without a layout if it is row-major."""
    return leaf if _order(leaf) is not None else Shape.array(leaf.element_type, leaf.dimensions)


def _laid_out(
    context: LoweringContext, instruction: Instruction, slice_: BufferSlice, leaf: Shape, layout: Layout | None
) -> BufferSlice:
    """The slice_, or memory in which its elements lie in the order of a layout. A slice_ that reshapes share has the shape
    of one of them, not that of the array."""
    shape = Shape.array(leaf.element_type, leaf.dimensions, layout=layout)
    order = _order(shape)
    if order is None:
        return slice_
    made = BufferSlice(shape, name=instruction.name)
    _transpose(context, slice_, made, leaf.dimensions, order)
    return made


def _restored(context: LoweringContext, slice_: BufferSlice, leaf: Shape) -> BufferSlice:
    """The slice_, or row-major memory with its elements."""
    order = _order(slice_.shape)
    if order is None:
        return slice_
    made = BufferSlice(Shape.array(leaf.element_type, leaf.dimensions), name=slice_.name)
    lying = tuple(leaf.dimensions[d] for d in order)
    _transpose(context, slice_, made, lying, tuple(order.index(d) for d in range(len(order))))
    return made


def _transpose(
    context: LoweringContext,
    source: BufferSlice,
    target: BufferSlice,
    dimensions: Sequence[int],
    order: tuple[int, ...],
) -> None:
    """Appends the thunk that moves the elements of an array of some dimensions, by the kernel of a transpose."""
    if not source.size:
        return
    element_type = source.shape.element_type
    given = Instruction(opcodes.PARAMETER, Shape.array(element_type, dimensions), name=source.name)
    moved = Shape.array(element_type, [dimensions[d] for d in order])
    transpose = Instruction(opcodes.TRANSPOSE, moved, [given], DimensionsAttributes(dimensions=order), name=target.name)
    for kernel, work in select_kernels(region_of(transpose, host_target())):
        context.thunks.append(KernelThunk(kernel, [source, target], work, target.name))
