"""The matrix products that `products` measures: their sizes, operands and modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

HLO_TYPES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "int8": "s8"}

RESULT_TYPES = {"int8": np.dtype(np.int32)}
"""The types of results that are not those of the operands."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of [batch, m, k] and [batch, k, n]. bandwidth: whether reading the operands limits it."""

    m: int
    k: int
    n: int
    batch: int = 0
    dtype: str = "float32"
    left_transposed: bool = False
    right_transposed: bool = False
    bandwidth: bool = False

    @property
    def name(self) -> str:
        batch = f"{self.batch} x " if self.batch else ""
        marks = (" aT" if self.left_transposed else "") + (" wT" if self.right_transposed else "")
        suffix = "" if self.dtype == "float32" else f" {HLO_TYPES[self.dtype]}"
        return f"{batch}{self.m} x {self.k} x {self.n}{marks}{suffix}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        batch = (self.batch,) if self.batch else ()
        left = (self.k, self.m) if self.left_transposed else (self.m, self.k)
        right = (self.n, self.k) if self.right_transposed else (self.k, self.n)
        return batch + left, batch + right

    @property
    def result_type(self) -> np.dtype[Any]:
        return RESULT_TYPES.get(self.dtype, np.dtype(self.dtype))

    @property
    def operations(self) -> float:
        return 2.0 * self.m * self.k * self.n * max(1, self.batch)

    @property
    def read_bytes(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes) * np.dtype(self.dtype).itemsize


def _weights(rows: Sequence[int], megabytes: Sequence[int], *, narrow: bool = False) -> Iterator[Product]:
    """Few rows times square weights of a size in MB; narrow: weights with 256 columns."""
    for size in megabytes:
        k = 256 if narrow else round((size << 18) ** 0.5)
        for m in rows:
            for transposed in (False, True):
                n = (size << 18) // k
                yield Product(m, n if narrow else k, k if narrow else n, right_transposed=transposed, bandwidth=True)


def _narrow_types(dtype: str) -> Sequence[Product]:
    """Square and odd products, and few rows times weights, in one type."""
    squares = [Product(s, s, s, dtype=dtype, right_transposed=t) for s in (512, 1024, 2048) for t in (False, True)]
    odd = [Product(513, 511, 509, dtype=dtype), Product(777, 1333, 1999, dtype=dtype)]
    few = [replace(p, dtype=dtype) for p in _weights((1, 8, 32), (16, 64))]
    return [*squares, *odd, *few]


GROUPS: Mapping[str, Sequence[Product]] = {
    "square": [Product(s, s, s) for s in (128, 256, 512, 1024, 2048, 4096)],
    "odd": [Product(*s) for s in ((513, 511, 509), (1000, 1000, 1000), (777, 1333, 1999), (1999, 777, 1333))],
    "f64": [Product(s, s, s, dtype="float64") for s in (256, 512, 1024, 2048)],
    "transposed": [
        Product(s, s, s, left_transposed=a, right_transposed=b)
        for s in (512, 1024)
        for a, b in ((True, False), (False, True), (True, True))
    ],
    "gemv": list(_weights((1,), (1, 4, 16, 64, 256, 1024))),
    "skinny": list(_weights((4, 8, 16, 32), (1, 16, 64, 256))),
    "narrow": list(_weights((1, 8), (1, 16, 64), narrow=True)),
    "bf16": _narrow_types("bfloat16"),
    "s8": _narrow_types("int8"),
    "batched": [
        Product(128, 128, 128, 64),
        Product(16, 16, 16, 4096),
        Product(8, 8, 8, 4096),
        Product(32, 32, 32, 1024),
        Product(64, 64, 64, 256),
        Product(128, 64, 128, 96, right_transposed=True),
        Product(512, 64, 512, 12, right_transposed=True),
        Product(512, 512, 64, 12),
        Product(1, 64, 512, 96, right_transposed=True),
    ],
    "many-terms": [
        Product(16, 262144, 16, left_transposed=True),
        Product(64, 50021, 10, left_transposed=True),
        Product(64, 20000, 64, left_transposed=True),
        Product(37, 60000, 29),
        Product(37, 50000, 29, right_transposed=True),
    ],
    "models": [
        Product(m, k, n, right_transposed=t)
        for m, k, n in ((64, 1024, 4096), (32, 512, 2048), (64, 512, 512), (16, 256, 1024), (128, 479, 1024),
                        (128, 1024, 1024), (2048, 512, 256), (2048, 13, 512), (2048, 256, 1))
        for t in (False, True)
    ],
}  # fmt: skip
"""The rows by group. `models` are layers of recommendation models and LSTMs."""


# -- modules and operands


def hlo(product: Product) -> str:
    """The product as a module."""
    left, right = product.shapes
    batches = 1 if product.batch else 0
    contracting = batches + (0 if product.left_transposed else 1), batches + (1 if product.right_transposed else 0)
    result = (*left[:batches], product.m, product.n)
    types = [HLO_TYPES[product.dtype]] * 2 + [HLO_TYPES.get(product.result_type.name, "s32")]
    text = [f"{t}[{','.join(map(str, shape))}]" for t, shape in zip(types, (left, right, result), strict=True)]
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batches else ""
    dims = f"{batch}lhs_contracting_dims={{{contracting[0]}}}, rhs_contracting_dims={{{contracting[1]}}}"
    return (
        f"HloModule product\nENTRY e {{\n  a = {text[0]} parameter(0)\n  b = {text[1]} parameter(1)\n"
        f"  ROOT d = {text[2]} dot(a, b), {dims}\n}}\n"
    )


def operands_of(product: Product) -> list[np.ndarray]:
    """Random operands of a product."""
    draw = np.random.default_rng(0)
    wide = "float64" if product.dtype == "float64" else "float32"
    scale = 20 if product.dtype == "int8" else 1
    return [
        (draw.standard_normal(shape, dtype=wide) * scale).astype(product.dtype)  # type: ignore[call-overload]
        for shape in product.shapes
    ]
