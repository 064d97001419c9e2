"""The strategies of convolutions, and when each applies. Does not depend on their loops."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from xlapy import opcodes
from xlapy.base.element_types import F32
from xlapy.codegen.emitters.convolution import (
    depthwise_gradient,
    direct_plan,
    grouped,
    im2col,
    kernel_gradient,
    winograd_blocks,
)
from xlapy.codegen.emitters.convolution.direct import direct_convolution
from xlapy.codegen.emitters.convolution.factors import group_size
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry, plain_convolution
from xlapy.codegen.emitters.convolution.grouped import GroupedConvolution
from xlapy.codegen.emitters.convolution.im2col import ConvolutionProblem
from xlapy.codegen.emitters.convolution.register_tiles import (
    TileShape,
    convolution_type,
    preferred_tile,
    widest_tile,
)
from xlapy.codegen.emitters.convolution.row_tiles import row_tiles
from xlapy.codegen.emitters.convolution.rows import MAX_RUNS
from xlapy.codegen.emitters.convolution.winograd import WinogradConvolution, filter_kernel
from xlapy.codegen.emitters.convolution.winograd_blocks import WinogradBlocks
from xlapy.codegen.emitters.matmul.cost import MatmulCost
from xlapy.codegen.emitters.matmul.packed_gemm import (
    MAX_TILE_SUMS,
    PackedGemmParameters,
    check_packed_gemm,
    packed_gemm_kernel,
    packed_gemm_parameters,
)
from xlapy.codegen.epilogue import contraction_of
from xlapy.codegen.kernel_cost import operation_cycles
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    NoParameters,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region
from xlapy.loops import Kernel
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.lower.element_types import register_type
from xlapy.opcodes.convolution import ConvolutionAttributes, SparsityConfig


@dataclass(frozen=True, slots=True)
class DirectConvolutionParameters:
    """The register tile of a direct convolution."""

    tile_positions: int = parameter(1, 32)
    """The neighboring positions of a tile along the last spatial dimension."""
    tile_vectors: int = parameter(1, 16)
    """The vectors of output features of a tile."""


class DirectConvolutionStrategy(Strategy[DirectConvolutionParameters]):
    """Reads the input where it lies; output features run in lanes."""

    name = "direct-convolution"
    required_opcodes = frozenset({opcodes.CONVOLUTION})

    def candidate(self, region: Region) -> Candidate | Rejection:
        geometry = region.derived(_geometry)
        if geometry is None:
            return Rejection(_NOT_PLAIN)
        n, rank = geometry.numbers, geometry.root.shape.rank
        if not n.output_feature_dimension == n.kernel_output_feature_dimension == rank - 1:
            return Rejection("its output features are not the last dimension of the result and of the kernel")
        reason = _reason_against_type_and_phases(region, geometry)
        if reason:
            return Rejection(reason)
        tile = widest_tile(region.target, geometry)  # the choice decides the order of additions, the caches must not
        segments = _segments(geometry, tile.positions)
        most = direct_plan.max_segments(geometry)
        if segments > most:
            return Rejection(f"the tiles of a row have {segments} segments, more than {most}")
        if geometry.products < direct_plan.MIN_PRODUCTS:
            return Rejection(
                f"{geometry.products} products are fewer than {direct_plan.MIN_PRODUCTS}", is_possible=True
            )
        if geometry.outputs < direct_plan.MIN_FEATURES:
            return Rejection(f"{geometry.outputs} features are fewer than {direct_plan.MIN_FEATURES}", is_possible=True)
        return Candidate(operation_cycles(geometry.products / _terms_of_factor(region, geometry), tile.lanes))

    def parameters(self, region: Region) -> DirectConvolutionParameters:
        geometry = _plain_geometry(region)
        tile = preferred_tile(region.target, geometry)
        return DirectConvolutionParameters(tile.positions, tile.vectors)

    def check(self, region: Region, parameters: DirectConvolutionParameters) -> None:
        geometry = _plain_geometry(region)
        _check_positions(geometry, parameters.tile_positions)
        segments = _segments(geometry, parameters.tile_positions)
        if segments > direct_plan.max_segments(geometry):
            raise ImpossibleParameterError("tile_positions", f"the tiles of a row would have {segments} segments")
        tile = _tile(region, geometry, parameters)
        if tile.positions * tile.vectors > MAX_TILE_SUMS:
            sums = tile.positions * tile.vectors
            raise ImpossibleParameterError("tile_vectors", f"a tile of {sums} vectors is larger than {MAX_TILE_SUMS}")
        size = register_type(convolution_type(geometry.root)).byte_size
        window = math.prod(d.window.size for d in geometry.dimensions)
        panel = window * tile.features * size
        if max(panel, direct_plan.PANEL_BYTES) + direct_plan.SUMS_BYTES > MAX_SCRATCH_BYTES:
            raise ImpossibleParameterError("tile_vectors", f"a panel of {panel} bytes exceeds {MAX_SCRATCH_BYTES}")

    def emit(self, region: Region, parameters: DirectConvolutionParameters) -> list[Kernel]:
        geometry = _plain_geometry(region)
        return [direct_convolution(region, geometry, _tile(region, geometry, parameters))]


@dataclass(frozen=True, slots=True)
class WinogradParameters:
    """The sizes of the blocks of a convolution by Winograd's algorithm. No value changes the bits of the result."""

    tile_rows: int = parameter(1, 32)
    """The tiles of 2 x 2 results whose sums are added up in registers at once."""
    tile_vectors: int = parameter(1, 16)
    """The vectors of output features whose sums are added up in registers at once: a panel."""
    block_tiles: int = parameter(1)
    """The tiles of a task."""
    panels_per_task: int = parameter(1)
    """The panels of a task."""


