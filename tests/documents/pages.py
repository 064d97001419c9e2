"""Runs the examples on a page: what its blocks of Python and of commands print is what the page shows.

A block of python or sh that is followed by a block of text, with at most an empty line between, prints that text. The
blocks of a page share names, in the order of the page. Of commands, those of xlapy run, if their output is shown. A
line `...` stands for any lines, `...` inside of a line for anything there.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xlapy.tools.command_line import invoke

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|sh|text)( [^\n]*)?\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)


def examples(page: str) -> Iterator[tuple[str, str, str | None]]:
    """The language, the code and the expected output (None if the page shows none) of each block."""
    blocks = list(BLOCK.finditer(page))
    for number, block in enumerate(blocks):
        if block[1] == "text" or block[2]:
            continue
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        follows = after is not None and after[1] == "text" and page[block.end() : after.start()].strip() == ""
        yield block[1], block[3], after[3] if after is not None and follows else None


def check_page(name: str) -> int:
    """Runs the examples of docs/<name>; how many of them show what they print."""
    space: dict[str, Any] = {"__name__": "page"}
    shown = 0
    for language, code, expected in examples((ROOT / "docs" / name).read_text()):
        if language == "sh" and expected is None:  # commands on files of the reader
            continue
        printed = _printed_by_python(code, space) if language == "python" else _printed_by_commands(code)
        if expected is not None:
            shown += 1
            lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
            assert re.fullmatch(_pattern(expected), lines), f"{code}\nprinted\n{printed}"
    return shown


def _printed_by_python(code: str, space: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "<page>", "exec"), space)
    return printed.getvalue()


def _printed_by_commands(code: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        for line in code.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["xlapy"]:
                invoke(words[1:])
    return printed.getvalue()


def _pattern(expected: str) -> str:
    """For what is printed, each line without spaces at its end."""
    return "".join(r"(?:[^\n]*\n)*?" if line.strip() == "..." else _line(line) for line in expected.splitlines())


def _line(line: str) -> str:
    return r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"\n"
