"""Attribute codecs, which read and write attribute values in HLO text, and the base class of attribute dataclasses.

Responsible for the text form, the default and the check of every kind of attribute value. Does not depend on the IR,
on any particular op, or on the parser: codecs read through `HloCursor`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

from xlapy.base.error_codes.operations import attributes as codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


def entries(cursor: HloCursor, opening: str = "{", closing: str = "}") -> Iterator[None]:
    """Iterates over a bracketed, comma-separated list: yields with the cursor at each entry, which the caller reads.

    `tuple(cursor.integer() for _ in entries(cursor))` reads `{1, 2}`. An `opening` of "" means that the caller has
    already read the opening bracket.
    """
    cursor.expect(opening)
    first = True
    while not cursor.accept(closing):
        if not first:
            cursor.expect(",")
        first = False
        yield


class AttributeCodec(Generic[T]):
    """Reads one kind of attribute value from HLO text and writes it as XLA prints it."""

    def read(self, cursor: HloCursor) -> T:
        raise AssertionError(f"{type(self).__name__} does not read")

    def write(self, value: T) -> str:
        return str(value)


class IntegerCodec(AttributeCodec[int]):
    """`index=3`"""

    def read(self, cursor: HloCursor) -> int:
        return cursor.integer()


class BoolCodec(AttributeCodec[bool]):
    """`is_stable=true`"""

    def read(self, cursor: HloCursor) -> bool:
        start = cursor.skip()
        word = cursor.word()
        if word not in ("true", "false"):
            cursor.fail_at(start, codes.ATTRIBUTE_WORD, f"expected true or false, found {word!r}")
        return word == "true"

    def write(self, value: bool) -> str:
        return "true" if value else "false"


_FLOAT = re.compile(r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


class FloatCodec(AttributeCodec[float]):
    """`epsilon=0.001`; written with six significant digits, as XLA does."""

    def read(self, cursor: HloCursor) -> float:
        match = cursor.match(_FLOAT)
        if match is None:
            cursor.fail(codes.ATTRIBUTE_FORM, "expected a number")
        return float(match[0])

    def write(self, value: float) -> str:
        return f"{value:g}"


_INTEGERS = re.compile(r"\{\s*((?:-?\d+(?:\s*,\s*-?\d+)*)?)\s*\}")
_COMMENTED_INTEGERS = re.compile(r"\{((?:[-\d,\s]++|/\*(?s:.*?)\*/|//[^\r\n]*+)*+)\}")
_COMMENT = re.compile(r"/\*(?s:.*?)\*/|//[^\r\n]*")
_DECODED: dict[str, tuple[int, ...]] = {}


def int64_from_text(text: str) -> int:
    """Converts decimal digits to an integer; raises `ShapeError` if it does not fit in 64 bits."""
    value = int(text) if len(text) < 40 else _TOO_LARGE
    if not -(2**63) <= value < 2**63:
        raise ShapeError(codes.ATTRIBUTE_INT64, f"the integer {text.strip()[:40]} does not fit in 64 bits")
    return value


_TOO_LARGE = 2**64


def integers_from_text(text: str) -> tuple[int, ...]:
    """Converts `"1, 2"` to (1, 2). Results are cached, because a module repeats a few lists many times."""
    found = _DECODED.get(text)
    if found is None:
        found = tuple([int64_from_text(part) for part in text.split(",")]) if text.strip() else ()
        if len(_DECODED) < 10_000 and len(text) < 200:
            _DECODED[text] = found
    return found


class IntegersCodec(AttributeCodec[tuple[int, ...]]):
    """`dimensions={0,1}`"""

    def read(self, cursor: HloCursor) -> tuple[int, ...]:
        match = cursor.match(_INTEGERS)
        if match is None:
            commented = cursor.match(_COMMENTED_INTEGERS)
            match = _INTEGERS.fullmatch(_COMMENT.sub(" ", commented[0])) if commented is not None else None
        if match is None:
            cursor.fail(codes.ATTRIBUTE_FORM, "expected a braced list of integers such as {0,1}")
        return integers_from_text(match[1])

    def write(self, value: tuple[int, ...]) -> str:
        return f"{{{','.join(map(str, value))}}}"


class OneIntegerCodec(AttributeCodec[int]):
    """`dimensions={0}` for an attribute that is exactly one integer."""

    def read(self, cursor: HloCursor) -> int:
        values = INTEGERS.read(cursor)
        if len(values) != 1:
            cursor.fail(codes.ATTRIBUTE_FORM, f"expected exactly one integer in braces, found {len(values)}")
        return values[0]

    def write(self, value: int) -> str:
        return f"{{{value}}}"


class IntegerListsCodec(AttributeCodec[tuple[tuple[int, ...], ...]]):
    """`source_target_pairs={{0,1},{1,0}}`"""

    def read(self, cursor: HloCursor) -> tuple[tuple[int, ...], ...]:
        return tuple([INTEGERS.read(cursor) for _ in entries(cursor)])

    def write(self, value: tuple[tuple[int, ...], ...]) -> str:
        return f"{{{','.join(INTEGERS.write(row) for row in value)}}}"


class StringCodec(AttributeCodec[str]):
    """`custom_call_target="f"`"""

    def read(self, cursor: HloCursor) -> str:
        return cursor.string()

    def write(self, value: str) -> str:
        return quote(value)


def quote(text: str) -> str:
    """Text in double quotes with C escapes, non-ASCII bytes as three octal digits, as XLA writes strings."""
    return f'"{escape(text)}"'


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_PLAIN = re.compile(r"[ -!#-&(-\[\]-~]*")


def escape(text: str) -> str:
    """Text with C escapes as in `quote`, without the quotes."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_ESCAPES.get(c) or (c if " " <= c <= "~" else _octal(c)) for c in text)


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


