"""The networks of `benchmarks.network_models` in torch and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.network_models import EPSILON, Array, ConvolutionLayer, Network, folded

Call = Callable[[], Any]


@dataclass
class TorchOperations:
    """Operations of torch. parameters: tensors by name, kernels as (outputs, inputs, window, window)."""

    parameters: Mapping[str, Any]
    is_training: bool = False

    def convolve(self, x: Any, layer: ConvolutionLayer) -> Any:
        import torch.nn.functional as f

        names = "kernel", "mean", "variance", "scale", "offset"
        kernel, mean, variance, scale, offset = (self.parameters[f"{layer.name}.{n}"] for n in names)
        x = f.conv2d(x, kernel, None, layer.stride, layer.padding, 1, layer.groups)
        return f.batch_norm(x, mean, variance, scale, offset, self.is_training, 0.1, EPSILON)

    def relu(self, x: Any) -> Any:
        return x.relu()

    def relu6(self, x: Any) -> Any:
        return x.clamp(0, 6)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        import torch.nn.functional as f

        return f.max_pool2d(x, 3, 2, 1)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def classify(self, x: Any, inputs: int) -> Any:
        return x @ self.parameters["classes.weights"] + self.parameters["classes.bias"]


def _torch_tensors(arrays: Mapping[str, Array], images: Array, is_channels_last: bool, is_bf16: bool) -> Any:
    """The parameters and the images (batch, height, width, channels) as tensors."""
    import torch

    memory = torch.channels_last if is_channels_last else torch.contiguous_format
    kind = torch.bfloat16 if is_bf16 else torch.float32

    def tensor(array: Array) -> Any:
        found = torch.from_numpy(np.ascontiguousarray(array)).to(kind)
        return found.contiguous(memory_format=memory) if found.ndim == 4 else found

    tensors = {k: tensor(a.transpose(3, 2, 0, 1) if a.ndim == 4 else a) for k, a in arrays.items()}
    return tensors, tensor(images.transpose(0, 3, 1, 2))


def torch_inference(
    network: Network, arrays: Mapping[str, Array], images: Array, is_channels_last: bool, is_bf16: bool, compiles: bool
) -> Call:
    """A call of torch; compiles: by torch.compile with frozen parameters, so that batch normalizations are folded."""
    import torch

    tensors, x = _torch_tensors(arrays, images, is_channels_last, is_bf16)

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tensors = torch.nn.ParameterDict({k.replace(".", "_"): t for k, t in tensors.items()})

        def forward(self, given: Any) -> Any:
            named = {k: self.tensors[k.replace(".", "_")] for k in tensors}
            return network(TorchOperations(named), given)

    function: Any = (
        Module().eval().requires_grad_(False) if compiles else lambda g: network(TorchOperations(tensors), g)
    )
    if compiles:
        import torch._inductor.config as inductor

        inductor.freezing = True
        function = torch.compile(Module().eval().requires_grad_(False))

    def call() -> Any:
        with torch.inference_mode() if not compiles else torch.no_grad():
            return function(x)

    return call


def torch_training(
    network: Network,
    arrays: Mapping[str, Array],
    images: Array,
    labels: Array,
    rate: float,
    is_channels_last: bool,
    is_bf16: bool,
) -> Call:
    """A call of torch for one step of gradient descent."""
    import torch

    tensors, x = _torch_tensors(arrays, images, is_channels_last, is_bf16)
    learned = [t.requires_grad_() for k, t in tensors.items() if not k.endswith((".mean", ".variance"))]
    wanted = torch.from_numpy(labels).long()

    def call() -> Any:
        result = network(TorchOperations(tensors, is_training=True), x)
        loss = torch.nn.functional.cross_entropy(result, wanted)
        gradients = torch.autograd.grad(loss, learned)
        with torch.no_grad():
            torch._foreach_sub_(learned, torch._foreach_mul(gradients, rate))
        return loss

    return call


@dataclass
class _OnnxOperations:
    """Operations that write an ONNX graph of folded parameters; images are names of values."""

    parameters: Mapping[str, Array]
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def _add(self, op: str, *operands: str, **attributes: Any) -> str:
        from onnx import helper

        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [result], **attributes))
        return result

    def _constant(self, name: str, array: Array) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def convolve(self, x: str, layer: ConvolutionLayer) -> str:
        kernel = self._constant(f"{layer.name}.kernel", self.parameters[f"{layer.name}.kernel"].transpose(3, 2, 0, 1))
        offset = self._constant(f"{layer.name}.offset", self.parameters[f"{layer.name}.offset"])
        pads, strides = [layer.padding] * 4, [layer.stride] * 2
        return self._add("Conv", x, kernel, offset, pads=pads, strides=strides, group=layer.groups)

    def relu(self, x: str) -> str:
        return self._add("Relu", x)

    def relu6(self, x: str) -> str:
        limits = [self._constant(f"limit{n}.{len(self.nodes)}", np.float32(n)) for n in (0, 6)]
        return self._add("Clip", x, *limits)

    def add(self, x: str, y: str) -> str:
        return self._add("Add", x, y)

    def max_pool(self, x: str) -> str:
        return self._add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def mean(self, x: str) -> str:
        return self._add("Flatten", self._add("GlobalAveragePool", x))

    def classify(self, x: str, inputs: int) -> str:
        given = [self._constant(n, self.parameters[n]) for n in ("classes.weights", "classes.bias")]
        return self._add("Gemm", x, *given)


def onnx_inference(network: Network, arrays: Mapping[str, Array], images: Array) -> Call:
    """A call of ONNX Runtime on images with channels first."""
    import onnxruntime
    from onnx import TensorProto, helper

    ops = _OnnxOperations(folded(arrays))
    result = network(ops, "x")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", result)]
    graph = helper.make_graph(ops.nodes, "network", values[:1], values[1:], ops.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave the processors
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    x = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return lambda: session.run(None, {"x": x})[0]
