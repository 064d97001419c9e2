"""The attributes of a call of API_VERSION_TYPED_FFI: reads them from its `backend_config`, an MLIR dictionary.

Owns: the grammar, and which attributes such a call can have. Must not know: how a target is given them.
Source: XLA Custom Calls; Builtin Dialect of MLIR (attributes); ConvertIntegerAttr ... of xla/ffi/attribute_map.cc.

`{axis = 1 : i32, eps = 1.0e-5 : f32, on = true, name = "x", sizes = array<i64: 2, 3>, more = {n = 7}}` is read as
`{"axis": np.int32(1), "eps": np.float32(1e-5), "on": np.True_, "name": b"x", "sizes": np.array([2, 3]), "more":
{"n": np.int64(7)}}`: numbers without type are i64 and f64, and strings are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.scanner import Scanner

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


def read_attributes(text: str) -> dict[str, Attribute]:
    """The attributes by name, in the order of the names; an empty text has none.

    `ParseError` for what is no dictionary, or holds values that such a call cannot have.
    """
    scanner = Scanner(text)
    if scanner.at_end():
        return {}
    if not scanner.peek("{"):
        scanner.fail(f"expected a dictionary {{name = value, ...}}, found {scanner.shown()}")
    found = _dictionary(scanner, 1)
    scanner.expect_end("dictionary")
    return found


def _dictionary(scanner: Scanner, depth: int) -> dict[str, Attribute]:
    if depth > _DEEPEST:
        scanner.fail(f"dictionaries are nested more than {_DEEPEST} deep")
    found: dict[str, Attribute] = {}

    def entry() -> None:
        start = scanner.skip()
        name = scanner.match(_NAME) or _string(scanner).decode(errors="surrogateescape")
        if name in found:
            scanner.fail(f"the attribute {name} stands there twice", start)
        if not scanner.accept("="):
            scanner.fail(f"{name} is a unit attribute, a call takes attributes with values")
        found[name] = _value(scanner, name, depth)

    _entries(scanner, "{", "}", entry)
    return dict(sorted(found.items(), key=lambda item: item[0].encode(errors="surrogateescape")))


def _entries(scanner: Scanner, opening: str, closing: str, entry: Callable[[], None]) -> None:
    """Reads what stands between brackets, with commas between."""
    scanner.expect(opening, "in the attributes")
    if scanner.accept(closing):
        return
    entry()
    while scanner.accept(","):
        entry()
    scanner.expect(closing, "in the attributes")


def _value(scanner: Scanner, name: str, depth: int) -> Attribute:
    if scanner.peek("{"):
        return _dictionary(scanner, depth + 1)
    if scanner.peek('"'):
        return _string(scanner)
    start = scanner.skip()
    word = scanner.match(_TYPE)
    if word in ("true", "false"):
        return np.bool_(word == "true")
    if word == "array":
        return _array(scanner)
    if word == "dense":
        return _dense(scanner)
    if word is not None or not _NUMBER.match(scanner.text, start):
        _unknown(scanner, name, start)
    return _number(scanner)


def _unknown(scanner: Scanner, name: str, start: int) -> NoReturn:
    scanner.offset = start
    scanner.fail(
        f"{name} must be a number, true or false, a string, array<...>, dense<...> or a dictionary, "
        f"found {scanner.shown()}"
    )


# -- strings


def _string(scanner: Scanner) -> bytes:
    text = scanner.match(_STRING)
    if text is None:
        scanner.fail(f"expected a name or a string, found {scanner.shown()}")
    return _ESCAPE.sub(_unescaped, text[1:-1].encode(errors="surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else _SHORT.get(match[2], match[0])


# -- numbers


def _number(scanner: Scanner) -> Attribute:
    start = scanner.skip()
    text = scanner.match(_NUMBER) or ""
    if scanner.accept(":"):
        place = scanner.skip()
        spelled = scanner.match(_TYPE) or ""
        if spelled == "i1":
            return np.bool_(_integer(scanner, text, start) != 0)
        return _converted(scanner, text, _type(scanner, spelled, place), start)
    return _converted(scanner, text, _TYPES["f64" if "." in text else "i64"], start)


def _type(scanner: Scanner, spelled: str, place: int) -> np.dtype[Any]:
    if spelled not in _TYPES:
        scanner.fail(f"{spelled!r} is no type of attributes; these are {', '.join(_TYPES)}, and i1", place)
    return _TYPES[spelled]


def _converted(scanner: Scanner, text: str, dtype: np.dtype[Any], start: int) -> Any:
    if dtype.kind != "f":
        return _wrapped(scanner, _integer(scanner, text, start), dtype, start)
    if "." in text:
        with np.errstate(over="ignore"):
            return dtype.type(text)
    if "0x" not in text or text.startswith("-"):
        scanner.fail(
            f"{text} is an integer, {dtype.name} takes a number with a point or the bits in hexadecimal", start
        )
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    return np.array(_wrapped(scanner, int(text, 16), bits, start)).view(dtype)[()]


def _integer(scanner: Scanner, text: str, start: int) -> int:
    if "." in text:
        scanner.fail(f"{text} is no integer", start)
    if len(text) > 30:
        scanner.fail("an integer of more than 64 bits", start)
    return int(text, 16 if "0x" in text else 10)


def _wrapped(scanner: Scanner, value: int, dtype: np.dtype[Any], start: int) -> Any:
    """An integer as a value of a type of its width: 255 is the i8 -1."""
    bits = 8 * dtype.itemsize
    lowest = 0 if dtype.kind == "u" else -(1 << bits - 1)
    if not lowest <= value < 1 << bits:
        scanner.fail(f"{value} does not fit in {bits} bits", start)
    return np.array(value % (1 << bits), f"uint{bits}").view(dtype)[()]


# -- arrays


def _array(scanner: Scanner) -> Array:
    """`array<i64: 2, 3>`, read from behind its first word."""
    scanner.expect("<", "behind array")
    place = scanner.skip()
    dtype = _type(scanner, scanner.match(_TYPE) or "", place)
    if dtype.kind == "u":
        scanner.fail(f"array<...> holds signed or floating-point numbers, not {dtype.name}", place)
    elements: list[Any] = []
    if scanner.accept(":"):
        elements.append(_element(scanner, dtype))
        while scanner.accept(","):
            elements.append(_element(scanner, dtype))
    scanner.expect(">", "behind array<")
    return np.array(elements, dtype)


def _element(scanner: Scanner, dtype: np.dtype[Any]) -> Any:
    start = scanner.skip()
    text = scanner.match(_NUMBER)
    if text is None:
        scanner.fail(f"expected a number, found {scanner.shown()}")
    return _converted(scanner, text, dtype, start)


def _dense(scanner: Scanner) -> Array:
    """`dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>`, read from behind its first word; all elements in one dimension."""
    scanner.expect("<", "behind dense")
    start = scanner.skip()
    raw = _string(scanner) if scanner.peek('"') else None
    tokens: list[tuple[str, int]] = []
    if raw is None and not scanner.peek(">"):
        _nested(scanner, tokens, 1)
    scanner.expect(">", "behind dense<")
    dtype, count = _tensor(scanner)
    if raw is not None:
        elements = _raw(scanner, raw, dtype, start)
    else:
        elements = np.array([_converted(scanner, text, dtype, place) for text, place in tokens], dtype)
    if len(elements) == 1 and count > 1:
        return np.repeat(elements, count)
    if len(elements) != count:
        scanner.fail(f"dense<...> has {len(elements)} elements, its type {count}", start)
    return elements


def _nested(scanner: Scanner, tokens: list[tuple[str, int]], depth: int) -> None:
    if depth > _DEEPEST:
        scanner.fail(f"dense<...> is nested more than {_DEEPEST} deep")
    if scanner.peek("["):
        _entries(scanner, "[", "]", lambda: _nested(scanner, tokens, depth + 1))
        return
    start = scanner.skip()
    text = scanner.match(_NUMBER)
    if text is None:
        scanner.fail(f"expected a number, found {scanner.shown()}")
    tokens.append((text, start))


def _raw(scanner: Scanner, raw: bytes, dtype: np.dtype[Any], start: int) -> Array:
    """Elements as the bytes of memory, in hexadecimal: `"0x0100000002000000"`."""
    try:
        data = bytes.fromhex(raw.removeprefix(b"0x").decode("ascii"))
    except ValueError:
        scanner.fail("the elements of dense<...> are no hexadecimal string", start)
    if len(data) % dtype.itemsize:
        scanner.fail(f"{len(data)} bytes are no elements of {dtype.name}", start)
    return np.frombuffer(data, dtype).copy()


def _tensor(scanner: Scanner) -> tuple[np.dtype[Any], int]:
    """The element type and the number of elements of `: tensor<2x2xi32>`."""
    scanner.expect(":", "behind dense<...>")
    if scanner.word() not in ("tensor", "vector"):
        scanner.fail("expected a type tensor<...> behind dense<...>")
    scanner.expect("<", "behind tensor")
    sizes = [int(size[:18]) for size in (scanner.match(_SIZES) or "").split("x") if size]
    place = scanner.skip()
    dtype = _type(scanner, scanner.match(_TYPE) or "", place)
    scanner.expect(">", "behind tensor<")
    count = prod(sizes)
    if count > 1 << 28:
        scanner.fail(f"an attribute of {count} elements is too large", place)
    return dtype, count
