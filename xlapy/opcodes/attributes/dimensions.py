"""Structured attribute values: windows, paddings, slices, convolution dimension numbers, and their text forms.

Responsible for these values, their codecs, and the checks that need no operand shapes. Does not depend on the IR, on
any particular op, or on NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.operations import attributes as codes
from xlapy.base.error_codes.operations import convolution as convolution_codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import AttributeCodec, BracedListCodec, EnumCodec, entries, int64_from_text


@checked_class
@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window moving over a (padded, dilated) base area."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    window_reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """The extent of the window on the base area, including window dilation."""
        return dilated(self.size, self.window_dilation)

    @property
    def is_identity(self) -> bool:
        """Whether the window at each position has the element at the same position, and nothing else."""
        return self.size == self.stride == self.base_dilation == 1 and self.padding_low == self.padding_high == 0

    def output_size(self, base: int) -> int:
        """The number of window positions over a base area of `base` elements."""
        padded = dilated(base, self.base_dilation) + self.padding_low + self.padding_high
        return strided(padded, self.dilated_size, self.stride)

    def without_padding_elements(self, base: int) -> WindowDimension:
        """The window without the elements at its ends that lie in the padding at all of its positions.

        The same windows hold the same elements of `base`, in the same order, for reduce-window and select-and-scatter,
        which leave padding out. A window that never meets the base area keeps one element.
        """
        count = self.output_size(base)
        if count == 0 or self.window_reversal:
            return self
        extent, step = dilated(base, self.base_dilation), self.window_dilation
        last_start = (count - 1) * self.stride - self.padding_low
        first = min(max(-(last_start // step), 0), self.size - 1)
        last = min(max((extent - 1 + self.padding_low) // step, first), self.size - 1)
        size, low = last - first + 1, self.padding_low - first * step
        if size == self.size:
            return self
        high = (count - 1) * self.stride + dilated(size, step) - extent - low
        return replace(self, size=size, padding_low=low, padding_high=high)


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements with `dilation - 1` holes between adjacent ones."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def strided(extent: int, window: int, stride: int) -> int:
    """The number of windows of size `window` that fit into an extent with a stride."""
    return 0 if extent == 0 or window > extent else (extent - window) // stride + 1


def same_padding(extent: int, window: int, stride: int) -> tuple[int, int]:
    """The low and high padding of SAME: one window position per `stride` elements, the smaller half before."""
    positions = -(-extent // stride)
    total = max((positions - 1) * stride + window - extent, 0)
    return total // 2, total - total // 2


@checked_class
@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution, reduce-window or select-and-scatter: one `WindowDimension` per dimension."""

    dimensions: tuple[WindowDimension, ...] = ()

    @staticmethod
    def make(
        sizes: Sequence[int],
        strides: Sequence[int] = (),
        padding: Sequence[tuple[int, int]] = (),
        base_dilations: Sequence[int] = (),
        window_dilations: Sequence[int] = (),
        reversal: Sequence[bool] = (),
    ) -> Window:
        """A window from one sequence per property; an empty sequence means the default in every dimension."""
        rank = len(sizes)
        columns = {
            "strides": strides,
            "padding": padding,
            "base_dilations": base_dilations,
            "window_dilations": window_dilations,
            "window_reversal": reversal,
        }
        for name, column in columns.items():
            if len(column) not in (0, rank):
                raise ShapeError(
                    codes.WINDOW_ENTRIES,
                    f"window has {rank} dimensions, {name} has {len(column)} entries: {list(column)}",
                )
        window = Window(
            tuple(
                WindowDimension(
                    sizes[i],
                    strides[i] if strides else 1,
                    *(padding[i] if padding else (0, 0)),
                    base_dilations[i] if base_dilations else 1,
                    window_dilations[i] if window_dilations else 1,
                    reversal[i] if reversal else False,
                )
                for i in range(rank)
            )
        )
        window.check()
        return window

    def check(self, what: str = "window") -> None:
        """Raises a `ShapeError` that starts with `what` if a size, stride or dilation is below one."""
        for i, d in enumerate(self.dimensions):
            for name, value in (
                ("size", d.size),
                ("stride", d.stride),
                ("base dilation", d.base_dilation),
                ("window dilation", d.window_dilation),
            ):
                if value < 1:
                    raise ShapeError(codes.WINDOW_POSITIVE, f"{what} dimension {i} has a non-positive {name}: {value}")

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dimensions)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(d.stride for d in self.dimensions)

    def output_sizes(self, base: Sequence[int]) -> tuple[int, ...]:
        """The number of window positions in each dimension of a base area."""
        return tuple(d.output_size(size) for d, size in zip(self.dimensions, base, strict=True))

    def without_padding_elements(self, base: Sequence[int]) -> Window:
        """See `WindowDimension.without_padding_elements`."""
        dimensions = zip(self.dimensions, base, strict=True)
        return Window(tuple(d.without_padding_elements(size) for d, size in dimensions))


