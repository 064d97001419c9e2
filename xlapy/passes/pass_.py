"""The protocol of passes, and the parsing and printing of their options.

Responsible for the protocol, the types of options, and the grammar `name{option=1,other=x},fixpoint(name,name)`.
Does not depend on any particular pass (`catalog.py` has the names) or on how passes are run (`pipeline.py`).
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol, get_type_hints

from xlapy.base.cursor import Cursor
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError, XlaError, message_of
from xlapy.hlo.module import Module


class Pass(Protocol):
    """A transformation of a whole module that preserves its results.

    A pass is a frozen dataclass; its fields are its options, of type bool, int, str or tuple[str, ...], each with a
    default. `run` returns True if and only if it changed the module.
    """

    name: ClassVar[str]

    def run(self, module: Module) -> bool: ...


@dataclass(frozen=True, slots=True)
class PassText:
    """One pass in the text of a pipeline: `name{option=value}(inner, inner)`."""

    name: str
    options: Mapping[str, str]
    inner: tuple[PassText, ...] | None


# -- options


def options_of(kind: type[Any]) -> dict[str, Any]:
    """The default of each option of a pass that text can set, by name."""
    readable = _readable(kind)
    return {f.name: f.default for f in dataclasses.fields(kind) if f.name in readable}


def make_pass(kind: type[Any], options: Mapping[str, str]) -> Any:
    """A pass of a class with options read from text; `InvalidArgumentError` for unknown names and wrong values."""
    readable = _readable(kind)
    values: dict[str, Any] = {}
    for option, text in options.items():
        if option not in readable:
            known = f"it has {', '.join(readable)}" if readable else "it has none"
            raise InvalidArgumentError(
                codes.PASS_OPTION, f"pass {kind.name} has no option {option!r}{near(option, readable)}; {known}"
            )
        values[option] = _read_value(f"option {option} of pass {kind.name}", text, readable[option])
    try:
        return kind(**values)
    except XlaError:
        raise
    except ValueError as error:
        shown = ", ".join(f"{option}={text}" for option, text in options.items())
        raise InvalidArgumentError(
            codes.PASS_OPTION_VALUE,
            f"pass {kind.name} does not take the options {shown or '(none)'}: {message_of(error)}",
        ) from error


def pass_text(pass_: Any) -> str:
    """The pass as text: its name, and the options that differ from their defaults.

    >>> from xlapy.passes import parse_passes, pass_text
    >>> pass_text(parse_passes("fold_constants{elements=10}")[0])
    'fold-constants{elements=10}'
    """
    changed = [
        f"{option}={value_text(getattr(pass_, option))}"
        for option, default in options_of(type(pass_)).items()
        if getattr(pass_, option) != default
    ]
    return f"{pass_.name}{{{','.join(changed)}}}" if changed else str(pass_.name)


def near(name: str, known: Collection[str]) -> str:
    """`; did you mean x?` for a name that is nearly one of the known, or nothing."""
    close = difflib.get_close_matches(name[:100], known, n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _read_bool(text: str) -> bool | None:
    return _BOOLEANS.get(text.lower())


def _read_int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _read_words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split("+") if word)


_READERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", _read_bool),
    int: ("an integer", _read_int),
    str: ("a word", str),
    tuple[str, ...]: ("words joined by +", _read_words),
}


def _readable(kind: type[Any]) -> Mapping[str, Any]:
    """The type of each option that text can set."""
    found = _READABLE.get(kind)
    if found is None:
        found = _READABLE[kind] = _read_hints(kind)
    return found


_READABLE: dict[type[Any], Mapping[str, Any]] = {}


def _read_hints(kind: type[Any]) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind) if hints[f.name] in _READERS}


def _read_value(what: str, text: str, kind: Any) -> Any:
    expected, read = _READERS[kind]
    value = read(text)
    if value is None:
        raise InvalidArgumentError(codes.PASS_OPTION_VALUE, f"{what} takes {expected}, not {text!r}")
    return value


def value_text(value: Any) -> str:
    """The value of an option as text spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "+".join(value) if isinstance(value, tuple) else str(value)


# -- the grammar

_NAME = re.compile(r"[A-Za-z][\w\-]*")
_OPTION = re.compile(r"([A-Za-z]\w*)\s*=\s*([^,{}()]*?)\s*(?=[,}])")
_MAX_NESTING_DEPTH = 20


def parse_pass_list(text: str) -> tuple[PassText, ...]:
    """Parses `a,b{x=1,y=z},fixpoint(a,b)`. Raises InvalidArgumentError for any other text."""
    return _PassListCursor(text).read()


class _PassListCursor(Cursor):
    """A cursor over a list of passes, which has no comments."""

    BLANK_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"\s*+")
    BLANK_CHARACTERS: ClassVar[str] = " \t\r\n\f\v"

    def read(self) -> tuple[PassText, ...]:
        """Reads the whole text."""
        passes = self.passes(0)
        if not self.at_end():
            self.fail_expecting("a comma or the end")
        return passes

    def passes(self, depth: int) -> tuple[PassText, ...]:
        """Reads passes separated by commas."""
        if depth > _MAX_NESTING_DEPTH:
            raise InvalidArgumentError(codes.PASS_LIST, f"groups of passes nest deeper than {_MAX_NESTING_DEPTH}")
        passes = [self.one(depth)]
        while self.accept(","):
            passes.append(self.one(depth))
        return tuple(passes)

    def one(self, depth: int) -> PassText:
        """Reads a pass with its options and the passes inside it."""
        name = self.consume(_NAME)
        if name is None:
            self.fail_expecting("the name of a pass")
        options = self.options() if self.accept("{") else {}
        inner: tuple[PassText, ...] | None = None
        if self.accept("("):
            inner = self.passes(depth + 1)
            if not self.accept(")"):
                self.fail_expecting("a comma or )")
        return PassText(name, options, inner)

    def options(self) -> dict[str, str]:
        """Reads options up to and including the closing brace."""
        options: dict[str, str] = {}
        while not self.accept("}"):
            if options and not self.accept(","):
                self.fail_expecting("a comma or }")
            match = self.match(_OPTION)
            if match is None:
                self.fail_expecting("option=value and a comma or }")
            if match[1] in options:
                raise InvalidArgumentError(codes.PASS_LIST, f"option {match[1]} is given twice in {self.text!r}")
            options[match[1]] = match[2]
        return options

    def fail_expecting(self, expected: str) -> NoReturn:
        """Raises InvalidArgumentError at the next token."""
        rest = self.text[self.skip() :]
        found = f"{rest[:30]!r}" if rest else "the end"
        raise InvalidArgumentError(
            codes.PASS_LIST, f"passes {self.text!r}: expected {expected} at character {self.position}, found {found}"
        )
