"""Prints the elements of an array as XLA does: the text of each number, and the braces around them.

Formats all elements of a NumPy array at once. A floating-point number prints with the fewest digits that XLA's rule
allows. Does not depend on shapes or literals. Source: XLA's literal printer.
"""

from __future__ import annotations

import math

import numpy as np

from xlapy.base.element_types import F32, F64, PRED, Array, PrimitiveType


def array_text(array: Array, element_type: PrimitiveType) -> str:
    """The elements of `array` on one line: `1`, `{1, 2}`, `{ { 1, 2 }, { 3, 4 } }`.

    PRED prints `true` and `false` as a scalar, 1 and 0 in an array. From rank 4 on, inner braces are preceded by their
    index: `{ /*i0=1*/ ...`.
    """
    if element_type is PRED:
        words = ("0", "1") if array.ndim else ("false", "true")
        return nest_braces([words[value] for value in array.ravel().tolist()], array.shape)
    return nest_braces(element_texts(array.ravel(), element_type), array.shape)


def element_texts(flat: Array, element_type: PrimitiveType) -> list[str]:
    """The text of each element of a vector. The element type is not PRED."""
    if element_type.is_complex:
        part = element_type.component_type
        parts = element_texts(flat.view(np.float32 if part is F32 else np.float64), part)
        return [f"({real}, {imaginary})" for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
    if not element_type.is_floating:
        return list(map(str, flat.tolist()))
    return _float_texts(flat, element_type)


def _float_texts(flat: Array, element_type: PrimitiveType) -> list[str]:
    with np.errstate(invalid="ignore"):  # widening a signaling NaN warns
        values = flat.astype(np.float64)
    texts = _fixed_texts(values, _first_digits(element_type))
    if element_type in (F32, F64):
        # Few digits first; all digits only where few digits do not read back as the same number.
        with np.errstate(over="ignore"):
            back = np.array(list(map(float, texts)), dtype=np.float64).astype(flat.dtype)
        changed = np.flatnonzero((back != flat) & np.isfinite(values))
        exact = _fixed_texts(values[changed], element_type.float_format.max_digits)
        for index, text in zip(changed.tolist(), exact, strict=True):
            texts[index] = text
    for index in np.flatnonzero(np.isnan(values)).tolist():
        texts[index] = _nan_text(flat[index : index + 1], element_type)
    return texts


def _first_digits(element_type: PrimitiveType) -> int:
    """Significant digits tried first: all that a narrow type can need, or those that F32 and F64 always keep."""
    float_format = element_type.float_format
    return float_format.kept_digits if element_type in (F32, F64) else float_format.max_digits


def _fixed_texts(values: Array, digits: int) -> list[str]:
    """The text `%.*g` of each value. One formatting call for all values is faster than one call each."""
    if not values.size:
        return []
    return ("\n".join([f"%.{digits}g"] * values.size) % tuple(values.tolist())).split("\n")


def _nan_text(value: Array, element_type: PrimitiveType) -> str:
    """`nan` or `-nan`; with the payload, `-nan(0x1)`, if it is not that of the plain quiet NaN."""
    float_format = element_type.float_format
    code = int(value.view(f"u{value.itemsize}")[0])
    sign = "-" if code & float_format.sign_mask else ""
    payload = code & ((1 << float_format.nan_payload_bits) - 1)
    return f"{sign}nan" if payload == float_format.quiet_nan_payload else f"{sign}nan(0x{payload:x})"


def nest_braces(texts: list[str], dimensions: tuple[int, ...]) -> str:
    """Puts row-major elements into one pair of braces per dimension, with XLA's blanks and comments."""
    rank = len(dimensions)
    for axis in range(rank - 1, -1, -1):
        size = dimensions[axis]
        groups = math.prod(dimensions[:axis])
        inner = [", ".join(texts[i * size : (i + 1) * size]) for i in range(groups)]
        texts = _enclose(inner, dimensions, axis)
    return texts[0]


def _enclose(inner: list[str], dimensions: tuple[int, ...], axis: int) -> list[str]:
    """Puts braces around the text of each group of elements along `axis`."""
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