class WordCodec(AttributeCodec[str]):
    """A bare word kept as a string: `algorithm=dot_bf16_bf16_f32`"""

    def read(self, cursor: HloCursor) -> str:
        return cursor.word()


class ComputationNameCodec(AttributeCodec[str]):
    """`calls=%f`: the name of a computation, where it only repeats what is known."""

    def read(self, cursor: HloCursor) -> str:
        cursor.accept("%")
        return cursor.word()


class EnumCodec(AttributeCodec[E], Generic[E]):
    """A member of an enum, whose values are the words of HLO text."""

    def __init__(self, enum: type[E], ignore_case: bool = False) -> None:
        self.enum = enum
        self.ignore_case = ignore_case
        self.members: Mapping[str, E] = {member.value: member for member in enum}

    def read(self, cursor: HloCursor) -> E:
        start = cursor.skip()
        word = cursor.word()
        member = self.members.get(word.lower() if self.ignore_case else word)
        if member is None:
            cursor.fail_at(start, codes.ATTRIBUTE_WORD, f"expected one of {', '.join(self.members)}; found {word!r}")
        return member

    def write(self, value: E) -> str:
        return value.value


class ShapeCodec(AttributeCodec[Shape]):
    """`outfeed_shape=(f32[2]{0}, s32[])`"""

    def read(self, cursor: HloCursor) -> Shape:
        return cursor.shape()

    def write(self, value: Shape) -> str:
        return value.to_text(layout=True)


class LiteralCodec(AttributeCodec[Literal]):
    """A literal preceded by its shape: `literal=s32[2]{0} {1, 2}`"""

    def read(self, cursor: HloCursor) -> Literal:
        return cursor.literal(None)

    def write(self, value: Literal) -> str:
        return value.to_text(shape=True, layout=True)


class BracedListCodec(AttributeCodec[tuple[T, ...]], Generic[T]):
    """A braced, comma-separated list of values of another codec: `{highest,default}`."""

    def __init__(self, item: AttributeCodec[T], separator: str = ",") -> None:
        self.item = item
        self.separator = separator

    def read(self, cursor: HloCursor) -> tuple[T, ...]:
        return tuple([self.item.read(cursor) for _ in entries(cursor)])

    def write(self, value: tuple[T, ...]) -> str:
        return f"{{{self.separator.join(map(self.item.write, value))}}}"


