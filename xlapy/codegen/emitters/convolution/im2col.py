"""Emits convolutions as matrix multiplications (im2col); the micro-kernel packs the input under the window on the fly.

The last dimension of the result runs in vectors:

- features: rows are positions of the result, terms are window offsets and input features, columns are the output
  features of a group. The input under the window is packed as rows, the filter as columns;
- positions along the last dimension: rows are output features, columns are positions.

Positions that are not rows, and groups, form the batch of the matmul problem.

An infinite filter element contributes nothing where it meets padding, but its product with a packed zero is NaN. So a
block whose part of the filter is not finite is computed element by element, as the operation is defined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xlapy.codegen.emitters.matmul.finite import all_finite
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, PositionArithmetic, Value
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.movement import conjunction, masked_element, undilated_position
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.convolution import ConvolutionAttributes

MIN_PRODUCTS = 1 << 12
"""The smallest number of products (rows x columns x terms) of a convolution that is a matrix multiplication. Below it,
the loop emitter is as fast."""

MIN_COLUMNS = 4
"""The smallest number of columns of a convolution that is a matrix multiplication."""

MIN_VECTOR_FEATURES = 16
"""The smallest number of contiguous input features that get a loop of their own, because they fill a vector."""

Coordinates = Mapping[str, Affine]


class ConvolutionProblem(MatmulProblem):
    """The only convolution of a region.

    Coordinates are named: g group, b batch, f output feature of a group, i input feature of a group, p0 p1 ...
    positions, k0 k1 ... window offsets. With base dilation, a position is p * phases + r, and k counts the offsets that
    meet elements at positions of phase r.
    """

    def __init__(self, region: Region) -> None:
        super().__init__(region)
        attrs: ConvolutionAttributes = self.root.attributes_as(ConvolutionAttributes)
        self.attrs, self.numbers = attrs, attrs.dim_labels
        self.input, self.filter = self.root.operands
        lhs, rhs, result = self.input.shape.dimensions, self.filter.shape.dimensions, self.root.shape.dimensions
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
        last = self._minor_most(self._result_order())
        positions = [name for name in self._result_order() if name not in ("f", last)]
        self.features_in_lanes = last == "f"
        if self.features_in_lanes:
            self.column_names = ["f"]
            contiguous = self._minor_most(self._input_order())
            rows = [contiguous] if contiguous in positions else positions
            offsets = [name for name in self.sizes if name[0] == "k"]
            joined = 1 if self._has_contiguous_runs() else 0
            self.outer_names, self.inner_names = (
                offsets[: len(offsets) - joined],
                [*offsets[len(offsets) - joined :], "i"],
            )
        else:
            self.column_names, rows = [last], ["f"]
            self.outer_names, self.inner_names = [], [name for name in self._filter_order() if name != "f"]
        self.row_names = rows
        phases = [name for name in self.sizes if name[0] == "r"]
        self.batch_names = ["g", *phases, *(name for name in positions if name not in rows)]
        self.batches, self.rows = self._count(self.batch_names), self._count(self.row_names)
        self.columns = self._count(self.column_names)
        self.outer, self.inner = self._count(self.outer_names), self._count(self.inner_names)

    def _has_contiguous_runs(self) -> bool:
        """Whether the input under the window is contiguous along the last dimension and features, and worth one loop.

        One loop is not worth it if the input features of the filter are contiguous by themselves.
        """
        last = len(self.input_sizes) - 1
        plain = all(
            w.base_dilation == w.window_dilation == 1 and not w.window_reversal
            for w in self.attrs.window.dimensions[last:]
        )
        if last < 0 or not plain or self.sizes["g"] > 1 or self._input_order()[-2:] != [f"p{last}", "i"]:
            return False
        order = self._filter_order()
        return order[-1] != "i" or order[-2] == f"k{last}" or self.sizes["i"] < MIN_VECTOR_FEATURES

    def _minor_most(self, names: Sequence[str]) -> str:
        """The minor-most coordinate that has more than one value."""
        return next((name for name in reversed(names) if self.sizes[name] > 1), names[-1])

    def _result_order(self) -> list[str]:
        n = self.numbers
        return _ordered(
            "b", n.output_batch_dimension, "f", n.output_feature_dimension, "p", n.output_spatial_dimensions
        )

    def _input_order(self) -> list[str]:
        n = self.numbers
        return _ordered("b", n.input_batch_dimension, "i", n.input_feature_dimension, "p", n.input_spatial_dimensions)

    def _filter_order(self) -> list[str]:
        n = self.numbers
        features = "i", n.kernel_input_feature_dimension, "f", n.kernel_output_feature_dimension
        return _ordered(*features, "k", n.kernel_spatial_dimensions)

    def _count(self, names: Sequence[str]) -> int:
        return math.prod(self.sizes[name] for name in names)

    def _coordinates(self, arithmetic: PositionArithmetic, *groups: tuple[Sequence[str], Affine]) -> dict[str, Affine]:
        found: dict[str, Affine] = {}
        for names, position in groups:
            components = delinear(arithmetic, position, [self.sizes[name] for name in names])
            found.update(zip(names, components, strict=True))
        return found

    def _terms(self, term: Affine) -> tuple[Sequence[str], Affine]:
        return [*self.outer_names, *self.inner_names], term

    # -- infinite elements of the filter

    def fast_path_condition(self, batch: Affine, rows: tuple[Affine, int], columns: tuple[Affine, int]) -> Value | None:
        """Whether all elements of the filter that the block meets are finite, or there is nothing else to meet."""
        window = self.attrs.window.dimensions
        if self.type.is_integral or not any(w.padding_low or w.padding_high or w.base_dilation > 1 for w in window):
            return None
        (first, size), total = (columns, self.columns) if self.features_in_lanes else (rows, self.rows)

        def element(feature: Affine, term: Affine) -> Element:
            mask = in_bounds(self.lowering, first + feature, total, size)
            if self.features_in_lanes:
                return self.right_element(batch, term, first + feature, mask)
            return self.left_element(batch, first + feature, term, mask)

        if self._minor_most(self._filter_order()) == "f":
            return all_finite(self.builder, self.type, lambda term, feature: element(feature, term), (self.terms, size))

        def in_run(line: Affine, lane: Affine) -> Element:
            feature, outer = delinear(self.builder, line, (size, self.outer))
            return element(feature, outer * self.inner + lane)

        return all_finite(self.builder, self.type, in_run, (size * self.outer, self.inner))

    # -- elements

    def left_index(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        at = self._left_coordinates(arithmetic, batch, row, term)
        return self._input_factor(arithmetic, at) if self.features_in_lanes else self._filter_factor(arithmetic, at)

    def right_index(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> tuple[Instruction, Index]:
        at = self._right_coordinates(arithmetic, batch, term, column)
        return self._filter_factor(arithmetic, at) if self.features_in_lanes else self._input_factor(arithmetic, at)

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        at = self._left_coordinates(self.builder, batch, row, term)
        return self._input_element(at, mask) if self.features_in_lanes else self._filter_element(at, mask)

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        at = self._right_coordinates(self.builder, batch, term, column)
        return self._filter_element(at, mask) if self.features_in_lanes else self._input_element(at, mask)

    def _left_coordinates(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> dict[str, Affine]:
        return self._coordinates(arithmetic, (self.batch_names, batch), (self.row_names, row), self._terms(term))

    def _right_coordinates(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> dict[str, Affine]:
        return self._coordinates(arithmetic, (self.batch_names, batch), (self.column_names, column), self._terms(term))

    def _input_element(self, at: Coordinates, mask: Value | None) -> Element:
        """The input element under the window; zero for padding and holes."""
        positions, holes = self._input_positions(self.builder, at)
        index = self._index_in_input(at, positions)
        condition = conjunction(self.builder, self._input_condition(at, positions, holes), mask)
        zero = zero_element(self.builder, self.input.shape.element_type)
        element = masked_element(self.lowering, self.input, index, condition, zero)
        return self.converted_to_factor(self.input, element)

    def _input_factor(self, arithmetic: PositionArithmetic, at: Coordinates) -> tuple[Instruction, Index]:
        positions, _ = self._input_positions(arithmetic, at)
        return self.input, self._index_in_input(at, positions)

    def _index_in_input(self, at: Coordinates, positions: Sequence[Affine]) -> Index:
        n, attrs = self.numbers, self.attrs
        index: list[Affine] = [Affine()] * (len(self.input_sizes) + 2)
        index[n.input_batch_dimension], index[n.input_feature_dimension] = at["b"], at["i"]
        if attrs.batch_group_count > 1:
            index[n.input_batch_dimension] += at["g"] * self.sizes["b"]
        else:
            index[n.input_feature_dimension] += at["g"] * self.sizes["i"]
        for d, input_position in zip(n.input_spatial_dimensions, positions, strict=True):
            index[d] = input_position
        return tuple(index)

    def _input_positions(self, arithmetic: PositionArithmetic, at: Coordinates) -> tuple[list[Affine], list[Affine]]:
        """The spatial index of the input element under the window, and positions that are zero where there is one."""
        found: list[Affine] = []
        holes: list[Affine] = []
        for d, w in enumerate(self.attrs.window.dimensions):
            position, offset = self._position(at, d), self._offset(arithmetic, at, d)
            on_base = position * w.stride + offset * w.window_dilation - w.padding_low
            input_position, rest = undilated_position(arithmetic, on_base, w.base_dilation)
            found.append(input_position)
            holes.append(rest)
        return found, holes

    def _input_condition(self, at: Coordinates, positions: Sequence[Affine], holes: Sequence[Affine]) -> Value | None:
        """The condition that there is an input element under the window; None if there always is."""
        builder, lowering = self.builder, self.lowering
        condition: Value | None = None
        for d, w in enumerate(self.attrs.window.dimensions):
            limits = [(positions[d], self.input_sizes[d])]
            if self.features_in_lanes and len(self.inner_names) > 1 and d == len(self.input_sizes) - 1:
                inputs = self.sizes["i"]  # the same condition, on a position that is contiguous through features
                limits = [(positions[d] * inputs + at["i"], self.input_sizes[d] * inputs)]
            if self.phases[d] > 1:
                limits += [
                    (self._offset(builder, at, d), w.size),
                    (self._position(at, d), self.result_sizes[d]),
                ]
            for position, size in limits:
                condition = conjunction(builder, condition, lowering.in_bounds((position,), [(0, size)]))
            if w.base_dilation > 1:
                is_element = builder.compare("eq", builder.value_of(holes[d]), builder.constant(I64, 0))
                condition = conjunction(builder, condition, is_element)
        return condition

    def _position(self, at: Coordinates, d: int) -> Affine:
        """The position of the window in the result, along one spatial dimension."""
        return at[f"p{d}"] * self.phases[d] + at[f"r{d}"]

    def _offset(self, arithmetic: PositionArithmetic, at: Coordinates, d: int) -> Affine:
        """The offset in the window; with base dilation, only offsets that meet elements at positions of this phase."""
        phases = self.phases[d]
        if phases == 1:
            return at[f"k{d}"]
        low = self.attrs.window.dimensions[d].padding_low % phases
        return at[f"k{d}"] * phases + arithmetic.remainder(at[f"r{d}"] * -1 + (low + phases), phases)

    def _filter_element(self, at: Coordinates, mask: Value | None) -> Element:
        for number, w in enumerate(self.attrs.window.dimensions):
            if w.size % self.phases[number]:
                offset = self._offset(self.builder, at, number)
                mask = conjunction(self.builder, mask, self.lowering.in_bounds((offset,), [(0, w.size)]))
        return self.load_factor(*self._filter_factor(self.builder, at), mask)

    def _filter_factor(self, arithmetic: PositionArithmetic, at: Coordinates) -> tuple[Instruction, Index]:
        n = self.numbers
        index: list[Affine] = [Affine()] * (len(self.input_sizes) + 2)
        index[n.kernel_input_feature_dimension] = at["i"]
        index[n.kernel_output_feature_dimension] = at["g"] * self.sizes["f"] + at["f"]
        for number, (d, w) in enumerate(zip(n.kernel_spatial_dimensions, self.attrs.window.dimensions, strict=True)):
            offset = self._offset(arithmetic, at, number)
            index[d] = offset * -1 + (w.size - 1) if w.window_reversal else offset
        return self.filter, tuple(index)

    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        at = self._coordinates(
            self.builder, (self.batch_names, batch), (self.row_names, row), (self.column_names, column)
        )
        n = self.numbers
        index: list[Affine] = [Affine()] * (len(self.input_sizes) + 2)
        index[n.output_batch_dimension] = at["b"]
        index[n.output_feature_dimension] = at["g"] * self.sizes["f"] + at["f"]
        for number, d in enumerate(n.output_spatial_dimensions):
            index[d] = self._position(at, number)
        return tuple(index)

    def element_exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        index = self.index(batch, row, column)
        condition: Value | None = None
        for d, phases in zip(self.numbers.output_spatial_dimensions, self.phases, strict=True):
            size = self.root.shape.dimensions[d]
            if size % phases:
                condition = conjunction(self.builder, condition, self.lowering.in_bounds((index[d],), [(0, size)]))
        return condition


def _phases(window: WindowDimension) -> int:
    """How many phases the positions have: in a dilated base area, each phase meets elements at other offsets."""
    plain = window.stride == 1 and window.window_dilation == 1
    return window.base_dilation if plain else 1


def _ordered(first: str, first_at: int, second: str, second_at: int, kind: str, rest: Sequence[int]) -> list[str]:
    """The names of dimensions, the major-most first."""
    names = {first_at: first, second_at: second} | {d: f"{kind}{number}" for number, d in enumerate(rest)}
    return [names[d] for d in sorted(names)]
