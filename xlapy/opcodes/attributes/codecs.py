"""The kinds of attribute an op can have (text form, default, check) and the base of attribute dataclasses.

Owns: how each kind of attribute value is read from and written to HLO text, independent of any op.
Must not know: the IR, the parser (kinds see only the `Reader` protocol), any particular op.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar, dataclass_transform

from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Reader(Protocol):
    """The cursor over HLO text that a kind reads its value from. Every method first skips blanks and comments."""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches at the cursor and moves past the match; None (cursor unmoved) if it does not match."""
        ...

    def accept(self, text: str) -> bool:
        """Moves past `text` if it stands at the cursor."""
        ...

    def expect(self, text: str) -> None:
        """Moves past `text`, or fails saying that it was expected."""
        ...

    def fail(self, message: str) -> NoReturn:
        """Raises `ParseError` at the cursor."""
        ...

    def integer(self) -> int: ...

    def word(self) -> str:
        """A bare word: letters, digits, `_`, `-` and `.`."""
        ...

    def string(self) -> str:
        """A double-quoted string, its C escapes undone."""
        ...

    def shape(self) -> Shape: ...

    def literal(self, shape: Shape | None) -> Literal:
        """A literal of the given shape; with None the text gives its shape first."""
        ...


def entries(reader: Reader, opening: str = "{", closing: str = "}") -> Iterator[None]:
    """Walks through a bracketed, comma-separated list: yields with the cursor at each entry, which the caller reads.

    `tuple(reader.integer() for _ in entries(reader))` reads `{1, 2}`. An `opening` of "" was read before.
    """
    reader.expect(opening)
    first = True
    while not reader.accept(closing):
        if not first:
            reader.expect(",")
        first = False
        yield


class Kind(Generic[T]):
    """A kind of attribute value: reads it from text, writes it as XLA prints it."""

    def read(self, reader: Reader) -> T:
        raise AssertionError(f"{type(self).__name__} does not read")

    def write(self, value: T) -> str:
        return str(value)


class IntegerKind(Kind[int]):
    """`index=3`"""

    def read(self, reader: Reader) -> int:
        return reader.integer()


class BoolKind(Kind[bool]):
    """`is_stable=true`"""

    def read(self, reader: Reader) -> bool:
        word = reader.word()
        if word not in ("true", "false"):
            reader.fail(f"expected true or false, found {word!r}")
        return word == "true"

    def write(self, value: bool) -> str:
        return "true" if value else "false"


