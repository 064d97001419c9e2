"""Definition of the convolution: sums of products of a kernel and the part of the input under a moving window.

Responsible for its groups, kind and sparsity, and its shape rule. Does not depend on the IR or on values.
Source: Conv and its general forms in the specification.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import contraction as contraction_codes
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.opcodes.attributes.codecs import (
    INTEGER,
    AttributeCodec,
    Attributes,
    EnumCodec,
    attribute,
    attributes,
    int64_from_text,
)
from xlapy.opcodes.attributes.dimensions import (
    DIM_LABELS,
    PRECISIONS,
    WINDOW,
    ConvDimensions,
    Precision,
    Window,
    WindowDimension,
    dilated,
)
from xlapy.opcodes.contraction import ALGORITHM, Algorithm, contraction_shape, define_contraction
from xlapy.opcodes.registry import constraint


class ConvolutionKind(Enum):
    """What a convolution is for: a hint that changes neither its shape rule nor its meaning."""

    UNSET = "unset"
    FPROP = "fprop"
    DGRAD = "dgrad"
    WGRAD = "wgrad"


@dataclass(frozen=True, slots=True)
class TensorSparsity:
    """Of every `block_size` elements, `stride` apart along `dimension`, `num_non_zero` are stored."""

    num_non_zero: int = 0
    block_size: int = 0
    dimension: int = 0
    stride: int = 0

    def to_text(self) -> str:
        return f"{{sparsity={self.num_non_zero}x{self.block_size} dimension={self.dimension} stride={self.stride}}}"


@dataclass(frozen=True, slots=True)
class SparsityConfig:
    """Which operands of a convolution are stored without their zeros; None for a dense one."""

    lhs: TensorSparsity | None = None
    rhs: TensorSparsity | None = None


_SPARSITY_FIELD = re.compile(r"(sparsity|dimension|stride)\s*=\s*(\d+)(?:x(\d+))?")


class SparsityConfigCodec(AttributeCodec[SparsityConfig]):
    """`sparsity_config={lhs={sparsity=1x2 dimension=1 stride=1} rhs={...}}`"""

    def read(self, cursor: HloCursor) -> SparsityConfig:
        cursor.expect("{")
        sides: dict[str, TensorSparsity] = {}
        while not cursor.accept("}"):
            side = cursor.word()
            if side not in ("lhs", "rhs"):
                cursor.fail(attributes_codes.ATTRIBUTE_WORD, f"expected lhs or rhs, found {side!r}")
            cursor.expect("=")
            sides[side] = _read_tensor_sparsity(cursor)
        return SparsityConfig(sides.get("lhs"), sides.get("rhs"))

    def write(self, value: SparsityConfig) -> str:
        sides = (("lhs", value.lhs), ("rhs", value.rhs))
        return f"{{{' '.join(f'{side}={tensor.to_text()}' for side, tensor in sides if tensor)}}}"


def _read_tensor_sparsity(cursor: HloCursor) -> TensorSparsity:
    cursor.expect("{")
    given: dict[str, int] = {}
    while not cursor.accept("}"):
        match = cursor.match(_SPARSITY_FIELD)
        if match is None or (match[1] == "sparsity") != (match[3] is not None):
            cursor.fail(attributes_codes.ATTRIBUTE_FORM, "expected sparsity=1x4, dimension=0 or stride=1")
        if match[3] is None:
            given[match[1]] = int64_from_text(match[2])
        else:
            given["num_non_zero"], given["block_size"] = int64_from_text(match[2]), int64_from_text(match[3])
    return TensorSparsity(**given)


@attributes
class ConvolutionAttributes(Attributes):
    """`window` has one dimension a spatial dimension; its size repeats the kernel's."""

    window: Window = attribute(WINDOW, default=Window())
    dim_labels: ConvDimensions = attribute(DIM_LABELS)
    feature_group_count: int = attribute(INTEGER, default=1)
    batch_group_count: int = attribute(INTEGER, default=1)
    convolution_kind: ConvolutionKind = attribute(EnumCodec(ConvolutionKind), default=ConvolutionKind.UNSET)
    operand_precision: tuple[Precision, ...] = attribute(PRECISIONS, default=())
    algorithm: Algorithm = attribute(ALGORITHM, default=Algorithm.UNSET)
    sparsity_config: SparsityConfig = attribute(SparsityConfigCodec(), default=SparsityConfig())


# -- shape rule


def _require_convolution_operand(side: str, operand: Shape, rank: int) -> None:
    if not operand.is_array:
        raise ShapeError(shared.ARRAY_OPERAND, f"convolution takes arrays, {side} is {operand.to_text(layout=False)}")
    if operand.rank != rank:
        raise ShapeError(
            codes.CONVOLUTION_RANK,
            f"convolution with {rank - 2} spatial dimensions takes "
            f"{side} of rank {rank}, given {operand.to_text(layout=False)}",
        )


