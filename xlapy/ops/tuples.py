"""Definitions of the operations that make tuples and take them apart.

Owns: tuple, get-tuple-element. Source: Tuple, GetTupleElement of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.ops.attributes import INTEGER, Attributes, NoAttributes, attribute, attributes
from xlapy.ops.registry import OpDef, at_least, exactly

Programs = Sequence[ProgramShape]


def _tuple(operands: Sequence[Shape], attributes: NoAttributes, programs: Programs) -> Shape:
    return Shape.tuple(operands)


TUPLE = OpDef(name="tuple", family="tuples", arity=at_least(0), infer=_tuple)


@attributes
class GetTupleElementAttributes(Attributes):
    index: int = attribute(INTEGER)


def _element(operands: Sequence[Shape], attributes: GetTupleElementAttributes, programs: Programs) -> Shape:
    (operand,) = operands
    if not operand.is_tuple:
        raise ShapeError(f"get-tuple-element takes a tuple, operand is {operand.brief}")
    if not 0 <= attributes.index < len(operand.tuple_shapes):
        raise ShapeError(
            f"get-tuple-element: index {attributes.index} is out of bounds for {operand.brief} "
            f"of {len(operand.tuple_shapes)} elements"
        )
    return operand.tuple_shapes[attributes.index]


GET_TUPLE_ELEMENT = OpDef(
    name="get-tuple-element", family="tuples", arity=exactly(1), attributes=GetTupleElementAttributes, infer=_element
)