class WinogradStrategy(Strategy[WinogradParameters]):
    """Computes windows of 3 x 3 with 16 instead of 36 products for 2 x 2 results."""

    name = "winograd"
    required_opcodes = frozenset({opcodes.CONVOLUTION})

    def candidate(self, region: Region) -> Candidate | Rejection:
        geometry = region.derived(_geometry)
        if geometry is None:
            return Rejection(_NOT_PLAIN)
        lanes = region.target.lanes(F32.byte_size)
        reason = winograd_blocks.reason_against(geometry, lanes)
        if reason:
            return Rejection(reason)
        cycles = winograd_blocks.estimated_cycles(geometry, lanes)
        share = cycles / operation_cycles(geometry.products, lanes)
        if geometry.inputs < winograd_blocks.MIN_INPUTS:
            return Rejection(
                f"{geometry.inputs} input features are fewer than {winograd_blocks.MIN_INPUTS}", is_possible=True
            )
        filter_bytes = winograd_blocks.transformed_filter_bytes(geometry)
        if filter_bytes > winograd_blocks.MAX_FILTER_BYTES:
            limit = f"more than {winograd_blocks.MAX_FILTER_BYTES}"
            return Rejection(f"its transformed filter takes {filter_bytes} bytes, {limit}", is_possible=True)
        if share > winograd_blocks.MAX_SHARE:
            limit = f"more than {winograd_blocks.MAX_SHARE:.0%}"
            reason = f"it would take {share:.0%} of the time of a direct convolution, {limit}"
            return Rejection(reason, is_possible=True)
        return Candidate(cycles)

    def parameters(self, region: Region) -> WinogradParameters:
        blocks = winograd_blocks.preferred_blocks(region.target, _plain_geometry(region))
        return WinogradParameters(blocks.tile_rows, blocks.tile_vectors, blocks.block_tiles, blocks.panels_per_task)

    def check(self, region: Region, parameters: WinogradParameters) -> None:
        blocks = _winograd_blocks(region, parameters)
        sums = blocks.tile_rows * blocks.tile_vectors
        if sums > MAX_TILE_SUMS:
            raise ImpossibleParameterError("tile_rows", f"a tile of {sums} vectors is larger than {MAX_TILE_SUMS}")
        if blocks.scratch_bytes > MAX_SCRATCH_BYTES:
            reason = f"a block of {blocks.scratch_bytes} bytes exceeds {MAX_SCRATCH_BYTES}"
            raise ImpossibleParameterError("block_tiles", reason)

    def emit(self, region: Region, parameters: WinogradParameters) -> list[Kernel]:
        geometry, blocks = _plain_geometry(region), _winograd_blocks(region, parameters)
        return [filter_kernel(region, geometry, blocks), WinogradConvolution(region, geometry, blocks).kernel()]


def _winograd_blocks(region: Region, parameters: WinogradParameters) -> WinogradBlocks:
    g = _plain_geometry(region)
    grid, lanes = winograd_blocks.tiles_across(g), region.target.lanes(F32.byte_size)
    return WinogradBlocks(g.batch, grid, g.inputs, g.outputs, lanes, **asdict(parameters))


@dataclass(frozen=True, slots=True)
class GroupedConvolutionParameters:
    """The tile of a convolution with groups in lanes."""

    tile_positions: int = parameter(1, 64)
    """The neighboring positions of a tile along the last spatial dimension."""


