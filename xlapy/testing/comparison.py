"""Compares two results with the tolerance for the class of operation and the element type.

Responsible for the only table of tolerances, for distances in units in the last place, and for the message of a failed
comparison. Does not depend on instructions, backends or implementations. A change of the table needs a measured reason.

Distances are measured against the expected value as given: an expected array wider than the element type (float64 for
an f32 result) is not rounded first, so that "4 ULP from the float64 result" means exactly that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.element_types import float_format_of
from xlapy.testing.random_values import is_integer

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of a rule.

    ulps: units in the last place of the expected value, by dtype name; `narrow_ulps` applies to types without an entry,
    those below 32 bits. signed_zero: -0 and +0 differ. sums: the bound is eps sqrt(terms) magnitude instead of ULPs.
    relative: the bound is this many eps of |expected| plus the array's largest finite |expected|, instead of ULPs.
    absolute: the bound is this many eps of 1 + |expected|. wide: types below 32 bits are computed in f32 and rounded
    once, so that eps is at least that of f32, and a result may also be the neighbor of the expected number
    (`narrow_ulps`).
    """

    ulps: tuple[tuple[str, float], ...] = ()
    narrow_ulps: float = 0.0
    signed_zero: bool = False
    sums: bool = False
    relative: float = 0.0
    absolute: float = 0.0
    wide: bool = False

    def ulps_of(self, dtype: np.dtype[Any]) -> float:
        return dict(self.ulps).get(dtype.name, self.narrow_ulps)


# Integers and booleans are compared exactly by every rule.
TOLERANCES: dict[str, Tolerance] = {
    # movement, comparison, bit operations: the same bits, except that any NaN equals any NaN
    "bits": Tolerance(signed_zero=True),
    # correctly rounded operations, and operations that choose one of their operands
    "exact": Tolerance(),
    # correctly rounded operations by an implementation that may associate them differently or keep more bits
    "rounded": Tolerance((("float32", 1.0), ("float64", 1.0), ("complex64", 2.0), ("complex128", 2.0)), 1.0),
    # functions: types narrower than f32 are computed in f32 and rounded once
    "elementwise": Tolerance((("float32", 4.0), ("float64", 4.0), ("complex64", 8.0), ("complex128", 8.0)), 1.0),
    # functions that XLA:CPU computes less accurately, close to zeros of the result in particular; measured on 6000
    # numbers of each type: up to 180 eps of 1 + |expected|
    "inaccurate": Tolerance(absolute=256.0),
    # sums in any order, each addition rounded to the element type: addition k of n has an error of up to eps / 2 of the
    # partial sum, which is at most k / n of the magnitude if the terms are of similar size. The standard deviation of
    # the sum of such errors is eps sqrt(n) / 6 of the magnitude: the bound is six of them
    "accumulation": Tolerance(sums=True),
    # sums of products, in f32 or wider
    "products": Tolerance(sums=True, narrow_ulps=1.0, wide=True),
    # transforms, factorizations and normalizations: each result element depends on many operands of any size, which
    # cancel; implementations were measured to differ by up to this many eps of the largest result
    "norm": Tolerance(relative=16.0, narrow_ulps=1.0, wide=True),
    # the same by an implementation that rounds each step to the element type, as XLA:CPU does in bf16 and f16
    "norm in steps": Tolerance(relative=16.0),
}

