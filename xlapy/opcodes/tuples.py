"""Definitions of tuple and get-tuple-element.

Responsible for tuple, get-tuple-element. Does not depend on the IR or on values.
Source: Tuple, GetTupleElement of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import INTEGER, Attributes, attribute, attributes
from xlapy.opcodes.registry import OpDef, ProgramShapes, at_least, constraint, exactly


def _infer_tuple(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    return Shape.tuple(operands)


TUPLE = OpDef(
    name="tuple",
    family="tuples",
    summary="A tuple of the operands.",
    result="The tuple of the operands' shapes.",
    operands="elements*",
    arity=at_least(0),
    infer=_infer_tuple,
)


@attributes
class GetTupleElementAttributes(Attributes):
    index: int = attribute(INTEGER)


def _infer_get_tuple_element(operands: Sequence[Shape], attrs: GetTupleElementAttributes, _: ProgramShapes) -> Shape:
    (operand,) = operands
    if not operand.is_tuple:
        raise ShapeError(
            codes.TUPLE_OPERAND, f"get-tuple-element takes a tuple, operand is {operand.to_text(layout=False)}"
        )
    if not 0 <= attrs.index < len(operand.tuple_shapes):
        raise ShapeError(
            values_codes.TUPLE_INDEX,
            f"get-tuple-element: index {attrs.index} is out of bounds for {operand.to_text(layout=False)} "
            f"of {len(operand.tuple_shapes)} elements",
        )
    return operand.tuple_shapes[attrs.index]


GET_TUPLE_ELEMENT = OpDef(
    name="get-tuple-element",
    family="tuples",
    summary="One element of a tuple.",
    result="The shape of element `index` of the operand.",
    operands="operand",
    constraints=(
        constraint("The operand is a tuple.", codes.TUPLE_OPERAND),
        constraint("`index` is the index of an element.", values_codes.TUPLE_INDEX),
    ),
    arity=exactly(1),
    attributes=GetTupleElementAttributes,
    infer=_infer_get_tuple_element,
)