class GroupedConvolutionStrategy(Strategy[GroupedConvolutionParameters]):
    """Runs groups with few features in the lanes of vectors."""

    name = "grouped-convolution"
    required_opcodes = frozenset({opcodes.CONVOLUTION})

    def candidate(self, region: Region) -> Candidate | Rejection:
        geometry = region.derived(_geometry)
        if geometry is None:
            return Rejection(_NOT_PLAIN)
        if geometry.attrs.feature_group_count == 1:
            return Rejection("it has one group of features")
        features = max(geometry.inputs, geometry.outputs)
        if features > grouped.MAX_FEATURES:
            return Rejection(f"{features} features per group are more than {grouped.MAX_FEATURES}")
        n, last = geometry.numbers, geometry.root.shape.rank - 1
        if any(
            d != last
            for d in (n.input_feature_dimension, n.kernel_output_feature_dimension, n.output_feature_dimension)
        ):
            return Rejection("its features are not the last dimension of the input, the kernel and the result")
        reason = _reason_against_type_and_phases(region, geometry)
        if reason:
            return Rejection(reason)
        kind = register_type(convolution_type(geometry.root))
        size = grouped.packed_size(geometry) * kind.byte_size
        if size > grouped.MAX_PACKED_BYTES:
            return Rejection(f"a packed kernel of {size} bytes is larger than {grouped.MAX_PACKED_BYTES}")
        kinds = _kinds_of_tiles(geometry, grouped.preferred_positions(geometry))
        if kinds > MAX_RUNS:
            return Rejection(f"a row has {kinds} kinds of tiles, more than {MAX_RUNS}")
        return Candidate(operation_cycles(geometry.products, region.target.lanes(kind.byte_size)))

    def parameters(self, region: Region) -> GroupedConvolutionParameters:
        geometry = _plain_geometry(region)
        return GroupedConvolutionParameters(grouped.preferred_positions(geometry))

    def check(self, region: Region, parameters: GroupedConvolutionParameters) -> None:
        geometry = _plain_geometry(region)
        _check_positions(geometry, parameters.tile_positions)
        kinds = _kinds_of_tiles(geometry, parameters.tile_positions)
        if kinds > MAX_RUNS:
            raise ImpossibleParameterError("tile_positions", f"a row would have {kinds} kinds of tiles")
        sums = parameters.tile_positions * geometry.outputs
        if sums > MAX_TILE_SUMS:
            raise ImpossibleParameterError("tile_positions", f"a tile of {sums} sums is larger than {MAX_TILE_SUMS}")

    def emit(self, region: Region, parameters: GroupedConvolutionParameters) -> list[Kernel]:
        geometry = _plain_geometry(region)
        return [GroupedConvolution(region, geometry, parameters.tile_positions).kernel()]


_NOT_PLAIN = "its root is not a dense convolution with elements, spatial dimensions and stride 1 over dilated inputs"


def _reason_against_type_and_phases(region: Region, geometry: ConvolutionGeometry) -> str:
    """Why rows of a convolution cannot be computed in tiles; "" if they can."""
    t, last = convolution_type(geometry.root), geometry.dimensions[-1]
    if t.is_complex or register_type(t).bits < 32:
        return f"it adds up {t.name.lower()} numbers"
    return "" if last.output >= last.phases else "its last dimension has fewer positions than phases"


def _terms_of_factor(region: Region, geometry: ConvolutionGeometry) -> int:
    """The products of a lane that one instruction adds up in a direct convolution, if the input lies in memory."""
    terms = group_size(region.target, geometry.root)
    is_last = geometry.numbers.input_feature_dimension == geometry.root.shape.rank - 1
    return terms if is_last and geometry.inputs % terms == 0 else 1


def _kinds_of_tiles(geometry: ConvolutionGeometry, positions: int) -> int:
    """The runs of tiles of a row, each of which has code of its own."""
    last = geometry.dimensions[-1]
    return sum(len(row_tiles(last, phase, positions, 1).runs) for phase in range(last.phases))


def _segments(geometry: ConvolutionGeometry, positions: int) -> int:
    """The kinds of segments of the tiles of a row."""
    last, chunks = geometry.dimensions[-1], direct_plan.chunks_of_row(geometry)
    tiles = (row_tiles(last, phase, positions, chunks) for phase in range(last.phases))
    return sum(len(each.joined_segments()) for each in tiles)


