"""Measures whole convolutional networks on xlapy, XLA:CPU, torch and ONNX Runtime.

    python -m benchmarks.networks [PATTERN ...] [--runs 5] [--peers xla,torch,compiled,onnx] [--check]

A row is measured if one of the patterns (regular expressions) matches its name; without patterns, all are. All
implementations run alternately in one process on all processors; figures are medians. A ratio above 1 means that xlapy
is faster. xlapy and XLA:CPU get the same HLO from JAX, torch the same layout and type; "compiled" is torch.compile with
frozen parameters. ONNX Runtime always gets channels first and batch normalizations folded into kernels, which are
constants. Rows "folded" give all of them folded parameters. Nothing else may run on the machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import xlapy as xla
from benchmarks.convolution_peers import Call
from benchmarks.convolutions import alternate, summary
from benchmarks.limits import Limit, ProgramCall, shortfalls
from benchmarks.network_models import (
    CLASSES,
    EPSILON,
    IMAGE_SIZE,
    Array,
    ConvolutionLayer,
    Network,
    folded,
    mobilenet_v2,
    parameters_of,
    resnet50,
)
from xlapy.runtime.machine import machine_roofline

LEARNING_RATE = 1e-3

ACTIVATION_STEP = 2.0**-4
"""The difference of neighboring activations in s8."""


@dataclass(frozen=True)
class Row:
    """A network for `batch` images, as inference or as one step of gradient descent."""

    network: Network
    batch: int
    is_channels_last: bool = True
    is_bf16: bool = False
    is_folded: bool = False
    is_s8: bool = False
    """Whether kernels and what convolutions read are integers of 8 bits. XLA:CPU has the same program; the other peers
    compute with f32."""
    trains: bool = False


ROWS: Mapping[str, Row] = {
    "resnet50, 1 image": Row(resnet50, 1),
    "resnet50, 1 image, folded": Row(resnet50, 1, is_folded=True),
    "resnet50, 1 image, channels first": Row(resnet50, 1, is_channels_last=False),
    "resnet50, 8 images": Row(resnet50, 8),
    "resnet50, 8 images, channels first": Row(resnet50, 8, is_channels_last=False),
    "resnet50, 1 image, bf16": Row(resnet50, 1, is_bf16=True),
    "resnet50, 8 images, bf16": Row(resnet50, 8, is_bf16=True),
    "resnet50, 1 image, s8": Row(resnet50, 1, is_folded=True, is_s8=True),
    "resnet50, 8 images, s8": Row(resnet50, 8, is_folded=True, is_s8=True),
    "resnet50, training step, 8 images": Row(resnet50, 8, trains=True),
    "resnet50, training step, 8 images, bf16": Row(resnet50, 8, is_bf16=True, trains=True),
    "mobilenet v2, 1 image": Row(mobilenet_v2, 1),
    "mobilenet v2, 8 images": Row(mobilenet_v2, 8),
}


@dataclass
class JaxOperations:
    """Operations of JAX. parameters: arrays by name, kernels as (window, window, inputs, outputs).

    statistics: mean and variance come from the images, as in training.
    """

    parameters: Mapping[str, Any]
    is_channels_last: bool
    statistics: bool = False

    @property
    def _spatial(self) -> tuple[int, int]:
        return (1, 2) if self.is_channels_last else (2, 3)

    def _per_channel(self, x: Any) -> Any:
        return x if self.is_channels_last else x[:, None, None]

    def convolve(self, x: Any, layer: ConvolutionLayer) -> Any:
        data = "NHWC" if self.is_channels_last else "NCHW"
        kernel = "HWIO" if self.is_channels_last else "OIHW"
        x = lax.conv_general_dilated(
            x, self.parameters[f"{layer.name}.kernel"], [layer.stride] * 2, [(layer.padding, layer.padding)] * 2,
            dimension_numbers=(data, kernel, data), feature_group_count=layer.groups,
        )  # fmt: skip
        offset = self._per_channel(self.parameters[f"{layer.name}.offset"])
        scale = self.parameters.get(f"{layer.name}.scale")
        if scale is None:
            return x + offset
        mean, variance = self._moments(x, layer.name)
        factor = self._per_channel(scale) * lax.rsqrt(variance + EPSILON)
        return (x - mean) * factor + offset

    def _moments(self, x: Any, name: str) -> tuple[Any, Any]:
        if self.statistics:
            axes = (0, *self._spatial)
            mean = x.mean(axes, keepdims=True)
            return mean, jnp.square(x).mean(axes, keepdims=True) - jnp.square(mean)
        found = (self._per_channel(self.parameters[f"{name}.{key}"]) for key in ("mean", "variance"))
        return next(found), next(found)

    def relu(self, x: Any) -> Any:
        return jnp.maximum(x, 0)

    def relu6(self, x: Any) -> Any:
        return jnp.clip(x, 0, 6)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        window, strides, padding = ([1] * 4, [1] * 4, [(0, 0)] * 4)
        for d in self._spatial:
            window[d], strides[d], padding[d] = 3, 2, (1, 1)
        return lax.reduce_window(x, np.array(-np.inf, x.dtype), lax.max, window, strides, padding)

    def mean(self, x: Any) -> Any:
        return x.mean(self._spatial)

    def classify(self, x: Any, inputs: int) -> Any:
        return x @ self.parameters["classes.weights"] + self.parameters["classes.bias"]


@dataclass
class QuantizedOperations(JaxOperations):
    """Operations on kernels and images in s8, whose scales are powers of two. Sums of products are s32."""

    def convolve(self, x: Any, layer: ConvolutionLayer) -> Any:
        sums = lax.conv_general_dilated(
            self._quantized(x), self.parameters[f"{layer.name}.kernel"], [layer.stride] * 2,
            [(layer.padding, layer.padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"),
            preferred_element_type=jnp.int32,
        )  # fmt: skip
        return sums * self.parameters[f"{layer.name}.step"] + self.parameters[f"{layer.name}.offset"]

    def _quantized(self, x: Any) -> Any:
        if x.dtype == jnp.int8:
            return x
        return jnp.clip(jnp.round(x / ACTIVATION_STEP), -128, 127).astype(jnp.int8)

    def _real(self, x: Any) -> Any:
        return x * ACTIVATION_STEP if x.dtype == jnp.int8 else x

    def relu(self, x: Any) -> Any:
        return self._quantized(jnp.maximum(x, 0))

    def add(self, x: Any, y: Any) -> Any:
        return self._real(x) + self._real(y)

    def max_pool(self, x: Any) -> Any:
        return lax.reduce_window(
            x, jnp.int8(-128), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]
        )

    def mean(self, x: Any) -> Any:
        return self._real(x).mean(self._spatial)


def quantized(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """Kernels in s8, and what the sums of a convolution by them are multiplied by; other parameters as they are."""
    found = dict(parameters)
    for key in [key for key in parameters if key.endswith(".kernel")]:
        step = np.abs(parameters[key]).max((0, 1, 2)) / 127
        found[key] = np.round(parameters[key] / step).astype(np.int8)
        found[key.replace(".kernel", ".step")] = (step * ACTIVATION_STEP).astype(np.float32)
    return found


# -- implementations


def jax_function(row: Row) -> Callable[..., Any]:
    """The row as a function of the parameters, the images and the labels."""

    def inference(parameters: Mapping[str, Any], images: Any, labels: Any) -> Any:
        operations = QuantizedOperations if row.is_s8 else JaxOperations
        return row.network(operations(parameters, row.is_channels_last), images)

    def loss(parameters: Mapping[str, Any], images: Any, labels: Any) -> Any:
        result = row.network(JaxOperations(parameters, row.is_channels_last, statistics=True), images)
        return -jnp.take_along_axis(jax.nn.log_softmax(result), labels[:, None], 1).mean()

    def training(parameters: Mapping[str, Any], images: Any, labels: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
        return value, {k: p - LEARNING_RATE * gradients[k] for k, p in parameters.items()}

    return training if row.trains else inference


def lowered_row(row: Row, arrays: Mapping[str, Array], images: Array, labels: Array) -> tuple[Any, Sequence[Array]]:
    """The row as JAX lowers it, and its arguments."""
    kind = jnp.bfloat16 if row.is_bf16 else jnp.float32

    def given(array: Array, order: Sequence[int]) -> Any:
        moved = array if row.is_channels_last or array.ndim < 4 else np.ascontiguousarray(array.transpose(order))
        return moved if moved.dtype == np.int8 else moved.astype(kind)

    skipped = (".mean", ".variance") if row.trains else ()
    parameters = {k: given(a, (3, 2, 0, 1)) for k, a in arrays.items() if not k.endswith(skipped)}
    arguments = (parameters, given(images, (0, 3, 1, 2)), labels)
    return jax.jit(jax_function(row), keep_unused=True).lower(*arguments), arguments


def arrays_of(row: Row) -> tuple[Mapping[str, Array], Array, Array]:
    """The parameters of a row, its images and their labels."""
    arrays = parameters_of(row.network)
    arrays = folded(arrays) if row.is_folded else arrays
    random = np.random.default_rng(1)
    images = random.standard_normal((row.batch, IMAGE_SIZE, IMAGE_SIZE, 3)).astype(np.float32)
    labels = random.integers(0, CLASSES, row.batch, dtype=np.int32)
    return quantized(arrays) if row.is_s8 else arrays, images, labels


def jax_and_ours(
    row: Row, arrays: Mapping[str, Array], images: Array, labels: Array, peers: Sequence[str]
) -> Iterator[tuple[str, Call, float]]:
    """The calls of xlapy and of XLA:CPU, with the seconds that their compilation took."""
    lowered, arguments = lowered_row(row, arrays, images, labels)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    start = time.perf_counter()
    ours = xla.Client("cpu").compile(text)
    seconds = time.perf_counter() - start
    yield "ours", ProgramCall(ours, [xla.Client("cpu").device_put(a) for a in jax.tree.leaves(arguments)]), seconds
    if "xla" in peers:
        start = time.perf_counter()
        theirs = lowered.compile()
        seconds = time.perf_counter() - start
        on_device = jax.device_put(arguments)
        yield "xla", lambda: jax.block_until_ready(theirs(*on_device)), seconds


def implementations(row: Row, peers: Sequence[str]) -> tuple[dict[str, Call], dict[str, float]]:
    from benchmarks import network_peers

    arrays = parameters_of(row.network)
    ours, images, labels = arrays_of(row)
    calls: dict[str, Call] = {}
    compile_seconds: dict[str, float] = {}
    for name, call, seconds in jax_and_ours(row, ours, images, labels, peers):
        calls[name], compile_seconds[name] = call, seconds
    is_last = row.is_channels_last
    if row.trains:
        if "torch" in peers:
            calls["torch"] = network_peers.torch_training(
                row.network, arrays, images, labels, LEARNING_RATE, is_last, row.is_bf16
            )
        return calls, compile_seconds
    for name in ("torch", "compiled"):
        if name in peers:
            compiles = name == "compiled"
            calls[name] = network_peers.torch_inference(row.network, arrays, images, is_last, row.is_bf16, compiles)
    if "onnx" in peers and not row.is_bf16:
        calls["onnx"] = network_peers.onnx_inference(row.network, arrays, images)
    return calls, compile_seconds


# -- measuring


def check(name: str, calls: Mapping[str, Call], tolerance: float) -> None:
    """Compares the results of all implementations with those of xlapy."""
    results = {k: _first_result(call()) for k, call in calls.items()}
    for peer, found in results.items():
        difference = np.abs(found - results["ours"]).max() / np.abs(found).max()
        print(f"  {name}: {peer} differs by {difference:.1e} of the largest element")
        if not difference < tolerance:
            raise SystemExit(f"{name}: the difference is larger than {tolerance:.0e}")


def _first_result(result: Any) -> Array:
    leaf = jax.tree.leaves(result)[0]
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().float().numpy()
    return np.asarray(leaf).astype(np.float32)


PEERS = {"xla": "jax", "torch": "torch", "compiled": "torch", "onnx": "onnxruntime"}
"""The module that each peer needs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", default=",".join(PEERS), help="which of xla, torch, compiled, onnx")
    parser.add_argument("--check", action="store_true", help="compare the results")
    options = parser.parse_args()
    peers = [p for p in options.peers.split(",") if importlib.util.find_spec(PEERS[p]) is not None]
    chosen = {n: v for n, v in ROWS.items() if not options.patterns or any(re.search(p, n) for p in options.patterns)}
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch reads it when it is imported
    machine = machine_roofline(anew=True)
    print(f"| network | ms | {' | '.join(f'{p} / ours' for p in peers)} | compile XLA / ours | of limit | limit |")
    print(f"|---|---:|{'---:|' * (len(peers) + 2)}---|")
    limits: dict[str, tuple[Limit, float]] = {}
    results: dict[str, dict[str, float]] = {}
    for name, row in chosen.items():
        calls, compiling = implementations(row, peers)
        if options.check:
            same = {k: call for k, call in calls.items() if k in ("ours", "xla")} if row.is_s8 else calls
            check(name, same, 0.05 if row.is_bf16 or row.is_s8 else 1e-3)
        results[name] = times = alternate(calls, options.runs, 0.02)
        ratios = [f"{times[p] / times['ours']:.2f}" if p in times else "" for p in peers]
        compiled = f"{compiling['xla'] / compiling['ours']:.2f}" if "xla" in compiling else ""
        ours = calls["ours"]
        assert isinstance(ours, ProgramCall)
        limit, seconds = ours.limit(machine), times["ours"]
        limits[name] = limit, seconds
        limited = f"{limit.share(seconds):.0%} | {limit.text}"
        print(f"| {name} | {1e3 * seconds:.1f} | {' | '.join(ratios)} | {compiled} | {limited} |", flush=True)
    for line in [*(summary(results, peer) for peer in peers), *shortfalls(limits)]:
        print(line)


if __name__ == "__main__":
    main()
