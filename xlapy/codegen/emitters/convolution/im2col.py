"""Kernels of convolution, as products whose left or right operand is what lies under the window.

What runs in lanes is the last dimension of the result:

- features: rows are positions of the result, terms are window offsets and input features, columns are the output
  features of a group. The input under the window is packed as rows, the kernel as columns;
- positions along the last dimension: rows are output features, columns are positions.

Positions that the rows do not go through, and groups, are the batch of the product. With one input feature a group (a
depthwise convolution) there is nothing to share between columns: such a kernel goes through the window for a few
positions and a vector of features at once.

An infinite kernel element adds nothing where it meets padding, but its product with a packed zero is NaN. So a block
of the kernel that holds one is left to the general loops.

Must not know: tiles, blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xlapy import opcodes
from xlapy.codegen.emitters.matmul.finite import all_finite
from xlapy.codegen.emitters.matmul.packed_gemm import packed_kernel
from xlapy.codegen.emitters.matmul.product import Product
from xlapy.codegen.emitters.matmul.tiles import inside
from xlapy.codegen.region import Region
from xlapy.loops import Affine, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.movement import both, masked_element, undilated
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.convolution import ConvolutionAttributes, SparsityConfig

LEAST_WORK = 1 << 12
"""Products of elements below which general loops do as well."""

MANY_FEATURES = 16
"""Input features that fill a vector."""

Coordinates = Mapping[str, Affine]


def convolution_kernel(region: Region) -> tuple[Kernel, int] | None:
    """The kernel of a region whose root is a convolution, and the work of one task; None for what it is no gain for."""
    root = region.root
    if (
        root.op is not opcodes.CONVOLUTION
        or root.attributes_as(ConvolutionAttributes).sparsity_config != SparsityConfig()
    ):
        return None
    product = Convolution(region)
    if not product.terms or product.columns < 4 or product.rows * product.columns * product.terms < LEAST_WORK:
        return None
    return packed_kernel(product)


class Convolution(Product):
    """The convolution of a region. Coordinates are named: g group, b batch, f output feature of a group, i input

    feature of a group, p0 p1 ... positions, k0 k1 ... window offsets. Where the base area has holes, positions are
    p * phases + r, and k counts the offsets that meet elements at those of phase r.
    """

    def __init__(self, region: Region) -> None:
        super().__init__(region)
        attrs: ConvolutionAttributes = self.root.attributes_as(ConvolutionAttributes)
        self.attrs, self.numbers = attrs, attrs.dim_labels
        self.input, self.kernel = self.root.operands
        lhs, rhs, result = self.input.shape.dimensions, self.kernel.shape.dimensions, self.root.shape.dimensions
        numbers = self.numbers
        groups = attrs.feature_group_count * attrs.batch_group_count
        self.sizes = {
            "g": groups,
            "b": result[numbers.output_batch_dimension],
            "f": result[numbers.output_feature_dimension] // groups,
            "i": rhs[numbers.kernel_input_feature_dimension],
        }
        self.input_sizes = [lhs[d] for d in numbers.input_spatial_dimensions]
        self.result_sizes = [result[d] for d in numbers.output_spatial_dimensions]
        self.phases = [_phases(w) for w in attrs.window.dimensions]
        for n, (phases, size, w) in enumerate(
            zip(self.phases, self.result_sizes, attrs.window.dimensions, strict=True)
        ):
            self.sizes |= {f"r{n}": phases, f"p{n}": -(-size // phases), f"k{n}": -(-w.size // phases)}
        self._arrange()

    # -- which coordinates are rows, columns, terms, batch

    def _arrange(self) -> None:
        last = self._last(self._result_order())
        positions = [name for name in self._result_order() if name not in ("f", last)]
        self.features_in_lanes = last == "f"
        if self.features_in_lanes:
            self.column_names = ["f"]
            contiguous = self._last(self._input_order())
            rows = [contiguous] if contiguous in positions else positions
            offsets = [name for name in self.sizes if name[0] == "k"]
            joined = 1 if self._run_along_last() else 0
            self.outer_names, self.inner_names = (
                offsets[: len(offsets) - joined],
                [*offsets[len(offsets) - joined :], "i"],
            )
        else:
            self.column_names, rows = [last], ["f"]
            self.outer_names, self.inner_names = [], [name for name in self._kernel_order() if name != "f"]
        self.row_names = rows
        phases = [name for name in self.sizes if name[0] == "r"]
        self.batch_names = ["g", *phases, *(name for name in positions if name not in rows)]
        self.batches, self.rows = self._count(self.batch_names), self._count(self.row_names)
        self.columns = self._count(self.column_names)
        self.outer, self.inner = self._count(self.outer_names), self._count(self.inner_names)

    def _run_along_last(self) -> bool:
        """Whether what lies under the window along the last dimension, all its features, is one run of memory.

        It is worth one loop unless that takes a kernel apart whose input features are one.
        """
        last = len(self.input_sizes) - 1
        plain = all(
            w.base_dilation == w.window_dilation == 1 and not w.window_reversal
            for w in self.attrs.window.dimensions[last:]
        )
        if last < 0 or not plain or self.sizes["g"] > 1 or self._input_order()[-2:] != [f"p{last}", "i"]:
            return False
        kernel = self._kernel_order()
        return kernel[-1] != "i" or kernel[-2] == f"k{last}" or self.sizes["i"] < MANY_FEATURES

    def _last(self, names: Sequence[str]) -> str:
        """The most minor coordinate that has more than one value."""
        return next((name for name in reversed(names) if self.sizes[name] > 1), names[-1])

    def _result_order(self) -> list[str]:
        n = self.numbers
        return _ordered(
            "b", n.output_batch_dimension, "f", n.output_feature_dimension, "p", n.output_spatial_dimensions
        )

    def _input_order(self) -> list[str]:
        n = self.numbers
        return _ordered("b", n.input_batch_dimension, "i", n.input_feature_dimension, "p", n.input_spatial_dimensions)

    def _kernel_order(self) -> list[str]:
        n = self.numbers
        features = "i", n.kernel_input_feature_dimension, "f", n.kernel_output_feature_dimension
        return _ordered(*features, "k", n.kernel_spatial_dimensions)

    def _count(self, names: Sequence[str]) -> int:
        return math.prod(self.sizes[name] for name in names)

    def _coordinates(self, *groups: tuple[Sequence[str], Affine]) -> dict[str, Affine]:
        found: dict[str, Affine] = {}
        for names, position in groups:
            places = delinear(self.builder, position, [self.sizes[name] for name in names])
            found.update(zip(names, places, strict=True))
        return found

    def _terms(self, term: Affine) -> tuple[Sequence[str], Affine]:
        return [*self.outer_names, *self.inner_names], term

    # -- infinite elements of the kernel

    def fast_path_condition(self, batch: Affine, rows: tuple[Affine, int], columns: tuple[Affine, int]) -> Value | None:
        """Whether all elements of the kernel that the block meets are finite, or there is nothing else to meet."""
        window = self.attrs.window.dimensions
        if self.type.is_integral or not any(w.padding_low or w.padding_high or w.base_dilation > 1 for w in window):
            return None
        (first, size), total = (columns, self.columns) if self.features_in_lanes else (rows, self.rows)

        def element(feature: Affine, term: Affine) -> Element:
            mask = inside(self.lowering, first + feature, total, size)
            if self.features_in_lanes:
                return self.right_element(batch, term, first + feature, mask)
            return self.left_element(batch, first + feature, term, mask)

        if self._last(self._kernel_order()) == "f":
            return all_finite(self.builder, self.type, lambda term, feature: element(feature, term), (self.terms, size))

        def in_run(line: Affine, lane: Affine) -> Element:
            feature, outer = delinear(self.builder, line, (size, self.outer))
            return element(feature, outer * self.inner + lane)

        return all_finite(self.builder, self.type, in_run, (size * self.outer, self.inner))

    # -- elements

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        at = self._coordinates((self.batch_names, batch), (self.row_names, row), self._terms(term))
        return self._input_element(at, mask) if self.features_in_lanes else self._kernel_element(at, mask)

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        at = self._coordinates((self.batch_names, batch), (self.column_names, column), self._terms(term))
        return self._kernel_element(at, mask) if self.features_in_lanes else self._input_element(at, mask)

    def _input_element(self, at: Coordinates, mask: Value | None) -> Element:
        """What lies under the window; zero for padding and holes."""
        n, attrs = self.numbers, self.attrs
        count = len(self.input_sizes)
        positions = [self._position(at, d) for d in range(count)]
        offsets = [self._offset(at, d) for d in range(count)]
        places, condition = self._places(positions, offsets, at["i"])
        index: list[Affine] = [Affine()] * (count + 2)
        index[n.input_batch_dimension], index[n.input_feature_dimension] = at["b"], at["i"]
        if attrs.batch_group_count > 1:
            index[n.input_batch_dimension] += at["g"] * self.sizes["b"]
        else:
            index[n.input_feature_dimension] += at["g"] * self.sizes["i"]
        for d, place in zip(n.input_spatial_dimensions, places, strict=True):
            index[d] = place
        condition = both(self.builder, condition, mask)
        zero = zero_element(self.builder, self.input.shape.element_type)
        element = masked_element(self.lowering, self.input, tuple(index), condition, zero)
        return self.widened(self.input, element)

    def _places(
        self, positions: Sequence[Affine], offsets: Sequence[Affine], feature: Affine
    ) -> tuple[list[Affine], Value | None]:
        """Where the input lies under the window, and whether there is any."""
        builder, lowering = self.builder, self.lowering
        places: list[Affine] = []
        condition: Value | None = None
        for d, w in enumerate(self.attrs.window.dimensions):
            at = positions[d] * w.stride + offsets[d] * w.window_dilation - w.padding_low
            place, holes = undilated(builder, at, w.base_dilation)
            places.append(place)
            limits = [(place, self.input_sizes[d])]
            if self.features_in_lanes and len(self.inner_names) > 1 and d == len(self.input_sizes) - 1:
                inputs = self.sizes["i"]  # the same condition, of a position that goes on evenly through features
                limits = [(place * inputs + feature, self.input_sizes[d] * inputs)]
            if self.phases[d] > 1:
                limits += [(offsets[d], w.size), (positions[d], self.result_sizes[d])]
            for position, size in limits:
                condition = both(builder, condition, lowering.inside((position,), [(0, size)]))
            condition = both(builder, condition, holes)
        return places, condition

    def _position(self, at: Coordinates, d: int) -> Affine:
        """Of the window, in the result."""
        return at[f"p{d}"] * self.phases[d] + at[f"r{d}"]

    def _offset(self, at: Coordinates, d: int) -> Affine:
        """In the window: of a base area with holes, the offsets that meet elements at positions of this phase."""
        phases = self.phases[d]
        if phases == 1:
            return at[f"k{d}"]
        low = self.attrs.window.dimensions[d].padding_low % phases
        return at[f"k{d}"] * phases + self.builder.remainder(at[f"r{d}"] * -1 + (low + phases), phases)

    def _kernel_element(self, at: Coordinates, mask: Value | None) -> Element:
        n = self.numbers
        index: list[Affine] = [Affine()] * (len(self.input_sizes) + 2)
        index[n.kernel_input_feature_dimension] = at["i"]
        index[n.kernel_output_feature_dimension] = at["g"] * self.sizes["f"] + at["f"]
        for number, (d, w) in enumerate(zip(n.kernel_spatial_dimensions, self.attrs.window.dimensions, strict=True)):
            offset = self._offset(at, number)
            if w.size % self.phases[number]:
                mask = both(self.builder, mask, self.lowering.inside((offset,), [(0, w.size)]))
            index[d] = offset * -1 + (w.size - 1) if w.window_reversal else offset
        return self.factor(self.kernel, tuple(index), mask)

    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        at = self._coordinates((self.batch_names, batch), (self.row_names, row), (self.column_names, column))
        n = self.numbers
        index: list[Affine] = [Affine()] * (len(self.input_sizes) + 2)
        index[n.output_batch_dimension] = at["b"]
        index[n.output_feature_dimension] = at["g"] * self.sizes["f"] + at["f"]
        for number, d in enumerate(n.output_spatial_dimensions):
            index[d] = self._position(at, number)
        return tuple(index)

    def exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        index = self.index(batch, row, column)
        condition: Value | None = None
        for d, phases in zip(self.numbers.output_spatial_dimensions, self.phases, strict=True):
            size = self.root.shape.dimensions[d]
            if size % phases:
                condition = both(self.builder, condition, self.lowering.inside((index[d],), [(0, size)]))
        return condition


def _phases(window: WindowDimension) -> int:
    """How many kinds of positions there are, that meet elements of a base area with holes at other offsets."""
    plain = window.stride == 1 and window.window_dilation == 1
    return window.base_dilation if plain else 1


def _ordered(first: str, first_at: int, second: str, second_at: int, kind: str, rest: Sequence[int]) -> list[str]:
    """Names of dimensions in their order in memory."""
    places = {first_at: first, second_at: second} | {d: f"{kind}{number}" for number, d in enumerate(rest)}
    return [places[d] for d in sorted(places)]
