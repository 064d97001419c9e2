"""Runs the examples of the reference, and returns what they print."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from pathlib import Path
from types import CodeType

HERE = Path(__file__).parent
PREAMBLE = (HERE / "preamble.py").read_text()

_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@functools.cache
def printed(code: str) -> str:
    """Runs an example after the preamble, in a namespace of its own, and returns what it prints."""
    space: dict[str, object] = {"__name__": "example"}
    exec(_compiled_preamble(), space)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, "example.py", "exec"), space)
    return output.getvalue()


@functools.cache
def _compiled_preamble() -> CodeType:
    return compile(PREAMBLE, "preamble.py", "exec")


def shown(code: str) -> str:
    """Returns an example as Markdown: the code, and what it prints."""
    output = printed(code)
    return f"```python\n{code}```\n" + (f"\n```text\n{output}```\n" if output else "")


def python_blocks(markdown: str) -> list[str]:
    """Returns the code of the python blocks of a text."""
    return _BLOCK.findall(markdown)


def with_output(markdown: str) -> str:
    """Returns a text with the output of each of its python blocks below the block."""
    return _BLOCK.sub(lambda block: shown(block[1]), markdown)


def preamble() -> str:
    """Returns the source of the preamble as the index shows it, without its docstring."""
    return PREAMBLE.split("\n\n", 1)[1]
