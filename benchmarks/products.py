"""Measures matrix products on the platform cpu beside XLA:CPU, torch and ONNX Runtime, alternating, in one process.

    python -m benchmarks.products [GROUP or ROW ...] [--runs 7] [--largest 256] [--list]
    python -m benchmarks.products --choices [GROUP or ROW ...] [--random 25] [--seed 0] [--runs 3]

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
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

import xlapy as xla
from benchmarks.product_choices import print_choices, random_products
from benchmarks.product_rows import GROUPS, Product, hlo, operands_of
from xlapy.cpu.llvm.pool import thread_count
from xlapy.runtime import machine

MIN_SAMPLE_SECONDS = 4e-3
"""The minimum duration of one timed sample. Products that take less are called several times per sample."""

REST_SECONDS = 5e-3
"""The pause before each sample, in which the threads of the implementation before stop spinning."""

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
    operands = operands_of(product)
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
    parser.add_argument("--choices", action="store_true", help="compare the strategies of each row instead")
    parser.add_argument("--random", type=int, default=0, help="with --choices: as many random products, not the rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="only print the rows")
    options = parser.parse_args()
    if options.choices and options.random:
        print_choices(random_products(options.random, options.seed), options.runs)
        return
    for group, products in GROUPS.items():
        chosen = [p for p in products if group in options.rows or p.name in options.rows]
        chosen = [p for p in chosen if p.read_bytes <= (options.largest << 20) * 1.1]
        if chosen and options.list:
            print(*(f"{group}: {product.name}" for product in chosen), sep="\n")
        elif chosen and options.choices:
            print_choices(iter(chosen), options.runs)
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
