"""Shows, above a block of a guide, in which file its text belongs, and where.

A block of code has this in the options of its fence. `title` is a file of the repository, or one that the reader
creates; `after` and `before` are a line of the file:

    ```python title="xlapy/ops.py" after="    sinh,"

GitHub shows such a block without the options. The site gives it a caption: "`xlapy/ops.py`, after the line `sinh,`".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<body>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
"""A fenced block of a page."""

_OPTION = re.compile(r' (title|after|before)="((?:[^"\\]|\\.)*)"')
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Place:
    """A file, and the line after or before which text belongs; "" for its end."""

    file: str
    after: str = ""
    before: str = ""


def place_of(block: re.Match[str]) -> Place | None:
    """Returns where the text of a block belongs; None if the block is not part of a file."""
    options = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _OPTION.findall(block["options"])}
    return Place(options["title"], options.get("after", ""), options.get("before", "")) if "title" in options else None


def with_captions(page: str, exists: Callable[[str], bool]) -> str:
    """Returns the page with a caption for each block that belongs in a file.

    exists: whether a file exists before the page is followed.
    """
    seen: set[str] = set()

    def replaced(block: re.Match[str]) -> str:
        place = place_of(block)
        if place is None:
            return block[0]
        caption = caption_of(place, is_new=place.file not in seen and not exists(place.file))
        seen.add(place.file)
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", block["body"])), 3)
        options = f":class: file-block\n:caption: {json.dumps(caption)}"
        return f"{fence}{{code-block}} {block['language']}\n{options}\n\n{block['body']}{fence}\n"

    return BLOCK.sub(replaced, page)


def caption_of(place: Place, *, is_new: bool) -> str:
    """Returns a caption in Markdown.

    >>> caption_of(Place("xlapy/ops.py", after="    sinh,"), is_new=False)
    '`xlapy/ops.py`, after the line `sinh,`'
    """
    if line := place.after or place.before:
        where = f"{'after' if place.after else 'before'} the line {_code(line.strip())}"
    else:
        where = "a new file" if is_new else "at the end"
    return f"`{place.file}`, {where}"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _read(_: Any, __: str, source: list[str]) -> None:
    source[0] = with_captions(source[0], lambda file: (_ROOT / file).exists())


def setup(app: Any) -> dict[str, bool]:
    """Connects the captions to the reading of pages."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
