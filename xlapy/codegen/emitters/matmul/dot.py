"""The strategies of dots, and when each applies.

| form | vectors run along | used for |
|---|---|---|
| direct | columns, loaded from the operand | an operand that tiles load from the cache, columns contiguous or few |
| skinny GEMM | columns, loaded from the operand, a few terms at a time | few rows: the operand is read once |
| inner products | terms | matrix times vector; few rows or columns of operands that are contiguous along the terms |
| skinny inner products | terms | few rows, contiguous along the terms: the operand is read once |
| packed GEMM | columns, packed block by block | everything larger |
| tile GEMM | columns, packed block by block | the same for narrow types, with tile instructions |

The cheapest one by `cost` is chosen.

A block of the result is a task. The order of its additions follows from the shapes alone (`loops.reduction_order`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.emitters.matmul.cost import MatmulCost
from xlapy.codegen.emitters.matmul.dot_problem import DotProblem
from xlapy.codegen.emitters.matmul.gemv import skinny_gemm_kernel
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, choose_micro_tile
from xlapy.codegen.emitters.matmul.packed_gemm import (
    MAX_TILE_SUMS,
    PackedGemmParameters,
    check_packed_gemm,
    packed_gemm_kernel,
    packed_gemm_parameters,
)
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.skinny_inner_products import (
    SkinnyInnerProductParameters,
    check_skinny_inner_products,
    skinny_inner_product_kernel,
    skinny_inner_product_parameters,
)
from xlapy.codegen.emitters.matmul.skinny_sizes import (
    SkinnyGemmParameters,
    check_skinny_gemm,
    skinny_gemm_parameters,
)
from xlapy.codegen.emitters.matmul.term_groups import (
    GroupedProblem,
    grouped_problem,
    has_tile_instruction,
    tiled_problem,
)
from xlapy.codegen.emitters.matmul.tile_gemm import (
    TileGemmParameters,
    check_tile_gemm,
    tile_gemm_kernel,
    tile_gemm_parameters,
)
from xlapy.codegen.emitters.matmul.unpacked import (
    INNER_PRODUCT_TILE_SIDE,
    DirectGemm,
    InnerProductParameters,
    InnerProducts,
)
from xlapy.codegen.epilogue import contraction_of
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region
from xlapy.loops import Kernel
from xlapy.loops.dot_instructions import TILE_SIDE
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower.element_types import register_type

MAX_SKINNY_ROWS = 128
"""The largest number of rows of a skinny GEMM and of skinny inner products, which have sums of all rows in scratch
memory."""

MIN_VECTORS_OF_TERMS = 16
"""The smallest number of vectors of terms of skinny inner products. With fewer, the sums across lanes are a large part
of the time."""

MIN_VECTORS_OF_SINGLE_SUM = 64
"""The smallest number of vectors of terms for which inner products of one row compute one sum at a time, which reads
the right operand in the order of memory. 1 x 4096 times the transpose of 4096 x 4096 in s8 takes 0.65 of the time with
one sum instead of four, 1 x 2048 times that of 2048 x 2048 in f32 0.82 of it, 1 x 1024 times that of 1024 x 1024 as
long (benchmarks/products.py)."""

MIN_PACKED_PRODUCTS = 1 << 12
"""The smallest number of products (rows x columns x terms) of a packed GEMM. Below it, packing costs more than
it saves."""

MIN_PRODUCTS = 8
"""The smallest number of products of a dot with a kernel of its own. Below it, the loop emitter is as fast."""


@dataclass(frozen=True, slots=True)
class DotForm:
    """What decides between the strategies of a dot."""

    problem: MatmulProblem
    """The dot, with its terms in groups if a dot instruction multiplies them."""
    cost: MatmulCost
    products: int
    """The products of single terms."""
    has_contiguous_columns: bool
    """Whether neighboring columns of the right operand are neighbors in memory, or the same, and numbers are real."""
    has_contiguous_terms: bool
    """Whether both operands are contiguous along the terms, numbers are real and the terms fill a vector."""


def dot_form(region: Region) -> DotForm | None:
    """The form of the dot of a region; None if there is none with terms, or what follows it is no epilogue."""
    contraction = contraction_of(region)
    if contraction is None or contraction.op is not opcodes.DOT:
        return None
    plain = DotProblem(region)
    if not plain.products:
        return None
    dot = grouped_problem(plain)
    left, right = dot.left_strides(), dot.right_strides()
    columns, terms = right
    _, left_terms = left
    is_real = not dot.type.is_complex
    return DotForm(
        dot,
        MatmulCost(dot, left, right),
        plain.products,
        is_real and columns is not None and columns < 2,
        is_real and terms == 1 and left_terms == 1 and dot.terms >= dot.lanes,
    )


def _problem(region: Region) -> MatmulProblem:
    form = region.derived(dot_form)
    assert form is not None
    return form.problem


_NO_DOT = "it is not a dot with terms and an epilogue"


def _few_products(form: DotForm) -> Rejection | None:
    """The rejection of a dot that is too small for a strategy of its own; None if it is not."""
    if form.products < MIN_PRODUCTS:
        return Rejection(f"{form.products} products are fewer than {MIN_PRODUCTS}", is_possible=True)
    return None


class PackedGemmStrategy(Strategy[PackedGemmParameters]):
    """Packs blocks of both operands."""

    name = "packed-gemm"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        if form.problem.products < MIN_PACKED_PRODUCTS:
            reason = f"{form.problem.products} products are fewer than {MIN_PACKED_PRODUCTS}"
            return Rejection(reason, is_possible=True)
        return Candidate(form.cost.packed())

    def parameters(self, region: Region) -> PackedGemmParameters:
        return packed_gemm_parameters(_problem(region))

    def check(self, region: Region, parameters: PackedGemmParameters) -> None:
        check_packed_gemm(_problem(region), parameters)

    def emit(self, region: Region, parameters: PackedGemmParameters) -> list[Kernel]:
        return [packed_gemm_kernel(_problem(region), parameters)]


class TileGemmStrategy(Strategy[TileGemmParameters]):
    """Packs blocks of both operands, and multiplies them by tile instructions."""

    name = "tile-gemm"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        tiled = region.derived(_tiled_dot)
        if tiled is None:
            return Rejection("the processor has no tile instruction for its operands")
        if tiled.columns < TILE_SIDE:
            return Rejection(f"{tiled.columns} columns are fewer than {TILE_SIDE}")
        return Candidate(MatmulCost(tiled, tiled.left_strides(), tiled.right_strides()).tiled())

    def parameters(self, region: Region) -> TileGemmParameters:
        return tile_gemm_parameters(_tiled(region))

    def check(self, region: Region, parameters: TileGemmParameters) -> None:
        check_tile_gemm(_tiled(region), parameters)

    def emit(self, region: Region, parameters: TileGemmParameters) -> list[Kernel]:
        return [tile_gemm_kernel(_tiled(region), parameters)]


def _tiled_dot(region: Region) -> GroupedProblem | None:
    """The dot of a region, with its terms in groups for tile instructions; None if there are none for it."""
    contraction = contraction_of(region)
    if contraction is None or not has_tile_instruction(region.target, contraction):
        return None
    return tiled_problem(DotProblem(region))


def _tiled(region: Region) -> GroupedProblem:
    found = region.derived(_tiled_dot)
    assert found is not None
    return found


class SkinnyGemmStrategy(Strategy[SkinnyGemmParameters]):
    """Reads the right operand once, for all of a few rows."""

    name = "skinny-gemm"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        if not form.has_contiguous_columns:
            return Rejection("the columns of its right operand are not contiguous real numbers")
        if form.problem.rows > MAX_SKINNY_ROWS:
            return Rejection(f"{form.problem.rows} rows are more than {MAX_SKINNY_ROWS}", is_possible=True)
        return _few_products(form) or Candidate(form.cost.skinny())

    def parameters(self, region: Region) -> SkinnyGemmParameters:
        return skinny_gemm_parameters(_problem(region))

    def check(self, region: Region, parameters: SkinnyGemmParameters) -> None:
        check_skinny_gemm(_problem(region), parameters)

    def emit(self, region: Region, parameters: SkinnyGemmParameters) -> list[Kernel]:
        return [skinny_gemm_kernel(_problem(region), parameters)]


# -- direct


@dataclass(frozen=True, slots=True)
class DirectGemmParameters:
    """The register tile of a direct GEMM."""

    tile_rows: int = parameter(1, 32)
    """The rows of a tile."""
    tile_vectors: int = parameter(1, 16)
    """The vectors of columns of a tile."""


class DirectGemmStrategy(Strategy[DirectGemmParameters]):
    """Loads both operands where they lie."""

    name = "direct-gemm"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        parameters = self.parameters(region)
        return _few_products(form) or Candidate(form.cost.direct(_direct_tile(form.problem, parameters)))

    def parameters(self, region: Region) -> DirectGemmParameters:
        dot = _problem(region)
        tile = choose_micro_tile(region.target, dot.builder, dot.type, dot.rows, dot.columns)
        return DirectGemmParameters(tile.rows, tile.vectors)

    def check(self, region: Region, parameters: DirectGemmParameters) -> None:
        sums = parameters.tile_rows * parameters.tile_vectors
        if sums > MAX_TILE_SUMS:
            raise ImpossibleParameterError("tile_rows", f"a tile of {sums} vectors is larger than {MAX_TILE_SUMS}")

    def emit(self, region: Region, parameters: DirectGemmParameters) -> list[Kernel]:
        dot = _problem(region)
        return [DirectGemm(dot, _direct_tile(dot, parameters)).kernel()]


def _direct_tile(dot: MatmulProblem, parameters: DirectGemmParameters) -> Tile:
    lanes = min(dot.lanes, 1 << (dot.columns - 1).bit_length())
    return Tile(parameters.tile_rows, parameters.tile_vectors, lanes)


# -- inner products


class InnerProductStrategy(Strategy[InnerProductParameters]):
    """Runs in vectors along the terms."""

    name = "inner-products"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        if not form.has_contiguous_terms:
            return Rejection("its operands are not contiguous along real terms that fill a vector")
        tile = self.parameters(region)
        return _few_products(form) or Candidate(form.cost.inner_products(tile.tile_rows, tile.tile_columns))

    def parameters(self, region: Region) -> InnerProductParameters:
        dot = _problem(region)
        if dot.rows == 1 and dot.terms >= MIN_VECTORS_OF_SINGLE_SUM * dot.lanes:
            return InnerProductParameters(1, 1)
        return InnerProductParameters(
            *(balanced_size(size, INNER_PRODUCT_TILE_SIDE) for size in (dot.rows, dot.columns))
        )

    def emit(self, region: Region, parameters: InnerProductParameters) -> list[Kernel]:
        return [InnerProducts(_problem(region), parameters).kernel()]


def _reason_against_skinny_inner_products(problem: MatmulProblem) -> str:
    """Why skinny inner products cannot compute a dot with contiguous terms; "" if they can."""
    size = register_type(problem.type).byte_size
    if problem.outer > 1 or size not in (4, 8) or problem.lanes * size != problem.region.target.vector_bytes:
        return "its terms are not one loop over numbers of 4 or 8 bytes"
    if problem.rows > MAX_SKINNY_ROWS:
        return f"{problem.rows} rows are more than {MAX_SKINNY_ROWS}"
    if problem.terms < MIN_VECTORS_OF_TERMS * problem.lanes:
        return f"{problem.terms} terms are fewer than {MIN_VECTORS_OF_TERMS} vectors of {problem.lanes}"
    return ""


class SkinnyInnerProductStrategy(Strategy[SkinnyInnerProductParameters]):
    """Runs in vectors along the terms, and reads the right operand once, for all of a few rows."""

    name = "skinny-inner-products"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        if not form.has_contiguous_terms:
            return Rejection("its operands are not contiguous along real terms that fill a vector")
        reason = _reason_against_skinny_inner_products(form.problem)
        if reason:
            return Rejection(reason)
        if form.problem.rows == 1:
            return Rejection("inner products read the operand of one row in order", is_possible=True)
        return Candidate(form.cost.skinny_inner_products())

    def parameters(self, region: Region) -> SkinnyInnerProductParameters:
        return skinny_inner_product_parameters(_problem(region))

    def check(self, region: Region, parameters: SkinnyInnerProductParameters) -> None:
        check_skinny_inner_products(_problem(region), parameters)

    def emit(self, region: Region, parameters: SkinnyInnerProductParameters) -> list[Kernel]:
        return [skinny_inner_product_kernel(_problem(region), parameters)]
