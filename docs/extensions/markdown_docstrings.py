"""Lets autodoc read docstrings as Markdown: code in backquotes, lists, fenced blocks, and plain text for all else.

A name in backquotes, such as `Shape`, becomes a link if the site documents an object of this name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_PIECES = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_ESCAPED = re.compile(r"([\\*`|]|(?<=\w)_(?!\w)|(?<!\w)_(?=\w))")
"""Characters of plain text that reStructuredText would read as markup."""


def setup(app: Any) -> dict[str, bool]:
    """Connects the conversion to autodoc."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _process(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines)).split("\n")


def restructured(text: str) -> str:
    """Returns Markdown as reStructuredText: paragraphs, lists, fenced blocks, indented blocks and doctests."""
    return "\n\n".join(_blocks(text))


def _blocks(text: str) -> Iterator[str]:
    fence = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    start = 0
    for found in fence.finditer(text):
        yield from _paragraphs(text[start : found.start()])
        yield _code(found[1] or "text", found[2])
        start = found.end()
    yield from _paragraphs(text[start:])


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if not paragraph.strip():
            continue
        if paragraph.startswith(">>>"):
            yield _code("pycon", paragraph)
        elif paragraph.startswith("    "):
            yield _code("text", paragraph)
        else:
            yield _separated(_PIECES.sub(_code_span, _escaped(paragraph)))


def _escaped(paragraph: str) -> str:
    """Escapes markup characters outside backquotes, and keeps a line's list marker."""
    pieces: list[str] = []
    start = 0
    for found in _PIECES.finditer(paragraph):
        pieces += [_ESCAPED.sub(r"\\\1", paragraph[start : found.start()]), found[0]]
        start = found.end()
    pieces.append(_ESCAPED.sub(r"\\\1", paragraph[start:]))
    return re.sub(r"^\\\*(?= )", "*", "".join(pieces), flags=re.MULTILINE)


def _code_span(found: re.Match[str]) -> str:
    code = " ".join(found[2].split())
    if _NAME.fullmatch(code) is None:
        return f"``{code}``\\ "
    anywhere = "." if code[0].isupper() else ""  # classes are found in all modules, others in that of the docstring
    return f":py:obj:`{anywhere}{code}`\\ "


def _separated(paragraph: str) -> str:
    """Puts an empty line before the first item of a list that follows a line of text."""
    lines: list[str] = []
    for line in paragraph.split("\n"):
        starts = re.match(r"(?:[-*]|\d+\.) ", line)
        if starts and lines and lines[-1] and not re.match(r"(?:[-*]|\d+\.) |\s", lines[-1]):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _code(language: str, text: str) -> str:
    return f".. code-block:: {language}\n\n" + "\n".join(f"   {line}" for line in text.rstrip("\n").split("\n"))