_OPERATIONS_OF_RULE: dict[str, str] = {
    "bits": """
        bitcast bitcast-convert broadcast concatenate constant copy dynamic-slice dynamic-update-slice gather
        get-tuple-element iota pad parameter reshape reverse slice transpose tuple select sort compare
        is-finite and or xor not negate abs real imag complex shift-left shift-right-arithmetic
        shift-right-logical popcnt
        count-leading-zeros all-gather all-to-all collective-permute collective-broadcast opt-barrier
        all-gather-start all-gather-done all-reduce-done collective-permute-start collective-permute-done
        ragged-all-to-all domain add-dependency dynamic-reshape shuffle set-dimension-size get-dimension-size topk
        infeed send send-done recv recv-done copy-start copy-done replica-id partition-id rng-bit-generator
        rng-get-and-update-state stochastic-convert""",
    "exact": """
        add subtract multiply divide remainder sqrt floor ceil round-nearest-afz round-nearest-even maximum
        minimum
        clamp sign convert reduce-precision""",
    "accumulation": """
        reduce reduce-window scatter select-and-scatter all-reduce all-reduce-start reduce-scatter collective-reduce""",
    "products": "dot convolution ragged-dot scaled-dot",
    "norm": "fft cholesky triangular-solve batch-norm-training batch-norm-inference batch-norm-grad",
}
RULE_OF_OPERATION: dict[str, str] = {
    name: rule for rule, names in _OPERATIONS_OF_RULE.items() for name in names.split()
}


def rule_of_operation(opcode: str, dtype: Any) -> str:
    """Returns the rule of an operation on operands of `dtype`. Complex products and quotients are not exact."""
    if np.dtype(dtype).kind == "c" and opcode in ("abs", "multiply", "divide", "sqrt", "sign"):
        return "elementwise"
    return RULE_OF_OPERATION.get(opcode, "elementwise")


def assert_close(
    actual: Any,
    expected: Any,
    element_type: Any = None,
    rule: str = "elementwise",
    *,
    terms: int = 1,
    magnitude: Any = None,
    flush_denormals: bool = False,
    where: str = "result",
) -> None:
    """Raises AssertionError unless `actual` equals `expected` by `rule` (a key of TOLERANCES).

    Tuples are compared leaf by leaf; None stands for a token. `element_type` (a dtype) defaults to that of `actual` and
    must equal it. `terms` and `magnitude` (the sum of absolute terms, broadcastable to the result; default |expected|)
    bound sums; relative bounds take the largest `magnitude` if it is larger than |expected|. `flush_denormals` reads
    numbers below the smallest normal as 0 on both sides. NaN equals NaN.
    """
    if isinstance(expected, tuple | list):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            raise AssertionError(f"{where}: expected a tuple of {len(expected)}, got {_describe(actual)}")
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_close(
                left,
                right,
                None,
                rule,
                terms=terms,
                magnitude=magnitude,
                flush_denormals=flush_denormals,
                where=f"{where}[{index}]",
            )
        return
    if actual is None or expected is None:
        if actual is not expected:
            raise AssertionError(f"{where}: expected {_describe(expected)}, got {_describe(actual)}")
        return
    left, right = np.asarray(actual), np.asarray(expected)
    dtype = left.dtype if element_type is None else np.dtype(element_type)
    if left.dtype != dtype or left.shape != right.shape:
        expectation = f"{dtype.name}{list(right.shape)}"
        raise AssertionError(f"{where}: expected {expectation}, got {left.dtype.name}{list(left.shape)}")
    with np.errstate(invalid="ignore"):  # the cast of a signaling NaN is valid
        bound = max_errors(right, dtype, rule, terms=terms, magnitude=magnitude)
        if TOLERANCES[rule].sums and flush_denormals and is_inexact(dtype):
            bound = bound + terms * float_format_of(dtype).smallest_normal  # each term may have been flushed
        _assert_arrays(left, right, dtype, rule, bound, flush_denormals, where)


def max_errors(expected: Any, dtype: Any, rule: str, *, terms: int = 1, magnitude: Any = None) -> Array:
    """Returns the largest |actual - expected| that a rule allows for each element, as float64: 0 for integers."""
    tolerance, target, right = TOLERANCES[rule], np.dtype(dtype), np.asarray(expected)
    if not is_inexact(target):
        return np.zeros(right.shape)
    if tolerance.absolute:
        return tolerance.absolute * _epsilon(target) + _sizes(right, tolerance.absolute * _epsilon(target))
    if tolerance.sums or tolerance.relative:
        eps = min(_epsilon(target), float(np.finfo(np.float32).eps)) if tolerance.wide else _epsilon(target)
        if tolerance.sums:
            size = _sizes(right if magnitude is None else magnitude, eps * float(np.sqrt(max(terms, 1))))
        else:
            size = _sizes(right, tolerance.relative * eps)
            cancels = 0.0 if magnitude is None else np.max(_sizes(magnitude, tolerance.relative * eps), initial=0.0)
            size = size + max(float(np.max(size, initial=0.0)), float(cancels))
        rounding = _narrow_rounding(right, target, tolerance) if tolerance.wide else 0.0
        return np.asarray(size + rounding)
    if target.kind == "c":
        return _sizes(right, tolerance.ulps_of(target) * _epsilon(target))
    return tolerance.ulps_of(target) * units_in_last_place(_finite(right), target)


