"""Parses elements attributes: `dense<...>`, `dense_resource<...>` and `array<...>`.

Responsible for turning lists, splats, hexadecimal strings and resource blobs into arrays. Does not depend on operations
or on other attributes.

A splat is a view of one element, so that a large constant written as `dense<0>` takes no memory. Decimal numbers are
read as in MLIR: rounded to the nearest float64 first, then to the element type.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

import numpy as np

from xlapy.base.cursor import integer_from_text
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import ShapeError
from xlapy.base.rounding import round_to
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MlirCursor
from xlapy.stablehlo.text.resources import Resources
from xlapy.stablehlo.text.types import ELEMENTS, TypeParser

_BODY = re.compile(r'[^<>"]*+(?=>)', re.ASCII)
_HEXADECIMAL = re.compile(r'"0[xX]([0-9a-fA-F]*)"(?=\s*>)', re.ASCII)
_SPLAT = re.compile(r"dense<([\w.+\-]+)> : tensor<[\w?]*>", re.ASCII)
_TOKEN = re.compile(r"[\[\](),]|[^\s\[\](),]+", re.ASCII)
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)", re.ASCII)
_RESOURCE = re.compile(r"[A-Za-z_$.\-][\w$.\-]*+", re.ASCII)
_MAX_CACHED_SPLATS = 4096
"""The most splats that are cached by their text, so that a text with many distinct constants does not fill memory."""


class ElementsParser:
    """Parses elements attributes at the cursor."""

    def __init__(self, cursor: MlirCursor, types: TypeParser, resources: Resources) -> None:
        self.cursor = cursor
        self.types = types
        self.resources = resources
        self._cache: dict[str, ir.ElementsAttribute] = {}
        self._resources: dict[tuple[str, ir.TensorType], ir.ElementsAttribute] = {}

    def dense(self) -> ir.ElementsAttribute | ir.OpaqueAttribute:
        """Parses `dense<...> : type`. The result is opaque if the type is not a tensor of numbers."""
        cursor = self.cursor
        found = _SPLAT.match(cursor.text, cursor.skip())
        known = self._cache.get(found.group()) if found else None
        if found and known:
            cursor.position = found.end()
            return known
        result = self._dense()
        if found and isinstance(result, ir.ElementsAttribute) and len(self._cache) < _MAX_CACHED_SPLATS:
            self._cache[found.group()] = result
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
        type_ = self.types.parse()
        if not isinstance(type_, ir.TensorType):
            return ir.OpaqueAttribute("builtin.dense", inside)
        if found is None:
            cursor.fail_at(start, codes.CONSTANT_TYPE, f"strings cannot be elements of {_type_text(type_)}")
        body = _ElementsText(cursor, start, type_)
        values = body.from_hexadecimal(found.group(1)) if found.re is _HEXADECIMAL else body.from_list(found.group())
        return elements(type_, values)

    def resource(self) -> ir.ElementsAttribute:
        """Parses `dense_resource<name> : type`. The blob with this name is at the end of the text."""
        cursor = self.cursor
        cursor.expect_word("dense_resource")
        start = cursor.skip()
        cursor.expect("<", "after 'dense_resource'")
        bare = cursor.match(_RESOURCE)
        name = bare.group() if bare else cursor.string("the name of a resource")
        cursor.expect(">", "after the name of a resource")
        cursor.expect(":", "before the type of a resource")
        type_ = self.types.parse()
        if not isinstance(type_, ir.TensorType):
            cursor.fail_at(start, codes.CONSTANT_TYPE, "the type of a resource must be a ranked tensor")
        known = self._resources.get((name, type_))
        if known is None:
            data = self.resources.blob(name, start)
            known = elements(type_, _ElementsText(cursor, start, type_).from_bytes(data), name)
            self._resources[name, type_] = known
        return known

    def array(self) -> ir.ElementsAttribute:
        """Parses `array<i64: 1, 2>`."""
        cursor = self.cursor
        cursor.expect_word("array")
        start = cursor.skip()
        cursor.expect("<", "after 'array'")
        scalar = self.types.parse()
        if not isinstance(scalar, ir.ScalarType):
            cursor.fail_at(start, codes.CONSTANT_TYPE, "the elements of an array must be numbers")
        if not cursor.accept(":"):
            cursor.expect(">", "after the type of an array without elements")
            return elements(ir.TensorType((0,), scalar.element), np.empty(0, scalar.element.dtype))
        found = cursor.match(_BODY)
        if found is None:
            cursor.fail(text_codes.TOKEN, "expected the elements of an array")
        cursor.expect(">", "after the elements of an array")
        type_ = ir.TensorType((found.group().count(",") + 1,), scalar.element)
        return elements(type_, _ElementsText(cursor, start, type_).from_list(f"[{found.group()}]"))


def elements(type_: ir.TensorType, values: Array, resource: str | None = None) -> ir.ElementsAttribute:
    """Returns the attribute with these values. The array becomes read-only."""
    values.flags.writeable = False
    return ir.ElementsAttribute(type_, values, resource)


def integers(values: list[int]) -> ir.ElementsAttribute:
    """Returns `array<i64: ...>` with these values."""
    return elements(ir.TensorType((len(values),), PrimitiveType.S64), np.array(values, np.int64))


def booleans(values: list[bool]) -> ir.ElementsAttribute:
    """Returns `array<i1: ...>` with these values."""
    return elements(ir.TensorType((len(values),), PrimitiveType.PRED), np.array(values, np.bool_))


def parse_number(spelling: str, element: PrimitiveType | ir.IndexType) -> int | float | bool:
    """Parses a number of an element type that is not complex. Raises ValueError with the reason if it is malformed."""
    if isinstance(element, ir.IndexType):
        element = PrimitiveType.S64
    if element.is_floating:
        return _floating_point(spelling, element)
    if spelling in ("true", "false"):
        if element is not PrimitiveType.PRED:
            raise ValueError(f"{spelling!r} is a value of i1 only")
        return spelling == "true"
    if not _INTEGER.fullmatch(spelling):
        raise ValueError(f"{spelling[:40]!r} is not an integer")
    return _checked_integer(integer_from_text(spelling), element)


def round_to_type(value: float, element: PrimitiveType) -> float:
    """Rounds a number to a floating-point type."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(round_to(np.array(value, np.float64), _dtype(element)).astype(np.float64))


