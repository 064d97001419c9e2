"""Chooses the register tile of a convolution: how many positions and vectors of features are added up at once.

Does not depend on the loops around a tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlapy.analysis.cost.reference_machine import LATENCY_CYCLES, OPERATION_CYCLES
from xlapy.base.element_types import S32, PrimitiveType
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.lower.contraction import sum_type
from xlapy.lower.element_types import register_type


@dataclass(frozen=True, slots=True)
class TileShape:
    """A register tile: `positions` along a row times `vectors` vectors of `lanes` features."""

    positions: int
    vectors: int
    lanes: int

    @property
    def features(self) -> int:
        return self.vectors * self.lanes


def choose_tile(
    registers: int,
    widest: int,
    positions: int,
    features: int,
    most_positions: int | None = None,
    *,
    more_rows: int = 0,
) -> TileShape:
    """Chooses the tile with the least time for a row, counted in cycles of the reference machine.

    The sums, the vectors of a term and one position's number fit into the registers, beside `more_rows` rows of sums
    that are no positions. A tile has at most `most_positions` positions, on which its number of vectors does not
    depend.
    """
    lanes = min(widest, 1 << (features - 1).bit_length())
    vectors = -(-features // lanes)

    def cycles(tile: TileShape) -> float:
        products = (tile.positions + more_rows) * tile.vectors
        loads = tile.positions + tile.vectors
        term = max(products * OPERATION_CYCLES, loads * OPERATION_CYCLES, LATENCY_CYCLES) + _LOOP_OVERHEAD
        return -(-positions // tile.positions) * -(-vectors // tile.vectors) * term

    candidates = [
        TileShape(p, v, lanes)
        for v in range(1, min(vectors, _MAX_TILE_VECTORS) + 1)
        for p in range(1, min(positions, (registers - 1 - v) // v - more_rows) + 1)
    ]
    fastest = min(candidates, key=lambda tile: (cycles(tile), -tile.vectors))
    if most_positions is None or fastest.positions <= most_positions:
        return fastest
    as_wide = [c for c in candidates if c.vectors == fastest.vectors and c.positions <= most_positions]
    return min(as_wide, key=cycles)


_LOOP_OVERHEAD = 0.5
"""Cycles of loop control for each term."""

_MAX_TILE_VECTORS = 4


def convolution_type(root: Instruction) -> PrimitiveType:
    """The type of the sums of a convolution.

    Sums of which only the low 8 bits remain are S32: they wrap as the result does, and dot instructions add to S32.
    """
    result = root.shape.element_type
    found = sum_type([o.shape.element_type for o in root.operands], result)
    return S32 if found is result and found.is_integral and found.bits <= 8 else found


def preferred_tile(target: Target, geometry: ConvolutionGeometry) -> TileShape:
    """The tile with the least time for a row of the phase with the fewest positions.

    Only its positions depend on the caches. Its features decide the blocks of input features, and so the order of
    additions.
    """
    return _tile(target, geometry, target.lines_in_l1(_position_bytes(geometry)))


def widest_tile(target: Target, geometry: ConvolutionGeometry) -> TileShape:
    """The tile with the least time on a machine whose caches hold all that it reads."""
    return _tile(target, geometry, None)


def _tile(target: Target, geometry: ConvolutionGeometry, most_positions: int | None) -> TileShape:
    last = geometry.dimensions[-1]
    lanes = max(1, target.vector_bytes // register_type(convolution_type(geometry.root)).byte_size)
    positions = last.positions(last.phases - 1)
    return choose_tile(target.vector_registers, lanes, positions, geometry.outputs, most_positions)


def _position_bytes(geometry: ConvolutionGeometry) -> int:
    """The distance in memory between the input of neighboring positions.

    A tile that reads more cache lines at such distances than the L1 cache holds loads each of them for every element.
    """
    dimension = geometry.numbers.input_spatial_dimensions[-1]
    shape = geometry.input.shape
    elements = math.prod(shape.dimensions[dimension + 1 :]) * geometry.dimensions[-1].stride
    return elements * shape.element_type.byte_size