def _dense_kernel(operand: Shape) -> Shape:
    """The shape of the kernel; a sparse kernel is a tuple of its values and their positions."""
    if not operand.is_tuple:
        return operand
    if len(operand.tuple_shapes) != 2:
        raise ShapeError(
            codes.SPARSE_KERNEL,
            f"convolution takes a sparse rhs as a tuple of 2, given {operand.to_text(layout=False)}",
        )
    return operand.tuple_shapes[0]


def _check_labels(numbers: ConvDimensions, window: Window) -> None:
    """Requires that labels name each dimension once, with as many spatial dimensions as the window has."""
    spatial = len(numbers.input_spatial_dimensions)
    for what, count in (
        ("kernel", len(numbers.kernel_spatial_dimensions)),
        ("output", len(numbers.output_spatial_dimensions)),
        ("window", len(window.dimensions)),
    ):
        if count != spatial:
            raise ShapeError(
                codes.SPATIAL_DIMENSIONS,
                f"convolution has {spatial} input spatial dimensions ({numbers.to_text()}), its {what} has {count}",
            )
    for what, named in _named_dimensions(numbers).items():
        if sorted(named) != list(range(spatial + 2)):
            raise ShapeError(
                codes.CONVOLUTION_LABELS,
                f"convolution: the {what} dimensions must be 0 to {spatial + 1}, each once, "
                f"{numbers.to_text()} gives {list(named)}",
            )


def _named_dimensions(n: ConvDimensions) -> dict[str, tuple[int, ...]]:
    return {
        "input": (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions),
        "kernel": (n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, *n.kernel_spatial_dimensions),
        "output": (n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions),
    }


def _check_group_counts(attrs: ConvolutionAttributes) -> None:
    feature, batch = attrs.feature_group_count, attrs.batch_group_count
    for what, count in (("feature_group_count", feature), ("batch_group_count", batch)):
        if count < 1:
            raise ShapeError(codes.GROUP_COUNTS, f"convolution needs a positive {what}, given {count}")
    if feature > 1 and batch > 1:
        raise ShapeError(
            codes.GROUP_COUNTS,
            f"convolution takes feature groups or batch groups, not both; "
            f"given feature_group_count {feature} and batch_group_count {batch}",
        )


def _check_divisible(what: str, size: int, operand: Shape, groups: str, count: int) -> None:
    if size != UNBOUNDED and size % count:
        raise ShapeError(
            codes.GROUP_COUNT_DIVIDES,
            f"convolution: {what} {size} of {operand.to_text(layout=False)} is not a multiple of {groups} {count}",
        )


def _kernel_input_features(rhs: Shape, attrs: ConvolutionAttributes) -> int:
    stored = rhs.dimensions[attrs.dim_labels.kernel_input_feature_dimension]
    sparsity = attrs.sparsity_config.rhs
    if sparsity is None:
        return stored
    if sparsity.num_non_zero != 1:
        raise ShapeError(
            codes.SPARSE_KERNEL, f"convolution takes 1xN sparsity, given {sparsity.num_non_zero}x{sparsity.block_size}"
        )
    return stored * sparsity.block_size


def _check_features(lhs: Shape, rhs: Shape, attrs: ConvolutionAttributes) -> None:
    """Requires that groups divide batch and features, and that the kernel has the features of one group."""
    numbers = attrs.dim_labels
    out = rhs.dimensions[numbers.kernel_output_feature_dimension]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    _check_divisible("kernel output feature size", out, rhs, "batch_group_count", attrs.batch_group_count)
    _check_divisible("kernel output feature size", out, rhs, "feature_group_count", attrs.feature_group_count)
    _check_divisible("input batch size", batch, lhs, "batch_group_count", attrs.batch_group_count)
    features = lhs.dimensions[numbers.input_feature_dimension]
    _check_divisible("input feature size", features, lhs, "feature_group_count", attrs.feature_group_count)
    kernel_features = _kernel_input_features(rhs, attrs)
    if UNBOUNDED not in (features, kernel_features) and features // attrs.feature_group_count != kernel_features:
        raise ShapeError(
            codes.INPUT_FEATURES,
            f"convolution: the kernel takes {kernel_features} input features ({rhs.to_text(layout=False)}), "
            f"the input has {features} ({lhs.to_text(layout=False)}) in {attrs.feature_group_count} feature groups",
        )


def _check_window(rhs: Shape, attrs: ConvolutionAttributes) -> None:
    attrs.window.check("convolution: window")
    sizes = tuple(rhs.dimensions[d] for d in attrs.dim_labels.kernel_spatial_dimensions)
    if sizes != attrs.window.sizes:
        raise ShapeError(
            codes.KERNEL_WINDOW,
            f"convolution: window sizes {list(attrs.window.sizes)} differ from the spatial sizes {list(sizes)} "
            f"of the kernel {rhs.to_text(layout=False)}",
        )