def _checked_integer(value: int, element: PrimitiveType) -> int | bool:
    """Checks the range of an integer and wraps it to the type.

    A signless type (`i8`) accepts signed and unsigned numbers of its width and is signed here: 255 becomes -1.
    """
    bits = 1 if element is PrimitiveType.PRED else element.bits
    lowest = 0 if element.is_unsigned else -(1 << (bits - 1))
    if not lowest <= value < 1 << bits:
        raise ValueError(f"the number {str(value)[:40]} is out of the range of {element}")
    if element is PrimitiveType.PRED:
        return value != 0
    return value - (1 << bits) if element.is_signed and value >= 1 << (bits - 1) else value


def _floating_point(spelling: str, element: PrimitiveType) -> float:
    """Parses a decimal number with a point, or the bits of the type in hexadecimal. Does not round to the type."""
    if _DECIMAL.fullmatch(spelling):
        return float(spelling)
    if not _INTEGER.fullmatch(spelling) or "x" not in spelling or spelling[0] == "-":
        raise ValueError(f"{spelling[:40]!r} is not a floating-point number: digits with a point, or bits (0x7FC00000)")
    bits = integer_from_text(spelling)
    if bits >= 1 << element.bits:
        raise ValueError(f"the bits {spelling[:40]} are too many for {element}")
    stored = np.array(bits, f"u{element.byte_size}").view(_dtype(element))
    with np.errstate(invalid="ignore"):  # signalling NaN
        return float(stored.astype(np.float64))


