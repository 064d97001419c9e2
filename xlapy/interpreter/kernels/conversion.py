"""Conversions between element types: convert, bitcast-convert and reduce-precision.

Responsible for converting numbers between every pair of types. Does not depend on dimensions, except the one that a
change of width adds or removes.
Source: ConvertElementType, BitcastConvertType and ReducePrecision of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.rounding import round_to, round_to_odd
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.integer import to_native_integer
from xlapy.opcodes.elementwise import ReducePrecisionAttributes, reduce_precision_format


@RULES.rule(opcodes.CONVERT)
def convert(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return convert_array(values[0], instruction.shape.element_type)


@RULES.rule(opcodes.BITCAST_CONVERT)
def bitcast_convert(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return bitcast_array(values[0], instruction.shape.element_type)


@RULES.rule(opcodes.REDUCE_PRECISION)
def reduce_precision(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    attributes = instruction.attributes_as(ReducePrecisionAttributes)
    return reduce_precision_array(values[0], attributes.exponent_bits, attributes.mantissa_bits)


def dtype_of(element_type: PrimitiveType) -> np.dtype[Any]:
    """Returns the NumPy type of an array element type."""
    assert element_type.dtype is not None
    return element_type.dtype


# -- values


def convert_array(array: Array, target: PrimitiveType) -> Array:
    """Converts numbers to another element type.

    Integers wrap. Floats are truncated to integers and saturate; NaN becomes 0. PRED is true for numbers that differ
    from 0, including NaN. Floats round to nearest, ties to even. Real numbers become complex with imaginary part 0, and
    complex numbers become real by dropping the imaginary part.
    """
    source, dtype = PrimitiveType.from_dtype(array.dtype), dtype_of(target)
    if source is target:
        return array
    if source.is_complex:
        return array.astype(dtype) if target.is_complex else convert_array(array.real, target)
    if target is PRED:
        return np.asarray(to_native_float(array) != 0 if source.is_floating else to_native_integer(array) != 0)
    if target.is_integral:
        return _saturate(array, target) if source.is_floating else _wide_integers(array).astype(dtype)
    if target.is_complex:
        return convert_array(array, target.component_type).astype(dtype)
    if source.is_floating:
        return round_to(to_native_float(array), dtype)
    return _float_of_integer(_wide_integers(array), dtype)


def _wide_integers(array: Array) -> Array:
    """Converts integers and booleans to native integers."""
    return array.view(np.uint8) if array.dtype == np.bool_ else to_native_integer(array)


def _saturate(array: Array, target: PrimitiveType) -> Array:
    dtype = dtype_of(target)
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    whole = np.trunc(array.astype(np.float64))
    above, below = whole >= float(high), whole <= float(low)
    within = np.where(above | below | np.isnan(whole), 0.0, whole)
    native = np.dtype(np.int64 if target.is_signed else np.uint64).type
    clamped = np.where(above, native(high), np.where(below, native(low), within.astype(native)))
    return clamped.astype(dtype)


def _float_of_integer(array: Array, dtype: np.dtype[Any]) -> Array:
    """Converts integers to floats with one rounding: through float64 if that is exact, else rounded to odd first."""
    if array.itemsize < 8 or dtype in (np.float32, np.float64):
        return round_to(array.astype(np.float64), dtype) if dtype != np.float32 else array.astype(np.float32)
    return round_to(round_to_odd(array, np.dtype(np.float64)), dtype)


def to_native_float(array: Array) -> Array:
    """Converts floats to a native type that represents them exactly: float64 stays, all others become float32."""
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


# -- bits


def bitcast_array(array: Array, target: PrimitiveType) -> Array:
    """Reads the same bits as another element type; narrowing appends a dimension, widening consumes the last one.

    The first element of that dimension has the lowest bits: s8[4] of 1, 2, 0, 0 is s32[] 513.
    """
    source = PrimitiveType.from_dtype(array.dtype)
    if source is target:
        return array
    if source.bits == target.bits:
        return _from_patterns(_patterns(array, source), target)
    if source.bits > 64 or target.bits > 64:
        return _recast_parts(array, source, target)
    wide = _patterns(array, source).astype(np.uint64)
    if source.bits > target.bits:
        shifts = np.arange(0, source.bits, target.bits, dtype=np.uint64)
        return _from_patterns(wide[..., np.newaxis] >> shifts, target)
    shifts = np.arange(0, target.bits, source.bits, dtype=np.uint64)
    return _from_patterns(np.bitwise_or.reduce(wide << shifts, axis=-1), target)


def _recast_parts(array: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
    """Converts between c64 and c128, whose bits do not fit in an integer type."""
    parts = np.ascontiguousarray(array).reshape(array.shape)
    if source.bits < target.bits:
        return parts.view(dtype_of(target))[..., 0]
    return parts[..., np.newaxis].view(dtype_of(target))


def _patterns(array: Array, source: PrimitiveType) -> Array:
    """Returns the bits of each element as an unsigned integer, with zeros above the width of the type."""
    patterns = array.view(f"u{array.itemsize}")
    return patterns & np.uint8((1 << source.bits) - 1) if source.bits < 8 else patterns


def _from_patterns(patterns: Array, target: PrimitiveType) -> Array:
    """Returns the elements with the given bits; bits above the width of the type are dropped."""
    patterns = np.asarray(patterns)
    if target is PRED:
        return patterns.astype(np.uint8) != 0
    if target.is_integral:
        return patterns.astype(dtype_of(target))
    storage = patterns.astype(f"u{target.byte_size}")
    if target.bits < 8:
        storage = storage & np.uint8((1 << target.bits) - 1)
    return np.asarray(storage).view(dtype_of(target))


# -- precision


def reduce_precision_array(array: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds floats to a format with the given exponent and mantissa bits, and returns them in their own type.

    The mantissa rounds to nearest, ties to even. If the format has fewer exponent bits than the type, numbers beyond
    its largest become infinite, and those below its smallest normal number become a zero with their sign. NaN stays
    NaN, even in a format without mantissa bits. Types of 8 bits and less are treated as f16 (f8e8m0fnu as f32), as in
    XLA, because f8e4m3fn has numbers that a format with 4 exponent bits does not have.
    """
    own = reduce_precision_format(PrimitiveType.from_dtype(array.dtype))
    values = array.astype(np.float64)
    if mantissa_bits < own.mantissa_bits:
        values = _round_mantissa(values, mantissa_bits, own.min_exponent)
    if exponent_bits < own.exponent_bits:
        bias = 2 ** (exponent_bits - 1) - 1
        size = np.abs(values)
        values = np.where(size < 2.0 ** (1 - bias), np.copysign(0.0, values), values)
        values = np.where(size >= 2.0 ** (bias + 1), np.copysign(np.inf, values), values)
    return round_to(values, array.dtype)


def _round_mantissa(values: Array, bits: int, smallest_exponent: int) -> Array:
    """Rounds to multiples of 2^(exponent - bits); denormal numbers share the exponent of the smallest normal one."""
    _, exponents = np.frexp(np.where(np.isfinite(values), values, 1.0))
    quantum = np.maximum(exponents - 1, smallest_exponent) - bits
    scaled = np.ldexp(values, -quantum)
    rounded = np.rint(scaled)
    if bits == 0:
        # The last remaining bit is the exponent's: 1.5 * 2^e rounds to the neighbor whose biased exponent is even.
        rounded = np.where((np.abs(scaled) == 1.5) & (quantum % 2 != 0), np.copysign(1.0, scaled), rounded)
    return np.ldexp(rounded, quantum)
