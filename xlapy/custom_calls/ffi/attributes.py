"""Parses the attributes of a call of API_VERSION_TYPED_FFI from its `backend_config`, an MLIR dictionary.

Responsible for the grammar and for the types of attributes that such a call can have. Does not depend on how attributes
are passed to a target.
Source: XLA Custom Calls; Builtin Dialect of MLIR (attributes); ConvertIntegerAttr ... of xla/ffi/attribute_map.cc.

`{axis = 1 : i32, eps = 1.0e-5 : f32, on = true, name = "x", sizes = array<i64: 2, 3>, more = {n = 7}}` is parsed to
`{"axis": np.int32(1), "eps": np.float32(1e-5), "on": np.True_, "name": b"x", "sizes": np.array([2, 3]), "more":
{"n": np.int64(7)}}`: numbers without a type are i64 or f64, and strings are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xlapy.base.cursor import Cursor
from xlapy.base.element_types import Array
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.shape_fields import bounded_product

Attribute = Any
"""A NumPy scalar, an array of one dimension, bytes, or a dictionary of these by name."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_SHORT = {b"n": b"\n", b"t": b"\t", b"\\": b"\\", b'"': b'"'}
_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+)")
_TYPE = re.compile(r"[a-z]+\d*")
_SIZES = re.compile(r"(?:\d+x)*")

