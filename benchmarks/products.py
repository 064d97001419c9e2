"""Measures matrix products on the platform cpu beside XLA:CPU, torch and ONNX Runtime, alternating, in one process.

    python -m benchmarks.products [GROUP or ROW ...] [--runs 7] [--largest 256] [--list]

Prints for each row the milliseconds of xlapy, the ratios of the others' times to it (above 1, xlapy is faster), and the
percentage of a limit measured in the same run. The limit of a compute-bound row is what fused multiply-adds in
registers reach on all threads; twice that in bf16 and four times in s8. The limit of a row whose weights are read once
is what reading as many bytes reaches. Times are medians. torch and ONNX Runtime take part if they are installed; ONNX
Runtime has no transposed operands, and neither has products of all narrow types. `--largest` skips rows with larger
operands, in MB. Nothing else may run on the machine meanwhile.

A row is M x K x N of one product or of a batch. `wT` marks weights of shape [N, K], `aT` a left operand of shape
[K, M].
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

import xlapy as xla
from xlapy.cpu.llvm.pool import thread_count
from xlapy.runtime import machine

MIN_SAMPLE_SECONDS = 4e-3
"""The minimum duration of one timed sample. Products that take less are called several times per sample."""

REST_SECONDS = 5e-3
"""The pause before each sample, in which the threads of the implementation before stop spinning."""

HLO_TYPES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "int8": "s8"}

RESULT_TYPES = {"int8": np.dtype(np.int32)}
"""The types of results that are not those of the operands."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of [batch, m, k] and [batch, k, n]. bandwidth: whether reading the operands limits it."""

    m: int
    k: int
    n: int
    batch: int = 0
    dtype: str = "float32"
    left_transposed: bool = False
    right_transposed: bool = False
    bandwidth: bool = False

    @property
    def name(self) -> str:
        batch = f"{self.batch} x " if self.batch else ""
        marks = (" aT" if self.left_transposed else "") + (" wT" if self.right_transposed else "")
        suffix = "" if self.dtype == "float32" else f" {HLO_TYPES[self.dtype]}"
        return f"{batch}{self.m} x {self.k} x {self.n}{marks}{suffix}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        batch = (self.batch,) if self.batch else ()
        left = (self.k, self.m) if self.left_transposed else (self.m, self.k)
        right = (self.n, self.k) if self.right_transposed else (self.k, self.n)
        return batch + left, batch + right

    @property
    def result_type(self) -> np.dtype[Any]:
        return RESULT_TYPES.get(self.dtype, np.dtype(self.dtype))

    @property
    def operations(self) -> float:
        return 2.0 * self.m * self.k * self.n * max(1, self.batch)

    @property
    def read_bytes(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes) * np.dtype(self.dtype).itemsize


def _weights(rows: Sequence[int], megabytes: Sequence[int], *, narrow: bool = False) -> Iterator[Product]:
    """Few rows times square weights of a size in MB; narrow: weights with 256 columns."""
    for size in megabytes:
        k = 256 if narrow else round((size << 18) ** 0.5)
        for m in rows:
            for transposed in (False, True):
                n = (size << 18) // k
                yield Product(m, n if narrow else k, k if narrow else n, right_transposed=transposed, bandwidth=True)


def _narrow_types(dtype: str) -> Sequence[Product]:
    """Square and odd products, and few rows times weights, in one type."""
    squares = [Product(s, s, s, dtype=dtype, right_transposed=t) for s in (512, 1024, 2048) for t in (False, True)]
    odd = [Product(513, 511, 509, dtype=dtype), Product(777, 1333, 1999, dtype=dtype)]
    few = [replace(p, dtype=dtype) for p in _weights((1, 8, 32), (16, 64))]
    return [*squares, *odd, *few]


