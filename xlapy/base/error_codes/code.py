"""Defines `ErrorCode`, the stable name of a rule whose violation is an error, and the table of all codes.

Responsible for what a code consists of. Does not depend on the errors that carry codes, or on any rule.
"""

from __future__ import annotations

import pkgutil
import re
from enum import Enum
from functools import cache
from importlib import import_module
from typing import NamedTuple


class ExampleKind(Enum):
    """What the text of an example is, and so what raises the error."""

    HLO = "hlo"
    """HLO text. Parsing it, verifying it or compiling it for the platform cpu raises the error."""
    STABLEHLO = "mlir"
    """StableHLO text. Importing it, or compiling the module for the platform cpu, raises the error."""
    PYTHON = "python"
    """A Python program, with `np`, `xla` and `ops` imported. Its last statement raises the error."""
    COMMAND = "sh"
    """Lines of a shell. The message of the last one ends with the code."""


class CodeExample(NamedTuple):
    """The smallest program that violates a rule."""

    kind: ExampleKind
    text: str


class ErrorCode(str):
    """The code of a rule, such as `E1203`; a string with what the reference says about the rule.

    rule: one sentence that states what holds in a valid program. remedy: what to do. example: a program that breaks
    the rule, or None. message: what the example prints if that differs between runs, with `...` for the parts that do.
    why_no_example: the reason if no program can show the error by itself. Codes of operations whose
    examples are the refused samples in `xlapy.testing.examples` have neither.
    """

    rule: str
    remedy: str
    example: CodeExample | None
    message: str
    why_no_example: str

    def __new__(
        cls,
        code: str,
        rule: str,
        *,
        remedy: str,
        hlo: str | None = None,
        stablehlo: str | None = None,
        python: str | None = None,
        command: str | None = None,
        message: str = "",
        why_no_example: str = "",
    ) -> ErrorCode:
        self = super().__new__(cls, code)
        given = [
            CodeExample(kind, text)
            for kind, text in zip(ExampleKind, (hlo, stablehlo, python, command), strict=True)
            if text is not None
        ]
        if not _PATTERN.fullmatch(code) or code in _CODES or len(given) + bool(why_no_example) > 1:
            raise AssertionError(f"code {code!r} is malformed, defined twice, or has two examples")
        self.rule = rule
        self.remedy = remedy
        self.example = given[0] if given else None
        self.message = message
        self.why_no_example = why_no_example
        _CODES[code] = self
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return find_code, (str(self),)


_PATTERN = re.compile(r"E\d{4}")
_SUFFIX = re.compile(r" \[(E\d{4})\](\n  .*\n\s*\^)?\Z")
"""The code at the end of a message, or before the excerpt of a ParseError: a source line and a caret."""

_CODES: dict[str, ErrorCode] = {}
"""The codes whose modules are imported."""


class CodeFamily(NamedTuple):
    """The codes of one module of this package, by the names of their constants."""

    name: str
    title: str
    codes: dict[str, ErrorCode]


@cache
def families() -> tuple[CodeFamily, ...]:
    """Returns all codes by family, in the order of their numbers."""
    package = import_module(__name__.rpartition(".")[0])
    found = []
    for information in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = import_module(information.name)
        codes = {name: code for name, code in vars(module).items() if isinstance(code, ErrorCode)}
        if codes:
            title = (module.__doc__ or "").partition("\n")[0].removesuffix(".")
            family = information.name.rpartition(".")[2]
            found.append(CodeFamily(family, title, dict(sorted(codes.items(), key=lambda item: item[1]))))
    return tuple(sorted(found, key=lambda family: min(family.codes.values())))


def find_code(text: str) -> ErrorCode | None:
    """Returns the code of this text, in either case, as in `e1203`; None if there is none."""
    text = text.upper()
    if text not in _CODES:
        families()
    return _CODES.get(text)


def split_code(message: str) -> tuple[str, ErrorCode | None]:
    """`rank differs [E1203]` -> (`rank differs`, the code); (message, None) if no known code ends the message.

    The excerpt of a ParseError, which follows its code, stays part of the message.
    """
    match = _SUFFIX.search(message)
    code = find_code(match[1]) if match else None
    return (message, None) if match is None or code is None else (message[: match.start()] + (match[2] or ""), code)
