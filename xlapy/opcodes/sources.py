"""Definitions of the operations without operands: parameter, constant and iota.

Responsible for their attributes and the constraints on the declared shape. Does not depend on how arguments are passed.
Source: Parameter, ConstantLiteral, Iota of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import BOOLS, INTEGER, LITERAL, Attributes, attribute, attributes
from xlapy.opcodes.registry import OpDef, ProgramShapes, constraint, exactly
from xlapy.opcodes.requirements import require_dimension


@attributes
class ParameterAttributes(Attributes):
    number: int = attribute(INTEGER)
    parameter_replication: tuple[bool, ...] | None = attribute(BOOLS, default=None)
    """For each leaf, whether all replicas are known to pass the same value; None if nothing is known."""


def _check_parameter(shape: Shape, _: Sequence[Shape], attrs: ParameterAttributes, __: ProgramShapes) -> None:
    if attrs.number < 0:
        raise ShapeError(modules_codes.PARAMETER_NUMBERS, f"parameter numbers start at 0, given {attrs.number}")
    replication = attrs.parameter_replication
    if replication is None:
        return
    leaves = sum(1 for _ in shape.leaves())
    if len(replication) != leaves:
        raise ShapeError(
            codes.PARAMETER_REPLICATION,
            f"parameter {attrs.number} of shape {shape.to_text(layout=False)} has {leaves} leaves, "
            f"parameter_replication has {len(replication)} entries",
        )


PARAMETER = OpDef(
    name="parameter",
    family="sources",
    summary="The computation's argument with the given number.",
    result="Any shape, which is declared.",
    constraints=(
        constraint(
            "The parameters of a computation are numbered from 0 without gaps.", modules_codes.PARAMETER_NUMBERS
        ),
        constraint("`parameter_replication` has one entry per leaf of the shape.", codes.PARAMETER_REPLICATION),
    ),
    arity=exactly(0),
    attributes=ParameterAttributes,
    check=_check_parameter,
    parenthesized_attribute="number",
)


@attributes
class ConstantAttributes(Attributes):
    literal: Literal = attribute(LITERAL)

    @classmethod
    def make(cls, **values: Any) -> Self:
        """Returns a new instance without interning, which would hash every element and keep the literal alive."""
        return cls(**values)


def _check_constant(shape: Shape, _: Sequence[Shape], attrs: ConstantAttributes, __: ProgramShapes) -> None:
    if not attrs.literal.shape.compatible(shape):
        raise ShapeError(
            codes.CONSTANT_SHAPE,
            f"constant of a literal of shape {attrs.literal.shape.to_text(layout=False)} "
            f"is declared {shape.to_text(layout=False)}",
        )


def _canonicalize_constant_shape(declared: Shape, _: Sequence[Shape]) -> Shape:
    return declared.without_element_size()


CONSTANT = OpDef(
    name="constant",
    family="sources",
    summary="A literal.",
    result="The shape of the literal.",
    arity=exactly(0),
    attributes=ConstantAttributes,
    check=_check_constant,
    canonicalize_shape=_canonicalize_constant_shape,
    parenthesized_attribute="literal",
)


@attributes
class IotaAttributes(Attributes):
    iota_dimension: int = attribute(INTEGER)


def _check_iota(shape: Shape, _: Sequence[Shape], attrs: IotaAttributes, __: ProgramShapes) -> None:
    """Requires a numeric array with the dimension `iota_dimension`."""
    if not shape.is_array:
        raise ShapeError(shared.ARRAY_RESULT, f"iota returns an array, declared {shape.to_text(layout=False)}")
    t = shape.element_type
    if not (t.is_integral or t.is_floating or t.is_complex):
        raise ShapeError(
            shared.ELEMENT_TYPE,
            f"iota returns integer, floating-point or complex elements, declared {shape.to_text(layout=False)}",
        )
    require_dimension("iota", "iota_dimension", attrs.iota_dimension, shape)


IOTA = OpDef(
    name="iota",
    family="sources",
    summary="Counts 0, 1, 2, ... along `iota_dimension`; the values are constant along all other dimensions.",
    result="Any array shape, which is declared, with integer, floating-point or complex elements.",
    constraints=(
        constraint(
            "The result is an array of integer, floating-point or complex elements.",
            shared.ARRAY_RESULT,
            shared.ELEMENT_TYPE,
        ),
        constraint("`iota_dimension` is a dimension of the result.", shared.DIMENSION_NUMBER),
    ),
    arity=exactly(0),
    attributes=IotaAttributes,
    check=_check_iota,
)
