"""Constant elements as MLIR spells them: `dense<...>`, `dense_resource<...>` and `array<...>`.

Owns: lists, splats, hexadecimal strings and the blobs behind resources, as arrays. Must not know: operations, and what
attributes there are besides.

A splat is a view of one element, so that a constant of a gigabyte written as `dense<0>` takes none. Numbers are read as
MLIR reads them: decimal digits to the nearest float64 first, then rounded to the element type.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

import numpy as np

from xlapy.base.cursor import integer_from_text
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.rounding import round_to
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MlirCursor
from xlapy.stablehlo.text.resources import Resources
from xlapy.stablehlo.text.types import ELEMENTS, TypeReader

_BODY = re.compile(r'[^<>"]*+(?=>)')
_HEXADECIMAL = re.compile(r'"0[xX]([0-9a-fA-F]*)"(?=\s*>)')
_SPELLING = re.compile(r"dense<([\w.+\-]+)> : tensor<[\w?]*>")
_TOKEN = re.compile(r"[\[\](),]|[^\s\[\](),]+")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?")
_WHOLE = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
_RESOURCE = re.compile(r"[A-Za-z_$.\-][\w$.\-]*+")
_CACHE_LIMIT = 4096


class ElementsReader:
    """Reads constant elements where the cursor stands."""

    def __init__(self, cursor: MlirCursor, types: TypeReader, resources: Resources) -> None:
        self.cursor = cursor
        self.types = types
        self.resources = resources
        self._known: dict[str, ir.ElementsAttribute] = {}

    def dense(self) -> ir.ElementsAttribute | ir.OpaqueAttribute:
        """`dense<...> : type`. What has elements that are no numbers, or is no tensor, is opaque."""
        cursor = self.cursor
        found = _SPELLING.match(cursor.text, cursor.skip())
        known = self._known.get(found.group()) if found else None
        if found and known:
            cursor.position = found.end()
            return known
        result = self._dense()
        if found and isinstance(result, ir.ElementsAttribute) and len(self._known) < _CACHE_LIMIT:
            self._known[found.group()] = result
        return result

    def _dense(self) -> ir.ElementsAttribute | ir.OpaqueAttribute:
        cursor = self.cursor
        cursor.expect_word("dense")
        start = cursor.skip()
        cursor.expect("<", "after 'dense'")
        found = cursor.match(_HEXADECIMAL) or cursor.match(_BODY)
        if found is None:
            cursor.position = start
            cursor.balanced()
        else:
            cursor.expect(">", "after constant elements")
        inside = cursor.text[start + 1 : cursor.position - 1]
        cursor.expect(":", "before the type of constant elements")
        type_ = self.types.read()
        if not isinstance(type_, ir.TensorType):
            return ir.OpaqueAttribute("builtin.dense", inside)
        if found is None:
            cursor.fail_at(start, f"strings cannot be elements of {_shown(type_)}")
        body = _Body(cursor, start, type_)
        values = body.of_bytes(found.group(1)) if found.re is _HEXADECIMAL else body.of_list(found.group())
        return elements(type_, values)

    def resource(self) -> ir.ElementsAttribute:
        """`dense_resource<name> : type`, with the blob of that name from the end of the text."""
        cursor = self.cursor
        cursor.expect_word("dense_resource")
        start = cursor.skip()
        cursor.expect("<", "after 'dense_resource'")
        bare = cursor.match(_RESOURCE)
        name = bare.group() if bare else cursor.string("the name of a resource")
        cursor.expect(">", "after the name of a resource")
        cursor.expect(":", "before the type of a resource")
        type_ = self.types.read()
        if not isinstance(type_, ir.TensorType):
            cursor.fail_at(start, "a resource holds the elements of a tensor of known rank")
        data = self.resources.blob(name, start)
        return elements(type_, _Body(cursor, start, type_).of_data(data), name)

    def array(self) -> ir.ElementsAttribute:
        """`array<i64: 1, 2>`."""
        cursor = self.cursor
        cursor.expect_word("array")
        start = cursor.skip()
        cursor.expect("<", "after 'array'")
        scalar = self.types.read()
        if not isinstance(scalar, ir.ScalarType):
            cursor.fail_at(start, "the elements of an array have to be numbers")
        if not cursor.accept(":"):
            cursor.expect(">", "after the type of an array without elements")
            return elements(ir.TensorType((0,), scalar.element), np.empty(0, scalar.element.dtype))
        found = cursor.match(_BODY)
        if found is None:
            cursor.fail("expected the elements of an array")
        cursor.expect(">", "after the elements of an array")
        type_ = ir.TensorType((found.group().count(",") + 1,), scalar.element)
        return elements(type_, _Body(cursor, start, type_).of_list(f"[{found.group()}]"))


def elements(type_: ir.TensorType, values: Array, resource: str | None = None) -> ir.ElementsAttribute:
    """The attribute of an array, which becomes read-only."""
    values.flags.writeable = False
    return ir.ElementsAttribute(type_, values, resource)


def integers(values: list[int]) -> ir.ElementsAttribute:
    """`array<i64: ...>` of these."""
    return elements(ir.TensorType((len(values),), PrimitiveType.S64), np.array(values, np.int64))


def booleans(values: list[bool]) -> ir.ElementsAttribute:
    """`array<i1: ...>` of these."""
    return elements(ir.TensorType((len(values),), PrimitiveType.PRED), np.array(values, np.bool_))


def number(spelling: str, element: PrimitiveType | ir.IndexType) -> int | float | bool:
    """One number of an element type other than complex. Raises ValueError with the reason if it cannot be one."""
    if isinstance(element, ir.IndexType):
        element = PrimitiveType.S64
    if element.is_floating:
        return _floating(spelling, element)
    if spelling in ("true", "false"):
        if element is not PrimitiveType.PRED:
            raise ValueError(f"{spelling!r} is a number of i1 only")
        return spelling == "true"
    if not _WHOLE.fullmatch(spelling):
        raise ValueError(f"{spelling[:40]!r} is no whole number")
    return _whole(integer_from_text(spelling), element)


def rounded(value: float, element: PrimitiveType) -> float:
    """A number as a floating-point type can hold it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(round_to(np.array(value, np.float64), _dtype(element)).astype(np.float64))


