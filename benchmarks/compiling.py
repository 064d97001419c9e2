"""Measures the compile time of the platform cpu and of XLA:CPU on the same HLO, alternating, in one process.

    python -m benchmarks.compiling [NAME ...] [--runs 5]

Prints the minimum wall time and processor time over the runs for both compilers, and the ratios of xlapy's times to
XLA's: below 1, xlapy compiles faster. xlapy's time includes parsing HLO text; XLA gets a module in memory. Neither uses
a cache. Both generate machine code of large programs on all
processors; xlapy does everything else on one.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import xlapy as xla
from benchmarks.workloads import WORKLOADS, Function, normal

Program = tuple[Function, Callable[[], Sequence[Any]]]

# -- a transformer's training step, with Adam


def _normalized(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def _attention(layer: Any, x: Any, heads: int = 4) -> Any:
    batch, length, width = x.shape
    query, key, value = ((x @ layer[name]).reshape(batch, length, heads, -1) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.float32((width // heads) ** 0.5)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, np.float32(-1e9))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), value)
    return mixed.reshape(batch, length, width) @ layer["mix"]


def _loss(parameters: Any, tokens: Any) -> Any:
    x = parameters["embedding"][tokens]
    for layer in parameters["layers"]:
        x = x + _attention(layer, _normalized(x, layer["scale1"], layer["shift1"]))
        inner = jax.nn.gelu(_normalized(x, layer["scale2"], layer["shift2"]) @ layer["up"] + layer["bias1"])
        x = x + inner @ layer["down"] + layer["bias2"]
    likelihood = jax.nn.log_softmax((x @ parameters["embedding"].T)[:, :-1])
    return -jnp.take_along_axis(likelihood, tokens[:, 1:, None], -1).mean()


def _adam_step(parameters: Any, first: Any, second: Any, count: Any, tokens: Any) -> Any:
    loss, gradient = jax.value_and_grad(_loss)(parameters, tokens)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)

    def updated(p: Any, m: Any, v: Any) -> Any:
        return p - 1e-3 * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)

    return jax.tree.map(updated, parameters, first, second), first, second, count, loss


def _transformer_arguments(layers: int, width: int = 64, vocabulary: int = 128) -> Sequence[Any]:
    square = dict.fromkeys(("query", "key", "value", "mix"), (width, width))
    vectors = dict.fromkeys(("scale1", "shift1", "scale2", "shift2", "bias2"), (width,))
    shapes = {**square, **vectors, "up": (width, 4 * width), "bias1": (4 * width,), "down": (4 * width, width)}
    made = [{name: normal(*shape, seed=n) / 8 for name, shape in shapes.items()} for n in range(layers)]
    parameters = {"layers": made, "embedding": normal(vocabulary, width)}
    moments = jax.tree.map(np.zeros_like, parameters)
    tokens = np.random.default_rng(0).integers(0, vocabulary, (2, 32)).astype(np.int32)
    return parameters, moments, moments, np.float32(0), tokens


def _transformer(layers: int) -> Program:
    return _adam_step, lambda: _transformer_arguments(layers)


# -- a convolutional network whose layers all have different shapes


def _convolution_step(weights: Any, images: Any, labels: Any) -> Any:
    def loss(weights: Any) -> Any:
        x = images
        for number, kernel in enumerate(weights[:-1]):
            stride = 1 + number % 2
            layout = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)
            x = jax.nn.relu((x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5))
        return -(jax.nn.log_softmax(x.mean((1, 2)) @ weights[-1]) * labels).sum(1).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return value, [w - 0.1 * g for w, g in zip(weights, gradient, strict=True)]


def _convolution_arguments() -> Sequence[Any]:
    features = [3, 16, 24, 32, 48, 64, 96]
    kernels = [normal(3, 3, a, b) / 10 for a, b in itertools.pairwise(features)]
    return [*kernels, normal(96, 10)], normal(8, 32, 32, 3), np.eye(10, dtype=np.float32)[:8]


def _of(name: str) -> Program:
    return WORKLOADS[name].function, WORKLOADS[name].arguments


def _convolution(kernel: tuple[int, ...], size: int = 28, groups: int = 1) -> Program:
    """A convolution of NHWC images by an HWIO kernel."""

    def convolved(x: Any, weights: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, weights, (1, 1), "SAME", dimension_numbers=layout, feature_group_count=groups
        )

    return convolved, lambda: [normal(1, size, size, kernel[2] * groups), normal(*kernel)]


def _attention_block(query: Any, key: Any, value: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.float32(8)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), value)


def _pooled(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


PROGRAMS: dict[str, Program] = {
    "add of 4": (lambda a, b: a + b, lambda: [normal(4)] * 2),
    "sum of 8 x 16": (lambda a: a.sum(), lambda: [normal(8, 16)]),
    "dot of 8 x 8": (lambda a, b: a @ b, lambda: [normal(8, 8)] * 2),
    "transpose 8 x 16": (lambda a: a.T + 0, lambda: [normal(8, 16)]),
    "gather of 3 rows": (lambda a, i: a[i], lambda: [normal(8, 16), np.arange(3)]),
    "sort of 16": (jnp.sort, lambda: [normal(16)]),
    "16 random numbers": (lambda k: jax.random.uniform(k, (16,)), lambda: [np.zeros(2, np.uint32)]),
    **{name: _of(name) for name in ("softmax", "layer norm", "dot 512", "MLP training step")},
    "convolution 3x3": _convolution((3, 3, 64, 64)),
    "convolution 1x1": _convolution((1, 1, 64, 128)),
    "depthwise convolution": _convolution((3, 3, 1, 64), groups=64),
    "transposed convolution": (
        lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"),
        lambda: [normal(1, 14, 14, 32), normal(4, 4, 32, 64)],
    ),
    "FFT of 1,024": (jnp.fft.fft, lambda: [normal(64, 1024).astype(np.complex64)]),
    "sort of 4,096": (jnp.sort, lambda: [normal(4096)]),
    "scatter-add": (lambda a, i, u: a.at[i].add(u), lambda: [normal(64, 16), np.arange(8), normal(8, 16)]),
    "max-pooling": (_pooled, lambda: [normal(1, 28, 28, 64)]),
    "attention": (_attention_block, lambda: [normal(2, 64, 4, 64, seed=n) for n in range(3)]),
    "cumulative sums": (lambda a: jnp.cumsum(a, 1), lambda: [normal(64, 128)]),
    "convolutions, training": (_convolution_step, _convolution_arguments),
    "transformer, 1 layer": _transformer(1),
    "transformer, 4 layers": _transformer(4),
    "transformer, 15 layers": _transformer(15),
}


def measure(program: Program, runs: int) -> tuple[int, list[float], list[float]]:
    """Returns the number of instructions before any pass, and the minimum (wall, processor) seconds of XLA and of
    xlapy.
    """
    function, arguments = program[0], program[1]()
    client = xla.Client("cpu")
    theirs: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    size = 0
    for _ in range(runs):
        jax.clear_caches()
        lowered = jax.jit(lambda *given: function(*given), keep_unused=True).lower(*arguments)
        text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
        size = xla.parse_hlo(text).instruction_count
        theirs.append(_timed(lowered.compile))
        ours.append(_timed(functools.partial(client.compile, text)))
    return size, [min(times) for times in zip(*theirs, strict=True)], [min(times) for times in zip(*ours, strict=True)]


def _timed(call: Callable[[], Any]) -> tuple[float, float]:
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"unknown program {unknown[0]!r}; known are {', '.join(PROGRAMS)}")
    jax.jit(lambda x: x + 1)(np.float32(1))
    xla.Client("cpu").compile("HloModule warm ENTRY e { x = f32[] parameter(0) ROOT r = f32[] add(x, x) }")
    table = Table(box=None)
    for header in ("program", "instructions", "XLA ms", "ours ms", "ratio", "XLA processor ms", "ours ms", "ratio"):
        table.add_column(header, justify="left" if header == "program" else "right")
    for name in options.names or PROGRAMS:
        size, theirs, ours = measure(PROGRAMS[name], options.runs)
        pairs = [[f"{a * 1e3:.1f}", f"{b * 1e3:.1f}", f"{b / a:.2f}"] for a, b in zip(theirs, ours, strict=True)]
        table.add_row(name, str(size), *pairs[0], *pairs[1])
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
