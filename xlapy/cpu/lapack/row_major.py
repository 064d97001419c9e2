"""Makes custom calls of LAPACK work on row-major arrays.

Responsible for the transposes around a call whose operands or results have other layouts. Does not depend on which
function is called.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.custom_calls.lapack import lapack_target_name
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes
from xlapy.opcodes.requirements import compatible_ignoring_dynamic
from xlapy.passes.layouts.layout_copies import minor_to_major, row_major
from xlapy.passes.rewrite import Writer


def row_major_call(
    write: Writer,
    routine: str,
    operands: Sequence[Instruction],
    results: Sequence[Shape],
    attributes: str,
    overwritten: int = 0,
) -> Instruction:
    """Returns a call on row-major arrays. The first result is computed in the memory of the operand `overwritten`."""
    target = lapack_target_name(routine, operands[0].shape.element_type)
    path = () if len(results) == 1 else (0,)
    aliases = (
        [OutputAlias(path, overwritten, ())]
        if compatible_ignoring_dynamic(operands[overwritten].shape, results[0])
        else []
    )
    found = CustomCallAttributes.make(
        custom_call_target=target,
        operand_layout_constraints=tuple(row_major(operand.shape) for operand in operands),
        output_to_operand_aliasing=tuple(aliases),
        api_version=CustomCallApiVersion.TYPED_FFI,
    )
    shapes = [row_major(shape) for shape in results]
    made = write.add(opcodes.CUSTOM_CALL, *operands, attributes=found, shape=Shape.tuple(shapes) if path else shapes[0])
    made.backend_config = attributes
    return made


def is_row_major_call(instruction: Instruction) -> bool:
    constraints = instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or ()
    leaves = [*constraints, *(leaf for _, leaf in instruction.shape.leaves())]
    return all(minor_to_major(leaf) == tuple(reversed(range(leaf.rank))) for leaf in leaves)


def call_by_columns(
    write: Writer,
    routine: str,
    operands: Sequence[Instruction],
    layouts: Sequence[Shape],
    results: Sequence[Shape],
    attributes: str,
) -> list[Instruction]:
    """Returns a call with any layouts as a call on row-major arrays with the same bytes."""
    given = [_to_row_major(write, *each) for each in zip(operands, layouts, strict=True)]
    made = row_major_call(write, routine, given, results, attributes)
    parts = [made] if len(results) == 1 else [write.get_tuple_element(made, number) for number in range(len(results))]
    return [_from_row_major(write, *each) for each in zip(parts, results, strict=True)]


def _to_row_major(write: Writer, operand: Instruction, layout: Shape) -> Instruction:
    """Returns the bytes of an array in a layout as a row-major array with the physical dimensions."""
    order = minor_to_major(layout)[::-1]
    if order == tuple(range(len(order))):
        return operand
    moved = write.transpose(operand, order, row_major(layout).with_dimensions([layout.dimensions[d] for d in order]))
    return write.reshape(moved, row_major(layout))


def _from_row_major(write: Writer, made: Instruction, layout: Shape) -> Instruction:
    """Returns the array whose bytes, in a layout, are those of a row-major array with the physical dimensions."""
    order = minor_to_major(layout)[::-1]
    if order == tuple(range(len(order))):
        return made
    moved = write.reshape(made, row_major(layout).with_dimensions([layout.dimensions[d] for d in order]))
    return write.transpose(moved, [order.index(d) for d in range(len(order))], row_major(layout))