def _whole(value: int, element: PrimitiveType) -> int | bool:
    """A type without a sign (`i8`) takes what fits in its bits either way, and is signed: 255 is -1."""
    bits = 1 if element is PrimitiveType.PRED else element.bits
    lowest = 0 if element.is_unsigned else -(1 << (bits - 1))
    if not lowest <= value < 1 << bits:
        raise ValueError(f"the number {str(value)[:40]} is out of the range of {element}")
    if element is PrimitiveType.PRED:
        return value != 0
    return value - (1 << bits) if element.is_signed and value >= 1 << (bits - 1) else value


def _floating(spelling: str, element: PrimitiveType) -> float:
    """Decimal digits with a point, or the bits of the type in hexadecimal; not rounded to the type."""
    if _DECIMAL.fullmatch(spelling):
        return float(spelling)
    if not _WHOLE.fullmatch(spelling) or "x" not in spelling or spelling[0] == "-":
        raise ValueError(f"{spelling[:40]!r} is no floating-point number: digits with a point, or bits (0x7FC00000)")
    bits = integer_from_text(spelling)
    if bits >= 1 << element.bits:
        raise ValueError(f"the bits {spelling[:40]} are too many for {element}")
    stored = np.array(bits, f"u{element.byte_size}").view(_dtype(element))
    with np.errstate(invalid="ignore"):  # signalling NaN
        return float(stored.astype(np.float64))


