"""Parses MLIR types.

Responsible for builtin types, StableHLO's tokens and futures, quantized types and type aliases (`!name`). Does not
depend on operations. Types are cached by their text, because a program consists of few distinct types.

Source: MLIR's language reference and the definitions of the dialects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from xlapy.base.cursor import integer_from_text
from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import ShapeError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import NAME, MlirCursor

_INTEGERS = {f"{sign}i{bits}": f"{letter}{bits}" for sign, letter in (("", "S"), ("s", "S"), ("u", "U"))
             for bits in (2, 4, 8, 16, 32, 64)}  # fmt: skip

ELEMENTS: dict[str, PrimitiveType] = {
    "i1": PrimitiveType.PRED,
    "ui1": PrimitiveType.U1,
    "si1": PrimitiveType.S1,
    **{spelling: PrimitiveType.from_name(name) for spelling, name in _INTEGERS.items()},
    **{t.name.replace("F", "f", 1) if t is not PrimitiveType.BF16 else "bf16": t for t in ARRAY_TYPES if t.is_floating},
}
"""The element types by their MLIR names: `i1` is PRED, `ui8` is U8."""

_SIMPLE = r"(?:tensor<[\w?]*+(?:<f\d\d>)?>|(?:[su]?i\d++|b?f\d++|index)(?![\w<])|!stablehlo\.token\b)"
_SIMPLE_TYPE = re.compile(_SIMPLE)
_SIMPLE_LIST = rf"(?:{_SIMPLE}(?:, {_SIMPLE})*+)?"
_SIMPLE_FUNCTION = re.compile(rf"\({_SIMPLE_LIST}\) -> (?:{_SIMPLE}|\({_SIMPLE_LIST}\))", re.ASCII)
_NESTED_TYPE = re.compile(
    r'(?:tensor|tuple|!quant\.uniform)<[^<>"]*+(?:<[^<>"]*+(?:<[^<>"]*+>[^<>"]*+)*+>[^<>"]*+)*+>', re.ASCII
)
_WORD = re.compile(r"[A-Za-z_]\w*+", re.ASCII)
_NUMBER_TYPE = re.compile(r"[su]?i[1-9]\d*|b?f\d+(?:E\d+M\d+\w*)?|tf32", re.ASCII)
_SIZES = re.compile(r"(?:(?:\d+|\?)\s*x\s*)*+", re.ASCII)
_SIZE = re.compile(r"\d+|\?", re.ASCII)
_DIALECT = re.compile(rf"!({NAME})", re.ASCII)
_STARTS = re.compile(
    r"[!(]|(?:tensor|tuple|memref|vector|complex)<|(?:[su]?i\d+|b?f\d+\w*|tf32|index|none)\b(?!\.)", re.ASCII
)
_STORAGE = re.compile(r"(?:(u)i?|s?i)(\d+)", re.ASCII)
_NUMBER = re.compile(r"-?\d+(?:\.\d*(?:[eE][-+]?\d+)?)?", re.ASCII)
T = TypeVar("T")


class TypeParser:
    """Parses types at the cursor. `parse_attribute` parses encodings; the attribute parser sets it."""

    def __init__(self, cursor: MlirCursor) -> None:
        self.cursor = cursor
        self.aliases: dict[str, ir.Type] = {}
        self.parse_attribute: Callable[[], Any]
        self._types: dict[str, ir.Type] = {}
        self._functions: dict[str, ir.FunctionType] = {}
        self._composites: dict[ir.CompositeType, ir.CompositeType] = {}

    def is_next(self) -> bool:
        """Returns whether a builtin type or a type with `!` comes next."""
        return _STARTS.match(self.cursor.text, self.cursor.skip()) is not None

    def parse(self) -> ir.Type:
        """Parses the next type."""
        cursor = self.cursor
        start = cursor.skip()
        found = _SIMPLE_TYPE.match(cursor.text, start) or _NESTED_TYPE.match(cursor.text, start)
        if found is None:
            return self._parse_new()
        spelling = found.group()
        known = self._types.get(spelling)
        if known is not None:
            cursor.position = found.end()
            return known
        known = self._parse_new()
        if cursor.position == found.end():
            self._types[spelling] = known
        return known

    def parse_function(self) -> ir.FunctionType:
        """Parses `(...) -> ...`, with one result or a list of results in parentheses."""
        cursor = self.cursor
        start = cursor.skip()
        found = _SIMPLE_FUNCTION.match(cursor.text, start)
        if found is None:
            return self._parse_new_function()
        spelling = found.group()
        known = self._functions.get(spelling)
        if known is None:
            known = self._functions[spelling] = self._parse_new_function()
        cursor.position = found.end()
        return known

    def parse_list(self) -> list[ir.Type]:
        """Parses one or more types, separated by commas."""
        types = [self.parse()]
        while self.cursor.accept(","):
            types.append(self.parse())
        return types

    def _parse_new_function(self) -> ir.FunctionType:
        cursor = self.cursor
        cursor.expect("(", "before the types of operands")
        start = cursor.position
        inputs = cursor.separated(")", self.parse)
        cursor.expect("->", "between the types of operands and of results")
        results = cursor.separated(")", self.parse) if cursor.accept("(") else [self.parse()]
        return self._made(start, ir.FunctionType, tuple(inputs), tuple(results))

    def _made(self, start: int, make: Callable[..., T], *fields: Any) -> T:
        """Returns the type with these fields, the same object for equal composite types, so that they compare fast.

        Raises ParseError at `start` for a type that cannot exist.
        """
        try:
            type_ = make(*fields)
        except ShapeError as error:
            self.cursor.fail_at(start, error.code, error.message)
        if isinstance(type_, ir.CompositeType):
            return self._composites.setdefault(type_, type_)  # type: ignore[return-value]
        return type_

    # -- by kind

    def _parse_new(self) -> ir.Type:
        cursor = self.cursor
        cursor.enter_nested()
        start = cursor.skip()
        if cursor.peek("!"):
            result = self._dialect_type()
        elif cursor.peek("("):
            result = self._parse_new_function()
        else:
            word = cursor.match(_WORD)
            parse = self._BY_WORD.get(word.group()) if word else None
            if parse is not None:
                result = parse(self, start)
            elif word and _NUMBER_TYPE.fullmatch(word.group()):
                result = scalar_type(word.group())
            else:
                cursor.position = start
                cursor.fail(text_codes.TOKEN, f"expected a type, found {cursor.describe_next()}")
        cursor.leave_nested()
        return result

    def _tensor(self, start: int) -> ir.Type:
        cursor = self.cursor
        cursor.expect("<", "after 'tensor'")
        if cursor.accept("*"):
            cursor.expect("x", "after '*'")
            return self._unranked(start)
        sizes = self._sizes()
        element = element_of(self.parse())
        encoding = self.parse_attribute() if cursor.accept(",") else None
        cursor.expect(">", "at the end of a tensor's type")
        if element is None:
            return ir.OpaqueType(cursor.text[start : cursor.position])
        bounds = _bounds(encoding)
        if bounds is None:
            return self._made(start, ir.TensorType, sizes, element, (), encoding)
        if len(bounds) != len(sizes):  # no bounds at all are a type without them
            cursor.fail_at(
                start, codes.TENSOR_SIZES, f"the bounds have {len(bounds)} dimensions, but the tensor has {len(sizes)}"
            )
        return self._made(start, ir.TensorType, sizes, element, bounds)

    def _unranked(self, start: int) -> ir.Type:
        element = element_of(self.parse())
        self.cursor.expect(">", "at the end of a tensor's type")
        if element is None:
            return ir.OpaqueType(self.cursor.text[start : self.cursor.position])
        return ir.UnrankedTensorType(element)

    def _sizes(self) -> tuple[int | None, ...]:
        spelling = self.cursor.match(_SIZES)
        assert spelling is not None  # it matches no sizes, too
        return tuple([None if size == "?" else integer_from_text(size) for size in _SIZE.findall(spelling.group())])

    def _tuple(self, start: int) -> ir.Type:
        self.cursor.expect("<", "after 'tuple'")
        return self._made(start, ir.TupleType, tuple(self.cursor.separated(">", self.parse)))

    def _memref(self, start: int) -> ir.Type:
        cursor = self.cursor
        cursor.expect("<", "after 'memref'")
        if not cursor.peek("*"):
            sizes = self._sizes()
            element = element_of(self.parse())
            is_plain = None not in sizes and not isinstance(element, ir.IndexType | None)
            if is_plain and cursor.accept(">"):
                return self._made(start, ir.BufferType, sizes, element)
        return self._opaque(start)

    def _complex(self, start: int) -> ir.Type:
        cursor = self.cursor
        cursor.expect("<", "after 'complex'")
        part = self.parse()
        cursor.expect(">", "at the end of a complex type")
        known = part.element.complex_type if isinstance(part, ir.ScalarType) else None
        return ir.OpaqueType(cursor.text[start : cursor.position]) if known is None else ir.ScalarType(known)

    def _opaque(self, start: int) -> ir.Type:
        """Skips a builtin type that StableHLO does not use and returns its text as an opaque type."""
        cursor = self.cursor
        cursor.position = cursor.text.index("<", start)
        cursor.balanced()
        return ir.OpaqueType(cursor.text[start : cursor.position])

    _BY_WORD: ClassVar[dict[str, Callable[[TypeParser, int], ir.Type]]] = {
        "tensor": _tensor,
        "tuple": _tuple,
        "memref": _memref,
        "complex": _complex,
        "vector": _opaque,
        "index": lambda self, start: ir.IndexType(),
        "none": lambda self, start: ir.NoneType(),
    }

    # -- of dialects

    def _dialect_type(self) -> ir.Type:
        cursor = self.cursor
        start = cursor.position
        found = cursor.match(_DIALECT)
        if found is None:
            cursor.fail(text_codes.TOKEN, "expected the name of a type after '!'")
        name = found.group(1)
        if name in self.aliases:
            return self.aliases[name]
        if name == "stablehlo.token":
            return ir.TokenType()
        if name == "stablehlo.future":
            cursor.expect("<", "after '!stablehlo.future'")
            return self._made(start, ir.FutureType, tuple(cursor.separated(">", self.parse)))
        if name == "quant.uniform":
            return self._quantized()
        if "." not in name and not cursor.text.startswith("<", cursor.position):
            cursor.fail_at(start, codes.UNDEFINED_NAME, f"the type alias {'!' + name!r} is not defined")
        if cursor.text.startswith("<", cursor.position):
            cursor.balanced()
        return ir.OpaqueType(cursor.text[start : cursor.position])

    def _quantized(self) -> ir.QuantizedType:
        """Parses `<i8<-127:127>:f32:1, {0.1:2, 0.5}>`. The storage range, the axis and zero points are optional."""
        cursor = self.cursor
        cursor.expect("<", "after '!quant.uniform'")
        storage, lowest, highest = self._storage()
        cursor.expect(":", "after the storage type")
        expressed = element_of(self.parse())
        if not isinstance(expressed, PrimitiveType):
            cursor.fail(codes.QUANTIZED_TYPE, "the expressed type of a quantized type must be an element type")
        axes: list[int] = []
        blocks: list[int] = []
        if cursor.accept(":"):
            axes, blocks = self._axes()
        cursor.expect(",", "before the scales of a quantized type")
        pairs, shape = self._parameters()
        cursor.expect(">", "at the end of a quantized type")
        return ir.QuantizedType(
            storage,
            expressed,
            tuple(scale for scale, _ in pairs),
            tuple(zero for _, zero in pairs),
            lowest,
            highest,
            tuple(axes),
            tuple(blocks),
            tuple(shape) if blocks else (),
        )

    def _storage(self) -> tuple[PrimitiveType, int, int]:
        cursor = self.cursor
        found = cursor.match(_STORAGE)
        storage = ELEMENTS.get(("ui" if found.group(1) else "i") + found.group(2)) if found else None
        if storage is None or not storage.is_integral:
            cursor.fail(codes.QUANTIZED_TYPE, "expected the storage type of a quantized type, an integer type")
        bits = storage.bits
        lowest, highest = (0, 2**bits - 1) if storage.is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if cursor.accept("<"):
            lowest = cursor.integer("the minimum of the storage type")
            cursor.expect(":", "between the minimum and the maximum of the storage type")
            highest = cursor.integer("the maximum of the storage type")
            cursor.expect(">", "after the range of the storage type")
        return storage, lowest, highest

    def _axes(self) -> tuple[list[int], list[int]]:
        cursor = self.cursor
        if not cursor.accept("{"):
            return [cursor.integer("the quantized axis")], []
        pairs = cursor.separated("}", self._axis_and_block)
        return [axis for axis, _ in pairs], [block for _, block in pairs]

    def _axis_and_block(self) -> tuple[int, int]:
        axis = self.cursor.integer("a quantized axis")
        self.cursor.expect(":", "between an axis and its block size")
        return axis, self.cursor.integer("the size of a block")

    def _parameters(self) -> tuple[list[tuple[float, int]], list[int]]:
        """Parses scales with zero points; returns the pairs in row-major order and the shape of the nested braces."""
        cursor = self.cursor
        if not cursor.accept("{"):
            return [self._parameter()], []
        cursor.enter_nested()
        parts = cursor.separated("}", self._parameters)
        cursor.leave_nested()
        inner = parts[0][1] if parts else []
        if any(shape != inner for _, shape in parts):
            cursor.fail(codes.QUANTIZED_TYPE, "the scales of a quantized type are lists of different lengths")
        return [pair for pairs, _ in parts for pair in pairs], [len(parts), *inner]

    def _parameter(self) -> tuple[float, int]:
        found = self.cursor.match(_NUMBER)
        if found is None:
            self.cursor.fail(
                text_codes.TOKEN, f"expected the scale of a quantized type, found {self.cursor.describe_next()}"
            )
        return float(found.group()), self.cursor.integer("a zero point") if self.cursor.accept(":") else 0


def scalar_type(spelling: str) -> ir.Type:
    """Returns the type `i64`, `bf16` or `f8E4M3FN`; an OpaqueType for a width that HLO does not have."""
    element = ELEMENTS.get(spelling)
    return ir.OpaqueType(spelling) if element is None else ir.ScalarType(element)


def element_of(type_: ir.Type) -> ir.ElementType | ir.IndexType | None:
    """Returns the element type of a tensor of this type, or None if no tensor has such elements."""
    if isinstance(type_, ir.ScalarType):
        return type_.element
    return type_ if isinstance(type_, ir.QuantizedType | ir.IndexType) else None


def _bounds(encoding: Any) -> tuple[int | None, ...] | None:
    if isinstance(encoding, ir.StructAttribute) and encoding.name.endswith(".type_extensions"):
        return tuple(encoding.fields["bounds"])
    return None
