"""The peers of `benchmarks.convolutions`: the calls of torch and ONNX Runtime for a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.convolution_layers import Layer, channels_first, kernel_first

Call = Callable[[], Any]


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
