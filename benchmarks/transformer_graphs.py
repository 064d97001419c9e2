"""The ONNX graphs of `benchmarks/transformer_programs.py`, run by ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_INFINITY = np.float32(-np.inf)


class _Graph:
    """A graph under construction; methods return the names of values."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        import onnx

        self.nodes.append(onnx.helper.make_node(kind, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def constant(self, array: Any) -> str:
        import onnx

        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def call(self, inputs: dict[str, np.ndarray], result: str) -> Callable[[], Any]:
        """Returns a call of the graph in ONNX Runtime with all of its optimizations."""
        import onnx
        import onnxruntime

        def value(name: str, shape: Sequence[int] | None) -> Any:
            return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

        given = [value(name, array.shape) for name, array in inputs.items()]
        graph = onnx.helper.make_graph(self.nodes, "graph", given, [value(result, None)], self.constants)
        opsets = [onnx.helper.make_opsetid("", 20)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return lambda: session.run(None, inputs)


def _attend(graph: _Graph, query: str, key: str, value: str, width: int, mask: np.ndarray | None) -> str:
    """Softmax attention of [batch, heads, length, width], with the keys as [batch, heads, width, length]."""
    scores = graph.op("Mul", graph.op("MatMul", query, key), graph.constant(np.float32(width**-0.5)))
    if mask is not None:
        scores = graph.op("Where", graph.constant(mask), scores, graph.constant(_INFINITY))
    return graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)


def onnx_attention(arguments: Sequence[np.ndarray]) -> Callable[[], Any]:
    """Attention of queries, keys and values [batch, length, heads, width]."""
    graph = _Graph()
    query = graph.op("Transpose", "q", perm=[0, 2, 1, 3])
    key = graph.op("Transpose", "k", perm=[0, 2, 3, 1])
    value = graph.op("Transpose", "v", perm=[0, 2, 1, 3])
    mixed = _attend(graph, query, key, value, arguments[0].shape[-1], None)
    result = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return graph.call(dict(zip("qkv", arguments, strict=True)), result)


def onnx_block(arguments: Sequence[Any]) -> Callable[[], Any]:
    """A block of GPT: see `block` in `transformer_programs`. The weights are constants, as in models for inference."""
    p, x = arguments
    batch, length, width = x.shape
    graph = _Graph()
    c = {name: graph.constant(array) for name, array in p.items()}
    heads = 12

    def linear(v: str, name: str) -> str:
        return graph.op("Add", graph.op("MatMul", v, c[name]), c[f"{name}_bias"])

    norm = graph.op("LayerNormalization", "x", c["scale1"], c["shift1"], axis=-1, epsilon=1e-5)
    shape = graph.constant(np.array([batch, length, 3, heads, width // heads]))
    parts = graph.op("Transpose", graph.op("Reshape", linear(norm, "qkv"), shape), perm=[2, 0, 3, 1, 4])
    query, key, value = (graph.op("Gather", parts, graph.constant(np.int64(n)), axis=0) for n in range(3))
    key = graph.op("Transpose", key, perm=[0, 1, 3, 2])
    mixed = _attend(graph, query, key, value, width // heads, np.tril(np.ones((length, length), bool)))
    mixed = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.op("Reshape", mixed, graph.constant(np.array([batch, length, width])))
    x1 = graph.op("Add", "x", linear(mixed, "mix"))
    norm = graph.op("LayerNormalization", x1, c["scale2"], c["shift2"], axis=-1, epsilon=1e-5)
    inner = graph.op("Gelu", linear(norm, "up"), approximate="tanh")
    return graph.call({"x": x}, graph.op("Add", x1, linear(inner, "down")))
