"""How XLA writes the elements of an array: the text of a number, and the braces around many.

Owns the printing of NumPy arrays, in bulk; knows element types, but neither shapes nor literals.
Source: XLA's literal printer; a floating-point number prints with the fewest digits XLA's rule allows.
"""

from __future__ import annotations

import math
from typing import Any, cast

import ml_dtypes
import numpy as np

from xlapy.base.element_types import BF16, F8E3M4, F8E4M3, F8E5M2, F16, F32, F64, PRED, Array, PrimitiveType

MANTISSA_BITS: dict[PrimitiveType, int] = {
    F64: 52,
    F32: 23,
    F16: 10,
    BF16: 7,
    F8E5M2: 2,
    F8E4M3: 3,
    F8E3M4: 4,
}
"""Bits below the exponent, of the types with an IEEE layout: only their NaNs carry payloads."""


def array_text(array: Array, element_type: PrimitiveType) -> str:
    """The elements of `array` on one line: `1`, `{1, 2}`, `{ { 1, 2 }, { 3, 4 } }`.

    PRED prints `true` and `false` as a scalar, 1 and 0 in an array. From rank 4 on, inner braces say where they
    are: `{ /*i0=1*/ ...`.
    """
    if element_type is PRED:
        words = ("0", "1") if array.ndim else ("false", "true")
        return nest([words[value] for value in array.ravel().tolist()], array.shape)
    return nest(element_texts(array.ravel(), element_type), array.shape)


def element_texts(flat: Array, element_type: PrimitiveType) -> list[str]:
    """The text of every element of a vector of any type but PRED."""
    if element_type.is_complex:
        part = element_type.component_type
        parts = element_texts(flat.view(np.float32 if part is F32 else np.float64), part)
        return [f"({real}, {imaginary})" for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
    if not element_type.is_floating:
        return list(map(str, flat.tolist()))
    return _float_texts(flat, element_type)


def _float_texts(flat: Array, element_type: PrimitiveType) -> list[str]:
    with np.errstate(invalid="ignore"):  # a signalling NaN complains when it is widened
        values = flat.astype(np.float64)
    texts = _fixed_texts(values, _first_digits(element_type))
    if element_type in (F32, F64):
        # Few digits first; all of them only where few do not read back as the same number.
        with np.errstate(over="ignore"):
            back = np.array(list(map(float, texts)), dtype=np.float64).astype(flat.dtype)
        changed = np.flatnonzero((back != flat) & np.isfinite(values))
        exact = _fixed_texts(values[changed], 9 if element_type is F32 else 17)
        for place, text in zip(changed.tolist(), exact, strict=True):
            texts[place] = text
    for place in np.flatnonzero(np.isnan(values)).tolist():
        texts[place] = _nan_text(flat[place : place + 1], element_type)
    return texts


def _first_digits(element_type: PrimitiveType) -> int:
    """Significant digits tried first: all a narrow type can need, or what F32 and F64 surely keep."""
    if element_type is F32:
        return 6
    if element_type is F64:
        return 15
    precision = int(cast(Any, ml_dtypes.finfo(element_type.dtype)).nmant) + 1
    return math.ceil(1 + precision * math.log10(2))


def _fixed_texts(values: Array, digits: int) -> list[str]:
    """C's `%.*g` of every value; one formatting call for all of them is several times faster than one each."""
    if not values.size:
        return []
    return ("\n".join([f"%.{digits}g"] * values.size) % tuple(values.tolist())).split("\n")


def _nan_text(value: Array, element_type: PrimitiveType) -> str:
    """`nan`, `-nan`, or with the payload of a NaN that is not the plain quiet one: `-nan(0x1)`."""
    bits = int(value.view(f"u{value.itemsize}")[0])
    sign = "-" if bits >> (8 * value.itemsize - 1) and element_type.name != "F8E8M0FNU" else ""
    mantissa = MANTISSA_BITS.get(element_type)
    if mantissa is None:
        return sign + "nan"
    payload = bits & ((1 << mantissa) - 1)
    return f"{sign}nan" if payload == 1 << (mantissa - 1) else f"{sign}nan(0x{payload:x})"


def nest(texts: list[str], dimensions: tuple[int, ...]) -> str:
    """Puts the elements, row-major, into one pair of braces per dimension, with XLA's blanks and comments."""
    rank = len(dimensions)
    for axis in range(rank - 1, -1, -1):
        size = dimensions[axis]
        groups = math.prod(dimensions[:axis])
        inner = [", ".join(texts[i * size : (i + 1) * size]) for i in range(groups)]
        texts = _brace(inner, dimensions, axis)
    return texts[0]


def _brace(inner: list[str], dimensions: tuple[int, ...], axis: int) -> list[str]:
    """Braces around every group of `axis`."""
    rank, size = len(dimensions), dimensions[axis]
    if rank == 1:
        return [f"{{{text}}}" for text in inner]
    if axis == rank - 1:
        blank = " " if size > 1 else ""
        return [f"{{{blank}{text}{blank}}}" for text in inner]
    if rank <= 3 or axis == 0:
        return [f"{{ {text} }}" for text in inner]
    outer, blank = dimensions[axis - 1], " " if size else ""
    return [f"{{ /*i{axis - 1}={i % outer}*/{blank}{text} }}" for i, text in enumerate(inner)]
