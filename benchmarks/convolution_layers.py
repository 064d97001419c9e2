"""The layers of well-known networks that `benchmarks.convolutions` measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jax import lax

from xlapy.runtime.machine import Roofline

Array = np.ndarray
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