# The entries of one field are a single token, as in XLA: no blanks around `x`.
_WINDOW_FIELD = re.compile(r"([a-z_]+)\s*=\s*(-?\d+(?:_-?\d+)?(?:x-?\d+(?:_-?\d+)?)*)")


class WindowCodec(AttributeCodec[Window]):
    """`window={size=2x3 stride=2x1 pad=0_1x1_1 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=0x1}`"""

    def read(self, cursor: HloCursor) -> Window:
        cursor.expect("{")
        columns: dict[str, list[str]] = {}
        while not cursor.accept("}"):
            match = cursor.match(_WINDOW_FIELD)
            if match is None:
                cursor.fail(codes.ATTRIBUTE_FORM, "expected a window field such as size=2x3, or }")
            if match[1] not in _WINDOW_COLUMNS:
                cursor.fail(
                    codes.ATTRIBUTE_WORD,
                    f"unknown window field {match[1]!r}; expected one of {', '.join(_WINDOW_COLUMNS)}",
                )
            if match[1] in columns:
                cursor.fail(codes.ATTRIBUTE_FIELDS, f"window field {match[1]!r} is given twice")
            columns[match[1]] = match[2].split("x")
        try:
            return _window(columns)
        except ShapeError as error:
            cursor.fail(error.code, error.message)

    def write(self, value: Window) -> str:
        parts = [
            f"{name}={'x'.join(map(write, value.dimensions))}"
            for name, (write, default) in _WINDOW_COLUMNS.items()
            if any(write(d) != default for d in value.dimensions)
        ]
        return f"{{{' '.join(parts)}}}"


_WINDOW_COLUMNS: dict[str, tuple[Callable[[WindowDimension], str], str]] = {
    "size": (lambda d: str(d.size), ""),
    "stride": (lambda d: str(d.stride), "1"),
    "pad": (lambda d: f"{d.padding_low}_{d.padding_high}", "0_0"),
    "lhs_dilate": (lambda d: str(d.base_dilation), "1"),
    "rhs_dilate": (lambda d: str(d.window_dilation), "1"),
    "rhs_reversal": (lambda d: str(int(d.window_reversal)), "0"),
}


def _window(columns: dict[str, list[str]]) -> Window:
    """A window from the columns of its text. The verifier checks sizes and strides later."""
    rank = max(map(len, columns.values()), default=0)
    for name, column in columns.items():
        if len(column) != rank:
            raise ShapeError(codes.WINDOW_ENTRIES, f"window field {name} has {len(column)} entries, another has {rank}")

    if any("_" in text for name, column in columns.items() if name != "pad" for text in column):
        raise ShapeError(codes.ATTRIBUTE_FORM, "only entries of pad are pairs such as 1_2")

    def integers(name: str, default: int) -> list[int]:
        return [int64_from_text(text) for text in columns.get(name, [str(default)] * rank)]

    pads = [text.partition("_") for text in columns.get("pad", ["0_0"] * rank)]
    if any(not underscore for _, underscore, _ in pads):
        raise ShapeError(codes.ATTRIBUTE_FORM, "pad entries are low_high pairs such as 1_2")
    rows = zip(
        integers("size", 1),
        integers("stride", 1),
        [int64_from_text(low) for low, _, _ in pads],
        [int64_from_text(high) for _, _, high in pads],
        integers("lhs_dilate", 1),
        integers("rhs_dilate", 1),
        map(bool, integers("rhs_reversal", 0)),
        strict=True,
    )
    return Window(tuple(WindowDimension(*row) for row in rows))


