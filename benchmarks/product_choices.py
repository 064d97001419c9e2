"""Compares the strategy that the compiler chooses for a matrix product with all others that can compute it.

    python -m benchmarks.products --choices [GROUP or ROW ...] [--random 25] [--seed 0] [--runs 3]

Prints for each product how many times as long the chosen strategy takes as the fastest one, its name, and the
microseconds of all strategies that are not hopeless. Each strategy runs with its preferred parameters, demanded by
a plan in the text of the module.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import xlapy as xla
from benchmarks.product_rows import Product, hlo, operands_of
from xlapy.base.errors import XlaError

STRATEGIES = ("direct-gemm", "skinny-gemm", "inner-products", "skinny-inner-products", "packed-gemm", "loops")

MIN_SAMPLE_SECONDS = 2e-3

HOPELESS = 4.0
"""A strategy whose first call takes as many times as long as the chosen one is not measured any further."""


def random_products(count: int, seed: int) -> Iterator[Product]:
    """Products of sizes from 1 to 4096, even and odd, in all types that have kernels of their own."""
    draw = np.random.default_rng(seed)
    while count:
        m, k, n = (int(2 ** draw.uniform(0, 12)) for _ in range(3))
        m, k, n = (size if draw.random() < 0.4 else max(1, size // 8 * 8) for size in (m, k, n))
        dtype = str(draw.choice(["float32", "float32", "float32", "float64", "bfloat16", "int8"]))
        batch = int(draw.choice([0, 0, 0, 4, 32]))
        if not 1 << 12 <= m * k * n * max(1, batch) <= 1 << 32 or max(m * k, k * n, m * n) * max(1, batch) > 1 << 24:
            continue
        count -= 1
        left, right = bool(draw.random() < 0.25), bool(draw.random() < 0.5)
        yield Product(m, k, n, batch, dtype, left_transposed=left, right_transposed=right)


def compare_choices(product: Product, runs: int) -> tuple[str, dict[str, float]] | None:
    """Returns the chosen strategy, and the median seconds of each; None if the product is no dot with a plan."""
    client = xla.Client("cpu")
    buffers = [client.device_put(operand) for operand in operands_of(product)]
    text = hlo(product)
    plain = client.compile(text)
    found = re.search(r'dot\(.*"strategy":"([a-z-]+)"', plain.as_hlo_text(optimized=True))
    if found is None:
        return None  # another form than a dot computes it
    chosen = found[1]
    calls: dict[str, Any] = {chosen: plain}
    for name in STRATEGIES:
        if name != chosen:
            config = f', backend_config={{"kernel_plan":{{"strategy":"{name}"}}}}\n}}'
            try:
                calls[name] = client.compile(text.removesuffix("\n}\n") + config)
            except XlaError:
                continue
    limit = HOPELESS * _seconds(plain, buffers, 1)
    times: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for name, call in calls.items():
        once = _seconds(call, buffers, 1)
        if name == chosen or once <= limit:
            times[name], counts[name] = [], max(1, round(MIN_SAMPLE_SECONDS / once))
    for _ in range(runs):
        for name, samples in times.items():
            samples.append(_seconds(calls[name], buffers, counts[name]))
    return chosen, {name: statistics.median(samples) for name, samples in times.items()}


def _seconds(call: Any, buffers: list[Any], count: int) -> float:
    xla.block_until_ready(call(*buffers))
    start = time.perf_counter()
    for _ in range(count):
        result = call(*buffers)
    xla.block_until_ready(result)
    return (time.perf_counter() - start) / count


def print_choices(products: Iterator[Product], runs: int) -> None:
    """Prints a line for each product, then how many choices are within a tenth of the best one."""
    ratios: list[float] = []
    for product in products:
        compared = compare_choices(product, runs)
        if compared is None:
            continue
        chosen, times = compared
        best = min(times, key=lambda name: times[name])
        ratios.append(times[chosen] / times[best])
        others = "  ".join(f"{name} {seconds * 1e6:.0f}" for name, seconds in sorted(times.items(), key=lambda t: t[1]))
        print(f"{product.name:34}{ratios[-1]:6.2f}  {chosen:22} us: {others}", flush=True)
    if not ratios:
        print("no product can be computed by two strategies")
        return
    good = sum(ratio <= 1.1 for ratio in ratios)
    print(f"{good} of {len(ratios)} choices take at most 1.1 times as long as the best strategy")