GROUPS: Mapping[str, Sequence[Product]] = {
    "square": [Product(s, s, s) for s in (128, 256, 512, 1024, 2048, 4096)],
    "odd": [Product(*s) for s in ((513, 511, 509), (1000, 1000, 1000), (777, 1333, 1999), (1999, 777, 1333))],
    "f64": [Product(s, s, s, dtype="float64") for s in (256, 512, 1024, 2048)],
    "transposed": [
        Product(s, s, s, left_transposed=a, right_transposed=b)
        for s in (512, 1024)
        for a, b in ((True, False), (False, True), (True, True))
    ],
    "gemv": list(_weights((1,), (1, 4, 16, 64, 256, 1024))),
    "skinny": list(_weights((4, 8, 16, 32), (1, 16, 64, 256))),
    "narrow": list(_weights((1, 8), (1, 16, 64), narrow=True)),
    "bf16": _narrow_types("bfloat16"),
    "s8": _narrow_types("int8"),
    "batched": [
        Product(128, 128, 128, 64),
        Product(16, 16, 16, 4096),
        Product(8, 8, 8, 4096),
        Product(32, 32, 32, 1024),
        Product(64, 64, 64, 256),
        Product(128, 64, 128, 96, right_transposed=True),
        Product(512, 64, 512, 12, right_transposed=True),
        Product(512, 512, 64, 12),
        Product(1, 64, 512, 96, right_transposed=True),
    ],
    "many-terms": [
        Product(16, 262144, 16, left_transposed=True),
        Product(64, 50021, 10, left_transposed=True),
        Product(64, 20000, 64, left_transposed=True),
        Product(37, 60000, 29),
        Product(37, 50000, 29, right_transposed=True),
    ],
    "models": [
        Product(m, k, n, right_transposed=t)
        for m, k, n in ((64, 1024, 4096), (32, 512, 2048), (64, 512, 512), (16, 256, 1024), (128, 479, 1024),
                        (128, 1024, 1024), (2048, 512, 256), (2048, 13, 512), (2048, 256, 1))
        for t in (False, True)
    ],
}  # fmt: skip
"""The rows by group. `models` are layers of recommendation models and LSTMs."""


# -- implementations