class _ElementsText:
    """Converts the text inside the brackets of an elements attribute to an array; errors point at `start`."""

    def __init__(self, cursor: MlirCursor, start: int, type_: ir.TensorType) -> None:
        self.cursor = cursor
        self.start = start
        self.type = type_
        element = type_.element
        if isinstance(element, ir.QuantizedType):
            element = element.storage
        self.element = PrimitiveType.S64 if isinstance(element, ir.IndexType) else element
        try:
            self.sizes = ir.check_constant(type_, self.element)
        except ShapeError as error:
            self.fail(error.code, error.message)
        self.count = math.prod(self.sizes)
        self.dtype = _dtype(self.element)

    def fail(self, code: ErrorCode, message: str) -> NoReturn:
        """Raises ParseError at the beginning of the elements."""
        self.cursor.fail_at(self.start, code, message)

    # -- bytes

    def from_hexadecimal(self, digits: str) -> Array:
        """Converts the digits of a hexadecimal string, two per byte."""
        if len(digits) % 2:
            self.fail(codes.ELEMENT_COUNT, "a hexadecimal string needs two digits for each byte")
        return self.from_bytes(bytes.fromhex(digits))

    def from_bytes(self, data: bytes) -> Array:
        """Converts little-endian bytes of all elements or of a splat. Booleans are bytes or, in old programs, bits."""
        size = self.element.byte_size
        if len(data) == size * self.count:
            return self._from_storage(data).reshape(self.sizes)
        if len(data) == size:
            return np.broadcast_to(self._from_storage(data)[0], self.sizes)
        if self.element is not PrimitiveType.PRED or len(data) != (self.count + 7) // 8:
            self.fail(
                codes.ELEMENT_COUNT,
                f"{len(data)} bytes are not {self.count} elements of {size} bytes, of {_type_text(self.type)}",
            )
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=self.count, bitorder="little")
        return bits.astype(np.bool_).reshape(self.sizes)

    def _from_storage(self, data: bytes) -> Array:
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

    def from_list(self, body: str) -> Array:
        """Converts nested lists of numbers, or a single number as a splat."""
        tokens = _TOKEN.findall(body)
        if not tokens:
            if self.count:
                self.fail(codes.ELEMENT_COUNT, f"there are no elements for {_type_text(self.type)}")
            return np.empty(self.sizes, self.dtype)
        sizes = (*self.sizes, 2) if self.element.is_complex else self.sizes
        is_splat = tokens[0] == "(" if self.element.is_complex else len(tokens) == 1
        leaves = self._leaves(tokens, sizes[len(self.sizes) :] if is_splat else sizes)
        values = self._numbers(leaves)
        if self.element.is_complex:
            # Real and imaginary parts alternate, which is the memory layout of complex numbers.
            values = values.view(self.dtype)
        return np.broadcast_to(values[0], self.sizes) if is_splat else values.reshape(self.sizes)

    def _leaves(self, tokens: list[str], sizes: tuple[int, ...]) -> list[str]:
        """Checks that the nested lists have the sizes of the type, and returns the numbers in them."""
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
        self.fail(codes.ELEMENT_COUNT, f"the nested lists do not fit {_type_text(self.type)}, seen at {token[:40]!r}")

    def _numbers(self, leaves: list[str]) -> Array:
        part = self.element.component_type
        try:
            numbers = [parse_number(leaf, part) for leaf in leaves]
        except ValueError as error:
            self.fail(codes.ELEMENT_VALUE, str(error))
        if part.is_floating:
            return self._floats(leaves, numbers, part)
        if part is PrimitiveType.PRED:
            return np.array(numbers, np.bool_)
        return np.array(numbers, np.uint64 if part.is_unsigned else np.int64).astype(_dtype(part))

    def _floats(self, leaves: list[str], numbers: list[int | float | bool], part: PrimitiveType) -> Array:
        """Rounds numbers to the type. Numbers written as bits keep all bits, including the payloads of NaNs."""
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


def _type_text(type_: ir.TensorType) -> str:
    """Returns a tensor type for error messages."""
    element = type_.element
    spelling = next((text for text, known in ELEMENTS.items() if known is element), str(element))
    sizes = "".join(f"{'?' if size is None else size}x" for size in type_.sizes)
    return f"tensor<{sizes}{spelling}>"
