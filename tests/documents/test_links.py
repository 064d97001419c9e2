"""Every link of a page leads to a file of the repository and to a heading of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_CODE = re.compile(r"^(```+|~~~+).*?^\1`*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def links(text: str) -> list[str]:
    """Returns the targets of a page's links, without those to the web and those in code."""
    return [target for target in _LINK.findall(_CODE.sub("", text)) if not re.match(r"\w+:", target)]


def broken(page: Path, text: str) -> Iterator[str]:
    for target in links(text):
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        if not path.exists():
            yield f"{target}: no file"
        elif anchor and anchor not in anchors(path):
            yield f"{target}: no heading"


@functools.cache
def anchors(path: Path) -> set[str]:
    """Returns the anchors that a site and GitHub give to the headings of a page."""
    text = re.sub(r"^(```+|~~~+).*?^\1`*$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    labels = re.findall(r"^\((.+)\)=$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | {*labels}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page, page.read_text())) == []


def test_broken_links_are_found() -> None:
    page = ROOT / "docs" / "explanation" / "cpu.md"
    text = "# A\n[a](no.md) [b](semantics.md#no) [c](semantics.md) [d](https://x.org/no) `[e](no.md)`\n"
    assert list(broken(page, text)) == ["no.md: no file", "semantics.md#no: no heading"]