def is_inexact(dtype: Any) -> bool:
    """Whether an element type is a floating-point or a complex one."""
    target = np.dtype(dtype)
    return target != np.bool_ and not is_integer(target)


def _sizes(values: Any, factor: float) -> Array:
    """Returns |values| times a factor, which may be in range where the absolute value of a complex number is not."""
    return np.asarray(np.abs(_finite(np.asarray(values)) * factor))


def _narrow_rounding(expected: Array, dtype: np.dtype[Any], tolerance: Tolerance) -> Any:
    if _epsilon(dtype) <= float(np.finfo(np.float32).eps):
        return 0.0
    return tolerance.narrow_ulps * units_in_last_place(_finite(expected), dtype)


def assert_within(
    actual: Any, expected: Any, deviations: Any, *, flush_denormals: bool = False, where: str = "result"
) -> None:
    """Raises AssertionError unless |actual - expected| is at most `deviations`, for each element of each array.

    deviations: float64 arrays in tuples as in `expected`; inf allows any value, also NaN. Other elements that are not
    finite, and integers, must be equal. `flush_denormals` allows two smallest normal numbers more.
    """
    if isinstance(expected, tuple):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            raise AssertionError(f"{where}: expected a tuple of {len(expected)}, got {_describe(actual)}")
        for index, parts in enumerate(zip(actual, expected, deviations, strict=True)):
            assert_within(*parts, flush_denormals=flush_denormals, where=f"{where}[{index}]")
        return
    if actual is None or expected is None:
        if actual is not expected:
            raise AssertionError(f"{where}: expected {_describe(expected)}, got {_describe(actual)}")
        return
    left, right = np.asarray(actual), np.asarray(expected)
    undecided = np.isinf(deviations)
    if left.dtype != right.dtype or (left.shape != right.shape and not (undecided.all() and undecided.size)):
        expectation = f"{right.dtype.name}{list(right.shape)}"
        raise AssertionError(f"{where}: expected {expectation}, got {left.dtype.name}{list(left.shape)}")
    if left.shape != right.shape:
        return
    if not is_inexact(right.dtype):
        bad, measure = bits_differ(left, right) & ~undecided, None
    else:
        bad, measure = _exceeds(left, right, right.dtype, deviations, flush_denormals)
    if np.any(bad):
        finite = np.where(undecided, 0.0, deviations)
        breach = f"differ by more than rounding errors of the program, at most {float(np.max(finite, initial=0.0)):.3g}"
        raise AssertionError(_message(left, right, right.dtype, np.asarray(bad), measure, breach, where))


def bits_differ(actual: Array, expected: Array) -> Array:
    """Returns where two arrays of integers or booleans of one type differ."""
    return np.asarray(_integers(actual) != _integers(expected))


def absolute_distance(actual: Array, expected: Array) -> Array:
    """Returns |actual - expected| of floating-point or complex arrays as float64: 0 for equal values and for two NaN,
    inf for NaN and a number."""
    return _absolute_distance(_widened(actual), _widened(expected))


