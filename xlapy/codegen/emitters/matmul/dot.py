"""The strategies of dots, and when each applies.

| form | vectors run along | used for |
|---|---|---|
| direct | columns, loaded from the operand | an operand that fits into the cache, columns contiguous or few |
| skinny GEMM | columns, loaded from the operand, a few terms at a time | few rows, an operand larger than the cache |
| inner products | terms | matrix times vector; few rows or columns of operands that are contiguous along the terms |
| skinny inner products | terms | few rows, an operand larger than the cache, contiguous along the terms |
| packed GEMM | columns, packed block by block | everything larger |

A block of the result is a task. The order of its additions follows from the shapes alone (`loops.reduction_order`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.emitters.matmul.dot_problem import DotProblem
from xlapy.codegen.emitters.matmul.gemv import skinny_gemm_kernel
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, choose_tile
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
from xlapy.codegen.emitters.matmul.term_groups import grouped_problem
from xlapy.codegen.emitters.matmul.unpacked import DirectGemm, InnerProductParameters, InnerProducts
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
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower.element_types import register_type

MAX_CACHED_OPERAND_BYTES = 1 << 17
"""The largest size in bytes of a right operand that stays in the cache, so that every tile loads it without packing."""

MAX_CACHED_SKINNY_BYTES = 1 << 18
"""The same with at most `MAX_SKINNY_ROWS` rows. Tiles of 4 to 64 rows by 256 KiB of weights take 0.77 to 0.93x the time
of a skinny GEMM; with 1 MiB, they take 1.05 to 1.6x (in loops on a Zen 5 processor)."""

MAX_SKINNY_ROWS = 64
"""The largest number of rows for which a right operand larger than the cache is not packed, if its columns are
contiguous. With 96 rows, packing is as fast (benchmarks/products.py)."""

MAX_INNER_PRODUCT_ROWS = 32
"""The largest number of rows or columns for which operands with contiguous terms are not packed."""

MIN_SKINNY_INNER_PRODUCT_ROWS = 8
"""The smallest number of rows for which the blocks of skinny inner products are faster than inner products: 4 x 1024 x
1024 with transposed weights takes as long, 2 x 1024 x 1024 1.25 times as long (benchmarks/products.py)."""

MIN_OFFSET_ROWS = 16
"""The same if the left factors contain an offset, whose products count as those of another row: 8 x 2048 x 2048 in s8
takes 1.1 times as long (benchmarks/products.py)."""

MIN_VECTORS_OF_TERMS = 16
"""The smallest number of vectors of terms of skinny inner products. With fewer, the sums across lanes are a large part
of the time."""

MIN_TILE_SIDE = 2
"""The smallest number of rows and of columns of a small result that is computed in tiles. Below it, a tile would use
each loaded number only once."""

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
    products: int
    """The products of single terms."""
    has_contiguous_columns: bool
    """Whether neighboring columns of the right operand are neighbors in memory, or the same, and numbers are real."""
    has_contiguous_terms: bool
    """Whether both operands are contiguous along the terms, numbers are real and the terms fill a vector."""

    @property
    def loads_columns(self) -> bool:
        """Whether vectors run along columns that are loaded where they lie."""
        return self.has_contiguous_columns and not (self.has_contiguous_terms and self.problem.columns == 1)

    @property
    def right_bytes(self) -> int:
        return self.problem.right_bytes

    @property
    def cached_bytes(self) -> int:
        """The largest size of a right operand that every tile loads where it lies."""
        return MAX_CACHED_SKINNY_BYTES if self.problem.rows <= MAX_SKINNY_ROWS else MAX_CACHED_OPERAND_BYTES

    @property
    def reason_against_skinny_inner_products(self) -> str:
        """Why skinny inner products do not compute a dot with contiguous terms at best; "" if they do."""
        problem = self.problem
        size = register_type(problem.type).byte_size
        if problem.outer > 1 or size not in (4, 8) or problem.lanes * size != problem.region.target.vector_bytes:
            return "its terms are not one loop over numbers of 4 or 8 bytes"
        fewest = MIN_SKINNY_INNER_PRODUCT_ROWS if problem.left_offset() is None else MIN_OFFSET_ROWS
        if not fewest <= problem.rows <= MAX_SKINNY_ROWS:
            return f"{problem.rows} rows are not from {fewest} to {MAX_SKINNY_ROWS}"
        if self.right_bytes <= MAX_CACHED_OPERAND_BYTES:
            return f"a right operand of {self.right_bytes} bytes stays in the cache ({MAX_CACHED_OPERAND_BYTES})"
        if problem.terms < MIN_VECTORS_OF_TERMS * problem.lanes:
            return f"{problem.terms} terms are fewer than {MIN_VECTORS_OF_TERMS} vectors of {problem.lanes}"
        return ""

    @property
    def uses_skinny_inner_products(self) -> bool:
        """Whether skinny inner products compute the dot."""
        is_candidate = self.has_contiguous_terms and not self.loads_columns
        return is_candidate and not self.reason_against_skinny_inner_products

    @property
    def fewest(self) -> int:
        """The smaller one of the numbers of rows and columns."""
        return min(self.problem.rows, self.problem.columns)


def dot_form(region: Region) -> DotForm | None:
    """The form of the dot of a region; None if there is none with terms, or what follows it is no epilogue."""
    contraction = contraction_of(region)
    if contraction is None or contraction.op is not opcodes.DOT:
        return None
    plain = DotProblem(region)
    if not plain.products:
        return None
    dot = grouped_problem(plain)
    columns, terms = dot.right_strides()
    _, left_terms = dot.left_strides()
    is_real = not dot.type.is_complex
    return DotForm(
        dot,
        plain.products,
        is_real and columns is not None and columns < 2,
        is_real and terms == 1 and left_terms == 1 and dot.terms >= dot.lanes,
    )


def _problem(region: Region) -> MatmulProblem:
    form = region.derived(dot_form)
    assert form is not None
    return form.problem


_NO_DOT = "it is not a dot with terms and an epilogue"


def _reason_against_packing(form: DotForm) -> str:
    """Why a dot does not pack its operands; "" if it does."""
    rows, size = form.problem.rows, form.right_bytes
    if form.problem.products < MIN_PACKED_PRODUCTS:
        return f"{form.problem.products} products are fewer than {MIN_PACKED_PRODUCTS}"
    if form.loads_columns and size <= form.cached_bytes:
        return f"a right operand of {size} bytes stays in the cache ({form.cached_bytes})"
    if form.loads_columns and rows <= MAX_SKINNY_ROWS:
        return f"{rows} rows are not more than {MAX_SKINNY_ROWS}"
    if form.uses_skinny_inner_products:
        return f"{rows} rows are not more than {MAX_SKINNY_ROWS}, and vectors run along the terms"
    if form.has_contiguous_terms and form.fewest <= MAX_INNER_PRODUCT_ROWS:
        return f"{form.fewest} rows or columns are not more than {MAX_INNER_PRODUCT_ROWS}"
    return ""


class PackedGemmStrategy(Strategy[PackedGemmParameters]):
    """Packs blocks of both operands."""

    name = "packed-gemm"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        reason = _reason_against_packing(form)
        return Rejection(reason, is_possible=True) if reason else Candidate(form.problem.cycles)

    def parameters(self, region: Region) -> PackedGemmParameters:
        return packed_gemm_parameters(_problem(region))

    def check(self, region: Region, parameters: PackedGemmParameters) -> None:
        check_packed_gemm(_problem(region), parameters)

    def emit(self, region: Region, parameters: PackedGemmParameters) -> list[Kernel]:
        return [packed_gemm_kernel(_problem(region), parameters)]


class SkinnyGemmStrategy(Strategy[SkinnyGemmParameters]):
    """Reads an operand that is larger than the cache once, for a few rows."""

    name = "skinny-gemm"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        if not form.has_contiguous_columns:
            return Rejection("the columns of its right operand are not contiguous real numbers")
        if form.products < MIN_PRODUCTS:
            return Rejection(f"{form.products} products are fewer than {MIN_PRODUCTS}", is_possible=True)
        if not form.loads_columns:
            return Rejection("a single column runs in vectors along the terms", is_possible=True)
        if form.right_bytes <= form.cached_bytes:
            return Rejection(
                f"a right operand of {form.right_bytes} bytes stays in the cache ({form.cached_bytes})",
                is_possible=True,
            )
        if form.problem.rows > MAX_SKINNY_ROWS:
            return Rejection(f"{form.problem.rows} rows pay for packing ({MAX_SKINNY_ROWS})", is_possible=True)
        return Candidate(2 * form.problem.cycles)

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
        dot = form.problem
        reason = self._reason_against(form)
        return Rejection(reason, is_possible=True) if reason else Candidate(2 * dot.cycles)

    def _reason_against(self, form: DotForm) -> str:
        dot, size = form.problem, form.right_bytes
        if form.products < MIN_PRODUCTS:
            return f"{form.products} products are fewer than {MIN_PRODUCTS}"
        if form.loads_columns:
            is_cached = size <= form.cached_bytes
            return "" if is_cached else f"a right operand of {size} bytes is larger than {form.cached_bytes}"
        if form.uses_skinny_inner_products or (form.has_contiguous_terms and form.fewest <= MAX_INNER_PRODUCT_ROWS):
            return "both operands are contiguous along the terms"
        if dot.products >= MIN_PACKED_PRODUCTS:
            return (
                f"the columns are not contiguous, and {dot.products} products pay for packing ({MIN_PACKED_PRODUCTS})"
            )
        return (
            ""
            if form.fewest >= MIN_TILE_SIDE
            else f"a tile would use each number once (of {form.fewest} rows or columns)"
        )

    def parameters(self, region: Region) -> DirectGemmParameters:
        dot = _problem(region)
        tile = choose_tile(region.target, dot.builder, dot.type, dot.rows, dot.columns)
        return DirectGemmParameters(tile.rows, tile.vectors)

    def check(self, region: Region, parameters: DirectGemmParameters) -> None:
        sums = parameters.tile_rows * parameters.tile_vectors
        if sums > MAX_TILE_SUMS:
            raise ImpossibleParameterError("tile_rows", f"a tile of {sums} vectors is larger than {MAX_TILE_SUMS}")

    def emit(self, region: Region, parameters: DirectGemmParameters) -> list[Kernel]:
        dot = _problem(region)
        lanes = min(dot.lanes, 1 << (dot.columns - 1).bit_length())
        return [DirectGemm(dot, Tile(parameters.tile_rows, parameters.tile_vectors, lanes)).kernel()]


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
        dot = form.problem
        if form.products < MIN_PRODUCTS:
            return Rejection(f"{form.products} products are fewer than {MIN_PRODUCTS}", is_possible=True)
        if form.loads_columns and (form.right_bytes <= form.cached_bytes or dot.rows <= MAX_SKINNY_ROWS):
            return Rejection("vectors along the columns need no sums across lanes", is_possible=True)
        if form.uses_skinny_inner_products:
            return Rejection("an operand larger than the cache meets several rows", is_possible=True)
        if form.fewest > MAX_INNER_PRODUCT_ROWS:
            return Rejection(
                f"{form.fewest} rows and columns pay for packing ({MAX_INNER_PRODUCT_ROWS})", is_possible=True
            )
        return Candidate(2 * dot.cycles)

    def parameters(self, region: Region) -> InnerProductParameters:
        dot = _problem(region)
        return InnerProductParameters(balanced_size(dot.rows, 4), balanced_size(dot.columns, 4))

    def emit(self, region: Region, parameters: InnerProductParameters) -> list[Kernel]:
        return [InnerProducts(_problem(region), parameters).kernel()]


class SkinnyInnerProductStrategy(Strategy[SkinnyInnerProductParameters]):
    """Runs in vectors along the terms, and reads an operand that is larger than the cache once, for a few rows."""

    name = "skinny-inner-products"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(dot_form)
        if form is None:
            return Rejection(_NO_DOT)
        if not form.has_contiguous_terms:
            return Rejection("its operands are not contiguous along real terms that fill a vector")
        reason = form.reason_against_skinny_inner_products
        if reason:
            return Rejection(reason)
        if form.loads_columns:
            return Rejection("vectors along the columns need no sums across lanes", is_possible=True)
        return Candidate(form.problem.cycles)

    def parameters(self, region: Region) -> SkinnyInnerProductParameters:
        return skinny_inner_product_parameters(_problem(region))

    def check(self, region: Region, parameters: SkinnyInnerProductParameters) -> None:
        check_skinny_inner_products(_problem(region), parameters)

    def emit(self, region: Region, parameters: SkinnyInnerProductParameters) -> list[Kernel]:
        return [skinny_inner_product_kernel(_problem(region), parameters)]
