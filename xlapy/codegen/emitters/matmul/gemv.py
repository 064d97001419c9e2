"""Products of few rows and an operand that is too large for the cache: it goes through memory once, in its own order.

    for each block of columns, a task
      clear the sums
      for every few terms
        for each vector of columns: add their products to the sums
      write the sums

Must not know: which operation the product is.
"""

from __future__ import annotations

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.product import Product
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.contraction import multiply_add, zero_element
from xlapy.lower.core import delinear
from xlapy.lower.element_types import register_type

BLOCK_BYTES = 1 << 14
"""Of sums: all rows of a block of columns."""

LEAST_RUN = 512
"""Bytes of columns that are worth a stop on the way through memory."""

TOGETHER = 8
"""Terms that are added at once."""


def streamed_kernel(product: Product) -> tuple[Kernel, int]:
    """The kernel, and the work of one task. Columns are contiguous, elements are not complex."""
    return _Streamed(product).kernel()


class _Streamed:
    def __init__(self, product: Product) -> None:
        self.product, self.builder = product, product.builder
        size = register_type(product.type).byte_size
        self.lanes = min(self.builder.lanes(register_type(product.type)), 1 << (product.columns - 1).bit_length())
        width = max(LEAST_RUN, BLOCK_BYTES // product.rows) // size
        self.width = min(width, -(-product.columns // self.lanes) * self.lanes)
        self.sums = ScratchArray(self.builder, "sums", product.type, product.rows * self.width)

    def kernel(self) -> tuple[Kernel, int]:
        product, builder = self.product, self.builder
        blocks = -(-product.columns // self.width)
        with builder.loop(product.batches * blocks, AxisKind.PARALLEL) as task:
            batch, block = delinear(builder, task, (product.batches, blocks))
            first = block * self.width
            columns = block_extent(builder, first, product.columns, self.width)
            with builder.loop(product.rows * self.width, AxisKind.VECTOR, width=self.lanes) as place:
                self.sums.store(place, zero_element(builder, product.type))
            whole, rest = divmod(product.terms, TOGETHER)
            if whole:
                with builder.loop(whole) as step:
                    self.add(batch, first, columns, [step * TOGETHER + term for term in range(TOGETHER)])
            if rest:
                self.add(batch, first, columns, [Affine((), product.terms - rest + term) for term in range(rest)])
            with builder.loop(product.rows) as row, builder.loop(columns, AxisKind.VECTOR, width=self.lanes) as column:
                product.store(batch, row, first + column, self.sums.load(row * self.width + column))
        return builder.kernel, product.rows * self.width * product.terms

    def add(self, batch: Affine, first: Affine, columns: int | Value, terms: list[Affine]) -> None:
        """Adds the products of a few terms to the sums of all rows."""
        product, builder = self.product, self.builder
        left = [[product.left_element(batch, Affine((), row), term) for term in terms] for row in range(product.rows)]
        with builder.loop(columns, AxisKind.VECTOR, width=self.lanes) as column:
            right = [product.right_element(batch, term, first + column) for term in terms]
            for row, factors in enumerate(left):
                place = column + row * self.width
                total: Element = self.sums.load(place)
                for factor, element in zip(factors, right, strict=True):
                    total = multiply_add(builder, product.type, factor, element, total)
                self.sums.store(place, total)
