"""Definitions of sort and topk.

Responsible for sort, topk. Does not depend on the IR or on values.
Source: Sort, TopK of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.element_types import PRED, S32
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import BOOL, INTEGER, Attributes, attribute, attributes
from xlapy.opcodes.movement import DimensionAttributes
from xlapy.opcodes.registry import CalledComputationSlot, OpDef, ProgramShapes, at_least, constraint, exactly
from xlapy.opcodes.requirements import (
    compatible_ignoring_dynamic,
    one_or_tuple,
    require_arrays,
    require_dimension,
    require_programs,
)


@attributes
class SortAttributes(DimensionAttributes):
    """`dimension` is the dimension to sort; equal elements keep their order if `is_stable`."""

    is_stable: bool = attribute(BOOL, default=False)


def _infer_sort(operands: Sequence[Shape], attrs: SortAttributes, programs: ProgramShapes) -> Shape:
    """Returns the shape of the operand, or a tuple for several operands, which are sorted together."""
    require_programs("sort", programs, 1)
    require_arrays("sort", operands)
    first = operands[0]
    for i, operand in enumerate(operands):
        if operand.dimensions != first.dimensions:
            raise ShapeError(
                shared.SAME_DIMENSIONS,
                f"sort: operand {i} is {operand.to_text(layout=False)}, operand "
                f"0 is {first.to_text(layout=False)}; sizes must be equal",
            )
    require_dimension("sort", "dimension", attrs.dimension, first)
    _check_comparator(operands, programs[0])
    return one_or_tuple(operands)


def _check_comparator(operands: Sequence[Shape], program: ProgramShape) -> None:
    """Requires a comparator whose parameters 2k and 2k+1 are elements of operand k and whose result is pred[]."""
    if not compatible_ignoring_dynamic(program.result, Shape.scalar(PRED)):
        raise ShapeError(codes.COMPARATOR_RESULT, f"sort: the comparator must return pred[], given {program.to_text()}")
    if len(program.parameters) != 2 * len(operands):
        raise ShapeError(
            codes.COMPARATOR_PARAMETERS,
            f"sort: the comparator takes {2 * len(operands)} parameters for {len(operands)} operands, "
            f"given {program.to_text()}",
        )
    for number, parameter in enumerate(program.parameters):
        operand = operands[number // 2]
        if not compatible_ignoring_dynamic(parameter, Shape.scalar(operand.element_type)):
            raise ShapeError(
                codes.COMPARATOR_PARAMETERS,
                f"sort: parameter {number} of the comparator is {parameter.to_text(layout=False)}, "
                f"operand {number // 2} is {operand.to_text(layout=False)}",
            )


SORT = OpDef(
    name="sort",
    family="sorting",
    summary=(
        "Sorts along one dimension; all operands are reordered together, by a comparator that takes two "
        "elements of each."
    ),
    result="The shape of the operand. N operands give a tuple of N.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays of equal dimensions.", shared.ARRAY_OPERAND, shared.SAME_DIMENSIONS),
        constraint("The dimension is a dimension of the operands.", shared.DIMENSION_NUMBER),
        constraint("The comparator returns pred[].", codes.COMPARATOR_RESULT),
        constraint(
            "The comparator takes two scalars per operand: parameters 2k and 2k+1 have the element type of operand k.",
            codes.COMPARATOR_PARAMETERS,
        ),
    ),
    arity=at_least(1),
    attributes=SortAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_sort,
)


@attributes
class TopKAttributes(Attributes):
    """Selects the `k` largest or smallest elements; equal elements keep their order if `is_stable`.

    `is_stable` is printed only if it is false, because versions of XLA up to 2025 do not parse it.
    """

    k: int = attribute(INTEGER)
    largest: bool = attribute(BOOL, default=True, always=True)
    is_stable: bool = attribute(BOOL, default=True)


def _infer_topk(operands: Sequence[Shape], attrs: TopKAttributes, _: ProgramShapes) -> Shape:
    """Returns the values and their s32 indices; the last dimension becomes k and static."""
    (operand,) = operands
    require_arrays("topk", operands)
    if operand.rank == 0:
        raise ShapeError(
            shared.MINIMUM_RANK, f"topk takes an array of at least rank 1, given {operand.to_text(layout=False)}"
        )
    if operand.element_type.is_complex:
        raise ShapeError(shared.ELEMENT_TYPE, f"topk takes ordered elements, given {operand.to_text(layout=False)}")
    last = operand.dimensions[-1]
    if attrs.k < 0 or not (attrs.k <= last or last < 0):
        raise ShapeError(
            codes.TOP_COUNT,
            f"topk: k {attrs.k} is not between 0 and {last}, the size of the last of {operand.to_text(layout=False)}",
        )
    values = operand.with_dimensions((*operand.dimensions[:-1], attrs.k), (*operand.dynamic_dimensions[:-1], False))
    return Shape.tuple((values, values.with_element_type(S32)))


TOPK = OpDef(
    name="topk",
    family="sorting",
    summary=(
        "The k largest (or smallest) elements of each row along the last dimension, in order, and their s32 "
        "indices; NaN is the largest value."
    ),
    result="The tuple of values and `s32` indices. Both have the shape of the operand, with k for the last size.",
    operands="operand",
    constraints=(
        constraint("The operand is an array of at least rank 1.", shared.ARRAY_OPERAND, shared.MINIMUM_RANK),
        constraint("The elements are not complex.", shared.ELEMENT_TYPE),
        constraint("`k` is between 0 and the size of the last dimension.", codes.TOP_COUNT),
    ),
    arity=exactly(1),
    attributes=TopKAttributes,
    infer=_infer_topk,
)