def implementations(product: Product, operands: Sequence[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Compiles a product for everything that is installed."""
    calls = {"ours": _ours(product, operands), "xla": _xla(product, operands)}
    if importlib.util.find_spec("torch") is not None and product.dtype != "int8":  # its sums wrap at 8 bits
        calls["torch"] = _torch(product, operands)
    has_onnxruntime = importlib.util.find_spec("onnxruntime") is not None and product.dtype in ("float32", "float64")
    if has_onnxruntime and importlib.util.find_spec("onnx") is not None:
        onnx = _onnxruntime(product, operands)
        if onnx is not None:
            calls["onnxruntime"] = onnx
    return calls


def _ours(product: Product, operands: Sequence[np.ndarray]) -> Callable[[], Any]:
    client = xla.Client("cpu")
    executable = client.compile(hlo(product))
    buffers = [client.device_put(operand) for operand in operands]
    return lambda: xla.block_until_ready(executable(*buffers))


def hlo(product: Product) -> str:
    """The product as a module."""
    left, right = product.shapes
    batches = 1 if product.batch else 0
    contracting = batches + (0 if product.left_transposed else 1), batches + (1 if product.right_transposed else 0)
    result = (*left[:batches], product.m, product.n)
    types = [HLO_TYPES[product.dtype]] * 2 + [HLO_TYPES.get(product.result_type.name, "s32")]
    text = [f"{t}[{','.join(map(str, shape))}]" for t, shape in zip(types, (left, right, result), strict=True)]
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batches else ""
    dims = f"{batch}lhs_contracting_dims={{{contracting[0]}}}, rhs_contracting_dims={{{contracting[1]}}}"
    return (
        f"HloModule product\nENTRY e {{\n  a = {text[0]} parameter(0)\n  b = {text[1]} parameter(1)\n"
        f"  ROOT d = {text[2]} dot(a, b), {dims}\n}}\n"
    )


def _xla(product: Product, operands: Sequence[np.ndarray]) -> Callable[[], Any]:
    batches = 1 if product.batch else 0
    contracting = batches + (0 if product.left_transposed else 1), batches + (1 if product.right_transposed else 0)
    dims = (((contracting[0],), (contracting[1],)), ((0,) * batches, (0,) * batches))
    preferred = product.result_type
    function = jax.jit(lambda a, b: jax.lax.dot_general(a, b, dims, preferred_element_type=preferred))
    arguments = [jax.device_put(operand) for operand in operands]
    return lambda: jax.block_until_ready(function(*arguments))


def _torch(product: Product, operands: Sequence[np.ndarray]) -> Callable[[], Any]:
    import torch

    is_narrow = product.dtype == "bfloat16"
    left, right = (torch.from_numpy(np.asarray(operand, np.float32 if is_narrow else None)) for operand in operands)
    if is_narrow:
        left, right = left.bfloat16(), right.bfloat16()
    left = left.transpose(-1, -2) if product.left_transposed else left
    right = right.transpose(-1, -2) if product.right_transposed else right
    return lambda: torch.matmul(left, right)


def _onnxruntime(product: Product, operands: Sequence[np.ndarray]) -> Callable[[], Any] | None:
    if product.left_transposed or product.right_transposed:
        return None
    import onnxruntime
    from onnx import TensorProto, helper  # type: ignore[import-not-found, unused-ignore]

    t = TensorProto.DOUBLE if product.dtype == "float64" else TensorProto.FLOAT
    values = [helper.make_tensor_value_info(n, t, o.shape) for n, o in zip("ab", operands, strict=True)]
    result = helper.make_tensor_value_info("d", t, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["d"])], "product", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])
    arguments = {n: onnxruntime.OrtValue.ortvalue_from_numpy(o) for n, o in zip("ab", operands, strict=True)}
    return lambda: session.run_with_ort_values(["d"], arguments)


# -- measuring


def measure(product: Product, runs: int) -> tuple[dict[str, float], float]:
    """Returns the median seconds of each implementation, and the seconds of the limit."""
    draw = np.random.default_rng(0)
    wide = "float64" if product.dtype == "float64" else "float32"
    scale = 20 if product.dtype == "int8" else 1
    operands = [
        (draw.standard_normal(shape, dtype=wide) * scale).astype(product.dtype)  # type: ignore[call-overload]
        for shape in product.shapes
    ]
    with jax.enable_x64(True) if product.dtype == "float64" else nullcontext():
        calls: dict[str, Callable[[], Any]] = implementations(product, operands)
        found: dict[str, list[float]] = {name: [] for name in calls}
        counts: dict[str, int] = {}
        for name, call in calls.items():
            call()
            counts[name] = max(1, round(MIN_SAMPLE_SECONDS / max(_timed(call, 1), 1e-7)))
        limits = [_limit_seconds(product)]
        for _ in range(runs):
            for name, call in calls.items():
                time.sleep(REST_SECONDS)
                call()
                found[name].append(_timed(call, counts[name]))
        limits.append(_limit_seconds(product))
    return {name: statistics.median(values) for name, values in found.items()}, min(limits)


def _timed(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


_PRODUCTS_PER_LANE = {"bfloat16": 2, "int8": 4}
"""The products that a dot instruction adds up in each lane of 32 bits, in the time of a fused multiply-add."""


def _limit_seconds(product: Product) -> float:
    """The seconds of the arithmetic; or those of reading the operands, if `bandwidth` says so and they are more."""
    threads = thread_count()
    measured = "f64" if product.dtype == "float64" else "f32"
    rate = machine.measure_operations(measured, threads) * _PRODUCTS_PER_LANE.get(product.dtype, 1)
    seconds = product.operations / rate
    if not product.bandwidth:
        return seconds
    piece = -(-product.read_bytes // threads // 4096) * 4096
    return max(seconds, product.read_bytes / machine.measure_bandwidth(piece, threads).read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="GROUP or ROW", default=list(GROUPS))
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--largest", type=int, default=256, help="skip rows with operands of more MB")
    parser.add_argument("--list", action="store_true", help="only print the rows")
    options = parser.parse_args()
    for group, products in GROUPS.items():
        chosen = [p for p in products if group in options.rows or p.name in options.rows]
        chosen = [p for p in chosen if p.read_bytes <= (options.largest << 20) * 1.1]
        if chosen and options.list:
            print(*(f"{group}: {product.name}" for product in chosen), sep="\n")
        elif chosen:
            print(f"{group:34}{'ms':>9}{'xla':>7}{'torch':>7}{'ort':>7}{'limit':>7}", flush=True)
            for product in chosen:
                _print_row(product, options.runs)


def _print_row(product: Product, runs: int) -> None:
    times, limit = measure(product, runs)
    ours = times["ours"]
    peers = (times.get(name) for name in ("xla", "torch", "onnxruntime"))
    ratios = "".join("      -" if peer is None else f"{peer / ours:7.2f}" for peer in peers)
    print(f"{product.name:34}{ours * 1e3:9.3f}{ratios}{limit / ours:7.0%}", flush=True)


if __name__ == "__main__":
    main()
