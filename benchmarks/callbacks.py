"""Measures calls of programs with host callbacks on xlapy and on JAX's own CPU platform, alternating, in one process.

    python -m benchmarks.callbacks [NAME ...] [--samples 60] [--calls 25]

Reports the median time of a call; a ratio above 1 means that xlapy is slower. The callbacks do nothing, so the time
is what a call costs. Most of it is JAX's own: it moves the arguments to its CPU device. Nothing else may run on the
machine meanwhile.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "xlapy,cpu"

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback
from rich.console import Console
from rich.table import Table

Function = Callable[[Any], Any]


def _like(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _debug(x: Any) -> Any:
    jax.debug.callback(lambda _: None, x)
    return x + 1


PROGRAMS: dict[str, tuple[Function, int]] = {
    "no callback": (lambda x: x + 1, 4),
    "pure_callback": (lambda x: jax.pure_callback(lambda v: v, _like(x), x), 4),
    "pure_callback, 1 MB": (lambda x: jax.pure_callback(lambda v: v, _like(x), x), 1 << 18),
    "io_callback": (lambda x: io_callback(lambda v: v, _like(x), x), 4),
    "io_callback, ordered": (lambda x: io_callback(lambda v: v, _like(x), x, ordered=True), 4),
    "debug.callback": (_debug, 4),
}
"""For each name, a function and the number of f32 elements of its argument."""


def measure(function: Function, elements: int, samples: int, calls: int) -> tuple[float, float]:
    """Returns the median seconds of a call on JAX's CPU and on xlapy."""
    runs = [_on(platform, function, elements) for platform in ("cpu", "xlapy")]
    times: list[list[float]] = [[], []]
    for _ in range(samples):
        for run, found in zip(runs, times, strict=True):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            found.append((time.perf_counter() - start) / calls)
    return statistics.median(times[0]), statistics.median(times[1])


def _on(platform: str, function: Function, elements: int) -> Callable[[], Any]:
    """Returns a call of the compiled function on a platform."""
    device = jax.devices(platform)[0]
    argument = jax.device_put(np.ones(elements, np.float32), device)
    compiled = jax.jit(lambda x: function(x))

    def run() -> Any:
        with jax.default_device(device):
            return jax.block_until_ready(compiled(argument))

    run()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], help="the programs; all by default")
    parser.add_argument("--samples", type=int, default=60, help="timed samples of each program on each platform")
    parser.add_argument("--calls", type=int, default=25, help="calls in a sample")
    arguments = parser.parse_args()
    table = Table("program", "JAX us", "xlapy us", "ratio")
    for name in arguments.names or PROGRAMS:
        theirs, ours = measure(*PROGRAMS[name], arguments.samples, arguments.calls)
        table.add_row(name, f"{theirs * 1e6:.1f}", f"{ours * 1e6:.1f}", f"{ours / theirs:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