INTEGER = IntegerCodec()
BOOL = BoolCodec()
FLOAT = FloatCodec()
INTEGERS = IntegersCodec()
ONE_INTEGER = OneIntegerCodec()
INTEGER_LISTS = IntegerListsCodec()
STRING = StringCodec()
WORD = WordCodec()
COMPUTATION_NAME = ComputationNameCodec()
SHAPE = ShapeCodec()
LITERAL = LiteralCodec()
SHAPES = BracedListCodec(SHAPE, ", ")
BOOLS = BracedListCodec(BOOL)


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute of an op: the dataclass field, its key in HLO text, its codec, and when it is printed.

    HLO text has the fields in their order, before the called computations; a field with `after_computations` follows
    the called computations.
    """

    name: str
    key: str
    codec: AttributeCodec[Any]
    default: Any
    always: bool
    aliases: tuple[str, ...]
    after_computations: bool = False

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def is_printed(self, value: Any) -> bool:
        """Whether XLA prints the attribute with this value: always if it is required, else if it is not the default."""
        return self.always or self.required or value != self.default


def attribute(
    codec: AttributeCodec[Any],
    *,
    default: Any = dataclasses.MISSING,
    key: str | None = None,
    always: bool = False,
    aliases: tuple[str, ...] = (),
    after_computations: bool = False,
) -> Any:
    """Declares a field of an attribute dataclass.

    `key` is the name in HLO text (default: the field's name), `aliases` are further keys that the parser accepts.
    An attribute without `default` is required. One with a default is printed only if its value differs from the
    default, or if `always` is true. `after_computations` prints it after the called computations.
    """
    metadata = {
        "codec": codec,
        "key": key,
        "always": always,
        "aliases": aliases,
        "after_computations": after_computations,
    }
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Attributes:
    """Base class of attribute dataclasses, which are frozen, hashable, interned by `make`, and independent of the IR.

    >>> @attributes
    ... class IotaAttributes(Attributes):
    ...     iota_dimension: int = attribute(INTEGER)
    """

    __slots__ = ("_hash",)
    fields: ClassVar[tuple[Field, ...]] = ()
    by_key: ClassVar[Mapping[str, Field]] = {}
    _interned: ClassVar[dict[Any, Any]] = {}

    @classmethod
    def make(cls, **values: Any) -> Self:
        """Returns an instance with these values; reuses an existing one if it is in the bounded cache."""
        key = (*values.items(), *map(type, values.values()))  # True equals 1, but is not printed like it
        found = cls._interned.get(key)
        if found is None:
            found = cls(**values)
            if len(cls._interned) < 10_000:
                cls._interned[key] = found
        return found

    def replace(self, **values: Any) -> Self:
        """Returns attributes with some values replaced."""
        current = {f.name: getattr(self, f.name) for f in self.fields}
        return type(self).make(**{**current, **values})

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (type(self), {f.name: getattr(self, f.name) for f in self.fields})


def _made(kind: type[Attributes], values: Mapping[str, Any]) -> Attributes:
    return kind.make(**values)


A = TypeVar("A", bound=type[Attributes])


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attribute,))
def attributes(cls: A) -> A:
    """Class decorator that makes an `Attributes` subclass a frozen dataclass and fills in `fields` and `by_key`."""
    made: Any = dataclass(frozen=True, eq=True, kw_only=True)(cls)
    made.fields = tuple(_field(f) for f in dataclasses.fields(made))
    made.by_key = {key: f for f in made.fields for key in (f.key, *f.aliases)}
    made._interned = {}
    made.__hash__ = _cached_hash(made.__hash__)
    return made


def _field(field: dataclasses.Field[Any]) -> Field:
    given = dict(field.metadata)
    key = given.pop("key") or field.name
    return Field(name=field.name, key=key, default=field.default, **given)


def _cached_hash(compute: Callable[[Any], int]) -> Callable[[Any], int]:
    def cached(self: Any) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", compute(self))
            return self._hash

    return cached


@attributes
class NoAttributes(Attributes):
    """The attributes of an op without attributes."""


NO_ATTRIBUTES = NoAttributes.make()
