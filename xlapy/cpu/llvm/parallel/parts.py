"""Divides the definitions of a large LLVM module into modules of similar size, which can be compiled at the same time.

The division depends only on the text. A part contains consecutive definitions and declares what it uses of the parts
before it; constants that it uses are repeated in it. A module below the size of two parts stays whole.

Responsible for the texts of the parts. Does not depend on what the definitions do or on how they are compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable

PART_BYTES = 256 << 10
"""The size from which on definitions are a part: LLVM takes a third of a second for it, compared with which a part's
own costs (a hundredth of a second) are small."""


class ModuleParts:
    """The definitions of a module, in the order in which they are emitted. Each uses only definitions before it, or
    functions that are declared.

    declarations: those of functions of other modules, to which the emitter may add. on_part: is called with each part
    but the last, as soon as the definitions after it have begun.
    """

    def __init__(self, declarations: set[str], attributes: str, on_part: Callable[[str], None] | None) -> None:
        self._declarations = declarations
        self._attributes = attributes
        self._on_part = on_part
        self._definitions: list[str] = []
        self._begin = 0
        self._size = 0
        self._most = PART_BYTES
        self._functions: dict[str, str] = {}
        self._constants: dict[str, str] = {}

    def append(self, definition: str) -> None:
        """Adds the definitions of one or several functions, or of a constant."""
        if self._size >= self._most and self._on_part is not None:
            self._end_part(self._on_part)
        self._definitions.append(definition)
        self._size += len(definition)

    def whole(self) -> str:
        """Returns the module with all definitions."""
        return self._text(sorted(self._declarations), self._definitions)

    def last_part(self) -> str:
        """Returns the definitions that are not part of an earlier part; if there was none, the whole module."""
        part = self._part() if self._begin else self.whole()
        assert part is not None, "a function that the program calls is not emitted"
        return part

    def _end_part(self, on_part: Callable[[str], None]) -> None:
        part = self._part()
        if part is None:  # the functions that are missing are emitted later
            self._most *= 2
            return
        on_part(part)
        self._begin, self._size, self._most = len(self._definitions), 0, PART_BYTES

    def _part(self) -> str | None:
        """Returns the pending definitions with what they use; None if something that they use is not defined yet."""
        definitions = self._definitions[self._begin :]
        own, used = set[str](), dict[str, None]()
        for definition in definitions:
            for line in definition.split("\n"):
                if line.startswith("define "):
                    if match := _FUNCTION.match(line):
                        self._functions[match[2]] = f"declare {match[1]} nounwind"
                        own.add(match[2])
                elif line.startswith("@") and (match := _CONSTANT.match(line)):
                    self._constants[match[1]] = line
                    own.add(match[1])
            code = _COMMENT.sub("", definition) if ";" in definition else definition
            used.update(dict.fromkeys(_NAME.findall(code)))
        declared = {found[1]: line for line in self._declarations if (found := _DECLARED.match(line)) is not None}
        lines = [line for line in self._declarations if _DECLARED.match(line) is None]
        for name in used.keys() - own:
            declaration = self._functions.get(name) or self._constants.get(name) or declared.get(name)
            if declaration is None:
                return None
            lines.append(declaration)
        shared = [_INTERNAL.sub("define ", definition) for definition in definitions]
        return self._text(sorted(lines), shared)

    def _text(self, declarations: list[str], definitions: list[str]) -> str:
        return "\n".join([*declarations, "", *definitions, self._attributes, ""])


_COMMENT = re.compile(r"^;.*$", re.MULTILINE)
_FUNCTION = re.compile(r"define (?:internal )?([^@]*@([\w.]+)\(.*\))[^()]*\{$")
_CONSTANT = re.compile(r"@([\w.]+) = (?:private|internal) .*\bconstant ")
_INTERNAL = re.compile(r"^define internal ", re.MULTILINE)
_DECLARED = re.compile(r"declare [^@]*@([\w.]+)\(")
_NAME = re.compile(r"@([\w.]+)")
