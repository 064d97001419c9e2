"""docs/reference/broadcasting.md and its translations, which show the same examples.

The source is `broadcasting/LANGUAGE.md.in`: Markdown in which `{{example: NAME}}` stands for an example of
`broadcasting/examples.toml` and its output. A page of a language that is written from right to left is wrapped for
that direction; code in it is not.
"""

from __future__ import annotations

import re
import tomllib

from docs._generate.examples import HERE, shown

SOURCES = HERE / "broadcasting"
FILES = {"en": "broadcasting.md", "he": "broadcasting.he.md", "pt": "broadcasting.pt.md", "hi": "broadcasting.hi.md"}
NAMES = {"en": "English", "he": "עברית", "pt": "Português", "hi": "हिन्दी"}
RIGHT_TO_LEFT = {"he"}

EXAMPLES: dict[str, str] = {
    name: code.removeprefix("\n") for name, code in tomllib.loads((SOURCES / "examples.toml").read_text()).items()
}

_EXAMPLE = re.compile(r"^\{\{example: ([\w-]+)\}\}$", re.MULTILINE)
_BLOCKS = re.compile(r"(?:^```.*?^```\n(?:\n(?=```))?)+", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Returns the text of each page."""
    return {file: _page(language) for language, file in FILES.items()}


def included(language: str) -> list[str]:
    """Returns the names of the examples of a page, in order."""
    return _EXAMPLE.findall((SOURCES / f"{language}.md.in").read_text())


def _page(language: str) -> str:
    text = (SOURCES / f"{language}.md.in").read_text().replace("{{languages}}", _languages(language))
    text = _EXAMPLE.sub(lambda match: shown(EXAMPLES[match[1]]).rstrip("\n"), text)
    return _right_to_left(text, language) if language in RIGHT_TO_LEFT else text


def _languages(language: str) -> str:
    return " · ".join(
        f"**{name}**" if other == language else f"[{name}]({FILES[other]})" for other, name in NAMES.items()
    )


def _right_to_left(text: str, language: str) -> str:
    """Wraps a page for its direction. Code keeps the direction of code, in blocks and in sentences."""
    parts = _FENCED.split(_BLOCKS.sub(lambda blocks: f'<div dir="ltr">\n\n{blocks[0]}\n</div>\n', text))
    written = [
        part if part.startswith("```") else re.sub(r"`([^`\n]+)`", r'<code class="literal" dir="ltr">\1</code>', part)
        for part in parts
    ]
    return f'<div dir="rtl" lang="{language}">\n\n{"".join(written)}\n</div>\n'
