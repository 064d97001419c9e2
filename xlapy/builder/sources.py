"""Builder functions of values without operands: parameters, constants, iota.

Responsible for the builder functions of `opcodes/sources.py`. Does not depend on how they are evaluated.
Source: Parameter, ConstantLiteral, Iota of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.building import python_calls as python_calls_codes
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.builder.core.broadcasting import constant_of
from xlapy.builder.core.builder import XlaBuilder, fail
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.sources import IOTA, PARAMETER, IotaAttributes, ParameterAttributes


def parameter(
    builder: XlaBuilder,
    parameter_number: int,
    shape: Shape,
    name: str = "",
    replicated_at_leaf_buffers: Sequence[bool] | None = None,
) -> XlaOp:
    """Parameter `parameter_number` of the computation; numbers start at 0, in any order, without gaps when `build` is
    called.

    `shape` is any shape, layout included; `name` defaults to `p<number>`. `replicated_at_leaf_buffers` states, per leaf
    of the shape, whether all replicas pass the same value. Raises BuilderError if the number is negative or used
    already.

    >>> b = xla.XlaBuilder("m")
    >>> ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    <XlaOp x = f32[2,3] parameter>
    """
    if not isinstance(shape, Shape):
        fail(
            "parameter",
            python_calls_codes.ARGUMENT_TYPE,
            f"takes a Shape, given {type(shape).__name__} {shape!r}; Shape.parse reads one",
        )
    taken = builder.parameter_shape(parameter_number)
    if taken is not None:
        fail(
            "parameter",
            modules_codes.PARAMETER_NUMBERS,
            f"number {parameter_number} is taken by {taken.to_text(layout=False)}, "
            f"given again with {shape.to_text(layout=False)}",
        )
    replication = None if replicated_at_leaf_buffers is None else tuple(replicated_at_leaf_buffers)
    attributes = ParameterAttributes.make(number=parameter_number, parameter_replication=replication)
    return builder.append(PARAMETER, (), attributes, shape=shape, name=name or f"p{parameter_number}")


def constant(builder: XlaBuilder, value: Any, element_type: PrimitiveType | None = None) -> XlaOp:
    """A constant from a number, nested lists of numbers, a NumPy array, a tuple of such values or a Literal.

    Without `element_type`, NumPy values keep their dtype, and Python values become PRED, S32, F32 or C64. An array
    whose elements all have the same bits becomes a scalar constant and a broadcast, as in XLA. Raises BuilderError if
    the type cannot represent the value.

    >>> b = xla.XlaBuilder("m")
    >>> ops.constant(b, 1.5), ops.constant(b, np.arange(3, dtype=np.int8))
    (<XlaOp constant = f32[] constant>, <XlaOp constant.1 = s8[3] constant>)
    """
    with builder.building("constant"):
        return constant_of(builder, value, element_type)


def constant_literal(builder: XlaBuilder, literal: Literal) -> XlaOp:
    """The constant of a literal."""
    return constant(builder, literal)


@overload
def iota(builder: XlaBuilder, shape: Shape, iota_dimension: int) -> XlaOp: ...
@overload
def iota(builder: XlaBuilder, type: PrimitiveType, size: int, /) -> XlaOp: ...
def iota(builder: XlaBuilder, shape: Shape | PrimitiveType, iota_dimension: int) -> XlaOp:
    """0, 1, 2 ... along dimension `iota_dimension` of an array of `shape`, or a vector of `size` elements of an element
    type.

    The elements are integers, floating-point or complex numbers; the shape is static. Raises BuilderError otherwise.
    """
    with builder.building("iota"):
        if isinstance(shape, PrimitiveType):
            shape, iota_dimension = Shape.array(shape, (iota_dimension,)), 0
        if shape.is_dynamic:
            fail(
                "iota",
                codes.STATIC_DIMENSIONS,
                f"returns arrays without dynamic dimensions, given {shape.to_text(layout=False)}",
            )
        return builder.append(IOTA, (), IotaAttributes.make(iota_dimension=iota_dimension), shape=shape)
