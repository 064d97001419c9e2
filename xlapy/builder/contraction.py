"""Builder functions of contractions: dot and its general, ragged and scaled forms.

Responsible for the builder functions of `opcodes/contraction.py` and the classes that describe a contraction. Does not
depend on how products are summed.
Source: Dot, DotGeneral, ScaledDot, RaggedDot of the specification.

`preferred_element_type` is the element type of the result and a hint to accumulate in it: a PrimitiveType, its text or
a NumPy dtype. The default is the more precise of the operands' types. Complex operands give a complex result. Every
function raises `BuilderError` at the caller's line if the operands do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.builder.core.broadcasting import as_ints, constants_like
from xlapy.builder.core.builder import append, builder_of
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.builder.elementwise import ElementType, element_type_of
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import (
    DOT,
    RAGGED_DOT,
    SCALED_DOT,
    Algorithm,
    DotAttributes,
    RaggedDotAttributes,
    with_comparable_types,
)
from xlapy.opcodes.registry import OpDef


@checked_class
@dataclass(frozen=True, slots=True)
class PrecisionConfig:
    """The precision of a contraction: one precision per operand (empty for the default), or the name of an
    algorithm."""

    operand_precision: tuple[Precision, ...] = ()
    algorithm: Algorithm = Algorithm.UNSET


@checked_class
@dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    """The contracting dimensions, which are summed over, and the batch dimensions, listed pairwise for lhs and rhs."""

    lhs_contracting_dimensions: Sequence[int] = ()
    rhs_contracting_dimensions: Sequence[int] = ()
    lhs_batch_dimensions: Sequence[int] = ()
    rhs_batch_dimensions: Sequence[int] = ()

    def attributes(self) -> dict[str, tuple[int, ...]]:
        """The values under the names of HLO's attributes."""
        return {
            "lhs_batch_dims": as_ints("lhs_batch_dimensions", self.lhs_batch_dimensions),
            "lhs_contracting_dims": as_ints("lhs_contracting_dimensions", self.lhs_contracting_dimensions),
            "rhs_batch_dims": as_ints("rhs_batch_dimensions", self.rhs_batch_dimensions),
            "rhs_contracting_dims": as_ints("rhs_contracting_dimensions", self.rhs_contracting_dimensions),
        }


@checked_class
@dataclass(frozen=True, slots=True)
class RaggedDotDimensionNumbers:
    """Dimension numbers of a ragged dot: those of a dot, the ragged dimension of lhs, and the dimension of rhs that
    indexes the groups.
    """

    dot_dimension_numbers: DotDimensionNumbers = field(default_factory=DotDimensionNumbers)
    lhs_ragged_dimensions: Sequence[int] = ()
    rhs_group_dimensions: Sequence[int] = ()


def append_typed(
    op: OpDef, operands: Sequence[XlaOp], attributes: Attributes, preferred_element_type: ElementType | None
) -> XlaOp:
    """Appends an op whose shape is inferred except for the element type, which the caller may choose."""
    if preferred_element_type is None:
        return append(op, operands, attributes)
    element_type = element_type_of(preferred_element_type)
    shape = op.result_shape(with_comparable_types([operand.shape for operand in operands]), attributes)
    return append(op, operands, attributes, shape=shape.with_element_type(element_type))


def _precision(config: PrecisionConfig | None) -> dict[str, Any]:
    chosen = config or PrecisionConfig()
    return {"operand_precision": tuple(chosen.operand_precision), "algorithm": chosen.algorithm}


def dot(
    lhs: Operand,
    rhs: Operand,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """The product of vectors and matrices: sums over dimension 1 of lhs (0 if lhs is a vector) and dimension 0 of rhs.

    `[n] x [n] -> []`, `[m,k] x [k] -> [m]`, `[m,k] x [k,n] -> [m,n]`. Operands of higher rank are contracted likewise.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.dot(x, ops.transpose(x, [1, 0]))
    <XlaOp dot = f32[2,2] dot>
    """
    builder = builder_of("dot", (lhs, rhs))
    with builder.building("dot"):
        left, right = constants_like(builder, lhs, rhs)
        numbers = DotDimensionNumbers((0 if left.shape.rank == 1 else 1,), (0,))
        return dot_general(left, right, numbers, precision_config, preferred_element_type)


def dot_general(
    lhs: Operand,
    rhs: Operand,
    dimension_numbers: DotDimensionNumbers,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """Sums products over pairs of contracting dimensions, for each index of the pairs of batch dimensions.

    Paired dimensions have equal sizes. The result has the batch dimensions, then the other dimensions of lhs, then the
    other dimensions of rhs: `[b,m,k] x [b,k,n] -> [b,m,n]`.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[8,2,3]"), "x")
    >>> numbers = xla.DotDimensionNumbers([2], [2], lhs_batch_dimensions=[0], rhs_batch_dimensions=[0])
    >>> ops.dot_general(x, x, numbers)
    <XlaOp dot = f32[8,2,2] dot>
    """
    builder = builder_of("dot", (lhs, rhs))
    with builder.building("dot"):
        attributes = DotAttributes.make(**dimension_numbers.attributes(), **_precision(precision_config))
        return append_typed(DOT, constants_like(builder, lhs, rhs), attributes, preferred_element_type)


def scaled_dot(
    lhs: XlaOp,
    rhs: XlaOp,
    lhs_scale: XlaOp,
    rhs_scale: XlaOp,
    dimension_number: DotDimensionNumbers,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """`dot_general` of operands in which each block of elements has a scale factor.

    A scale has the rank of its operand, and its sizes divide those of the operand: f8e8m0fnu[4,1] scales rows of 32
    elements of f8e4m3fn[4,32]. A bf16 scale with one element, for a larger bf16 operand, means that the operand is not
    scaled.
    """
    operands = (lhs, rhs, lhs_scale, rhs_scale)
    with builder_of("scaled-dot", operands).building("scaled-dot"):
        attributes = DotAttributes.make(**dimension_number.attributes(), **_precision(precision_config))
        return append_typed(SCALED_DOT, operands, attributes, preferred_element_type)


def ragged_dot(
    lhs: XlaOp,
    rhs: XlaOp,
    group_sizes: XlaOp,
    dimension_numbers: RaggedDotDimensionNumbers,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """A dot in which one dimension of lhs is split into consecutive groups of the given integer sizes.

    If the ragged dimension is a non-contracting dimension, each group is multiplied with its own slice of rhs: `[b,m,k]
    x [g,b,k,n] -> [b,m,n]`. If it is a contracting dimension, each group gives a result of its own: `[b,m,k] x [b,k,n]
    -> [g,b,m,n]`. If it is a batch dimension, batches after the last group are zero. Group sizes have shape `[g]`, or
    list the groups for each index of the preceding dimensions. A PrecisionConfig must not name an algorithm.
    """
    operands = (lhs, rhs, group_sizes)
    with builder_of("ragged-dot", operands).building("ragged-dot"):
        precision = _precision(precision_config)
        if precision.pop("algorithm") is not Algorithm.UNSET:
            raise InvalidArgumentError(codes.DOT_ALGORITHM, f"ragged-dot takes no algorithm, given {precision_config}")
        attributes = RaggedDotAttributes.make(
            **dimension_numbers.dot_dimension_numbers.attributes(),
            lhs_ragged_dims=as_ints("lhs_ragged_dimensions", dimension_numbers.lhs_ragged_dimensions),
            rhs_group_dims=as_ints("rhs_group_dimensions", dimension_numbers.rhs_group_dimensions),
            **precision,
        )
        return append_typed(RAGGED_DOT, operands, attributes, preferred_element_type)