def _check_positions(geometry: ConvolutionGeometry, positions: int) -> None:
    last = geometry.dimensions[-1]
    most = last.positions(last.phases - 1)
    if positions > most:
        raise ImpossibleParameterError("tile_positions", f"it is {positions}, but a row has {most} positions")


def _geometry(region: Region) -> ConvolutionGeometry | None:
    root = contraction_of(region)
    return None if root is None else plain_convolution(root)


def _plain_geometry(region: Region) -> ConvolutionGeometry:
    """The geometry of a region that a strategy has accepted."""
    geometry = region.derived(_geometry)
    assert geometry is not None, region.name
    return geometry


def _tile(region: Region, geometry: ConvolutionGeometry, parameters: DirectConvolutionParameters) -> TileShape:
    return TileShape(parameters.tile_positions, parameters.tile_vectors, preferred_tile(region.target, geometry).lanes)


class Im2colStrategy(Strategy[PackedGemmParameters]):
    """Packs the input under the window, and multiplies matrices."""

    name = "im2col"
    required_opcodes = frozenset({opcodes.CONVOLUTION})

    def candidate(self, region: Region) -> Candidate | Rejection:
        problem = region.derived(_problem)
        if problem is None:
            return Rejection("it is not a dense convolution with elements and an epilogue")
        if problem.columns < im2col.MIN_COLUMNS:
            return Rejection(f"{problem.columns} columns are fewer than {im2col.MIN_COLUMNS}", is_possible=True)
        if problem.products < im2col.MIN_PRODUCTS:
            return Rejection(f"{problem.products} products are fewer than {im2col.MIN_PRODUCTS}", is_possible=True)
        return Candidate(MatmulCost(problem, problem.left_strides(), problem.right_strides()).packed())

    def parameters(self, region: Region) -> PackedGemmParameters:
        problem = _matmul_problem(region)
        return packed_gemm_parameters(problem)

    def check(self, region: Region, parameters: PackedGemmParameters) -> None:
        problem = _matmul_problem(region)
        check_packed_gemm(problem, parameters)

    def emit(self, region: Region, parameters: PackedGemmParameters) -> list[Kernel]:
        problem = _matmul_problem(region)
        return [packed_gemm_kernel(problem, parameters)]


class KernelGradientStrategy(Strategy[NoParameters]):
    """Adds up the products of a window that is larger than the result, a block of lines at a time."""

    name = "kernel-gradient"
    required_opcodes = frozenset({opcodes.CONVOLUTION})

    def candidate(self, region: Region) -> Candidate | Rejection:
        geometry = region.derived(_geometry)
        if geometry is None:
            return Rejection(_NOT_PLAIN)
        reason = kernel_gradient.reason_against(geometry)
        if reason:
            return Rejection(reason)
        size = register_type(convolution_type(geometry.root)).byte_size
        terms = group_size(region.target, geometry.root)
        products = geometry.products / (terms if geometry.inputs >= terms else 1)
        return Candidate(operation_cycles(products, region.target.lanes(size)))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        geometry = _plain_geometry(region)
        return [kernel_gradient.kernel_gradient_kernel(region, geometry)]


class DepthwiseGradientStrategy(Strategy[NoParameters]):
    """Computes the gradient of a depthwise kernel: one channel per group, and groups in the lanes of vectors."""

    name = "depthwise-gradient"
    required_opcodes = frozenset({opcodes.CONVOLUTION})

    def candidate(self, region: Region) -> Candidate | Rejection:
        geometry = region.derived(_geometry)
        if geometry is None:
            return Rejection(_NOT_PLAIN)
        reason = depthwise_gradient.reason_against(geometry)
        if reason:
            return Rejection(reason)
        size = register_type(convolution_type(geometry.root)).byte_size
        loads = geometry.products / geometry.dimensions[-1].output
        return Candidate(operation_cycles(geometry.products + loads, region.target.lanes(size)))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        geometry = _plain_geometry(region)
        return [depthwise_gradient.depthwise_gradient_kernel(region, geometry)]


def _problem(region: Region) -> ConvolutionProblem | None:
    """The convolution as a matrix multiplication; None if it is sparse or empty, or what follows is no epilogue."""
    root = contraction_of(region)
    if root is None or root.op is not opcodes.CONVOLUTION:
        return None
    if root.attributes_as(ConvolutionAttributes).sparsity_config != SparsityConfig():
        return None
    problem = ConvolutionProblem(region)
    return problem if problem.products * problem.batches else None


def _matmul_problem(region: Region) -> ConvolutionProblem:
    """The problem of a region that a strategy has accepted."""
    problem = region.derived(_problem)
    assert problem is not None, region.name
    return problem