_TYPES: dict[str, np.dtype[Any]] = {
    **{f"{sign}{bits}": np.dtype(f"int{bits}") for sign in ("i", "si") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_DEEPEST = 64
_MAX_ELEMENTS = 1 << 24
"""Limit on the elements of an array: `dense<0>` gives as many as its type says."""


def read_attributes(text: str) -> dict[str, Attribute]:
    """Returns the attributes by name, sorted by name; an empty text has none.

    Raises `ParseError` if the text is not a dictionary, or contains values of unsupported types.
    """
    cursor = Cursor(text)
    if cursor.at_end():
        return {}
    if not cursor.peek("{"):
        cursor.fail(
            codes.CALL_ATTRIBUTES, f"expected a dictionary {{name = value, ...}}, found {cursor.describe_next()}"
        )
    found = _dictionary(cursor, 1)
    cursor.expect_end("dictionary")
    return found


def _dictionary(cursor: Cursor, depth: int) -> dict[str, Attribute]:
    if depth > _DEEPEST:
        cursor.fail(codes.CALL_ATTRIBUTES, f"dictionaries are nested more than {_DEEPEST} deep")
    found: dict[str, Attribute] = {}

    def entry() -> None:
        start = cursor.skip()
        name = cursor.consume(_NAME) or _string(cursor).decode(errors="surrogateescape")
        if name in found:
            cursor.fail_at(start, codes.CALL_ATTRIBUTES, f"the attribute {name} is given twice")
        if not cursor.accept("="):
            cursor.fail(codes.CALL_ATTRIBUTES, f"{name} is a unit attribute; attributes of a call need a value")
        found[name] = _value(cursor, name, depth)

    _entries(cursor, "{", "}", entry)
    return dict(sorted(found.items(), key=lambda item: item[0].encode(errors="surrogateescape")))


def _entries(cursor: Cursor, opening: str, closing: str, entry: Callable[[], None]) -> None:
    """Parses entries between brackets, separated by commas."""
    cursor.expect(opening, "in the attributes")
    if cursor.accept(closing):
        return
    entry()
    while cursor.accept(","):
        entry()
    cursor.expect(closing, "in the attributes")


def _value(cursor: Cursor, name: str, depth: int) -> Attribute:
    if cursor.peek("{"):
        return _dictionary(cursor, depth + 1)
    if cursor.peek('"'):
        return _string(cursor)
    start = cursor.skip()
    word = cursor.consume(_TYPE)
    if word in ("true", "false"):
        return np.bool_(word == "true")
    if word == "array":
        return _array(cursor)
    if word == "dense":
        return _dense(cursor)
    if word is not None or not _NUMBER.match(cursor.text, start):
        _unknown(cursor, name, start)
    return _number(cursor)


def _unknown(cursor: Cursor, name: str, start: int) -> NoReturn:
    cursor.position = start
    cursor.fail(
        codes.CALL_ATTRIBUTES,
        f"{name} must be a number, true or false, a string, array<...>, dense<...> or a dictionary, "
        f"found {cursor.describe_next()}",
    )


# -- strings


def _string(cursor: Cursor) -> bytes:
    text = cursor.consume(_STRING)
    if text is None:
        cursor.fail(codes.CALL_ATTRIBUTES, f"expected a name or a string, found {cursor.describe_next()}")
    return _ESCAPE.sub(_unescaped, text[1:-1].encode(errors="surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else _SHORT.get(match[2], match[0])


# -- numbers


def _number(cursor: Cursor) -> Attribute:
    start = cursor.skip()
    text = cursor.consume(_NUMBER) or ""
    if cursor.accept(":"):
        place = cursor.skip()
        spelled = cursor.consume(_TYPE) or ""
        if spelled == "i1":
            return np.bool_(_integer(cursor, text, start) != 0)
        return _converted(cursor, text, _type(cursor, spelled, place), start)
    return _converted(cursor, text, _TYPES["f64" if "." in text else "i64"], start)


def _type(cursor: Cursor, spelled: str, place: int) -> np.dtype[Any]:
    if spelled not in _TYPES:
        cursor.fail_at(
            place,
            codes.CALL_ATTRIBUTES,
            f"{spelled!r} is not a type of attributes; types are {', '.join(_TYPES)}, and i1",
        )
    return _TYPES[spelled]


def _converted(cursor: Cursor, text: str, dtype: np.dtype[Any], start: int) -> Any:
    if dtype.kind != "f":
        return _wrapped(cursor, _integer(cursor, text, start), dtype, start)
    if "." in text:
        with np.errstate(over="ignore"):
            return dtype.type(text)
    if "0x" not in text or text.startswith("-"):
        cursor.fail_at(
            start,
            codes.CALL_ATTRIBUTES,
            f"{text} is an integer, {dtype.name} takes a number with a point or the bits in hexadecimal",
        )
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    return np.array(_wrapped(cursor, _integer(cursor, text, start), bits, start)).view(dtype)[()]


def _integer(cursor: Cursor, text: str, start: int) -> int:
    if "." in text:
        cursor.fail_at(start, codes.CALL_ATTRIBUTES, f"{text} is not an integer")
    if len(text) > 30:
        cursor.fail_at(start, codes.CALL_ATTRIBUTES, "an integer of more than 64 bits")
    return int(text, 16 if "0x" in text else 10)


def _wrapped(cursor: Cursor, value: int, dtype: np.dtype[Any], start: int) -> Any:
    """Converts an integer to a type of its width: 255 becomes the i8 -1."""
    bits = 8 * dtype.itemsize
    lowest = 0 if dtype.kind == "u" else -(1 << bits - 1)
    if not lowest <= value < 1 << bits:
        cursor.fail_at(start, codes.CALL_ATTRIBUTES, f"{value} does not fit in {bits} bits")
    return np.array(value % (1 << bits), f"uint{bits}").view(dtype)[()]


# -- arrays


def _array(cursor: Cursor) -> Array:
    """Parses `array<i64: 2, 3>` after its first word."""
    cursor.expect("<", "after array")
    place = cursor.skip()
    dtype = _type(cursor, cursor.consume(_TYPE) or "", place)
    if dtype.kind == "u":
        cursor.fail_at(
            place, codes.CALL_ATTRIBUTES, f"array<...> holds signed or floating-point numbers, not {dtype.name}"
        )
    elements: list[Any] = []
    if cursor.accept(":"):
        elements.append(_element(cursor, dtype))
        while cursor.accept(","):
            elements.append(_element(cursor, dtype))
    cursor.expect(">", "after array<")
    return np.array(elements, dtype)


def _element(cursor: Cursor, dtype: np.dtype[Any]) -> Any:
    start = cursor.skip()
    text = cursor.consume(_NUMBER)
    if text is None:
        cursor.fail(codes.CALL_ATTRIBUTES, f"expected a number, found {cursor.describe_next()}")
    return _converted(cursor, text, dtype, start)


def _dense(cursor: Cursor) -> Array:
    """Parses `dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>` after its first word; returns all elements as a vector."""
    cursor.expect("<", "after dense")
    start = cursor.skip()
    raw = _string(cursor) if cursor.peek('"') else None
    tokens: list[tuple[str, int]] = []
    if raw is None and not cursor.peek(">"):
        _nested(cursor, tokens, 1)
    cursor.expect(">", "after dense<")
    dtype, count = _tensor(cursor)
    if raw is not None:
        elements = _raw(cursor, raw, dtype, start)
    else:
        elements = np.array([_converted(cursor, text, dtype, place) for text, place in tokens], dtype)
    if len(elements) == 1 and count > 1:
        return np.repeat(elements, count)
    if len(elements) != count:
        cursor.fail_at(start, codes.CALL_ATTRIBUTES, f"dense<...> has {len(elements)} elements, its type {count}")
    return elements


def _nested(cursor: Cursor, tokens: list[tuple[str, int]], depth: int) -> None:
    if depth > _DEEPEST:
        cursor.fail(codes.CALL_ATTRIBUTES, f"dense<...> is nested more than {_DEEPEST} deep")
    if cursor.peek("["):
        _entries(cursor, "[", "]", lambda: _nested(cursor, tokens, depth + 1))
        return
    start = cursor.skip()
    text = cursor.consume(_NUMBER)
    if text is None:
        cursor.fail(codes.CALL_ATTRIBUTES, f"expected a number, found {cursor.describe_next()}")
    tokens.append((text, start))


def _raw(cursor: Cursor, raw: bytes, dtype: np.dtype[Any], start: int) -> Array:
    """Parses elements that are given as bytes in hexadecimal: `"0x0100000002000000"`."""
    try:
        data = bytes.fromhex(raw.removeprefix(b"0x").decode("ascii"))
    except ValueError:
        cursor.fail_at(start, codes.CALL_ATTRIBUTES, "the elements of dense<...> are not a hexadecimal string")
    if len(data) % dtype.itemsize:
        cursor.fail_at(
            start, codes.CALL_ATTRIBUTES, f"{len(data)} bytes are not a multiple of the size of {dtype.name}"
        )
    return np.frombuffer(data, dtype).copy()


def _tensor(cursor: Cursor) -> tuple[np.dtype[Any], int]:
    """Parses `: tensor<2x2xi32>` and returns the element type and the number of elements."""
    cursor.expect(":", "after dense<...>")
    if not cursor.accept_word("tensor") and not cursor.accept_word("vector"):
        cursor.fail(codes.CALL_ATTRIBUTES, "expected a type tensor<...> after dense<...>")
    cursor.expect("<", "after tensor")
    sizes = [int(size[:18]) for size in (cursor.consume(_SIZES) or "").split("x") if size]
    place = cursor.skip()
    dtype = _type(cursor, cursor.consume(_TYPE) or "", place)
    cursor.expect(">", "after tensor<")
    count = bounded_product(sizes)
    if count > _MAX_ELEMENTS:
        cursor.fail_at(
            place,
            codes.CALL_ATTRIBUTES,
            f"an attribute has at most {_MAX_ELEMENTS} elements, the sizes {sizes[:8]} give more",
        )
    return dtype, count
