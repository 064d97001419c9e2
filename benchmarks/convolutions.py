"""Measures convolutions and pooling layers of well-known networks on xlapy, XLA:CPU, torch and ONNX Runtime.

    python -m benchmarks.convolutions [PATTERN ...] [--runs 7] [--seconds 0.02] [--peers xla,torch,onnx] [--check]

A row is measured if one of the patterns (regular expressions) matches its name; without patterns, all are. All
implementations run alternately in one process on all processors; figures are medians. A ratio above 1 means that xlapy
is faster. The limit of a convolution is the processor's peak of f32 multiply-adds, that of a pooling layer is the
bandwidth of the caches or memory that hold its arrays; `xlapy profile` measures both.

torch gets arrays in the layout of the row (channels last or first), ONNX Runtime always gets NCHW, with the kernel as
a constant that it packs in advance. Idle threads of all peers leave the processors instead of spinning, because the
others run next. Peers that are not installed are left out. Nothing else may run on the machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import xlapy as xla
from benchmarks.convolution_layers import LAYERS, Array, Layer, normal
from benchmarks.convolution_peers import Call, onnx_call, torch_call
from xlapy.runtime.machine import Roofline, machine_roofline

# -- implementations


def lowered_layer(layer: Layer) -> tuple[Any, Sequence[Array]]:
    """The layer as JAX lowers it, and its arguments."""
    x, k = layer.arrays()
    forward = layer.function()
    given: tuple[Array, ...] = (x, k)
    function: Callable[..., Any] = forward
    if layer.what != "forward":
        result = jax.eval_shape(forward, x, k)
        given = (x, k, normal(*result.shape, seed=2))
        function = lambda x, k, g: jax.vjp(forward, x, k)[1](g)[layer.what == "kernel"]  # noqa: E731
    jax.clear_caches()
    return jax.jit(function, keep_unused=True).lower(*given), given


def jax_and_ours(layer: Layer, peers: Sequence[str]) -> Iterator[tuple[str, Call, float]]:
    """The calls of XLA and of xlapy, with the seconds that their compilation took."""
    lowered, given = lowered_layer(layer)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    start = time.perf_counter()
    ours = xla.Client("cpu").compile(text)
    seconds = time.perf_counter() - start
    buffers = [xla.Client("cpu").device_put(a) for a in given]
    yield "ours", lambda: xla.block_until_ready(ours(*buffers)), seconds
    if "xla" in peers:
        start = time.perf_counter()
        theirs = lowered.compile()
        seconds = time.perf_counter() - start
        arrays = jax.device_put(given)
        yield "xla", lambda: jax.block_until_ready(theirs(*arrays)), seconds


# -- measuring


def implementations(layer: Layer, peers: Sequence[str]) -> tuple[dict[str, Call], dict[str, float]]:
    calls: dict[str, Call] = {}
    compile_seconds: dict[str, float] = {}
    for name, call, seconds in jax_and_ours(layer, peers):
        calls[name], compile_seconds[name] = call, seconds
    if "torch" in peers:
        calls["torch"] = torch_call(layer)
    if "onnx" in peers and layer.what == "forward":
        calls["onnx"] = onnx_call(layer)
    return calls, compile_seconds


def alternate(calls: Mapping[str, Call], runs: int, seconds: float) -> dict[str, float]:
    """Median seconds of a call; every run takes about `seconds` of each implementation in turn."""
    counts: dict[str, int] = {}
    for name, call in calls.items():
        call()
        counts[name] = max(1, round(seconds / max(_timed(call, 1), 1e-7)))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            call()
            found[name].append(_timed(call, counts[name]))
    return {name: statistics.median(values) for name, values in found.items()}


def _timed(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def check(name: str, calls: Mapping[str, Call]) -> None:
    """Compares the results of xlapy and XLA."""
    ours, theirs = np.asarray(calls["ours"]()), np.asarray(calls["xla"]())
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not difference < 1e-4:
        raise SystemExit(f"{name}: the results differ by {difference:.2e} of the largest element")


def row(name: str, layer: Layer, times: Mapping[str, float], compiling: Mapping[str, float], machine: Roofline) -> str:
    ratios = [f"{times[peer] / times['ours']:.2f}" if peer in times else "" for peer in ("xla", "torch", "onnx")]
    compiled = f"{compiling['xla'] / compiling['ours']:.2f}" if "xla" in compiling else ""
    share = f"{100 * layer.least_seconds(machine) / times['ours']:.0f}%"
    return f"| {name} | {1e3 * times['ours']:.3f} | {share} | {' | '.join(ratios)} | {compiled} |"


def summary(results: Mapping[str, Mapping[str, float]], peer: str) -> str:
    ratios = {name: times[peer] / times["ours"] for name, times in results.items() if peer in times}
    if not ratios:
        return ""
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    lowest = min(ratios, key=lambda name: ratios[name])
    return f"- {peer} / ours: geometric mean {mean:.2f} of {len(ratios)}, lowest {ratios[lowest]:.2f} ({lowest})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.02, help="of one timed sample")
    parser.add_argument("--peers", default="xla,torch,onnx", help="which of xla, torch, onnx")
    parser.add_argument("--check", action="store_true", help="compare the results with XLA's")
    options = parser.parse_args()
    modules = {"xla": "jax", "torch": "torch", "onnx": "onnxruntime"}
    peers = [p for p in options.peers.split(",") if importlib.util.find_spec(modules[p]) is not None]
    chosen = {n: v for n, v in LAYERS.items() if not options.patterns or any(re.search(p, n) for p in options.patterns)}
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch reads it when it is imported
    machine = machine_roofline(anew=True).all
    memory = machine.bandwidths[-1]
    print(f"{machine.operations['f32'] / 1e9:.0f} Gflop/s; memory: {memory.read / 1e9:.1f} GB/s reading")
    print("| layer | ms | of the limit | XLA / ours | torch / ours | ONNX / ours | compile XLA / ours |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    results: dict[str, dict[str, float]] = {}
    for name, layer in chosen.items():
        calls, compiling = implementations(layer, peers)
        if options.check and "xla" in calls:
            check(name, calls)
        results[name] = alternate(calls, options.runs, options.seconds)
        print(row(name, layer, results[name], compiling, machine), flush=True)
    for peer in peers:
        print(summary(results, peer))


if __name__ == "__main__":
    main()