def flushed(values: Array) -> Array:
    """Replaces denormal numbers of a floating-point or complex array by zeros of the same sign."""
    if values.dtype.kind != "c":
        size = np.abs(values if values.dtype.isbuiltin else values.astype(np.float64))
        with np.errstate(invalid="ignore"):  # comparisons of NaN, of which ml_dtypes warns
            denormal = (size < float_format_of(values.dtype).smallest_normal) & (size > 0)
        return (
            np.where(denormal, np.copysign(0.0, _widened(values)).astype(values.dtype), values)
            if np.any(denormal)
            else values
        )
    result = np.array(values)
    result.real, result.imag = flushed(values.real), flushed(values.imag)
    return result


def ulp_distance(actual: Any, expected: Any, dtype: Any, flush_denormals: bool = False) -> Array:
    """Returns |actual - expected| as float64, in units in the last place of `expected` in the real floating type
    `dtype`.

    The distance between NaN and NaN is 0; between NaN and a number it is inf. An infinity counts as the next number
    after the largest finite one.
    """
    target = np.dtype(dtype)
    got, want = _clip_to_range(_widened(actual), target), _clip_to_range(_widened(expected), target)
    distance = _distance_without_flushing(got, want, target)
    if flush_denormals:
        distance = np.minimum(
            distance, _distance_without_flushing(_flushed(got, target), _flushed(want, target), target)
        )
    return distance.astype(np.float64)


def _assert_arrays(
    actual: Array, expected: Array, dtype: np.dtype[Any], rule: str, bound: Array, flush: bool, where: str
) -> None:
    tolerance = TOLERANCES[rule]
    if dtype == np.bool_ or is_integer(dtype):
        bad, note, measure = _integers(actual) != _integers(expected), "equal", None
    elif tolerance.sums or tolerance.relative or tolerance.absolute:
        bad, measure = _exceeds(actual, expected, dtype, bound, flush)
        note = f"within {np.max(bound, initial=0.0):.3g} of each other"
    elif dtype.kind == "c" and tolerance.ulps_of(dtype):
        bad, measure = _exceeds(actual, expected, dtype, bound + float_format_of(dtype).smallest_subnormal, flush)
        note = f"within {tolerance.ulps_of(dtype):g} eps of |expected|"
    else:
        measure = _max_part_distance(actual, expected, dtype, flush)
        bad = measure > tolerance.ulps_of(dtype)
        note = f"within {tolerance.ulps_of(dtype):g} ULP"
        if tolerance.signed_zero:
            bad |= _zero_signs_differ(actual, expected, dtype, flush)
            note = "the same bits"
    if np.any(bad):
        raise AssertionError(
            _message(actual, expected, dtype, np.asarray(bad), measure, f"break the rule {rule!r}: {note}", where)
        )


def _message(
    actual: Array,
    expected: Array,
    dtype: np.dtype[Any],
    bad: Array,
    measure: Array | None,
    breach: str,
    where: str,
) -> str:
    indices = np.argwhere(bad)
    lines = [f"{where}: {dtype.name}{list(actual.shape)}: {len(indices)} of {actual.size} elements {breach}"]

    def entry(what: str, index: tuple[int, ...]) -> str:
        text = f"  {what} at {list(index)}: actual {actual[index]!s}, expected {expected[index]!s}"
        real = dtype != np.bool_ and not is_integer(dtype) and dtype.kind != "c"
        if real:
            return f"{text}, {float(ulp_distance(actual[index], expected[index], dtype)):.6g} ULP"
        return text if measure is None else f"{text}, distance {float(measure[index]):.6g}"

    lines.append(entry("first", tuple(int(i) for i in indices[0])))
    if measure is not None and len(indices) > 1:
        worst = np.unravel_index(int(np.argmax(np.where(bad, measure, -1.0))), bad.shape)
        lines.append(entry("worst", tuple(int(i) for i in worst)))
    return "\n".join(lines)


def _exceeds(actual: Array, expected: Array, dtype: np.dtype[Any], limit: Any, flush: bool) -> tuple[Array, Array]:
    """Returns where |actual - expected| exceeds `limit`, and that distance. NaN and infinities must agree exactly."""
    distance = _absolute_distance(_widened(actual), _widened(expected))
    if not flush:
        return distance > limit, distance
    return distance > np.asarray(limit) + 2 * float_format_of(dtype).smallest_normal, distance