@checked_class
@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Edge and interior padding of one dimension; edges may be negative (they crop)."""

    low: int
    high: int
    interior: int = 0

    def output_size(self, size: int) -> int:
        return self.low + self.high + dilated(size, self.interior + 1)


@checked_class
@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """The padding of a `pad`: one `PaddingDimension` per dimension."""

    dimensions: tuple[PaddingDimension, ...]


_PADDING_ENTRY = r"-?\d+_-?\d+(?:_-?\d+)?"
# All entries are a single token, as in XLA: an `x` after a blank begins the name of the next instruction.
_PADDING = re.compile(rf"{_PADDING_ENTRY}(?:x{_PADDING_ENTRY})*+")


class PaddingConfigCodec(AttributeCodec[PaddingConfig]):
    """`padding=1_2x0_-1_1`: low and high padding per dimension, and interior padding if any is not 0."""

    def read(self, cursor: HloCursor) -> PaddingConfig:
        token = cursor.consume(_PADDING)
        entries = [] if token is None else token.split("x")
        return PaddingConfig(tuple([PaddingDimension(*map(int64_from_text, entry.split("_"))) for entry in entries]))

    def write(self, value: PaddingConfig) -> str:
        interior = any(d.interior for d in value.dimensions)
        return "x".join(f"{d.low}_{d.high}_{d.interior}" if interior else f"{d.low}_{d.high}" for d in value.dimensions)


@dataclass(frozen=True, slots=True)
class SliceRanges:
    """The half-open ranges of a `slice`; each tuple has one entry per dimension."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.starts)


_RANGE = re.compile(r"\[\s*(-?\d+)\s*:\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?\]")


class SliceRangesCodec(AttributeCodec[SliceRanges]):
    """`slice={[0:2], [1:5:2]}`; strides are printed if any is not 1."""

    def read(self, cursor: HloCursor) -> SliceRanges:
        rows: list[tuple[int, int, int]] = []
        for _ in entries(cursor):
            match = cursor.match(_RANGE)
            if match is None:
                cursor.fail(codes.ATTRIBUTE_FORM, "expected a range such as [0:2] or [0:6:2]")
            rows.append((int64_from_text(match[1]), int64_from_text(match[2]), int64_from_text(match[3] or "1")))
        return SliceRanges(tuple(r[0] for r in rows), tuple(r[1] for r in rows), tuple(r[2] for r in rows))

    def write(self, value: SliceRanges) -> str:
        unit = all(stride == 1 for stride in value.strides)
        rows = zip(value.starts, value.limits, value.strides, strict=True)
        return f"{{{', '.join(f'[{a}:{b}]' if unit else f'[{a}:{b}:{c}]' for a, b, c in rows)}}}"


MAX_LABELED_DIMENSION = 255
"""The largest dimension number of a convolution. The text of the numbers has a label for each dimension up to it."""