def _output_size(window: WindowDimension, base: int) -> int:
    """The number of window positions over `base` elements; negative padding may not remove more than `base`."""
    if base == UNBOUNDED:
        return UNBOUNDED
    extent = dilated(base, window.base_dilation)
    if extent + window.padding_low + window.padding_high < 0:
        raise ShapeError(
            movement_codes.NEGATIVE_PADDING,
            f"convolution: padding {window.padding_low}_{window.padding_high} removes more than the {extent} elements "
            f"of a base area of {base} with dilation {window.base_dilation}",
        )
    return window.output_size(base)


def _infer_convolution(
    operands: Sequence[Shape], attrs: ConvolutionAttributes, element_type: PrimitiveType | None
) -> Shape:
    lhs, rhs = operands[0], _dense_kernel(operands[1])
    numbers = attrs.dim_labels
    _check_group_counts(attrs)
    _check_labels(numbers, attrs.window)
    rank = len(numbers.input_spatial_dimensions) + 2
    _require_convolution_operand("lhs", lhs, rank)
    _require_convolution_operand("rhs", rhs, rank)
    _check_features(lhs, rhs, attrs)
    _check_window(rhs, attrs)
    if rhs.dynamic_dimensions[numbers.kernel_output_feature_dimension]:
        raise ShapeError(
            codes.STATIC_OUTPUT_FEATURES,
            f"convolution takes a kernel with a static output feature dimension, given {rhs.to_text(layout=False)}",
        )
    return contraction_shape((lhs, rhs), _output_dimensions(lhs, rhs, attrs), element_type)


def _output_dimensions(lhs: Shape, rhs: Shape, attrs: ConvolutionAttributes) -> list[tuple[int, bool]]:
    """The sizes of the result and whether they are dynamic, in the order of the output labels."""
    numbers = attrs.dim_labels
    batch = lhs.dimensions[numbers.input_batch_dimension]
    places: dict[int, tuple[int, bool]] = {
        numbers.output_batch_dimension: (
            batch if batch == UNBOUNDED else batch // attrs.batch_group_count,
            lhs.dynamic_dimensions[numbers.input_batch_dimension],
        ),
        numbers.output_feature_dimension: (rhs.dimensions[numbers.kernel_output_feature_dimension], False),
    }
    spatial = zip(
        numbers.output_spatial_dimensions,
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        attrs.window.dimensions,
        strict=True,
    )
    for out, base, kernel, window in spatial:
        dynamic = lhs.dynamic_dimensions[base] or rhs.dynamic_dimensions[kernel]
        places[out] = (_output_size(window, lhs.dimensions[base]), dynamic)
    return [places[dimension] for dimension in range(lhs.rank)]


CONVOLUTION = define_contraction(
    "convolution",
    "convolution",
    ConvolutionAttributes,
    _infer_convolution,
    summary=(
        "Moves a window over the input (lhs) and, at each position, sums the products of the elements under "
        "it with the kernel (rhs)."
    ),
    result=(
        "The batch, the output features and one spatial dimension per window dimension, in the order of "
        "`dim_labels`. A spatial dimension has one element per position of the window."
    ),
    operands="lhs rhs",
    constraints=(
        constraint(
            "Operands are arrays of the rank that `dim_labels` gives; a sparse kernel is a tuple of two arrays.",
            shared.ARRAY_OPERAND,
            codes.CONVOLUTION_RANK,
            codes.SPARSE_KERNEL,
        ),
        constraint(
            "`dim_labels` names every dimension of input, kernel and output once, and window, input, kernel and "
            "output have the same number of spatial dimensions.",
            codes.SPATIAL_DIMENSIONS,
            codes.CONVOLUTION_LABELS,
            codes.DIMENSION_LABEL_LIMIT,
            codes.LABEL_TEXT,
        ),
        constraint("Group counts are positive, and at most one of them is greater than 1.", codes.GROUP_COUNTS),
        constraint(
            "Both group counts divide the kernel's output feature size; `batch_group_count` divides the input's "
            "batch size, and `feature_group_count` its feature size.",
            codes.GROUP_COUNT_DIVIDES,
        ),
        constraint(
            "The kernel's input feature size is the number of input features per feature group.", codes.INPUT_FEATURES
        ),
        constraint(
            "The sizes, strides and dilations of the window are positive, and its sizes equal the kernel's "
            "spatial sizes.",
            codes.KERNEL_WINDOW,
            attributes_codes.WINDOW_POSITIVE,
        ),
        constraint("Negative padding does not remove more elements than there are.", movement_codes.NEGATIVE_PADDING),
        constraint("The output feature dimension of the kernel is static.", codes.STATIC_OUTPUT_FEATURES),
        constraint("A sparse kernel has 1xN sparsity: it stores one of every N elements.", codes.SPARSE_KERNEL),
        constraint(
            "The result is an array, and it is complex if an operand is; its element type may be declared.",
            contraction_codes.DOT_ARRAY_RESULT,
            contraction_codes.DOT_COMPLEX_RESULT,
        ),
    ),
)
