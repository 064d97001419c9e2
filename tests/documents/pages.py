"""Runs the examples of a page and compares their output with the output that the page shows.

A block of python or sh followed by a block of text, with at most one empty line between, must print that text. The
blocks of a page share names, in the order of the page. In a sh block, whose output must be shown, the xlapy commands
run. In the shown output, a line `...` matches any number of lines, and `...` within a line matches any characters. A
block that is not run says so by words after its language: `sh (not run)`. Targets of make need only exist.
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
    """Returns the language, the code and the expected output of each block; the output is None if the page shows
    none."""
    blocks = list(BLOCK.finditer(page))
    for number, block in enumerate(blocks):
        if block[1] == "text" or block[2]:
            continue
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        follows = after is not None and after[1] == "text" and page[block.end() : after.start()].strip() == ""
        yield block[1], block[3], after[3] if after is not None and follows else None


def check_page(name: str) -> int:
    """Runs the examples of a page of the repository; returns how many of them show their output."""
    return check_text((ROOT / name).read_text())


def check_text(page: str) -> int:
    """Runs the examples of a page; returns how many of them show their output."""
    space: dict[str, Any] = {"__name__": "page"}
    shown = 0
    for language, code, expected in examples(page):
        if language == "sh" and expected is None:
            assert _targets(code) <= _MAKEFILE, f"{code}is neither run, nor does it say that it is not"
            continue
        printed = _printed_by_python(code, space) if language == "python" else _printed_by_commands(code)
        if expected is not None:
            shown += 1
            lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
            assert re.fullmatch(pattern_of(expected), lines), f"{code}\nprinted\n{printed}"
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


_MAKEFILE = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
"""The targets of the Makefile."""


def _targets(code: str) -> set[str]:
    """Returns the targets of make in a block of commands, and all other commands."""
    lines = [line.partition("#")[0].strip() for line in code.splitlines()]
    return {line.removeprefix("make ") for line in lines if line}


def pattern_of(expected: str) -> str:
    """Returns a pattern for the output, in which trailing spaces of lines are removed."""
    return "".join(r"(?:[^\n]*\n)*?" if line.strip() == "..." else _line(line) for line in expected.splitlines())


def _line(line: str) -> str:
    return r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"\n"
