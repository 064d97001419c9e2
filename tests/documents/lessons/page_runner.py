"""Runs a tutorial or a how-to page in a process of its own, and compares what is printed with what the page shows.

    python -m tests.documents.lessons.page_runner docs/how-to/draw-a-graph.md            # prints how many outputs agree
    python -m tests.documents.lessons.page_runner --write docs/how-to/draw-a-graph.md    # replaces those that do not

The page runs in the current folder, from the top. Its blocks are

- `{code-block} LANGUAGE` with `:caption: NAME`: the file NAME is written with the block's contents;
- `python`: runs; the blocks of a page share names;
- `sh`: runs, with the `xlapy` and `python` of this environment. The command may fail if its output is shown;
- `text` directly after one of these: the output; `...` stands for any characters, and a line `...` for any lines;
- `text (figures differ)`: the same output of another machine. Only its words count, in any order of the lines.

A word after the language, as in `sh (not run)`, means that the block does not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.documents.pages import pattern_of
from xlapy.tools.command_line import invoke

ROOT = Path(__file__).resolve().parents[3]
_FENCE = re.compile(r"^(```+)(\{code-block\} \w+|\w+)( [^\n]*)?\n(.*?)^\1$\n?", re.MULTILINE | re.DOTALL)
_CAPTION = re.compile(r":caption: (\S+)\n\n?(.*)", re.DOTALL)
_SHELL = re.compile(r"[|&;<>$`*=]|^\s*(?!xlapy )\S", re.MULTILINE)
"""Matches a block that a shell must run; others are xlapy commands only."""


@dataclass
class Block:
    """A fenced block. `output` is the block of text that follows it, if one does."""

    language: str
    words: str
    contents: str
    fence: int
    """Where its first line starts."""
    start: int
    """Where its contents start."""
    end: int
    output: Block | None = None

    @property
    def runs(self) -> bool:
        return not self.words and (self.language in ("python", "sh") or self.language.startswith("{"))


def blocks(page: str) -> Iterator[Block]:
    """Returns the blocks of a page that run, each with its output."""
    found = [
        Block(match[2], (match[3] or "").strip(), match[4], match.start(), match.start(4), match.end())
        for match in _FENCE.finditer(page)
    ]
    for block, after in zip(found, [*found[1:], None], strict=True):
        if after is not None and after.language == "text" and not page[block.end : after.fence].strip():
            block.output = after
        if block.runs:
            yield block


def run_block(block: Block, space: dict[str, Any]) -> str:
    """Runs a block and returns what it prints, without spaces at the ends of lines."""
    if block.language.startswith("{"):
        caption = _CAPTION.match(block.contents)
        assert caption is not None, f"a code-block without a caption: {block.contents}"
        Path(caption[1]).write_text(caption[2])
        return ""
    printed = _python(block.contents, space) if block.language == "python" else _commands(block)
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def _python(code: str, space: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(_stream()) as printed:
        exec(compile(code, "<page>", "exec"), space)
    return _text(printed)


def _commands(block: Block) -> str:
    if _SHELL.search(block.contents):
        done = subprocess.run(
            ["bash", "-c", block.contents],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert block.output is not None or done.returncode == 0, f"{block.contents}{done.stdout}"
        return done.stdout
    with contextlib.redirect_stdout(_stream()) as printed, contextlib.redirect_stderr(printed):
        codes = [invoke(shlex.split(line, comments=True)[1:]) for line in block.contents.splitlines()]
    text = _text(printed)
    assert block.output is not None or not any(codes), f"{block.contents}{text}"
    return text


def _stream() -> io.TextIOWrapper:
    """Returns a stream for output that has a stream of bytes below it, as commands that write files need it."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


_FIGURES = re.compile(
    r"^[\w-]+(?=, \d+ threads)|[-+]?\d[\w.,+-]*%?|\b(?:ns|us|ms|s|L\d|memory|compute|overhead|[KMG]i?B)\b|[|()=:]"
)
"""The name of a processor, numbers with their units, and the words that depend on a machine's speed."""

_PROGRAMS = Path(sys.executable).parent
"""The folder of this environment's `python` and `xlapy`; both import the package of this repository."""


def agrees(shown: Block, printed: str) -> bool:
    """Whether a command printed what a block shows."""
    if shown.words == "(figures differ)":
        return sorted(_words(shown.contents)) == sorted(_words(printed))
    return re.fullmatch(pattern_of(shown.contents), printed) is not None


def _words(text: str) -> list[list[str]]:
    return [_FIGURES.sub(" ", line).split() for line in text.splitlines()]


def run_page(path: Path) -> tuple[int, list[tuple[Block, str]]]:
    """Runs a page. Returns how many outputs agree, and what is printed where the page shows another."""
    space: dict[str, Any] = {"__name__": "page"}
    agree, wrong = 0, []
    for block in blocks(path.read_text()):
        printed = run_block(block, space)
        if block.output is None:
            continue
        if agrees(block.output, printed):
            agree += 1
        else:
            wrong.append((block, printed))
    return agree, wrong


def write_outputs(path: Path, wrong: list[tuple[Block, str]]) -> None:
    """Replaces outputs of a page by what is printed."""
    page = path.read_text()
    for block, printed in reversed(wrong):
        assert block.output is not None
        shown = block.output
        page = page[: shown.start] + printed + page[shown.start + len(shown.contents) :]
    path.write_text(page)


def main(arguments: list[str]) -> int:
    """Runs the page that the command line names."""
    path = Path(arguments[-1])
    os.environ |= {"PYTHONPATH": str(ROOT), "PATH": f"{_PROGRAMS}:{os.environ['PATH']}"}
    agree, wrong = run_page(path)
    if "--write" in arguments:
        write_outputs(path, wrong)
        return 0
    for block, printed in wrong:
        print(f"{block.contents}printed\n{printed}", file=sys.stderr)
    print(agree)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
