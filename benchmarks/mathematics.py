"""Measures accuracy and speed of the functions of `xlapy.loops.mathematics`, compiled for this host.

    python benchmarks/mathematics.py                      every function, each 4099th f32, a million f64
    python benchmarks/mathematics.py sine tan --step 1    all 2^32 f32

Prints for each function and type the largest error in units in the last place (ULPs) of the true result, the operands
at which it occurs, and the nanoseconds per element of a 16 KiB buffer. If jax is installed, it also prints XLA:CPU's
CPU time per element of an array of a million. True results are NumPy's, in float64 for f32 and in extended precision
for f64.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from xlapy.cpu.llvm.jit import Code, compile_text
from xlapy.cpu.llvm.kernels import emit_kernel
from xlapy.loops import F32, F64, AxisKind, Builder, Kernel, ScalarType
from xlapy.loops.mathematics import MATHEMATICS

Array = np.ndarray
CHUNK = 1 << 16


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(x.dtype), x)


def _logistic(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(x < 0, decay, 1) / (1 + decay)


def _erf(x: Array) -> Array:
    """Computes erf: by SciPy in float64, which is accurate enough for f32 but up to 3 ULPs off, or by the slower C
    library for f64.
    """
    if x.dtype == np.float64:
        return special.erf(x)
    return np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64)).astype(np.longdouble)


REFERENCES: dict[str, Callable[..., Array]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "cosh": np.cosh, "cosine": np.cos,
    "erf": _erf, "exponential": np.exp, "exponential-minus-one": np.expm1,
    "log": np.log, "log-plus-one": np.log1p, "logistic": _logistic, "power": np.power, "remainder": np.fmod,
    "round-nearest-afz": _round_half_away, "rsqrt": lambda x: 1 / np.sqrt(x), "sine": np.sin, "sinh": np.sinh,
    "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
BINARY = ("atan2", "power", "remainder")
JAX_NAMES = {
    "cosine": "cos", "exponential": "exp", "exponential-minus-one": "expm1", "log-plus-one": "log1p", "power": "pow",
    "remainder": "rem", "round-nearest-afz": "round", "sine": "sin",
}  # fmt: skip


# -- xlapy's functions


def kernel(name: str, type: ScalarType, size: int) -> Kernel:
    builder = Builder(name)
    operands = [builder.buffer(f"x{i}", type, size) for i in range(2 if name in BINARY else 1)]
    result = builder.buffer("result", type, size, written=True)
    with builder.loop(size, AxisKind.VECTOR, width=64 // type.byte_size) as i:
        builder.store(result, i, MATHEMATICS[name](builder, *(builder.load(operand, i) for operand in operands)))
    return builder.kernel


class Compiled:
    """A function compiled to machine code for arrays of up to `size` elements."""

    def __init__(self, name: str, type: ScalarType, size: int = CHUNK) -> None:
        body, declarations = emit_kernel(kernel(name, type, size), "kernel")
        count = 3 if name in BINARY else 2
        signature = ", ".join(f"ptr %p{i}" for i in range(count))
        main = f"define void @main({signature}) {{\n call void @kernel({signature})\n ret void\n}}"
        text = "\n".join([*sorted(declarations), body, main, "attributes #0 = { nounwind }"])
        self.code: Code = compile_text(text, ["main"], {})
        self.call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(self.code.addresses["main"])
        self.size, self.dtype = size, type.dtype

    def __call__(self, *operands: Array) -> Array:
        padded = [np.ascontiguousarray(np.resize(operand, self.size)) for operand in operands]
        result = np.empty(self.size, self.dtype)
        self.call(*(array.ctypes.data for array in [*padded, result]))
        return result[: operands[0].size]


def nanoseconds(name: str, type: ScalarType) -> float:
    """Returns the minimum time per element over many calls."""
    compiled = Compiled(name, type, 16384 // type.byte_size)
    arrays = [values_near_one(compiled.size, type, seed) for seed in range(2 if name in BINARY else 1)]
    arrays.append(np.empty(compiled.size, type.dtype))
    addresses = [array.ctypes.data for array in arrays]
    best = float("inf")
    for _ in range(300):
        start = time.perf_counter()
        compiled.call(*addresses)
        best = min(best, time.perf_counter() - start)
    return best / compiled.size * 1e9


def values_near_one(count: int, type: ScalarType, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(0.05, 0.95, count).astype(type.dtype)


# -- accuracy


def f32_chunks(step: int) -> Iterator[Array]:
    """Yields every step-th f32, in the order of its bits, in chunks."""
    for start in range(0, 1 << 32, CHUNK * step):
        bits = np.arange(start, min(start + CHUNK * step, 1 << 32), step, dtype=np.int64)
        yield bits.astype(np.uint32).view(np.float32)


def f64_chunks(count: int, seed: int = 0) -> Iterator[Array]:
    """Yields chunks of f64: a quarter random bit patterns, the rest random numbers of moderate size."""
    generator = np.random.default_rng(seed)
    for _ in range(-(-count // CHUNK)):
        quarter = CHUNK // 4
        yield np.concatenate([
            generator.integers(0, 1 << 64, quarter, dtype=np.uint64).view(np.float64),
            generator.standard_normal(quarter) * 10,
            generator.uniform(-750, 750, quarter),
            generator.uniform(-2, 2, quarter),
        ])  # fmt: skip


def operand_pairs(name: str, type: ScalarType, count: int) -> Iterator[tuple[Array, Array]]:
    """Yields chunks of operand pairs: random bit patterns, and numbers for which x to the power y is finite and not
    0."""
    generator = np.random.default_rng(0)
    unsigned, limit = np.dtype(f"u{type.byte_size}"), 90 if type is F32 else 720
    for _ in range(-(-count // CHUNK)):
        half = CHUNK // 2
        bits = [generator.integers(0, 1 << type.bits, half, dtype=np.uint64) for _ in range(2)]
        x, y = (b.astype(unsigned).view(type.dtype) for b in bits)
        near = np.exp(generator.uniform(-5, 5, half)).astype(type.dtype)
        other = generator.uniform(-limit, limit, half)
        yield np.concatenate([x, near]), np.concatenate([y, (other / np.log(near)).astype(type.dtype)])


def ulps(actual: Array, expected: Array, type: ScalarType) -> Array:
    """Computes |actual - expected| in units in the last place of the expected value. Infinity counts as the number
    after the largest finite one.
    """
    info, wide = np.finfo(type.dtype), expected.dtype.type
    edge = np.ldexp(wide(1), info.maxexp)
    actual, expected = (np.clip(v, -edge, edge) for v in (actual.astype(wide), expected))
    exponents = np.clip(np.frexp(expected)[1], info.minexp + 1, info.maxexp)
    distance = np.ldexp(np.abs(actual - expected), info.nmant + 1 - exponents).astype(np.float64)
    undefined = np.isnan(actual) | np.isnan(expected)
    return np.where(undefined, np.where(np.isnan(actual) & np.isnan(expected), 0, np.inf), distance)


def worst(name: str, type: ScalarType, operands: Iterator[tuple[Array, ...]]) -> tuple[float, str]:
    """Returns the largest error and the operands at which it occurs. A zero of the wrong sign is an infinite error."""
    compiled = Compiled(name, type)
    wide = np.float64 if type is F32 else np.longdouble
    error, position = 0.0, "-"
    for arrays in operands:
        actual = compiled(*arrays)
        expected = np.asarray(REFERENCES[name](*(array.astype(wide) for array in arrays)))
        errors = ulps(actual, expected, type)
        errors[(actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))] = np.inf
        at = int(np.argmax(errors))
        if errors[at] > error:
            error, position = float(errors[at]), ", ".join(repr(float(array[at])) for array in arrays)
    return error, position


# -- XLA


def xla_nanoseconds(name: str, type: ScalarType) -> float | None:
    """Returns XLA:CPU's CPU time per element of an array of a million, summed over threads, or None without jax."""
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    function = getattr(jax.lax, JAX_NAMES.get(name, name))
    count = 1 << 20
    arrays = [jax.numpy.asarray(values_near_one(count, type, seed)) for seed in range(2 if name in BINARY else 1)]
    compiled = jax.jit(function)
    compiled(*arrays).block_until_ready()
    best = float("inf")
    for _ in range(10):
        start = time.process_time()
        compiled(*arrays).block_until_ready()
        best = min(best, time.process_time() - start)
    return best / count * 1e9


def report(name: str, type: ScalarType, step: int) -> None:
    if name in BINARY:
        operands: Iterator[tuple[Array, ...]] = operand_pairs(name, type, 1 << 20)
    else:
        operands = ((array,) for array in (f32_chunks(step) if type is F32 else f64_chunks(1 << 20)))
    with np.errstate(all="ignore"):
        error, position = worst(name, type, operands)
    xla = xla_nanoseconds(name, type)
    xla_column = "" if xla is None else f"{xla:8.3f}"
    print(f"{name:22} {type} {error:7.3f} {nanoseconds(name, type):8.3f} {xla_column}   {position}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", choices=[*REFERENCES, []], help="all if none is named")
    parser.add_argument("--step", type=int, default=4099, help="take every step-th f32")
    parser.add_argument("--types", nargs="*", default=["f32", "f64"], choices=["f32", "f64"])
    options = parser.parse_args()
    print(f"{'function':22} type   ULPs  ours ns   XLA ns   worst at")
    for name in options.functions or REFERENCES:
        for type in (F32, F64):
            if type.name in options.types:
                report(name, type, options.step)


if __name__ == "__main__":
    main()
