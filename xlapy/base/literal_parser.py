"""Parses the text of literals: numbers, nested braces, tuples.

Responsible for the grammar of literals and for rounding decimal numbers to element types. Does not depend on
instructions. The rules are those of XLA's HLO parser (ParseLiteral), with the following differences, most of which make
every literal read back from its own text:

- `-0` in a floating-point literal is negative zero. XLA prints negative zero as `-0`, but reads it as the integer 0.
- The imaginary part of a complex number keeps its value if the real part is NaN.
- An elided constant, `{...}`, is all zeros and marked as elided. XLA makes up elements.
- F8E8M0FNU rounds to the nearest number near 2**-127 as well.
- `+1`, `.5` and hexadecimal floating-point numbers (`0x1.8p3`) are accepted.
- `true` and `false` in a literal that is not PRED are an error.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar, NoReturn

import numpy as np

from xlapy.base.cursor import Cursor, integer_from_text
from xlapy.base.element_types import BF16, F8E8M0FNU, F16, PRED, Array, PrimitiveType
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import ParseError
from xlapy.base.float_formats import FloatFormat
from xlapy.base.literal import Literal, check_numpy_limits
from xlapy.base.rounding import round_to
from xlapy.base.shape import Shape, read_shape
from xlapy.base.shape_fields import MAX_TUPLE_DEPTH

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n\r]*", re.DOTALL)
_TOKEN = re.compile(
    r"[ \t\r\n,]*(?:(?P<mark>[{}()]|\.\.\.)"
    r"|(?P<nan>-?nan)(?![\w.(])"
    r"|(?P<payload>-?nan\(0x[0-9a-fA-F]+\))"
    r"|(?P<infinity>-?inf)(?![\w.])"
    r"|(?P<hexadecimal>[-+]?0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:p[-+]?\d+)?)(?![\w.])"
    r"|(?P<float>[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+))(?!\w|\.(?!\.\.))"
    r"|(?P<integer>[-+]?\d+)(?!\w|\.(?!\.\.))"
    r"|(?P<word>true|false|token)(?![\w.]))"
)
_BARE_TOKEN = re.compile(r"[ \t\r\n,]*token(?![\w.\[])")
_SIZES = re.compile(r"\s*\([\d,\s]*\)")
_NON_SKELETON_BYTES = bytes(set(range(256)) - set(b"{},()"))
_NUMBER_BYTES = b"0123456789+-.eEinfa{}(), \t\r\n"
_BRACES_TO_BLANKS = bytes.maketrans(b"{}()", b"    ")
_DEFAULT_PAYLOAD = -1  # stands for the payload of a NaN written without one


def parse_literal(text: str, shape: Shape) -> Literal:
    """Parses the text inside `constant(...)` as a literal of `shape`.

    Arrays are written in nested braces, tuples in parentheses, complex numbers as `(1, 2)`. Commas and comments between
    elements are optional. `{...}` stands for elided elements and gives zeros with `is_elided` set. As in XLA, a single
    number for an array sets its first element; the others are zero. Raises ParseError with an offset in `text`.
    """
    return _LiteralParser(text).parse(shape)


def parse_shaped_literal(text: str) -> Literal:
    """Parses a literal after its shape: `f32[2]{0} {1, 2}` or `(f32[] 1, s32[1]{0} {2})`. Raises ParseError.

    As in XLA, a brace after the sizes of a shape opens a layout, so arrays of rank 1 and above must have one. The
    sizes in parentheses after a dynamic shape are skipped, because a literal holds all elements up to the bounds.
    """
    return _LiteralParser(text).parse(None)


class _LiteralParser(Cursor):
    """Reads one literal from a text. Commas count as blanks. Spaces replace comments, so that positions stay valid."""

    BLANK_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"[ \t\r\n,]*+")
    BLANK_CHARACTERS: ClassVar[str] = " \n\t\r,"

    def __init__(self, text: str) -> None:
        super().__init__(_COMMENT.sub(lambda c: " " * len(c.group()), text) if "/" in text else text)
        self.original = text

    def parse(self, shape: Shape | None) -> Literal:
        """Reads the whole text as a literal of `shape`; if it is None, the shape comes first in the text."""
        literal = self.read_shaped_literal() if shape is None else self.read_literal(shape)
        self.expect_end("literal")
        return literal

    def fail_at(self, position: int, code: ErrorCode, message: str) -> NoReturn:
        """Raises ParseError at a position of the text with its comments."""
        raise ParseError.at(self.original, position, code, message)

    # -- structure

    def read_literal(self, shape: Shape) -> Literal:
        """Reads a literal of any shape."""
        if shape.is_tuple:
            return self._read_tuple(shape)
        if shape.is_token:
            self.accept("token")
            return Literal.token()
        if shape.buffer_shape is not None:
            return self.read_literal(shape.buffer_shape)
        if not shape.is_array:
            self.fail(codes.LITERAL_KIND, f"a literal cannot have the shape {shape.to_text(layout=False)}")
        return self._read_array(shape)

    def read_shaped_literal(self, depth: int = 1) -> Literal:
        """Reads a literal after its shape, or a tuple of such literals."""
        token = _BARE_TOKEN.match(self.text, self.position)
        if token is not None:
            self.position = token.end()
            return Literal.token()
        if not self.accept("("):
            cursor = Cursor(self.text, self.position)
            shape = read_shape(cursor)
            self.position = cursor.position
            sizes = _SIZES.match(self.text, self.position) if shape.is_dynamic and shape.is_array else None
            self.position = sizes.end() if sizes else self.position
            return self.read_literal(shape)
        if depth > MAX_TUPLE_DEPTH:
            self.fail(codes.SHAPE_DEPTH, f"tuples nest deeper than {MAX_TUPLE_DEPTH} levels")
        elements: list[Literal] = []
        while not self.accept(")"):
            elements.append(self.read_shaped_literal(depth + 1))
        return Literal.tuple(elements)

    def _read_tuple(self, shape: Shape) -> Literal:
        count = len(shape.tuple_shapes)
        self.expect("(", f"before the {count} elements of a tuple {shape.to_text(layout=False)}")
        elements = [self.read_literal(element) for element in shape.tuple_shapes]
        self.expect(")", f"after the {count} elements of a tuple {shape.to_text(layout=False)}")
        return Literal.tuple(elements)

    def _read_array(self, shape: Shape) -> Literal:
        """Reads an array: at once if it is plain, else element by element."""
        check_numpy_limits(shape)
        start = self.position
        end = self._find_closing_brace(shape)
        if end is not None:
            values = _parse_plain_array(self.text[start:end], shape)
            if values is not None:
                self.position = end
                return Literal.array_of(values, shape)
        return _ArrayParser(self, shape).parse()

    def _find_closing_brace(self, shape: Shape) -> int | None:
        """The position after the braces of an array: after the first run of `rank` closing braces. None without one."""
        if not shape.rank or not shape.size:
            return None
        match = re.compile(r"\}\s*" * shape.rank).search(self.text, self.position)
        return None if match is None else match.end()


class _ArrayParser:
    """Reads one array element by element, checks the braces, and reports errors at their position."""

    def __init__(self, cursor: _LiteralParser, shape: Shape) -> None:
        self.cursor = cursor
        self.shape = shape
        self.type = shape.element_type
        self.shown = shape.to_text(layout=False)
        self.values: list[Any] = []
        self.payloads: list[tuple[int, bool, int]] = []
        """(component index, whether negative, payload) of each NaN."""
        self.counts = [0] * shape.rank
        """Elements read so far along each dimension, within the braces that are open."""
        self.level = 0
        """Open braces."""
        self.elided = False

    def parse(self) -> Literal:
        while True:
            match = _TOKEN.match(self.cursor.text, self.cursor.position)
            if match is None:
                self._fail_at_token()
            self._read_token(match)
            if self.level == 0:
                break
        if self.elided:
            return Literal.elided(self.shape)
        array = self._zeros()
        array.reshape(-1)[: len(self.values)] = self._convert()
        # A read-only array is not copied by the literal. A copy would touch every page of a huge array.
        array.flags.writeable = False
        return Literal.array_of(array, self.shape)

    def _zeros(self) -> Array:
        """Zeros, most of which may not be in the text: the shape alone says how many there are."""
        try:
            return np.zeros(self.shape.dimensions, self.shape.dtype)
        except MemoryError:
            self.cursor.fail(codes.LITERAL_MEMORY, f"a literal of {self.shown} does not fit in memory")

    def _fail_at_token(self) -> NoReturn:
        self.cursor.fail(
            codes.LITERAL_ELEMENT, f"expected a value of {self.shown}, found {self.cursor.describe_next()}"
        )

    def _read_token(self, match: re.Match[str]) -> None:
        kind = match.lastgroup or ""
        word = match.group(kind)
        start = match.start(kind)
        if word == "{":
            self._open_brace(start)
        elif word == "}":
            self._close_brace(start)
        elif word == "...":
            self._elide(start)
        elif word == "(":
            self._read_complex(match.end(), start)
            return
        elif word == ")":
            self.cursor.fail_at(start, codes.LITERAL_BRACES, "unexpected ')' in a literal")
        else:
            self._add_element(kind, word, start)
        self.cursor.position = match.end()

    def _open_brace(self, start: int) -> None:
        self.level += 1
        if self.level > self.shape.rank:
            self.cursor.fail_at(
                start,
                codes.LITERAL_BRACES,
                f"{self.shown} takes {self.shape.rank} levels of braces, but there are more",
            )
        if self.level > 1:
            self._count_element(self.level - 2, start)

    def _count_element(self, axis: int, start: int) -> None:
        """Counts an element or a brace along a dimension. Raises ParseError if there are too many."""
        self.counts[axis] += 1
        if self.counts[axis] > self.shape.dimensions[axis]:
            self.cursor.fail_at(
                start,
                codes.LITERAL_SIZE,
                f"expected {self.shape.dimensions[axis]} elements along dimension {axis} of {self.shown} "
                f"in element {self._index_text(axis)}, but there are more",
            )

    def _close_brace(self, start: int) -> None:
        if self.level == 0:
            self.cursor.fail_at(start, codes.LITERAL_BRACES, "unexpected '}' in a literal")
        self.level -= 1
        count, size = self.counts[self.level], self.shape.dimensions[self.level]
        if count != size:
            self.cursor.fail_at(
                start,
                codes.LITERAL_SIZE,
                f"expected {size} elements along dimension {self.level} of {self.shown} "
                f"in element {self._index_text(self.level)}, but there are {count}",
            )
        self.counts[self.level] = 0

    def _index_text(self, axis: int) -> str:
        """The index of the open brace that holds the elements along `axis`, for error messages: `[0,2]`."""
        return f"[{','.join(str(count - 1) for count in self.counts[:axis])}]"

    def _elide(self, start: int) -> None:
        if self.level != 1:
            self.cursor.fail_at(
                start, codes.LITERAL_BRACES, f"'...' must be inside one pair of braces, but it is inside {self.level}"
            )
        self.counts[0] = self.shape.dimensions[0]
        self.elided = True

    def _read_complex(self, after: int, start: int) -> None:
        """Reads `(real, imaginary)`, whose parenthesis is at `start` and ends at `after`."""
        if not self.type.is_complex:
            self.cursor.fail_at(
                start,
                codes.LITERAL_ELEMENT,
                f"parentheses are for complex numbers, and this is an element of {self.shown}",
            )
        self._check_level(start)
        real, imaginary = self._read_component(after), self._read_component(None)
        self.cursor.expect(")", "after a complex number")
        self.values.append(complex(real, imaginary))

    def _read_component(self, after: int | None) -> float:
        """Reads the real part of a complex number, at the position `after`, or its imaginary part if that is None."""
        if after is not None:
            self.cursor.position = after
        match = _TOKEN.match(self.cursor.text, self.cursor.position)
        if match is None or match.lastgroup in ("mark", "word"):
            self._fail_at_token()
        kind = match.lastgroup or ""
        self.cursor.position = match.end()
        # The real part of the element being read is component 2 n, the imaginary part 2 n + 1.
        index = 2 * len(self.values) + (after is None)
        return self._to_float(kind, match.group(kind), match.start(kind), index)

    def _add_element(self, kind: str, word: str, start: int) -> None:
        """Converts a token that is not a complex number and adds it to the values. kind: its group in `_TOKEN`."""
        self._check_level(start)
        if self.type.is_complex:
            self.cursor.fail_at(
                start, codes.LITERAL_ELEMENT, f"an element of {self.shown} is written (real, imaginary), not {word}"
            )
        if self.type.is_floating:
            value: Any = self._to_float(kind, word, start, len(self.values))
        elif kind == "word" and self.type is PRED and word != "token":
            value = word == "true"
        elif kind == "integer":
            value = self._to_integer(word, start)
        else:
            self.cursor.fail_at(
                start, codes.LITERAL_ELEMENT, f"expected an integer for an element of {self.shown}, found {word}"
            )
        self.values.append(value)

    def _check_level(self, start: int) -> None:
        """Counts an element. Raises ParseError if it is not inside as many braces as the shape has dimensions."""
        rank = self.shape.rank
        if self.level == rank:
            if rank:
                self._count_element(rank - 1, start)
        elif self.level:  # an element outside all braces is the first one
            self.cursor.fail_at(
                start,
                codes.LITERAL_BRACES,
                f"an element of {self.shown} needs {rank} levels of braces, not {self.level}",
            )
        elif not self.shape.size:
            self.cursor.fail_at(start, codes.LITERAL_SIZE, f"{self.shown} has no elements, but there is one")

    # -- numbers

    def _to_integer(self, word: str, start: int) -> int:
        value = integer_from_text(word)
        if not -(2**63) <= value < 2**64:
            self.cursor.fail_at(start, codes.VALUE_RANGE, f"the integer {word[:40]} does not fit in 64 bits")
        if self.type is PRED:
            return value != 0
        bits, signed = self.type.bits, self.type.is_signed
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        # XLA accepts both readings of 64 bits: 2^64 - 1 is -1 in any signed type.
        if signed and value >= 1 << 63:
            value -= 1 << 64
        elif bits == 64 and value < low:
            value += 1 << 64
        if not low <= value <= high:
            self._fail_out_of_range(word, start, f"[{low}, {high}]")
        return value

    def _fail_out_of_range(self, word: str, start: int, interval: str) -> NoReturn:
        self.cursor.fail_at(
            start,
            codes.VALUE_RANGE,
            f"the value {word} is out of range for {self.type} in a literal of {self.shown}: {interval}",
        )

    def _to_float(self, kind: str, word: str, start: int, index: int) -> float:
        if kind in ("nan", "payload"):
            return self._to_nan(word, start, index)
        if kind == "hexadecimal":
            return self._check_range(_from_hexadecimal(word), word, start)
        if kind not in ("float", "integer", "infinity"):
            self.cursor.fail_at(
                start, codes.LITERAL_ELEMENT, f"expected a number for an element of {self.shown}, found {word}"
            )
        value = float(word)
        if kind != "infinity":
            self._check_range(value, word, start)
        return value

    def _check_range(self, value: float, word: str, start: int) -> float:
        """The value. Raises ParseError if it rounds to infinity or NaN in the element type."""
        component_type = self.type.component_type
        if math.isinf(value):
            self._fail_out_of_range(word, start, "it is not even in the range of F64")
        with np.errstate(all="ignore"):
            fits = np.isfinite(_rounded(np.array([value]), component_type).astype(np.float64))[0]
        if not fits:
            self._fail_out_of_range(word, start, _interval(component_type))
        return value

    def _to_nan(self, word: str, start: int, index: int) -> float:
        """A NaN; its payload is stored to be written after the conversion. index: of the component."""
        payload = _DEFAULT_PAYLOAD
        if "(" in word:
            payload = int(word[word.index("(") + 1 : -1], 16)
            bits = self.type.component_type.float_format.nan_payload_bits
            if not 0 < payload < 1 << bits:
                allowed = f"0x1 to 0x{(1 << bits) - 1:x}" if bits else "no NaN payloads"
                self.cursor.fail_at(start, codes.NAN_PAYLOAD, f"NaN payload 0x{payload:x}: {self.type} has {allowed}")
        negative = word.startswith("-")
        self.payloads.append((index, negative, payload))
        return -math.nan if negative else math.nan

    def _convert(self) -> Array:
        """The values as elements of the type, with the payloads of their NaNs."""
        if not (self.type.is_floating or self.type.is_complex):
            wide = np.uint64 if self.type.is_unsigned else np.int64
            return np.array(self.values, wide).astype(self.shape.dtype)
        component_type = self.type.component_type
        if self.type.is_complex:
            values = np.array(self.values, np.complex128).view(np.float64)
        else:
            values = np.array(self.values, np.float64)
        flat = _rounded(values, component_type)
        if self.payloads and component_type.float_format.nan_payload_bits:
            _write_payloads(flat, component_type.float_format, self.payloads)
        return flat.view(self.shape.dtype)


def _write_payloads(flat: Array, float_format: FloatFormat, payloads: list[tuple[int, bool, int]]) -> None:
    """Writes NaNs with the given payloads into `flat`: (index, whether negative, payload)."""
    codes = flat.view(f"u{flat.itemsize}")
    exponent = float_format.infinity_code or 0
    for index, negative, given in payloads:
        payload = float_format.quiet_nan_payload if given == _DEFAULT_PAYLOAD else given
        codes[index] = negative * float_format.sign_mask | exponent | payload


def _from_hexadecimal(word: str) -> float:
    try:
        return float.fromhex(word)
    except OverflowError:
        return math.inf


def _interval(element_type: PrimitiveType) -> str:
    """The finite range of a floating-point type, for error messages."""
    return f"[{element_type.float_format.lowest:g}, {element_type.float_format.largest:g}]"


def _rounded(values: Array, element_type: PrimitiveType) -> Array:
    """Rounds float64 values to `element_type` as XLA rounds a constant: to F16 and BF16 by way of F32."""
    dtype = np.dtype(element_type.dtype)
    with np.errstate(all="ignore"):
        if element_type in (F16, BF16):
            return values.astype(np.float32).astype(dtype)
        if element_type is F8E8M0FNU:
            # The cast rounds up numbers just above the smallest one, 2**-127, such as the printed text of 2**-127.
            values = np.where((values > 0) & (values < 1.5 * 2.0**-127), 2.0**-127, values)
        return round_to(values, dtype)


# -- the fast path: arrays of plain numbers


def _parse_plain_array(text: str, shape: Shape) -> Array | None:
    """The array, if `text` has the canonical commas and braces and only plain numbers in range; otherwise None.

    A text that is refused here is read again element by element, which also reports errors at their position.
    """
    element_type = shape.element_type
    if len(text) < 2 * shape.size:  # too short; the skeleton of a huge shape would not fit in memory
        return None
    try:
        data = text.encode("ascii")
    except UnicodeEncodeError:
        return None
    if element_type is PRED:
        data = data.replace(b"true", b"1").replace(b"false", b"0")
    if data.translate(None, _NUMBER_BYTES) or data.translate(None, _NON_SKELETON_BYTES) != _skeleton(shape):
        return None
    numbers = data.translate(_BRACES_TO_BLANKS).split(b",")
    try:
        if element_type.is_floating or element_type.is_complex:
            flat = _plain_floats(numbers, data, element_type)
        else:
            flat = _plain_integers(numbers, element_type)
    except (ValueError, OverflowError):
        return None
    return None if flat is None else flat.view(shape.dtype).reshape(shape.dimensions)


def _skeleton(shape: Shape) -> bytes:
    """The braces, parentheses and commas of the canonical text of an array."""
    text = b"(,)" if shape.element_type.is_complex else b""
    for size in reversed(shape.dimensions):
        text = b"{" + (text + b",") * (size - 1) + text + b"}"
    return text


def _plain_integers(numbers: list[bytes], element_type: PrimitiveType) -> Array | None:
    values = np.array(list(map(int, numbers)), np.uint64 if element_type.name == "U64" else np.int64)
    if element_type is PRED:
        return values != 0
    bits = element_type.bits
    if bits < 64:
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if element_type.is_signed else (0, (1 << bits) - 1)
        if int(values.min()) < low or int(values.max()) > high:
            return None
    return values.astype(element_type.dtype)


def _plain_floats(numbers: list[bytes], data: bytes, element_type: PrimitiveType) -> Array | None:
    values = np.array(list(map(float, numbers)), np.float64)
    if np.isnan(values).any() or np.count_nonzero(np.isinf(values)) != data.count(b"inf"):
        return None
    flat = _rounded(values, element_type.component_type)
    overflowed = np.isfinite(values) & ~np.isfinite(flat.astype(np.float64))
    return None if overflowed.any() else flat