def _absolute_distance(got: Array, want: Array) -> Array:
    """Returns |got - want| as float64: 0 for equal values and for two NaN. Compares complex numbers with an infinite
    part by parts.
    """
    if got.dtype.kind == "c":
        distance = np.hypot(_absolute_distance(got.real, want.real), _absolute_distance(got.imag, want.imag))
    else:
        with np.errstate(all="ignore"):
            distance = np.abs(got - want).astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _max_part_distance(actual: Array, expected: Array, dtype: np.dtype[Any], flush: bool) -> Array:
    parts = [ulp_distance(left, right, part, flush) for left, right, part in _parts(actual, expected, dtype)]
    return np.maximum.reduce(parts)


def _parts(actual: Array, expected: Array, dtype: np.dtype[Any]) -> Iterator[tuple[Array, Array, np.dtype[Any]]]:
    """Yields the pair of arrays if it is real, or the pairs of real and imaginary parts, with their element type."""
    if dtype.kind != "c":
        yield actual, expected, dtype
        return
    part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    yield actual.real, expected.real, part
    yield actual.imag, expected.imag, part


def _zero_signs_differ(actual: Array, expected: Array, dtype: np.dtype[Any], flush: bool) -> Array:
    bad = np.zeros(actual.shape, bool)
    for left, right, part in _parts(actual, expected, dtype):
        got, want = _widened(left), _widened(right)
        if flush:
            got, want = _flushed(got, part), _flushed(want, part)
        bad |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    return bad


def _distance_without_flushing(got: Array, want: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        distance = np.abs(got - want) / units_in_last_place(want, dtype)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def units_in_last_place(values: Array, dtype: np.dtype[Any]) -> Array:
    """Returns the distance of numbers of a type from the next larger one of their binade, in the type of `values`; that
    of 1 for values that are not finite."""
    float_format = float_format_of(dtype)
    _, exponents = np.frexp(np.where(np.isfinite(values), values, 1))
    smallest = int(np.frexp(float_format.smallest_normal)[1])
    # frexp's mantissa is in [0.5, 1), so the leading bit of a number has the weight 2^(exponent - 1)
    return np.asarray(np.ldexp(np.ones_like(values), np.maximum(exponents, smallest) - 1 - float_format.mantissa_bits))


def _clip_to_range(values: Array, dtype: np.dtype[Any]) -> Array:
    """Replaces infinities, and wider values beyond the range, by the power of two after the largest finite number.

    float64 has such a power of two only on platforms whose long double is wider.
    """
    edge = np.ldexp(values.dtype.type(1), int(np.frexp(float_format_of(dtype).largest)[1]))
    return np.clip(values, -edge, edge)


def _flushed(values: Array, dtype: np.dtype[Any]) -> Array:
    return np.where(
        np.abs(values) < float_format_of(dtype).smallest_normal,
        np.copysign(values.dtype.type(0), values),
        values,
    )


def _widened(values: Any) -> Array:
    """Converts values to a type that holds them and their differences: float64, or longdouble for float64 and wider."""
    array = np.asarray(values)
    if array.dtype.kind == "c":
        return array.astype(np.clongdouble)
    return array.astype(np.longdouble if array.dtype in (np.float64, np.longdouble) else np.float64)


def _finite(values: Array) -> Array:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    return np.asarray(np.nan_to_num(wide, nan=0.0, posinf=0.0, neginf=0.0))


def _integers(values: Array) -> Array:
    """Converts integers to 64 bits, because the integers of ml_dtypes cannot be compared with those of NumPy."""
    unsigned = values.dtype.name.startswith("uint")
    return values if values.dtype.kind == "b" else values.astype(np.uint64 if unsigned else np.int64)


def _epsilon(dtype: np.dtype[Any]) -> float:
    return float_format_of(dtype).epsilon


def _describe(value: Any) -> str:
    if value is None:
        return "a token"
    return f"a tuple of {len(value)}" if isinstance(value, tuple | list) else f"{np.asarray(value).dtype.name} array"