class _Body:
    """What stands inside the brackets of constant elements, of one type; errors are placed at `start`."""

    def __init__(self, cursor: MlirCursor, start: int, type_: ir.TensorType) -> None:
        self.cursor = cursor
        self.start = start
        self.type = type_
        element = type_.element
        if isinstance(element, ir.QuantizedType):
            element = element.storage
        self.element = PrimitiveType.S64 if isinstance(element, ir.IndexType) else element
        self.sizes = tuple(size for size in type_.sizes if size is not None)
        if not type_.is_static:
            self.fail("constant elements need a type of known sizes")
        self.count = math.prod(self.sizes)
        self.dtype = _dtype(self.element)

    def fail(self, reason: str) -> NoReturn:
        self.cursor.fail_at(self.start, reason)

    # -- bytes

    def of_bytes(self, digits: str) -> Array:
        if len(digits) % 2:
            self.fail("a hexadecimal string needs two digits for each byte")
        return self.of_data(bytes.fromhex(digits))

    def of_data(self, data: bytes) -> Array:
        """Little-endian elements, all of them or one for all. Booleans take a byte each or, as once, a bit each."""
        size = self.element.byte_size
        if len(data) == size * self.count:
            return self._stored(data).reshape(self.sizes)
        if len(data) == size:
            return np.broadcast_to(self._stored(data)[0], self.sizes)
        if self.element is not PrimitiveType.PRED or len(data) != (self.count + 7) // 8:
            self.fail(f"{len(data)} bytes are not {self.count} elements of {size} bytes, of {_shown(self.type)}")
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=self.count, bitorder="little")
        return bits.astype(np.bool_).reshape(self.sizes)

    def _stored(self, data: bytes) -> Array:
        if self.element is PrimitiveType.PRED:
            return np.frombuffer(data, np.uint8) != 0
        if self.element.bits >= 8:
            return np.frombuffer(data, self.dtype.newbyteorder("<") if self.dtype.kind in "iufc" else self.dtype)
        low = np.frombuffer(data, np.uint8) & ((1 << self.element.bits) - 1)
        if not self.element.is_signed:
            return low.view(self.dtype) if self.element.is_floating else low.astype(self.dtype)
        sign = 1 << (self.element.bits - 1)
        return ((low ^ sign).astype(np.int8) - sign).astype(self.dtype)

    # -- lists

    def of_list(self, body: str) -> Array:
        tokens = _TOKEN.findall(body)
        if not tokens:
            if self.count:
                self.fail(f"there are no elements for {_shown(self.type)}")
            return np.empty(self.sizes, self.dtype)
        sizes = (*self.sizes, 2) if self.element.is_complex else self.sizes
        is_splat = tokens[0] == "(" if self.element.is_complex else len(tokens) == 1
        leaves = self._leaves(tokens, sizes[len(self.sizes) :] if is_splat else sizes)
        values = self._numbers(leaves)
        if self.element.is_complex:
            # The two parts stand beside each other, which is how a complex number lies in memory.
            values = values.view(self.dtype)
        return np.broadcast_to(values[0], self.sizes) if is_splat else values.reshape(self.sizes)

    def _leaves(self, tokens: list[str], sizes: tuple[int, ...]) -> list[str]:
        """The numbers among brackets and commas, after a check that the lists have the sizes of the type."""
        leaves: list[str] = []
        counts = [0]
        after_value = False
        for token in tokens:
            if token in "[(":
                if after_value or len(counts) > len(sizes) or (token == "(") != self._is_pair(len(counts), sizes):
                    self._fail_shape(token)
                counts.append(0)
                continue
            if token in "])":
                if len(counts) == 1 or (not after_value and counts[-1]) or counts.pop() != sizes[len(counts) - 1]:
                    self._fail_shape(token)
            elif token == ",":
                if not after_value or len(counts) == 1:
                    self._fail_shape(token)
                after_value = False
                continue
            else:
                if after_value or len(counts) != len(sizes) + 1:
                    self._fail_shape(token)
                leaves.append(token)
            counts[-1] += 1
            after_value = True
        if counts != [1]:
            self._fail_shape("the end")
        return leaves

    def _is_pair(self, depth: int, sizes: tuple[int, ...]) -> bool:
        return self.element.is_complex and depth == len(sizes)

    def _fail_shape(self, token: str) -> NoReturn:
        self.fail(f"the lists of elements are not those of {_shown(self.type)}, seen at {token[:40]!r}")

    def _numbers(self, leaves: list[str]) -> Array:
        part = self.element.component_type
        try:
            numbers = [number(leaf, part) for leaf in leaves]
        except ValueError as error:
            self.fail(str(error))
        if part.is_floating:
            return self._floats(leaves, numbers, part)
        if part is PrimitiveType.PRED:
            return np.array(numbers, np.bool_)
        return np.array(numbers, np.uint64 if part.is_unsigned else np.int64).astype(_dtype(part))

    def _floats(self, leaves: list[str], numbers: list[int | float | bool], part: PrimitiveType) -> Array:
        """Rounded to the type; those spelled as bits keep them, payloads of NaN and all."""
        dtype = _dtype(part)
        with np.errstate(over="ignore"):
            values = round_to(np.array(numbers, np.float64), dtype)
        unsigned = values.view(f"u{dtype.itemsize}")
        for index, leaf in enumerate(leaves):
            if "x" in leaf:
                unsigned[index] = integer_from_text(leaf)
        return values


def _dtype(element: PrimitiveType) -> np.dtype[np.generic]:
    assert element.dtype is not None
    return element.dtype


def _shown(type_: ir.TensorType) -> str:
    """A tensor's type for a message."""
    element = type_.element
    spelling = next((text for text, known in ELEMENTS.items() if known is element), str(element))
    sizes = "".join(f"{'?' if size is None else size}x" for size in type_.sizes)
    return f"tensor<{sizes}{spelling}>"
