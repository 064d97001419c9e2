"""Measures convolutions and pooling layers of well-known networks on xlapy, XLA:CPU, torch and ONNX Runtime.

    python -m benchmarks.convolutions [PATTERN ...] [--runs 7] [--seconds 0.02] [--peers xla,torch,onnx] [--check]

A row is measured if one of the patterns (regular expressions) matches its name; without patterns, all are. All
implementations run alternately in one process on all processors; figures are medians. A ratio above 1 means that xlapy
is faster. The limit of a convolution is the processor's peak of f32 multiply-adds, that of a pooling layer is the
bandwidth of the caches or memory that hold its arrays; `xlapy profile` measures both.

torch gets arrays in the layout of the row (channels last or first), ONNX Runtime always gets NCHW, with the kernel as
a constant that it packs in advance. Peers that are not installed are left out. Nothing else may run on the machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
from jax import lax

import xlapy as xla
from xlapy.runtime.machine import Roofline, machine_roofline

Array = np.ndarray
Call = Callable[[], Any]
What = Literal["forward", "input", "kernel"]


@dataclass(frozen=True)
class Layer:
    """A layer: its input f32[batch, *sizes, inputs], stored with channels last or first, and the window.

    outputs: of a convolution; 0 for pooling. transposed: the layer enlarges its input by the stride. what: the result,
    or the gradient with respect to the input or the kernel. pooling: "max" or "average".
    """

    batch: int
    sizes: tuple[int, ...]
    inputs: int
    outputs: int
    window: int
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    channels_last: bool = True
    what: What = "forward"
    pooling: str = ""

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def padding(self) -> int:
        """The padding at each end of each dimension."""
        if self.pooling:
            return (self.window - 1) // 2
        return 0 if self.transposed else (self.window - 1) * self.dilation // 2

    @property
    def labels(self) -> tuple[str, str, str]:
        spatial = "DHW"[-self.rank :]
        data, kernel = (f"N{spatial}C", f"{spatial}IO") if self.channels_last else (f"NC{spatial}", f"OI{spatial}")
        return data, kernel, data

    def arrays(self) -> tuple[Array, Array]:
        """The input and the kernel in the row's layout."""
        kernel_shape = [self.window] * self.rank, [self.inputs // self.groups, max(1, self.outputs)]
        x = normal(self.batch, *self.sizes, self.inputs)
        k = normal(*kernel_shape[0], *kernel_shape[1], seed=1)
        return (x, k) if self.channels_last else (channels_first(x), kernel_first(k))

    def function(self) -> Callable[[Any, Any], Any]:
        """The layer as a JAX function of the input and the kernel."""
        pads = [(self.padding, self.padding)] * self.rank
        strides = (self.stride,) * self.rank
        if self.pooling:
            return lambda x, k: self._pooled(x, pads)
        if self.transposed:
            return lambda x, k: lax.conv_transpose(x, k, strides, "VALID", dimension_numbers=self.labels)
        return lambda x, k: lax.conv_general_dilated(
            x, k, strides, pads, rhs_dilation=(self.dilation,) * self.rank, dimension_numbers=self.labels,
            feature_group_count=self.groups,
        )  # fmt: skip

    def _pooled(self, x: Any, pads: Sequence[tuple[int, int]]) -> Any:
        def full(inner: Sequence[Any], rest: Any) -> list[Any]:
            return [rest, *inner, rest] if self.channels_last else [rest, rest, *inner]

        window, strides = full([self.window] * self.rank, 1), full([self.stride] * self.rank, 1)
        padding = full(pads, (0, 0))
        if self.pooling == "max":
            return lax.reduce_window(x, -np.inf, lax.max, window, strides, padding)
        return lax.reduce_window(x, 0.0, lax.add, window, strides, padding) / self.window**self.rank

    @property
    def result_size(self) -> int:
        """The number of positions of the result."""
        if self.transposed:
            return math.prod((size - 1) * self.stride + self.window for size in self.sizes)
        extent = (self.window - 1) * self.dilation + 1
        return math.prod((size + 2 * self.padding - extent) // self.stride + 1 for size in self.sizes)

    @property
    def flops(self) -> float:
        """The operations of the layer or of one of its gradients."""
        positions = math.prod(self.sizes) if self.transposed else self.result_size
        return 2.0 * self.batch * positions * self.window**self.rank * self.inputs // self.groups * self.outputs

    @property
    def traffic(self) -> tuple[float, float]:
        """The bytes that a pooling layer, or its gradient, reads and writes at least."""
        channels = 4.0 * self.batch * self.inputs
        whole, pooled = channels * math.prod(self.sizes), channels * self.result_size
        if self.what == "forward":
            return whole, pooled
        return pooled + (whole if self.pooling == "max" else 0), whole

    def least_seconds(self, machine: Roofline) -> float:
        """The time at the machine's limit."""
        if self.pooling:
            return machine.memory_seconds(*self.traffic)
        return machine.arithmetic_seconds({"f32": self.flops})


def _conv(*given: Any, **more: Any) -> Layer:
    return Layer(*given, **more)


LAYERS: Mapping[str, Layer] = {
    "resnet stem 7x7/2": _conv(8, (224, 224), 3, 64, 7, 2),
    "resnet 1x1 64-256 @56": _conv(8, (56, 56), 64, 256, 1),
    "resnet 1x1 256-64 @56": _conv(8, (56, 56), 256, 64, 1),
    "resnet 3x3 64 @56": _conv(8, (56, 56), 64, 64, 3),
    "resnet 3x3 128 @28": _conv(8, (28, 28), 128, 128, 3),
    "resnet 3x3/2 128 @56": _conv(8, (56, 56), 128, 128, 3, 2),
    "resnet 3x3 256 @14": _conv(8, (14, 14), 256, 256, 3),
    "resnet 3x3 512 @7": _conv(8, (7, 7), 512, 512, 3),
    "resnet 1x1/2 256-512 @56": _conv(8, (56, 56), 256, 512, 1, 2),
    "resnet 1x1 1024-256 @14": _conv(8, (14, 14), 1024, 256, 1),
    "resnet 3x3 64 @56, one image": _conv(1, (56, 56), 64, 64, 3),
    "resnet 3x3 512 @7, one image": _conv(1, (7, 7), 512, 512, 3),
    "vgg 3x3 3-64 @224": _conv(2, (224, 224), 3, 64, 3),
    "vgg 3x3 64 @224": _conv(1, (224, 224), 64, 64, 3),
    "mobilenet stem 3x3/2": _conv(8, (224, 224), 3, 32, 3, 2),
    "mobilenet depthwise 3x3 96 @112": _conv(4, (112, 112), 96, 96, 3, groups=96),
    "mobilenet depthwise 3x3/2 96 @112": _conv(4, (112, 112), 96, 96, 3, 2, groups=96),
    "mobilenet depthwise 5x5 240 @28": _conv(8, (28, 28), 240, 240, 5, groups=240),
    "mobilenet 1x1 24-144 @56": _conv(8, (56, 56), 24, 144, 1),
    "resnext grouped 3x3 128 @56": _conv(4, (56, 56), 128, 128, 3, groups=32),
    "deeplab dilated 3x3 256 @28": _conv(2, (28, 28), 256, 256, 3, dilation=2),
    "unet transposed 2x2 128-64 @28": _conv(4, (28, 28), 128, 64, 2, 2, transposed=True),
    "gan transposed 4x4 128-64 @28": _conv(4, (28, 28), 128, 64, 4, 2, transposed=True),
    "wavenet 1-D 3 dilated 64": _conv(4, (4096,), 64, 64, 3, dilation=4),
    "speech 1-D 9/2 80-256": _conv(4, (2000,), 80, 256, 9, 2),
    "video 3-D 3x3x3 32": _conv(2, (8, 28, 28), 32, 32, 3),
    "lenet 5x5 1-6 @28": _conv(64, (28, 28), 1, 6, 5),
    "nchw stem 7x7/2": _conv(8, (224, 224), 3, 64, 7, 2, channels_last=False),
    "nchw 3x3 64 @56": _conv(8, (56, 56), 64, 64, 3, channels_last=False),
    "nchw 3x3 256 @14": _conv(8, (14, 14), 256, 256, 3, channels_last=False),
    "nchw 3x3/2 128 @56": _conv(8, (56, 56), 128, 128, 3, 2, channels_last=False),
    "nchw 1x1 256-64 @56": _conv(8, (56, 56), 256, 64, 1, channels_last=False),
    "nchw depthwise 3x3 96 @112": _conv(4, (112, 112), 96, 96, 3, groups=96, channels_last=False),
    "nchw grouped 3x3 128 @56": _conv(4, (56, 56), 128, 128, 3, groups=32, channels_last=False),
    "input gradient 3x3 64 @56": _conv(8, (56, 56), 64, 64, 3, what="input"),
    "input gradient 3x3/2 128 @56": _conv(8, (56, 56), 128, 128, 3, 2, what="input"),
    "input gradient 1x1 256-64 @56": _conv(8, (56, 56), 256, 64, 1, what="input"),
    "input gradient depthwise 3x3 96 @112": _conv(4, (112, 112), 96, 96, 3, groups=96, what="input"),
    "input gradient nchw 3x3 64 @56": _conv(8, (56, 56), 64, 64, 3, channels_last=False, what="input"),
    "kernel gradient 3x3 64 @56": _conv(8, (56, 56), 64, 64, 3, what="kernel"),
    "kernel gradient 3x3/2 128 @56": _conv(8, (56, 56), 128, 128, 3, 2, what="kernel"),
    "kernel gradient 3x3 512 @7": _conv(8, (7, 7), 512, 512, 3, what="kernel"),
    "kernel gradient 1x1 256-64 @56": _conv(8, (56, 56), 256, 64, 1, what="kernel"),
    "kernel gradient stem 7x7/2": _conv(8, (224, 224), 3, 64, 7, 2, what="kernel"),
    "kernel gradient depthwise 3x3 96 @112": _conv(4, (112, 112), 96, 96, 3, groups=96, what="kernel"),
    "kernel gradient nchw 3x3 64 @56": _conv(8, (56, 56), 64, 64, 3, channels_last=False, what="kernel"),
    "max-pool 3x3/2 64 @112": _conv(8, (112, 112), 64, 0, 3, 2, pooling="max"),
    "max-pool 2x2/2 64 @224": _conv(2, (224, 224), 64, 0, 2, 2, pooling="max"),
    "max-pool 3x3 256 @28": _conv(8, (28, 28), 256, 0, 3, pooling="max"),
    "avg-pool 3x3/2 64 @112": _conv(8, (112, 112), 64, 0, 3, 2, pooling="average"),
    "avg-pool 2x2/2 64 @224": _conv(2, (224, 224), 64, 0, 2, 2, pooling="average"),
    "max-pool nchw 3x3/2 64 @112": _conv(8, (112, 112), 64, 0, 3, 2, channels_last=False, pooling="max"),
    "max-pool nchw 2x2/2 64 @224": _conv(2, (224, 224), 64, 0, 2, 2, channels_last=False, pooling="max"),
    "max-pool gradient 3x3/2 64 @112": _conv(8, (112, 112), 64, 0, 3, 2, pooling="max", what="input"),
    "max-pool gradient 2x2/2 64 @224": _conv(2, (224, 224), 64, 0, 2, 2, pooling="max", what="input"),
    "avg-pool gradient 3x3/2 64 @112": _conv(8, (112, 112), 64, 0, 3, 2, pooling="average", what="input"),
    "max-pool gradient nchw 2x2/2 64 @224": _conv(
        2, (224, 224), 64, 0, 2, 2, channels_last=False, pooling="max", what="input"
    ),
}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def channels_first(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def kernel_first(k: Array) -> Array:
    """Brings a kernel from the order spatial, input, output to output, input, spatial."""
    return np.ascontiguousarray(np.moveaxis(k, [-1, -2], [0, 1]))


# -- implementations


def jax_and_ours(layer: Layer, peers: Sequence[str]) -> Iterator[tuple[str, Call, float]]:
    """The calls of XLA and of xlapy, with the seconds that their compilation took."""
    x, k = layer.arrays()
    forward = layer.function()
    given: tuple[Array, ...] = (x, k)
    function: Callable[..., Any] = forward
    if layer.what != "forward":
        result = jax.eval_shape(forward, x, k)
        given = (x, k, normal(*result.shape, seed=2))
        function = lambda x, k, g: jax.vjp(forward, x, k)[1](g)[layer.what == "kernel"]  # noqa: E731
    jax.clear_caches()
    lowered = jax.jit(function, keep_unused=True).lower(*given)
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


def torch_call(layer: Layer) -> Call:
    """The call of torch, on tensors in the layout of the row."""
    import torch

    x, k = layer.arrays()
    spatial = list(range(1, layer.rank + 1))
    order, kernel_order = [0, layer.rank + 1, *spatial], [layer.rank + 1, layer.rank, *range(layer.rank)]
    tensor = torch.from_numpy(x).permute(order) if layer.channels_last else torch.from_numpy(x)
    kernel = torch.from_numpy(k).permute(kernel_order) if layer.channels_last else torch.from_numpy(k)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory = formats.get(x.ndim, torch.contiguous_format) if layer.channels_last else torch.contiguous_format
    if layer.transposed:
        kernel = kernel.transpose(0, 1)  # torch wants input features first
    kernel = kernel.contiguous(memory_format=memory)
    tensor = tensor.contiguous(memory_format=memory)
    zeros = [0] * layer.rank
    strides, pads = [layer.stride] * layer.rank, [layer.padding] * layer.rank
    if layer.pooling:
        return _torch_pooling(layer, torch, tensor)
    options = (strides, pads, [layer.dilation] * layer.rank, layer.transposed, zeros, layer.groups)
    aten = torch.ops.aten
    if layer.what == "forward":
        return lambda: aten.convolution(tensor, kernel, None, *options)
    g = torch.randn_like(aten.convolution(tensor, kernel, None, *options)).contiguous(memory_format=memory)
    wanted = [layer.what == "input", layer.what == "kernel", False]
    return lambda: aten.convolution_backward(g, tensor, kernel, None, *options, wanted)


def _torch_pooling(layer: Layer, torch: Any, tensor: Any) -> Call:
    aten = torch.ops.aten
    window, stride, pad = [layer.window] * 2, [layer.stride] * 2, [layer.padding] * 2
    if layer.pooling == "max":
        if layer.what == "forward":
            return lambda: torch.nn.functional.max_pool2d(tensor, window, stride, pad)
        result, indices = aten.max_pool2d_with_indices(tensor, window, stride, pad)
        g = torch.randn_like(result)
        return lambda: aten.max_pool2d_with_indices_backward(g, tensor, window, stride, pad, [1, 1], False, indices)
    options = (window, stride, pad, False, True, None)
    if layer.what == "forward":
        return lambda: aten.avg_pool2d(tensor, *options)
    g = torch.randn_like(aten.avg_pool2d(tensor, *options))
    return lambda: aten.avg_pool2d_backward(g, tensor, *options)


def onnx_call(layer: Layer) -> Call:
    """The call of ONNX Runtime on NCHW arrays."""

    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    x, k = layer.arrays()
    if layer.channels_last:
        x, k = channels_first(x), kernel_first(k)
    pads = [layer.padding] * (2 * layer.rank)
    attributes: dict[str, Any] = {"strides": [layer.stride] * layer.rank, "pads": pads}
    attributes["kernel_shape"] = [layer.window] * layer.rank
    constants: list[Any] = []
    if layer.pooling:
        op = "MaxPool" if layer.pooling == "max" else "AveragePool"
        if layer.pooling != "max":
            attributes["count_include_pad"] = 1
    else:
        op = "ConvTranspose" if layer.transposed else "Conv"
        attributes |= {"dilations": [layer.dilation] * layer.rank, "group": layer.groups}
        constants = [numpy_helper.from_array(np.moveaxis(k, 0, 1).copy() if layer.transposed else k, "k")]
    node = helper.make_node(op, ["x", *(c.name for c in constants)], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    graph = helper.make_graph([node], "layer", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave the processors
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


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
