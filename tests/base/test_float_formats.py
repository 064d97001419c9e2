"""Everything that `FloatFormat` derives from a row of the table agrees with NumPy and ml_dtypes, for every type."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest

from tests.raising import raises
from xlapy.base.element_types import ALL_TYPES, C64, F8E4M3FN, F16, F32, F64, PRED, S8, PrimitiveType
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.float_formats import DOUBLE, SINGLE, FloatFormat, SpecialValues

FLOAT_TYPES = [t for t in ALL_TYPES if t.is_floating]
SMALL_TYPES = [t for t in FLOAT_TYPES if t.bits <= 16]


def values_of_codes(element_type: PrimitiveType) -> np.ndarray:
    """The value of every code of a type of at most 16 bits, as ml_dtypes or NumPy reads it."""
    codes = np.arange(1 << element_type.bits).astype(f"u{element_type.byte_size}")
    with np.errstate(invalid="ignore"):
        return codes.view(element_type.dtype).astype(np.float64)


@pytest.mark.parametrize("element_type", FLOAT_TYPES, ids=str)
def test_widths_and_ranges_are_those_of_finfo(element_type: PrimitiveType) -> None:
    info = ml_dtypes.finfo(element_type.dtype)
    fmt = element_type.float_format
    assert fmt.bits == element_type.bits == info.bits
    assert fmt.mantissa_bits == info.nmant
    assert fmt.exponent_bits == info.nexp
    assert fmt.min_exponent == info.minexp
    assert fmt.overflow_exponent == info.maxexp
    assert fmt.largest == float(info.max)
    assert fmt.lowest == float(info.min)
    assert fmt.smallest_normal == float(info.smallest_normal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fmt.smallest_subnormal == float(info.smallest_subnormal)
    assert 2.0 ** -(fmt.precision - 1) == float(info.eps)


@pytest.mark.parametrize("element_type", SMALL_TYPES, ids=str)
def test_special_values_are_those_of_all_codes(element_type: PrimitiveType) -> None:
    fmt = element_type.float_format
    values = values_of_codes(element_type)
    finite = values[np.isfinite(values)]
    assert fmt.is_signed == bool((finite < 0).any())
    assert fmt.has_nan == bool(np.isnan(values).any())
    assert fmt.has_infinity == bool(np.isinf(values).any())
    assert fmt.has_zero == bool((values == 0).any())
    assert fmt.has_negative_zero == bool(((values == 0) & np.signbit(values)).any())
    assert values[fmt.largest_code] == finite.max() == fmt.largest
    assert finite.min() == fmt.lowest
    assert finite[finite > 0].min() == fmt.smallest_subnormal
    if fmt.nan_code is not None:
        assert math.isnan(values[fmt.nan_code])
    if fmt.infinity_code is not None:
        assert values[fmt.infinity_code] == math.inf
    if fmt.is_signed and fmt.has_negative_zero:
        assert values[fmt.sign_mask] == 0


@pytest.mark.parametrize("element_type", SMALL_TYPES, ids=str)
def test_fields_encode_the_value_of_every_finite_code(element_type: PrimitiveType) -> None:
    fmt = element_type.float_format
    values = values_of_codes(element_type)
    for code in np.flatnonzero(np.isfinite(values)).tolist():
        exponent = (code & fmt.magnitude_mask) >> fmt.mantissa_bits
        mantissa = code & ((1 << fmt.mantissa_bits) - 1)
        leading = (1 << fmt.mantissa_bits) if exponent or not fmt.has_zero else 0
        power = max(exponent, 1) if fmt.has_zero else exponent
        magnitude = math.ldexp(leading + mantissa, power - fmt.bias - fmt.mantissa_bits)
        assert values[code] == (-magnitude if code & fmt.sign_mask else magnitude), hex(code)


@pytest.mark.parametrize("element_type", FLOAT_TYPES, ids=str)
def test_numbers_above_the_range_round_to_the_overflow_code(element_type: PrimitiveType) -> None:
    fmt = element_type.float_format
    with np.errstate(all="ignore"):
        rounded = np.array([math.inf]).astype(element_type.dtype)
    assert int(rounded.view(f"u{element_type.byte_size}")[0]) & fmt.magnitude_mask == (
        fmt.overflow_code & fmt.magnitude_mask
    )


@pytest.mark.parametrize("element_type", FLOAT_TYPES, ids=str)
def test_the_quiet_nan_is_that_of_a_conversion(element_type: PrimitiveType) -> None:
    fmt = element_type.float_format
    if fmt.nan_code is None:
        return
    code = int(np.array([math.nan]).astype(element_type.dtype).view(f"u{element_type.byte_size}")[0])
    assert code & fmt.magnitude_mask == fmt.nan_code & fmt.magnitude_mask


@pytest.mark.parametrize(
    ("element_type", "kept", "identifying"), [(F16, 3, 5), (F32, 6, 9), (F64, 15, 17), (F8E4M3FN, 0, 3)], ids=str
)
def test_decimal_digits(element_type: PrimitiveType, kept: int, identifying: int) -> None:
    fmt = element_type.float_format
    assert (fmt.kept_digits, fmt.max_digits) == (kept, identifying)


def test_payloads_of_nan() -> None:
    assert SINGLE.quiet_nan_payload == 0x400000
    assert SINGLE.nan_code == 0x7FC00000
    assert DOUBLE.infinity_code == 0x7FF0000000000000
    assert F8E4M3FN.float_format.nan_payload_bits == F8E4M3FN.float_format.quiet_nan_payload == 0


def test_the_worked_example() -> None:
    fmt = FloatFormat(4, 3, 7, SpecialValues.FN)
    assert fmt == F8E4M3FN.float_format
    assert (fmt.nan_code, fmt.largest_code, fmt.largest) == (0x7F, 0x7E, 448)


@pytest.mark.parametrize("element_type", [PRED, S8, C64, PrimitiveType.TUPLE], ids=str)
def test_other_types_have_no_format(element_type: PrimitiveType) -> None:
    with raises(InvalidArgumentError, codes.FLOAT_FORMAT, str(element_type)):
        _ = element_type.float_format
