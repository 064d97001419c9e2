"""Definitions of contractions (dot, ragged-dot and scaled-dot): sums of products over dimensions of two operands.

Responsible for their dimension numbers, the precision and algorithm of a contraction, and the element type of mixed
operands. Does not depend on the IR or on values.
Source: Dot, DotGeneral, ScaledDot, RaggedDot of the specification; `chlo.ragged_dot` of StableHLO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from xlapy.base.element_types import (
    BF16,
    PRED,
    PrimitiveType,
)
from xlapy.base.error_codes.operations import contraction as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.opcodes.attributes.codecs import INTEGERS, Attributes, EnumCodec, attribute, attributes
from xlapy.opcodes.attributes.dimensions import PRECISIONS, Precision, drop_default_precision
from xlapy.opcodes.registry import Constraint, OpDef, ProgramShapes, constraint, exactly
from xlapy.opcodes.requirements import require_arrays, require_dimension, require_shape

# -- the element type of mixed operands


def _precision_order(t: PrimitiveType) -> tuple[bool, int, int, int, bool]:
    """A sort key of types: complex above real, then by range, precision, bits, and signed above unsigned."""
    part = t.component_type
    exponent, precision = -1, -1
    if part.is_floating:
        exponent, precision = part.float_format.overflow_exponent, part.float_format.precision
    return t.is_complex, exponent, precision, 1 if t is PRED else part.bits, t.is_signed


def higher_precision_type(a: PrimitiveType, b: PrimitiveType) -> PrimitiveType:
    """The default element type of a contraction with operands of two types: f32 for (bf16, f32), bf16 for (s64, bf16).

    Raises `ShapeError` if neither type has higher precision (f8e4m3 and f8e4m3fnuz).
    """
    if a is b:
        return a
    first, second = _precision_order(a), _precision_order(b)
    if first == second:
        raise ShapeError(
            codes.DOT_PRECISION_ORDER, f"neither {a} nor {b} is the more precise type; convert one of the operands"
        )
    return a if first > second else b


# -- attributes


class Algorithm(Enum):
    """The types of rounded operands and of accumulators; `x3` is the number of partial products."""

    UNSET = "unset"
    DOT_ANY_F8_ANY_F8_F32 = "dot_any_f8_any_f8_f32"
    DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM = "dot_any_f8_any_f8_f32_fast_accum"
    DOT_F16_F16_F16 = "dot_f16_f16_f16"
    DOT_F16_F16_F32 = "dot_f16_f16_f32"
    DOT_BF16_BF16_BF16 = "dot_bf16_bf16_bf16"
    DOT_BF16_BF16_F32 = "dot_bf16_bf16_f32"
    DOT_BF16_BF16_F32_X3 = "dot_bf16_bf16_f32_x3"
    DOT_BF16_BF16_F32_X6 = "dot_bf16_bf16_f32_x6"
    DOT_BF16_BF16_F32_X9 = "dot_bf16_bf16_f32_x9"
    DOT_TF32_TF32_F32 = "dot_tf32_tf32_f32"
    DOT_TF32_TF32_F32_X3 = "dot_tf32_tf32_f32_x3"
    DOT_F32_F32_F32 = "dot_f32_f32_f32"
    DOT_F64_F64_F64 = "dot_f64_f64_f64"


ALGORITHM = EnumCodec(Algorithm)


@attributes
class ContractionAttributes(Attributes):
    """The paired dimensions of a contraction: contracting dimensions are summed over, batch dimensions are kept."""

    lhs_batch_dims: tuple[int, ...] = attribute(INTEGERS, default=())
    lhs_contracting_dims: tuple[int, ...] = attribute(INTEGERS, default=(), always=True)
    rhs_batch_dims: tuple[int, ...] = attribute(INTEGERS, default=())
    rhs_contracting_dims: tuple[int, ...] = attribute(INTEGERS, default=(), always=True)

    def lhs_free_dims(self, rank: int) -> tuple[int, ...]:
        """Dimensions of an lhs of this rank that are neither batch nor contracting, in order."""
        paired = (*self.lhs_batch_dims, *self.lhs_contracting_dims)
        return tuple(d for d in range(rank) if d not in paired)

    def rhs_free_dims(self, rank: int) -> tuple[int, ...]:
        """Dimensions of an rhs of this rank that are neither batch nor contracting, in order."""
        paired = (*self.rhs_batch_dims, *self.rhs_contracting_dims)
        return tuple(d for d in range(rank) if d not in paired)


@attributes
class DotAttributes(ContractionAttributes):
    operand_precision: tuple[Precision, ...] = attribute(PRECISIONS, default=())
    algorithm: Algorithm = attribute(ALGORITHM, default=Algorithm.UNSET)


@attributes
class RaggedDotAttributes(ContractionAttributes):
    """`lhs_ragged_dims` is the lhs dimension split into groups, `rhs_group_dims` the rhs dimension of groups."""

    lhs_ragged_dims: tuple[int, ...] = attribute(INTEGERS, default=())
    rhs_group_dims: tuple[int, ...] = attribute(INTEGERS, default=())
    operand_precision: tuple[Precision, ...] = attribute(PRECISIONS, default=())


# -- shape rules


def _check_side(name: str, side: str, operand: Shape, batch: Sequence[int], contracting: Sequence[int]) -> None:
    for what, dimensions in (("batch", batch), ("contracting", contracting)):
        for dimension in dimensions:
            require_dimension(name, f"{side} {what} dimension", dimension, operand)
    named = [*batch, *contracting]
    if len(set(named)) < len(named):
        raise ShapeError(
            codes.DOT_DISTINCT_DIMENSIONS,
            f"{name}: {side} dimensions must be distinct, given batch {list(batch)} "
            f"and contracting {list(contracting)} of {operand.to_text(layout=False)}",
        )


def _check_pairs(name: str, what: str, lhs: Shape, rhs: Shape, left: Sequence[int], right: Sequence[int]) -> None:
    if len(left) != len(right):
        raise ShapeError(
            codes.DOT_PAIRED_DIMENSIONS,
            f"{name} pairs {what} dimensions one to one, given {list(left)} of lhs {lhs.to_text(layout=False)} "
            f"and {list(right)} of rhs {rhs.to_text(layout=False)}",
        )
    for pair, (i, j) in enumerate(zip(left, right, strict=True)):
        a, b = lhs.dimensions[i], rhs.dimensions[j]
        if a != b and UNBOUNDED not in (a, b):
            raise ShapeError(
                codes.DOT_PAIR_SIZES,
                f"{name}: {what} pair {pair} has sizes {a} (lhs dimension {i} of {lhs.to_text(layout=False)}) "
                f"and {b} (rhs dimension {j} of {rhs.to_text(layout=False)})",
            )


def _check_contraction(name: str, operands: Sequence[Shape], attrs: ContractionAttributes) -> None:
    require_arrays(name, operands)
    lhs, rhs = operands[0], operands[1]
    _check_side(name, "lhs", lhs, attrs.lhs_batch_dims, attrs.lhs_contracting_dims)
    _check_side(name, "rhs", rhs, attrs.rhs_batch_dims, attrs.rhs_contracting_dims)
    _check_pairs(name, "contracting", lhs, rhs, attrs.lhs_contracting_dims, attrs.rhs_contracting_dims)
    _check_pairs(name, "batch", lhs, rhs, attrs.lhs_batch_dims, attrs.rhs_batch_dims)


Dimensions = list[tuple[int, bool]]
"""Dimensions as (size, whether it is dynamic)."""


def _dimensions(operand: Shape, which: Sequence[int]) -> Dimensions:
    return [(operand.dimensions[d], operand.dynamic_dimensions[d]) for d in which]


def _contracted(lhs: Shape, rhs: Shape, attrs: ContractionAttributes, groups: Sequence[int] = ()) -> Dimensions:
    """The result dimensions: batch, free dimensions of lhs, free dimensions of rhs except `groups`."""
    rhs_free = [d for d in attrs.rhs_free_dims(rhs.rank) if d not in groups]
    return _dimensions(lhs, (*attrs.lhs_batch_dims, *attrs.lhs_free_dims(lhs.rank))) + _dimensions(rhs, rhs_free)


def contraction_shape(operands: Sequence[Shape], dimensions: Dimensions, element_type: PrimitiveType | None) -> Shape:
    """The shape of a contraction of the first two operands; if no type is given, the one of higher precision."""
    chosen = element_type or higher_precision_type(operands[0].element_type, operands[1].element_type)
    return Shape.array(chosen, [size for size, _ in dimensions], [dynamic for _, dynamic in dimensions])


def with_comparable_types(operands: Sequence[Shape]) -> list[Shape]:
    """Operands for shape inference if the result type is given.

    If neither operand type has higher precision, the second operand gets the type of the first.
    """
    lhs, rhs, *rest = operands
    types = [shape.element_type for shape in (lhs, rhs) if shape.is_array]
    if len(types) == 2 and _precision_order(types[0]) == _precision_order(types[1]):
        rhs = rhs.with_element_type(types[0])
    return [lhs, rhs, *rest]


def _check_element_type(name: str, shape: Shape, operands: Sequence[Shape]) -> PrimitiveType:
    """Returns the declared element type of a contraction; it may be real only if both operands are real."""
    if not shape.is_array:
        raise ShapeError(codes.DOT_ARRAY_RESULT, f"{name} returns an array, declared {shape.to_text(layout=False)}")
    for operand in operands[:2]:
        if operand.is_array and operand.element_type.is_complex and not shape.element_type.is_complex:
            raise ShapeError(
                codes.DOT_COMPLEX_RESULT,
                f"{name} of complex {operand.to_text(layout=False)} has "
                f"a complex result, declared {shape.to_text(layout=False)}",
            )
    return shape.element_type


ProductRule = Callable[[Sequence[Shape], Any, PrimitiveType | None], Shape]
"""`(operand shapes, attributes, element type of the result or None) -> shape`; raises `ShapeError`."""


def define_contraction(
    name: str,
    family: str,
    attributes: type[Attributes],
    shape_of: ProductRule,
    *,
    summary: str,
    result: str,
    operands: str,
    constraints: tuple[Constraint, ...],
) -> OpDef:
    """Defines an op that contracts its first two operands. Its element type may be declared; the rest is inferred."""

    def infer(operands: Sequence[Shape], attrs: Any, _: ProgramShapes) -> Shape:
        return shape_of(operands, attrs, None)

    def check(shape: Shape, operands: Sequence[Shape], attrs: Any, _: ProgramShapes) -> None:
        element_type = _check_element_type(name, shape, operands)
        require_shape(name, shape, shape_of(operands, attrs, element_type))

    return OpDef(
        name=name,
        family=family,
        arity=exactly(len(operands.split())),
        summary=summary,
        result=result,
        operands=operands,
        constraints=constraints,
        attributes=attributes,
        infer=infer,
        check=check,
        canonicalize_attributes=drop_default_precision,
    )


# -- dot

_CONTRACTION = (
    constraint("Operands are arrays.", shared.ARRAY_OPERAND),
    constraint(
        "The batch and contracting dimensions of an operand are distinct.",
        shared.DIMENSION_NUMBER,
        codes.DOT_DISTINCT_DIMENSIONS,
    ),
    constraint(
        "Those of lhs and rhs are paired one to one, and paired dimensions have the same size.",
        codes.DOT_PAIRED_DIMENSIONS,
        codes.DOT_PAIR_SIZES,
    ),
    constraint(
        "The result is an array, and it is complex if lhs or rhs is; its element type may be declared.",
        codes.DOT_ARRAY_RESULT,
        codes.DOT_COMPLEX_RESULT,
    ),
)
"""The constraints of every contraction."""


def _infer_dot(operands: Sequence[Shape], attrs: DotAttributes, element_type: PrimitiveType | None) -> Shape:
    _check_contraction("dot", operands, attrs)
    return contraction_shape(operands, _contracted(operands[0], operands[1], attrs), element_type)


DOT = define_contraction(
    "dot",
    "contraction",
    DotAttributes,
    _infer_dot,
    summary=(
        "Sums products over the contracting dimensions, for each index of the batch dimensions; the result "
        "has the batch dimensions, then the free dimensions of lhs, then those of rhs."
    ),
    result=(
        "First the batch dimensions, then the other dimensions of `lhs`, then the other dimensions of `rhs`; "
        "contracted dimensions disappear."
    ),
    operands="lhs rhs",
    constraints=_CONTRACTION,
)


# -- ragged dot


class RaggedMode(Enum):
    """The kind of the ragged dimension of lhs: free (m), contracting (k) or batch (b).

    Shapes for lhs, rhs, group sizes and result: free `[b,m,k] [g,b,k,n] [b,g] -> [b,m,n]`, contracting
    `[b,m,k] [b,k,n] [b,g] -> [g,b,m,n]`, batch `[b,m,k] [b,k,n] [g] -> [b,m,n]`.
    """

    FREE = "free"
    CONTRACTING = "contracting"
    BATCH = "batch"


def ragged_mode(attrs: RaggedDotAttributes) -> RaggedMode:
    ragged = attrs.lhs_ragged_dims[0]
    if ragged in attrs.lhs_batch_dims:
        return RaggedMode.BATCH
    return RaggedMode.CONTRACTING if ragged in attrs.lhs_contracting_dims else RaggedMode.FREE


def group_prefix(attrs: RaggedDotAttributes, lhs_rank: int) -> tuple[int, ...]:
    """The lhs dimensions that may precede the groups in group sizes: batch, then preceding ones of the ragged kind."""
    ragged = attrs.lhs_ragged_dims[0]
    batch = attrs.lhs_batch_dims
    match ragged_mode(attrs):
        case RaggedMode.BATCH:
            return batch[: batch.index(ragged)]
        case RaggedMode.CONTRACTING:
            contracting = attrs.lhs_contracting_dims
            return (*batch, *contracting[: contracting.index(ragged)])
        case RaggedMode.FREE:
            free = attrs.lhs_free_dims(lhs_rank)
            return (*batch, *free[: free.index(ragged)])


def _check_group_sizes(lhs: Shape, group_sizes: Shape, attrs: RaggedDotAttributes) -> None:
    """Requires group sizes `[g]`, or one list of groups for each index of the prefix dimensions."""
    if not group_sizes.element_type.is_integral:
        raise ShapeError(
            codes.GROUP_SIZES_TYPE, f"ragged-dot takes integer group sizes, given {group_sizes.to_text(layout=False)}"
        )
    prefix = tuple(lhs.dimensions[d] for d in group_prefix(attrs, lhs.rank))
    if group_sizes.rank == 1 or (group_sizes.rank == len(prefix) + 1 and group_sizes.dimensions[:-1] == prefix):
        return
    wanted = ",".join([*map(str, prefix), "g"])
    raise ShapeError(
        codes.GROUP_SIZES_DIMENSIONS,
        f"ragged-dot takes group sizes of dimensions [g] or [{wanted}] for lhs "
        f"{lhs.to_text(layout=False)}, given {group_sizes.to_text(layout=False)}",
    )


def _check_groups(rhs: Shape, group_sizes: Shape, attrs: RaggedDotAttributes) -> None:
    """Requires a group dimension of rhs if the ragged dimension is free, and none otherwise."""
    groups, mode = attrs.rhs_group_dims, ragged_mode(attrs)
    wanted = 1 if mode is RaggedMode.FREE else 0
    if len(groups) != wanted:
        raise ShapeError(
            codes.GROUP_DIMENSION,
            f"ragged-dot with a {mode.value} ragged dimension takes {wanted} rhs group dimensions, "
            f"given {list(groups)}",
        )
    for group in groups:
        require_dimension("ragged-dot", "rhs group dimension", group, rhs)
        if group in (*attrs.rhs_batch_dims, *attrs.rhs_contracting_dims):
            raise ShapeError(
                codes.GROUP_DIMENSION_FREE,
                f"ragged-dot: rhs group dimension {group} of "
                f"{rhs.to_text(layout=False)} is also a batch or contracting dimension",
            )
        count, size = group_sizes.dimensions[-1], rhs.dimensions[group]
        if count != size and UNBOUNDED not in (count, size):
            raise ShapeError(
                codes.GROUP_COUNT,
                f"ragged-dot has {count} groups ({group_sizes.to_text(layout=False)}), "
                f"rhs dimension {group} of {rhs.to_text(layout=False)} has size {size}",
            )


def _infer_ragged_dot(
    operands: Sequence[Shape], attrs: RaggedDotAttributes, element_type: PrimitiveType | None
) -> Shape:
    _check_contraction("ragged-dot", operands, attrs)
    lhs, rhs, group_sizes = operands
    if len(attrs.lhs_ragged_dims) != 1:
        raise ShapeError(
            codes.RAGGED_DIMENSION, f"ragged-dot takes one ragged dimension of lhs, given {list(attrs.lhs_ragged_dims)}"
        )
    require_dimension("ragged-dot", "lhs ragged dimension", attrs.lhs_ragged_dims[0], lhs)
    _check_group_sizes(lhs, group_sizes, attrs)
    _check_groups(rhs, group_sizes, attrs)
    groups = _dimensions(group_sizes, [group_sizes.rank - 1]) if ragged_mode(attrs) is RaggedMode.CONTRACTING else []
    return contraction_shape(operands, groups + _contracted(lhs, rhs, attrs, attrs.rhs_group_dims), element_type)


RAGGED_DOT = define_contraction(
    "ragged-dot",
    "contraction",
    RaggedDotAttributes,
    _infer_ragged_dot,
    summary=(
        "A dot over groups of consecutive rows of a ragged dimension of lhs. Each group is multiplied by "
        "its own slice of rhs or, if the ragged dimension is contracted, has its own slice of the result."
    ),
    result=(
        "The dimensions of `dot`, without the group dimension of `rhs`. If the ragged dimension is contracted, "
        "a dimension of the groups precedes them."
    ),
    operands="lhs rhs group_sizes",
    constraints=(
        *_CONTRACTION,
        constraint("Exactly one dimension of lhs is ragged.", codes.RAGGED_DIMENSION),
        constraint("Group sizes are integers.", codes.GROUP_SIZES_TYPE),
        constraint(
            "The last dimension of the group sizes lists the groups. It may be preceded by the batch dimensions "
            "and the dimensions of the same kind as the ragged dimension that precede it.",
            codes.GROUP_SIZES_DIMENSIONS,
        ),
        constraint(
            "rhs has one group dimension if the ragged dimension is a free dimension, and none otherwise.",
            codes.GROUP_DIMENSION,
        ),
        constraint(
            "The group dimension is a dimension of rhs, neither batch nor contracting, and its size is the "
            "number of groups.",
            codes.GROUP_DIMENSION_FREE,
            codes.GROUP_COUNT,
        ),
    ),
)


# -- scaled dot


def _is_unscaled(operand: Shape, scale: Shape) -> bool:
    """Whether the scale is absent: a bf16 scale of one element for a bf16 operand with more than one."""
    same = operand.element_type is BF16 and scale.element_type is BF16
    return same and all(size == 1 for size in scale.dimensions) and any(size != 1 for size in operand.dimensions)


def _check_scale(side: str, operand: Shape, scale: Shape, contracting: Sequence[int]) -> None:
    """Requires a scale of the operand's rank whose sizes divide those of the operand: one scale per block."""
    if _is_unscaled(operand, scale):
        return
    if scale.rank != operand.rank:
        raise ShapeError(
            codes.SCALE_RANK,
            f"scaled-dot takes a {side} scale of the rank of "
            f"{operand.to_text(layout=False)}, given {scale.to_text(layout=False)}",
        )
    if len(contracting) != 1:
        raise ShapeError(
            codes.SCALED_CONTRACTION,
            f"scaled-dot contracts one dimension of a scaled operand, given "
            f"{side} {list(contracting)} of {operand.to_text(layout=False)}",
        )
    for dimension, (size, blocks) in enumerate(zip(operand.dimensions, scale.dimensions, strict=True)):
        if blocks == 0 or size % blocks:
            raise ShapeError(
                codes.SCALE_BLOCKS,
                f"scaled-dot: {side} dimension {dimension} of {operand.to_text(layout=False)} has size {size}, "
                f"not a multiple of the size {blocks} of its scale {scale.to_text(layout=False)}",
            )


