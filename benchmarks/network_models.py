"""The networks that `benchmarks.networks` measures, written once for all implementations.

A network is a function of operations and an image. The operations (`Operations`) are those of JAX, of torch, or a
recorder that lists the layers; the same function thus computes the network, and says which parameters it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Array = np.ndarray
CLASSES = 1000
IMAGE_SIZE = 224


@dataclass(frozen=True)
class ConvolutionLayer:
    """A convolution without a bias, padded so that stride 1 keeps the size of the image, and a batch normalization."""

    name: str
    inputs: int
    outputs: int
    window: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return (self.window - 1) // 2

    def parameters(self, random: np.random.Generator) -> dict[str, Array]:
        """The kernel (window, window, inputs of a group, outputs), and scale, offset, mean and variance."""
        terms = self.window**2 * self.inputs // self.groups
        shape = self.window, self.window, self.inputs // self.groups, self.outputs
        given = {
            "kernel": random.standard_normal(shape) * (2 / terms) ** 0.5,
            "scale": random.uniform(0.5, 1.0, self.outputs),
            "offset": random.standard_normal(self.outputs) * 0.1,
            "mean": random.standard_normal(self.outputs) * 0.1,
            "variance": random.uniform(0.5, 1.5, self.outputs),
        }
        return {f"{self.name}.{key}": value.astype(np.float32) for key, value in given.items()}


class Operations(Protocol):
    """The operations of a network, on images of one implementation."""

    def convolve(self, x: Any, layer: ConvolutionLayer) -> Any: ...
    def relu(self, x: Any) -> Any: ...
    def relu6(self, x: Any) -> Any: ...
    def add(self, x: Any, y: Any) -> Any: ...
    def max_pool(self, x: Any) -> Any:
        """Maximum over 3 x 3 elements, with stride 2 and padding 1."""

    def mean(self, x: Any) -> Any:
        """The means of the channels: [batch, channels]."""

    def classify(self, x: Any, inputs: int) -> Any:
        """The last layer, with parameters "classes.weights" and "classes.bias"."""


Network = Callable[[Operations, Any], Any]

RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""The width, the number of blocks, and the stride of the first block of each stage."""


def resnet50(ops: Operations, x: Any) -> Any:
    """ResNet-50 with the stride in the 3 x 3 convolutions (version 1.5)."""
    x = ops.max_pool(ops.relu(ops.convolve(x, ConvolutionLayer("stem", 3, 64, 7, 2))))
    channels = 64
    for stage, (width, blocks, first_stride) in enumerate(RESNET50_STAGES):
        for block in range(blocks):
            name, stride = f"stage{stage}.block{block}", first_stride if block == 0 else 1
            y = ops.relu(ops.convolve(x, ConvolutionLayer(f"{name}.reduce", channels, width, 1)))
            y = ops.relu(ops.convolve(y, ConvolutionLayer(f"{name}.spatial", width, width, 3, stride)))
            y = ops.convolve(y, ConvolutionLayer(f"{name}.expand", width, 4 * width, 1))
            if block == 0:
                x = ops.convolve(x, ConvolutionLayer(f"{name}.shortcut", channels, 4 * width, 1, stride))
            x, channels = ops.relu(ops.add(x, y)), 4 * width
    return ops.classify(ops.mean(x), channels)


MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""The expansion, the width, the number of blocks, and the stride of the first block of each stage."""


def mobilenet_v2(ops: Operations, x: Any) -> Any:
    x = ops.relu6(ops.convolve(x, ConvolutionLayer("stem", 3, 32, 3, 2)))
    channels = 32
    for stage, (expansion, width, blocks, first_stride) in enumerate(MOBILENET_STAGES):
        for block in range(blocks):
            name, stride, inner = f"stage{stage}.block{block}", first_stride if block == 0 else 1, expansion * channels
            y = x
            if expansion > 1:
                y = ops.relu6(ops.convolve(y, ConvolutionLayer(f"{name}.expand", channels, inner, 1)))
            y = ops.relu6(ops.convolve(y, ConvolutionLayer(f"{name}.spatial", inner, inner, 3, stride, inner)))
            y = ops.convolve(y, ConvolutionLayer(f"{name}.reduce", inner, width, 1))
            x = ops.add(x, y) if stride == 1 and channels == width else y
            channels = width
    x = ops.relu6(ops.convolve(x, ConvolutionLayer("last", channels, 1280, 1)))
    return ops.classify(ops.mean(x), 1280)


@dataclass
class _Recorder:
    """Operations that only list the layers."""

    layers: list[ConvolutionLayer] = field(default_factory=list)
    features: int = 0

    def convolve(self, x: None, layer: ConvolutionLayer) -> None:
        self.layers.append(layer)

    def relu(self, x: None) -> None: ...
    def relu6(self, x: None) -> None: ...
    def add(self, x: None, y: None) -> None: ...
    def max_pool(self, x: None) -> None: ...
    def mean(self, x: None) -> None: ...

    def classify(self, x: None, inputs: int) -> None:
        self.features = inputs


def parameters_of(network: Network) -> dict[str, Array]:
    """Random parameters of a network, by name."""
    recorder, random = _Recorder(), np.random.default_rng(0)
    network(recorder, None)
    found: dict[str, Array] = {}
    for layer in recorder.layers:
        found |= layer.parameters(random)
    weights = random.standard_normal((recorder.features, CLASSES)) / recorder.features**0.5
    return found | {"classes.weights": weights.astype(np.float32), "classes.bias": np.zeros(CLASSES, np.float32)}


EPSILON = 1e-5
"""What batch normalization adds to the variance."""


def folded(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """Parameters of the same network with each batch normalization as factors of the kernel and an offset."""
    found = dict(parameters)
    for name in [key.removesuffix(".kernel") for key in parameters if key.endswith(".kernel")]:
        mean, variance = found.pop(f"{name}.mean"), found.pop(f"{name}.variance")
        factor = found.pop(f"{name}.scale") / np.sqrt(variance + EPSILON)
        found[f"{name}.kernel"] = found[f"{name}.kernel"] * factor
        found[f"{name}.offset"] = found[f"{name}.offset"] - mean * factor
    return found
