"""Parses MLIR attributes.

Responsible for builtin attributes, dictionaries, attribute aliases (`#name`), and the structs and enums of StableHLO,
CHLO and MHLO. Does not depend on operations.

Source: MLIR's language reference and the definitions of the dialects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MAX_NESTING_DEPTH, NAME, MlirCursor
from xlapy.stablehlo.text.elements import ElementsParser, parse_number, round_to_type
from xlapy.stablehlo.text.resources import Resources
from xlapy.stablehlo.text.structs import StructParser
from xlapy.stablehlo.text.types import TypeParser

_KEY = re.compile(r"([A-Za-z_][\w$.\-]*+)|(?=\")", re.ASCII)
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]++|\d++\.\d*+(?:[eE][-+]?\d++)?|\d++)", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*+", re.ASCII)
_DIALECT = re.compile(rf"#({NAME})", re.ASCII)
_ENUM = re.compile(r"<\s*([A-Za-z_]\w*)\s+([A-Za-z_]\w*)\s*>|\.[a-z_]+_mode<\s*([A-Za-z_]\w*)\s*>", re.ASCII)
_WRAPPED = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*?)\s*", re.DOTALL | re.ASCII)
_STRUCT_DIALECTS = ("stablehlo", "chlo", "mhlo")
_MAX_EXPANDED_PARTS = 1 << 18
_MAX_PARTS_PER_CHARACTER = 4
"""Bounds of the attributes that aliases stand for: a number, and more for each character of the text."""
_CHARACTERS_PER_PART = 8
"""Characters of a string that count as one attribute."""
_I64 = ir.ScalarType(PrimitiveType.S64)
_F64 = ir.ScalarType(PrimitiveType.F64)


class _Extent(NamedTuple):
    """The number of attributes, types and elements in an attribute, itself included, and how deep they are nested."""

    parts: int
    depth: int


def _extent(value: Any, known: dict[int, _Extent]) -> _Extent:
    """Returns the extent of an attribute. `known` has those of aliases by the identity of their values."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, ir.CompositeType):
        return _Extent(value.parts, value.depth)
    if isinstance(value, ir.StructAttribute):
        value = value.fields
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, ir.ElementsAttribute):
        return _Extent(1 if value.is_splat else 1 + value.values.size, 1)
    if isinstance(value, str):
        return _Extent(1 + len(value) // _CHARACTERS_PER_PART, 1)
    if not isinstance(value, tuple):
        return _Extent(1, 1)
    inner = [_extent(each, known) for each in value]
    return _Extent(1 + sum(each.parts for each in inner), 1 + max((each.depth for each in inner), default=0))


class AttributeParser:
    """Parses attributes at the cursor. `aliases` holds the aliases `#name = ...` that were defined so far."""

    def __init__(self, cursor: MlirCursor, resources: Resources) -> None:
        self.cursor = cursor
        self.types = TypeParser(cursor)
        self.types.parse_attribute = self.parse
        self.elements = ElementsParser(cursor, self.types, resources)
        self.structs = StructParser(cursor, self.parse)
        self.aliases: dict[str, Any] = {}
        self._extents: dict[int, _Extent] = {}
        self._parts_left = _MAX_EXPANDED_PARTS + _MAX_PARTS_PER_CHARACTER * len(cursor.text)

    def define_alias(self, name: str) -> None:
        """Parses the attribute that an alias stands for. Raises ParseError if aliases nest too deep."""
        start = self.cursor.skip()
        value = self.parse()
        extent = _extent(value, self._extents)
        if extent.depth > MAX_NESTING_DEPTH:
            self.cursor.fail_at(
                start, codes.TEXT_NESTING, f"attributes are nested more than {MAX_NESTING_DEPTH} levels deep"
            )
        self.aliases[name] = value
        self._extents[id(value)] = extent

    def _use_alias(self, name: str, start: int) -> Any:
        """Returns what an alias stands for. Bounds the attributes that all uses stand for together: each alias may use
        the one before it twice, so that forty lines would describe 2**40 attributes.
        """
        value = self.aliases[name]
        self._parts_left -= self._extents[id(value)].parts
        if self._parts_left < 0:
            self.cursor.fail_at(start, codes.TEXT_NESTING, "the aliases of attributes stand for too many attributes")
        return value

    def parse(self) -> Any:
        """Parses the next attribute."""
        cursor = self.cursor
        start = cursor.skip()
        first = cursor.text[start : start + 1]
        parse = self._BY_FIRST_CHARACTER.get(first)
        if parse is not None:
            return parse(self)
        word = _WORD.match(cursor.text, start)
        parse = self._BY_FIRST_WORD.get(word.group()) if word else None
        if parse is not None:
            return parse(self)
        if not self.types.is_next():
            cursor.fail(text_codes.TOKEN, f"expected an attribute, found {cursor.describe_next()}")
        return self.types.parse()

    def parse_dictionary(self) -> dict[str, Any]:
        """Parses `{name = attribute, name_of_unit}`."""
        cursor = self.cursor
        start = cursor.skip()
        cursor.expect("{", "before attributes")
        entries: dict[str, Any] = {}
        for name, value in cursor.separated("}", self._entry):
            if name in entries:
                cursor.fail_at(start, codes.DEFINED_ONCE, f"the attribute {name!r} occurs twice in a dictionary")
            entries[name] = value
        return entries

    def _entry(self) -> tuple[str, Any]:
        cursor = self.cursor
        found = cursor.match(_KEY)
        if found is None:
            cursor.fail(text_codes.TOKEN, f"expected the name of an attribute, found {cursor.describe_next()}")
        name = found.group(1) or cursor.string("the name of an attribute")
        return name, self.parse() if cursor.accept("=") else ir.Unit()

    # -- by the first character

    def _string(self) -> str:
        text = self.cursor.string("an attribute")
        if self.cursor.accept(":"):
            self.types.parse()
        return text

    def _number(self) -> Any:
        cursor = self.cursor
        start = cursor.skip()
        found = cursor.match(_NUMBER)
        if found is None:
            cursor.fail(text_codes.TOKEN, f"expected a number, found {cursor.describe_next()}")
        spelling = found.group()
        is_decimal = "." in spelling
        type_: ir.Type = _F64 if is_decimal else _I64
        if cursor.accept(":"):
            type_ = self.types.parse()
        if isinstance(type_, ir.OpaqueType):
            return ir.OpaqueAttribute("builtin.number", f"{spelling} : {type_.text}")
        if not isinstance(type_, ir.ScalarType | ir.IndexType):
            cursor.fail_at(
                start, codes.CONSTANT_TYPE, "the type of a number must be an integer, index or floating-point type"
            )
        return self._typed_number(start, spelling, type_)

    def _typed_number(self, start: int, spelling: str, type_: ir.ScalarType | ir.IndexType) -> Any:
        element = type_.element if isinstance(type_, ir.ScalarType) else PrimitiveType.S64
        try:
            value = parse_number(spelling, element)
        except ValueError as error:
            self.cursor.fail_at(start, codes.ELEMENT_VALUE, str(error))
        if isinstance(value, bool):
            return value
        if isinstance(type_, ir.ScalarType) and element.is_floating:
            return ir.FloatAttribute(round_to_type(value, element), type_)
        return ir.IntegerAttribute(int(value), type_)

    def _array(self) -> tuple[Any, ...]:
        cursor = self.cursor
        cursor.enter_nested()
        cursor.expect("[")
        values = tuple(cursor.separated("]", self.parse))
        cursor.leave_nested()
        return values

    def _dictionary(self) -> dict[str, Any]:
        self.cursor.enter_nested()
        entries = self.parse_dictionary()
        self.cursor.leave_nested()
        return entries

    def _symbol(self) -> ir.SymbolReference:
        cursor = self.cursor
        root = cursor.symbol("a symbol")
        nested: list[str] = []
        while cursor.accept("::"):
            nested.append(cursor.symbol("a nested symbol"))
        return ir.SymbolReference(root, tuple(nested))

    def _type(self) -> ir.Type:
        return self.types.parse()

    def _dialect(self) -> Any:
        cursor = self.cursor
        start = cursor.skip()
        found = cursor.match(_DIALECT)
        if found is None:
            cursor.fail(text_codes.TOKEN, "expected the name of an attribute after '#'")
        name = found.group(1)
        if name in self.aliases:
            return self._use_alias(name, start)
        dialect = name.partition(".")[0]
        is_body = cursor.text.startswith("<", cursor.position)
        if dialect not in _STRUCT_DIALECTS or not is_body:
            return self._opaque(start, name, is_body)
        cursor.position = start + 1 + len(dialect)
        enum = _ENUM.match(cursor.text, cursor.position)
        if enum is not None:
            cursor.position = enum.end()
            return enum.group(2) or enum.group(3)
        return self._struct(dialect, found.end())

    def _struct(self, dialect: str, after_name: int) -> Any:
        """Parses `#stablehlo.dot<...>` or `#stablehlo<dot<...>>`."""
        cursor = self.cursor
        is_wrapped = cursor.accept("<")
        if not is_wrapped:
            cursor.expect(".")
        cursor.enter_nested()
        value = self.structs.parse(dialect)
        cursor.leave_nested()
        if is_wrapped:
            cursor.expect(">", f"at the end of an attribute of {dialect}")
        return value

    def _opaque(self, start: int, name: str, has_body: bool) -> ir.OpaqueAttribute:
        cursor = self.cursor
        if "." not in name and not has_body:
            cursor.fail_at(start, codes.UNDEFINED_NAME, f"the attribute alias {'#' + name!r} is not defined")
        if not has_body:
            return ir.OpaqueAttribute(name, None)
        body = cursor.balanced()
        wrapped = None if "." in name else _WRAPPED.fullmatch(body)
        if wrapped is None:
            return ir.OpaqueAttribute(name, body)
        inner = wrapped.group(2)
        return ir.OpaqueAttribute(f"{name}.{wrapped.group(1)}", inner[1:-1] if inner.startswith("<") else inner)

    _BY_FIRST_CHARACTER: ClassVar[dict[str, Callable[[AttributeParser], Any]]] = {
        '"': _string,
        "[": _array,
        "{": _dictionary,
        "@": _symbol,
        "!": _type,
        "(": _type,
        "#": _dialect,
        **dict.fromkeys("-0123456789", _number),
    }

    # -- by the first word

    def _boolean(self) -> bool:
        return self.cursor.word("a boolean") == "true"

    def _unit(self) -> ir.Unit:
        self.cursor.expect_word("unit")
        return ir.Unit()

    def _dense(self) -> Any:
        return self.elements.dense()

    def _resource(self) -> ir.ElementsAttribute:
        return self.elements.resource()

    def _dense_array(self) -> ir.ElementsAttribute:
        return self.elements.array()

    def _builtin(self) -> ir.OpaqueAttribute:
        """Parses builtin attributes that StableHLO does not use, such as `affine_map<...>` and `sparse<...> : type`."""
        cursor = self.cursor
        name = cursor.word("an attribute")
        start = cursor.skip()
        while cursor.text[cursor.skip() : cursor.position + 1] in ("<", "(", "["):
            cursor.balanced()
        if name == "sparse" and cursor.accept(":"):
            self.types.parse()
        return ir.OpaqueAttribute(f"builtin.{name}", cursor.text[start : cursor.position])

    _BY_FIRST_WORD: ClassVar[dict[str, Callable[[AttributeParser], Any]]] = {
        "true": _boolean,
        "false": _boolean,
        "unit": _unit,
        "dense": _dense,
        "dense_resource": _resource,
        "array": _dense_array,
        **dict.fromkeys(("affine_map", "affine_set", "strided", "sparse", "loc", "distinct"), _builtin),
    }
