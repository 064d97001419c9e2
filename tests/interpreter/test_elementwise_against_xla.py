"""The elementwise operations compared with XLA:CPU, on random values that include NaN, infinities, zeros and extremes.

The following differences of XLA:CPU, intended or not, are excluded:
- denormals are flushed: they are read as zero;
- its cbrt, its log1p and tanh of f64, and its expm1 and logistic of f16 are less accurate than the table allows;
- 8-bit and narrower floats are computed in f16 and rounded again, which is off by one ULP at most;
- fnuz types: results that round to -0 become NaN, and f8e5m2fnuz's smallest normal number doubles; f8e8m0fnu's
  smallest number is a denormal f32: the tests omit small magnitudes;
- integer power reads six bits of the exponent, and takes large unsigned ones as negative: the exponents are small;
- popcnt of s4 and s2 counts the bits of the number widened to s8;
- complex atan2 is inaccurate on its branch cuts, and neither it nor complex power is accurate: the tolerance is larger;
- not executable: acos acosh asin asinh atanh cosh sinh mulhi, ops unknown to jaxlib, and the element types s1, u1
  and the 6-bit floats.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests import xla_reference
from tests.interpreter.runners.elementwise import Case, evaluate, evaluate_case, run_on_xla
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, PRED, PrimitiveType
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.interpreter.elementwise import KERNELS
from xlapy.opcodes.elementwise import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
    ReducePrecisionAttributes,
    bitcast_convert_shape,
)
from xlapy.opcodes.registry import OpDef
from xlapy.testing.comparison import assert_close, assert_within, rule_of_operation
from xlapy.testing.random_values import random_array, special_values
from xlapy.testing.samples import NEWER_THAN_JAXLIB, samples_of
from xlapy.testing.samples.sample import RARE_TYPES

Array = np.ndarray[Any, Any]

RUNNABLE = [t for t in ARRAY_TYPES if t.text not in RARE_TYPES]
REAL = [t for t in RUNNABLE if not t.is_complex]
FLOATS = [t for t in RUNNABLE if t.is_floating]
NEWER = [sample.text for sample in samples_of("elementwise") if sample.note == NEWER_THAN_JAXLIB]
UNKNOWN = {op.name for op in KERNELS if any(f" {op.name}(" in text for text in NEWER)}
NOT_EXECUTABLE = {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "mulhi"} | UNKNOWN
INACCURATE = {
    ("cbrt", "F32"),
    ("cbrt", "F64"),
    ("log-plus-one", "F64"),
    ("tanh", "F64"),
    ("exponential-minus-one", "F16"),
    ("logistic", "F16"),
}
MISCOUNTED = {("popcnt", "S2"), ("popcnt", "S4")}
SIZE = 203  # odd, so that vector code has a tail


def is_fragile(t: PrimitiveType) -> bool:
    """Tells whether XLA:CPU computes wrong results for the numbers of a type that are close to zero."""
    return t is F8E8M0FNU or t.name.endswith("FNUZ")


def draw(t: PrimitiveType, rng: np.random.Generator, size: int = SIZE) -> Array:
    array = random_array((size,), t.dtype, rng)
    if not is_fragile(t):
        return array
    small = np.abs(array.astype(np.float64)) < 8 * float(ml_dtypes.finfo(t.dtype).smallest_normal)
    return np.where(small, np.ones((), t.dtype), array)


def loosened(op: str, operand: PrimitiveType) -> str:
    """Returns the comparison rule of an operation, looser where XLA:CPU rounds twice."""
    rule = rule_of_operation(op, operand.dtype)
    return "elementwise" if rule == "exact" and operand.is_floating and operand.bits <= 8 else rule


def compare_with_xla(cases: list[Case], rule: str | None = None) -> None:
    if not cases:
        return
    for case, actual in zip(cases, run_on_xla(cases), strict=True):
        expected = evaluate_case(case)
        t = PrimitiveType.from_dtype(expected.dtype)
        chosen = rule or loosened(case.op, PrimitiveType.from_dtype(case.operands[0].dtype))
        if is_fragile(t):
            known = np.abs(expected.astype(np.float64)) < 8 * float(ml_dtypes.finfo(t.dtype).smallest_normal)
            actual, expected = actual[~known], expected[~known]
        where = f"{case.op} of {case.operands[0].dtype.name}"
        assert_close(actual, expected, rule=chosen, flush_denormals=True, where=where)


def cases_of(t: PrimitiveType, rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    for op in KERNELS:
        if op.name in NOT_EXECUTABLE or (op.name, t.name) in INACCURATE | MISCOUNTED or not takes(op, t):
            continue
        operands = [draw(t, rng) for _ in range(op.arity.minimum)]
        if op.name == "power" and t.is_integral:
            highest = min(63, (1 << (t.bits - 1)) - 1)
            operands[1] = rng.integers(0, highest, SIZE, endpoint=True).astype(t.dtype)
        cases.append(Case(op.name, tuple(operands)))
    return cases


def takes(op: OpDef, t: PrimitiveType) -> bool:
    try:
        op.result_shape([Shape.scalar(t)] * op.arity.minimum)
    except ShapeError:
        return False
    return True


@pytest.mark.parametrize("t", REAL, ids=str)
def test_real_types(t: PrimitiveType) -> None:
    cases = cases_of(t, np.random.default_rng(10))
    assert len(cases) > 5
    compare_with_xla(cases)


def test_odd_shapes() -> None:
    rng = np.random.default_rng(11)
    shapes = [(), (0,), (1,), (3, 0, 2), (2, 3, 5)]
    pairs = [(random_array(s, np.float32, rng), random_array(s, np.float32, rng)) for s in shapes]
    compare_with_xla([Case("add", pair) for pair in pairs] + [Case("tanh", pair[:1]) for pair in pairs])


def special_complex(dtype: Any) -> Array:
    values = np.array([0.0, -0.0, 1.0, -2.5, 3.0, np.inf, -np.inf, np.nan])
    grid = np.empty((values.size, values.size), dtype)
    grid.real, grid.imag = values[:, None], values
    return grid.reshape(-1)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_types(dtype: Any) -> None:
    rng = np.random.default_rng(12)
    special = special_complex(dtype)
    pairs = np.repeat(special, special.size), np.tile(special, special.size)
    ordinary = [(3 * rng.standard_normal(SIZE) + 3j * rng.standard_normal(SIZE)).astype(dtype) for _ in range(2)]
    loose: list[Case] = []
    strict: list[Case] = []
    for op in KERNELS:
        if not KERNELS[op].complex_valued or op.name in NOT_EXECUTABLE:
            continue
        arity = op.arity.minimum
        cases = [Case(op.name, tuple(ordinary[:arity]))]
        if op is not opcodes.ATAN2:
            cases.append(Case(op.name, (special,) if arity == 1 else pairs))
        (loose if op in (opcodes.ATAN2, opcodes.POWER) else strict).extend(cases)
    assert len(strict) > 30 and len(loose) == 3
    compare_with_xla(strict)
    for case, actual in zip(loose, run_on_xla(loose), strict=True):
        expected = evaluate_case(case)
        bound = 8 * float(np.finfo(dtype).eps) * condition(case, expected)
        assert_within(actual, expected, bound, flush_denormals=True, where=case.op)


def condition(case: Case, expected: Array) -> Array:
    """Returns how much a complex angle or power changes, at most, if its logarithm changes by 1."""
    size = np.abs(np.nan_to_num(expected, nan=0.0, posinf=0.0, neginf=0.0))
    if case.op == "atan2":
        return 1 + size
    base, exponent = (operand.astype(np.complex128) for operand in case.operands)
    with np.errstate(all="ignore"):
        logarithm = np.abs(exponent * np.log(base))
    return np.asarray(size * (1 + np.where(np.isfinite(logarithm), logarithm, 0)))


@pytest.mark.parametrize("t", RUNNABLE, ids=str)
def test_compare_select_and_clamp(t: PrimitiveType) -> None:
    rng = np.random.default_rng(13)
    lhs, rhs, other = draw(t, rng), draw(t, rng), draw(t, rng)
    if t.is_floating and not is_fragile(t):
        special = special_values(t.dtype)
        special = np.concatenate([special, (-special).astype(t.dtype)])
        lhs = np.concatenate([lhs, np.repeat(special, special.size)])
        rhs = np.concatenate([rhs, np.tile(special, special.size)])
        other = np.resize(other, lhs.shape)
    predicate = random_array(lhs.shape, np.bool_, rng)
    directions = list(ComparisonDirection)[: 2 if t.is_complex else 6]
    orders = [None, ComparisonType.TOTALORDER] if t.is_floating else [None]
    cases = [Case("select", (predicate, lhs, rhs)), Case("select", (np.array(False), lhs, rhs))]
    cases += [
        Case("compare", (lhs, rhs), CompareAttributes.make(direction=direction, type=order))
        for direction in directions
        for order in orders
    ]
    if not t.is_complex and t is not PRED:
        cases += [Case("clamp", (lhs, rhs, other)), Case("clamp", (lhs[:1].reshape(()), rhs, other[:1].reshape(())))]
    compare_with_xla(cases, "bits")


@pytest.mark.parametrize("source", RUNNABLE, ids=str)
def test_convert(source: PrimitiveType) -> None:
    rng = np.random.default_rng(14)
    operand = draw(source, rng)
    if source.is_floating and source.bits > 16:
        # values that XLA:CPU's intermediate types, f16 and f32, represent exactly
        with np.errstate(all="ignore"):
            operand = np.concatenate([operand.astype(np.float16).astype(source.dtype), draw(source, rng)])
    targets = [t for t in RUNNABLE if t.is_complex or not source.is_complex]
    with_detour = [t for t in targets if t.bits < 8 or t is F8E8M0FNU]
    cases = [Case("convert", (operand[:SIZE] if t in with_detour else operand,), target=t) for t in targets]
    # the sign of a zero that results from a NaN or a tiny number differs
    narrow = [source.bits <= 8 or target.bits <= 8 for target in targets]
    compare_with_xla([case for case, is_narrow in zip(cases, narrow, strict=True) if is_narrow], "exact")
    compare_with_xla([case for case, is_narrow in zip(cases, narrow, strict=True) if not is_narrow], "bits")


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_reduce_precision(t: PrimitiveType) -> None:
    operand = draw(t, np.random.default_rng(15))
    formats = [(5, 10), (8, 7), (4, 3), (2, 1), (11, 52), (8, 23), (5, 2), (8, 2), (3, 1)]
    cases = [
        Case("reduce-precision", (operand,), ReducePrecisionAttributes.make(exponent_bits=e, mantissa_bits=m))
        for e, m in formats
    ]
    compare_with_xla(cases, "bits")


def bitcast_operand(source: PrimitiveType, target: PrimitiveType, rng: np.random.Generator) -> Array | None:
    """Returns an operand of the right shape, or None for pairs of types that XLA:CPU rejects or crashes on."""
    narrow, wide = sorted((source.bits, target.bits))
    packed_float = narrow != wide and any(t.is_floating and t.bits < 8 for t in (source, target))
    if source is target or PRED in (source, target) or wide % narrow or packed_float:
        return None
    ratio = max(1, target.bits // source.bits)
    return random_array((6, ratio) if ratio > 1 else (6,), source.dtype, rng, special=False)


@pytest.mark.parametrize("source", [t for t in REAL if t is not PRED], ids=str)
def test_bitcast_convert(source: PrimitiveType) -> None:
    rng = np.random.default_rng(16)
    operands: list[Array] = []
    shapes: list[Shape] = []
    for target in REAL:
        operand = bitcast_operand(source, target, rng)
        if operand is not None:
            operands.append(operand)
            shapes.append(bitcast_convert_shape(Shape.of(operand), target))
    lines = [f"p{n} = {Shape.of(operand)} parameter({n})" for n, operand in enumerate(operands)]
    lines += [f"r{n} = {shape} bitcast-convert(p{n})" for n, shape in enumerate(shapes)]
    names = ", ".join(f"r{n}" for n in range(len(shapes)))
    lines.append(f"ROOT t = ({', '.join(map(str, shapes))}) tuple({names})")
    body = "\n".join(lines)
    results = xla_reference.run_hlo(f"HloModule m\nENTRY e {{\n{body}\n}}", operands, fast=True)
    for operand, shape, result in zip(operands, shapes, results, strict=True):
        assert result.tobytes() == evaluate(opcodes.BITCAST_CONVERT, operand, shape=shape).tobytes(), shape