_FLOAT = re.compile(r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


class FloatKind(Kind[float]):
    """`epsilon=0.001`; written with six significant digits, as XLA does."""

    def read(self, reader: Reader) -> float:
        match = reader.match(_FLOAT)
        if match is None:
            reader.fail("expected a number")
        return float(match[0])

    def write(self, value: float) -> str:
        return f"{value:g}"


_INTEGERS = re.compile(r"\{\s*((?:-?\d+(?:\s*,\s*-?\d+)*)?)\s*\}")
_COMMENTED_INTEGERS = re.compile(r"\{((?:[-\d,\s]++|/\*(?s:.*?)\*/|//[^\r\n]*+)*+)\}")
_COMMENT = re.compile(r"/\*(?s:.*?)\*/|//[^\r\n]*")
_DECODED: dict[str, tuple[int, ...]] = {}


def to_integer(text: str) -> int:
    """The integer that a run of digits spells; `ShapeError` if 64 bits do not hold it."""
    value = int(text) if len(text) < 40 else _TOO_LARGE
    if not -(2**63) <= value < 2**63:
        raise ShapeError(f"the integer {text.strip()[:40]} does not fit in 64 bits")
    return value


_TOO_LARGE = 2**64


def split_integers(text: str) -> tuple[int, ...]:
    """`"1, 2"` -> (1, 2); interned, since modules repeat a few lists many times."""
    found = _DECODED.get(text)
    if found is None:
        found = tuple([to_integer(part) for part in text.split(",")]) if text.strip() else ()
        if len(_DECODED) < 10_000 and len(text) < 200:
            _DECODED[text] = found
    return found


class IntegersKind(Kind[tuple[int, ...]]):
    """`dimensions={0,1}`"""

    def read(self, reader: Reader) -> tuple[int, ...]:
        match = reader.match(_INTEGERS)
        if match is None:
            commented = reader.match(_COMMENTED_INTEGERS)
            match = _INTEGERS.fullmatch(_COMMENT.sub(" ", commented[0])) if commented is not None else None
        if match is None:
            reader.fail("expected a braced list of integers such as {0,1}")
        return split_integers(match[1])

    def write(self, value: tuple[int, ...]) -> str:
        return f"{{{','.join(map(str, value))}}}"


class OneIntegerKind(Kind[int]):
    """`dimensions={0}` where exactly one dimension is meant."""

    def read(self, reader: Reader) -> int:
        values = INTEGERS.read(reader)
        if len(values) != 1:
            reader.fail(f"expected exactly one integer in braces, found {len(values)}")
        return values[0]

    def write(self, value: int) -> str:
        return f"{{{value}}}"


class IntegerListsKind(Kind[tuple[tuple[int, ...], ...]]):
    """`source_target_pairs={{0,1},{1,0}}`"""

    def read(self, reader: Reader) -> tuple[tuple[int, ...], ...]:
        return tuple([INTEGERS.read(reader) for _ in entries(reader)])

    def write(self, value: tuple[tuple[int, ...], ...]) -> str:
        return f"{{{','.join(INTEGERS.write(row) for row in value)}}}"


class StringKind(Kind[str]):
    """`custom_call_target="f"`"""

    def read(self, reader: Reader) -> str:
        return reader.string()

    def write(self, value: str) -> str:
        return quote(value)


def quote(text: str) -> str:
    """Text in double quotes with C escapes (bytes beyond ASCII as three octal digits), as XLA writes strings."""
    return f'"{escape(text)}"'


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_PLAIN = re.compile(r"[ -!#-&(-\[\]-~]*")


def escape(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_ESCAPES.get(c) or (c if " " <= c <= "~" else _octal(c)) for c in text)


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


class WordKind(Kind[str]):
    """A bare word kept as it is: `algorithm=dot_bf16_bf16_f32`"""

    def read(self, reader: Reader) -> str:
        return reader.word()


class EnumKind(Kind[E], Generic[E]):
    """A word of a fixed set; the enum members' values are the words of HLO text."""

    def __init__(self, enum: type[E], ignore_case: bool = False) -> None:
        self.enum = enum
        self.ignore_case = ignore_case
        self.members: Mapping[str, E] = {member.value: member for member in enum}

    def read(self, reader: Reader) -> E:
        word = reader.word()
        member = self.members.get(word.lower() if self.ignore_case else word)
        if member is None:
            reader.fail(f"expected one of {', '.join(self.members)}; found {word!r}")
        return member

    def write(self, value: E) -> str:
        return value.value


class ShapeKind(Kind[Shape]):
    """`outfeed_shape=(f32[2]{0}, s32[])`"""

    def read(self, reader: Reader) -> Shape:
        return reader.shape()

    def write(self, value: Shape) -> str:
        return value.to_text(layout=True)


class LiteralKind(Kind[Literal]):
    """A literal that gives its own shape: `literal=s32[2]{0} {1, 2}`"""

    def read(self, reader: Reader) -> Literal:
        return reader.literal(None)

    def write(self, value: Literal) -> str:
        return value.to_text(shape=True, layout=True)


class BracedKind(Kind[tuple[T, ...]], Generic[T]):
    """A braced, comma-separated list of another kind: `{highest,default}`."""

    def __init__(self, item: Kind[T], separator: str = ",") -> None:
        self.item = item
        self.separator = separator

    def read(self, reader: Reader) -> tuple[T, ...]:
        return tuple([self.item.read(reader) for _ in entries(reader)])

    def write(self, value: tuple[T, ...]) -> str:
        return f"{{{self.separator.join(map(self.item.write, value))}}}"


INTEGER = IntegerKind()
BOOL = BoolKind()
FLOAT = FloatKind()
INTEGERS = IntegersKind()
ONE_INTEGER = OneIntegerKind()
INTEGER_LISTS = IntegerListsKind()
STRING = StringKind()
WORD = WordKind()
SHAPE = ShapeKind()
LITERAL = LiteralKind()
SHAPES = BracedKind(SHAPE, ", ")
BOOLS = BracedKind(BOOL)


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute of an op: the dataclass field, its key in HLO text, its kind, and when it is written.

    Fields are written in their order, before the called computations; one with `after_roles` behind them.
    """

    name: str
    key: str
    kind: Kind[Any]
    default: Any
    always: bool
    aliases: tuple[str, ...]
    after_roles: bool = False

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def written(self, value: Any) -> bool:
        """Whether XLA prints the attribute: always if it is required, else when it differs from the default."""
        return self.always or self.required or value != self.default


def attribute(
    kind: Kind[Any],
    *,
    default: Any = dataclasses.MISSING,
    key: str | None = None,
    always: bool = False,
    aliases: tuple[str, ...] = (),
    after_roles: bool = False,
) -> Any:
    """Declares a field of an attribute dataclass.

    `key` is the name in HLO text (default: the field's name), `aliases` are further keys the parser accepts. Without
    `default` the attribute is required; with one it is printed only when it differs, or `always`. `after_roles` puts it
    behind the called computations in text.
    """
    metadata = {"kind": kind, "key": key, "always": always, "aliases": aliases, "after_roles": after_roles}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Attributes:
    """Base of attribute dataclasses: frozen, hashable, interned by `make`, and free of IR.

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
        """The one instance with these values (up to a bound on how many are kept)."""
        key = tuple(values.items())
        found = cls._interned.get(key)
        if found is None:
            found = cls(**values)
            if len(cls._interned) < 10_000:
                cls._interned[key] = found
        return found

    def replace(self, **values: Any) -> Self:
        current = {f.name: getattr(self, f.name) for f in self.fields}
        return type(self).make(**{**current, **values})


A = TypeVar("A", bound=type[Attributes])


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attribute,))
def attributes(cls: A) -> A:
    """Class decorator: makes a frozen dataclass of an `Attributes` subclass and tabulates its fields."""
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
    """Of ops that have none."""


NO_ATTRIBUTES = NoAttributes.make()