@checked_class
@dataclass(frozen=True, slots=True)
class ConvDimensions:
    """The batch, feature and spatial dimensions of a convolution's operands and result.

    Example: `b01f_01io->b01f` is batch, two spatial dimensions, feature; kernel spatial, input feature, output feature.

    >>> xla.ConvDimensions.parse("b01f_01io->b01f").input_spatial_dimensions
    (1, 2)
    """

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raises `ShapeError` for a dimension that no label text shows: labels are as many as the largest dimension."""
        for field in fields(self):
            value = getattr(self, field.name)
            for dimension in value if isinstance(value, tuple) else (value,):
                if not 0 <= dimension <= MAX_LABELED_DIMENSION:
                    raise ShapeError(
                        convolution_codes.DIMENSION_LABEL_LIMIT,
                        f"{field.name} has the dimension {dimension}, which is not in [0, {MAX_LABELED_DIMENSION}]",
                    )

    @staticmethod
    def default(spatial: int) -> ConvDimensions:
        """Batch, feature, spatial; kernel output feature, input feature, spatial (XLA's default)."""
        if not 0 <= spatial < MAX_LABELED_DIMENSION:
            raise ShapeError(
                convolution_codes.DIMENSION_LABEL_LIMIT,
                f"a convolution has 0 to {MAX_LABELED_DIMENSION - 1} spatial dimensions, not {spatial}",
            )
        dims = tuple(range(2, spatial + 2))
        return ConvDimensions(0, 1, dims, 1, 0, dims, 0, 1, dims)

    @staticmethod
    def parse(text: str) -> ConvDimensions:
        """From labels such as `bf01_oi01->bf01` (`?` marks an unused dimension). Raises ShapeError."""
        match = _DIM_LABELS.fullmatch(text)
        if match is None:
            raise ShapeError(
                convolution_codes.LABEL_TEXT, f"malformed dim_labels {text!r}; expected a form such as bf01_oi01->bf01"
            )
        lhs, rhs, out = match.groups()
        return ConvDimensions(*_labels(lhs, "b", "f"), *_labels(rhs, "i", "o"), *_labels(out, "b", "f"))

    def to_text(self) -> str:
        lhs = _write_labels(
            {self.input_batch_dimension: "b", self.input_feature_dimension: "f"}, self.input_spatial_dimensions
        )
        rhs = _write_labels(
            {self.kernel_input_feature_dimension: "i", self.kernel_output_feature_dimension: "o"},
            self.kernel_spatial_dimensions,
        )
        out = _write_labels(
            {self.output_batch_dimension: "b", self.output_feature_dimension: "f"}, self.output_spatial_dimensions
        )
        return f"{lhs}_{rhs}->{out}"


_DIM_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")


def _labels(text: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
    positions: dict[str, int] = {}
    for position, label in enumerate(text):
        if label != "?" and label in positions:
            raise ShapeError(convolution_codes.LABEL_TEXT, f"dimension label {label!r} occurs twice in {text!r}")
        positions[label] = position
    spatial = sorted(label for label in positions if label.isdigit())
    if first not in positions or second not in positions or spatial != [str(i) for i in range(len(spatial))]:
        raise ShapeError(
            convolution_codes.LABEL_TEXT,
            f"{text!r} needs the labels {first}, {second} and spatial digits counting up from 0",
        )
    return positions[first], positions[second], tuple(positions[label] for label in spatial)


def _write_labels(named: dict[int, str], spatial: Sequence[int]) -> str:
    labels = named | {dimension: str(i) for i, dimension in enumerate(spatial)}
    return "".join(labels.get(dimension, "?") for dimension in range(max(labels) + 1))


_LABEL_WORD = re.compile(r"[0-9a-z?]+_[0-9a-z?]+->[0-9a-z?]+")


class ConvDimensionsCodec(AttributeCodec[ConvDimensions]):
    """`dim_labels=b01f_01io->b01f`"""

    def read(self, cursor: HloCursor) -> ConvDimensions:
        match = cursor.match(_LABEL_WORD)
        if match is None:
            cursor.fail(convolution_codes.LABEL_TEXT, "expected dimension labels such as bf01_oi01->bf01")
        try:
            return ConvDimensions.parse(match[0])
        except ShapeError as error:
            cursor.fail_at(match.start(), error.code, error.message)

    def write(self, value: ConvDimensions) -> str:
        return value.to_text()


class Precision(Enum):
    """The precision with which a dot or convolution uses an operand."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


def drop_default_precision(attrs: Any, _: Sequence[Shape], __: Shape) -> Any:
    """Canonicalizes `operand_precision`, which is empty if every operand has the default precision."""
    given = attrs.operand_precision
    plain = bool(given) and all(precision is Precision.DEFAULT for precision in given)
    return attrs.replace(operand_precision=()) if plain else attrs


WINDOW = WindowCodec()
PADDING = PaddingConfigCodec()
SLICE_RANGES = SliceRangesCodec()
DIM_LABELS = ConvDimensionsCodec()
PRECISIONS = BracedListCodec(EnumCodec(Precision, ignore_case=True))