def _infer_scaled_dot(operands: Sequence[Shape], attrs: DotAttributes, element_type: PrimitiveType | None) -> Shape:
    _check_contraction("scaled-dot", operands, attrs)
    lhs, rhs, lhs_scale, rhs_scale = operands
    if not lhs_scale.rank and not rhs_scale.rank:
        raise ShapeError(
            codes.SCALE_GIVEN,
            "scaled-dot needs a scale that is not a scalar, given "
            f"{lhs_scale.to_text(layout=False)} and {rhs_scale.to_text(layout=False)}",
        )
    _check_scale("lhs", lhs, lhs_scale, attrs.lhs_contracting_dims)
    _check_scale("rhs", rhs, rhs_scale, attrs.rhs_contracting_dims)
    return contraction_shape(operands, _contracted(lhs, rhs, attrs), element_type)


SCALED_DOT = define_contraction(
    "scaled-dot",
    "contraction",
    DotAttributes,
    _infer_scaled_dot,
    summary="A dot of operands that are divided into blocks; each block is multiplied by its scale first.",
    result="The dimensions of `dot`, whatever the scales.",
    operands="lhs rhs lhs_scale rhs_scale",
    constraints=(
        *_CONTRACTION,
        constraint("At least one of the scales is not a scalar.", codes.SCALE_GIVEN),
        constraint(
            "A scale has the rank of its operand, and one dimension of the operand is contracted. A bf16 scale "
            "of one element means that a larger bf16 operand is not scaled.",
            codes.SCALE_RANK,
            codes.SCALED_CONTRACTION,
        ),
        constraint("Each dimension size of a scale divides that of its operand.", codes.SCALE_BLOCKS),
    ),
)
