"""The platform cpu beside XLA:CPU: run time and compile time of the same HLO, in one process, alternating.

    python benchmarks/cpu.py [NAME ...] [--runs 5]

Medians of the runs, in milliseconds; a ratio above 1 means that ours is the faster. Both use all processors. XLA as
installed; with MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 in the environment it reuses memory
as ours does, which shows what the code alone is worth. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import xlapy as xla

LARGE = 1 << 24


@dataclass(frozen=True)
class Case:
    """A JAX function and its arguments."""

    function: Callable[..., Any]
    arguments: Sequence[np.ndarray]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cases() -> dict[str, Case]:
    x, y = normal(LARGE), normal(LARGE, seed=1)
    square = x.reshape(4096, 4096)
    rows = np.random.default_rng(2).integers(0, 65536, 65536).astype(np.int32)
    scalar, sixteen = np.float32(1), np.ones(16, np.float32)

    def repeated(count: int) -> Callable[[Any], Any]:
        return lambda start: jax.lax.fori_loop(0, count, lambda _, v: v * 1.0001 + 1, start)

    def network(w: Any, h: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda h, step: (jnp.tanh(h @ w + step), h[0]), h, xs)

    def layer_norm(a: Any) -> Any:
        return (a - a.mean(-1, keepdims=True)) / jnp.sqrt(a.var(-1, keepdims=True) + 1e-5)

    return {
        "add": Case(lambda a, b: a + b, (x, y)),
        "fused chain": Case(lambda a, b: jnp.maximum((a + b) * a - b, 0) * 2 + a, (x, y)),
        "exp": Case(jnp.exp, (x,)),
        "tanh": Case(jnp.tanh, (x,)),
        "sin": Case(jnp.sin, (x,)),
        "erf": Case(jax.scipy.special.erf, (x,)),
        "log": Case(lambda a: jnp.log(jnp.abs(a)), (x,)),
        "pow": Case(lambda a, b: jnp.abs(a) ** b, (x, y)),
        "sum of all": Case(jnp.sum, (square,)),
        "sums of rows": Case(lambda a: a.sum(1), (square,)),
        "sums of columns": Case(lambda a: a.sum(0), (square,)),
        "argmax of rows": Case(lambda a: a.argmax(1), (square,)),
        "softmax": Case(lambda a: jax.nn.softmax(a, -1), (square,)),
        "layer norm": Case(layer_norm, (square,)),
        "transpose": Case(lambda a: a.T + 0, (square,)),
        "gather of rows": Case(lambda a, i: a[i], (normal(65536, 128), rows)),
        "dot 512": Case(lambda a, b: a @ b, (normal(512, 512), normal(512, 512, seed=1))),
        "cumulative sums": Case(lambda a: jnp.cumsum(a, 1), (normal(1024, 1024),)),
        "sort 262,144": Case(jnp.sort, (normal(1 << 18),)),
        "loop 1M scalar": Case(repeated(1_000_000), (scalar,)),
        "loop 100k of 16": Case(repeated(100_000), (sixteen,)),
        "recurrent network": Case(network, (normal(64, 64) / 10, normal(8, 64), normal(256, 8, 64))),
        "tiny add": Case(lambda a, b: a + b, (np.ones(4, np.float32), np.ones(4, np.float32))),
    }


@dataclass(frozen=True)
class Times:
    """Medians in seconds: (XLA's, ours)."""

    run: tuple[float, float]
    compile: tuple[float, float]


def measure(case: Case, runs: int) -> Times:
    lowered = jax.jit(case.function).lower(*case.arguments)
    text = lowered.compiler_ir("hlo").as_hlo_text()
    start = time.perf_counter()
    theirs = lowered.compile()
    middle = time.perf_counter()
    ours = xla.Client("cpu").compile(text)
    compiled = (middle - start, time.perf_counter() - middle)
    on_device = [jax.device_put(argument) for argument in case.arguments]
    pairs: list[tuple[float, float]] = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        jax.block_until_ready(theirs(*on_device))
        middle = time.perf_counter()
        ours(*case.arguments)
        pairs.append((middle - start, time.perf_counter() - middle))
    warm = pairs[1:]
    return Times((statistics.median(a for a, _ in warm), statistics.median(b for _, b in warm)), compiled)


def main() -> None:
    known = cases()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all by default")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; known are {', '.join(known)}")
    xla.Client("cpu").compile("HloModule warm ENTRY e { ROOT x = f32[] parameter(0) }")
    table = Table("workload", "XLA ms", "ours ms", "ratio", "compile XLA ms", "compile ours ms", box=None)
    for name in options.names or known:
        times = measure(known[name], options.runs)
        (theirs, ours), (their_compile, our_compile) = times.run, times.compile
        table.add_row(
            name, f"{theirs * 1e3:.3f}", f"{ours * 1e3:.3f}", f"{theirs / ours:.2f}",
            f"{their_compile * 1e3:.0f}", f"{our_compile * 1e3:.0f}",
        )  # fmt: skip
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
