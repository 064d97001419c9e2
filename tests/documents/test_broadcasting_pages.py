"""docs/reference/broadcasting.md and its translations are up to date and show the same examples."""

from __future__ import annotations

import re

import pytest

from docs._generate import broadcasting
from docs._generate.broadcasting import EXAMPLES, FILES, included
from docs._generate.pages import ROOT, pages

FOLDER = ROOT / "docs" / "reference"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPTS = {"he": r"[\u0590-\u05ff]", "hi": r"[\u0900-\u097f]", "pt": r"[a-zA-ZÀ-ú]"}
"""The letters of each language."""

translations = pytest.mark.parametrize("language", ["he", "hi", "pt"])


def page(language: str) -> str:
    return (FOLDER / FILES[language]).read_text()


@pytest.mark.parametrize("language", FILES)
def test_the_page_is_up_to_date(language: str) -> None:
    assert page(language) == pages()[f"docs/reference/{FILES[language]}"], "run `make docs`"


def test_the_page_shows_all_examples() -> None:
    assert sorted(included("en")) == sorted(EXAMPLES)


@translations
def test_a_translation_shows_the_same_in_the_same_order(language: str) -> None:
    assert included(language) == included("en")
    assert BLOCK.findall(page(language)) == BLOCK.findall(page("en"))


@translations
def test_a_translation_has_the_same_structure(language: str) -> None:
    levels = re.compile(r"^(#+) ", re.MULTILINE)
    code = re.compile(r'`[^`\n]+`|<code class="literal" dir="ltr">[^<]+</code>')
    assert levels.findall(page(language)) == levels.findall(page("en"))
    assert (
        len(re.findall(r"\]\(", page(language))) == len(re.findall(r"\]\(", page("en"))) - 1
    )  # a link within the page
    for name in ("broadcast_dimensions", "reshape", "XlaBuilder", "show", "refused"):
        assert any(name in found for found in code.findall(page(language)))


@translations
def test_a_translation_is_written_in_its_language(language: str) -> None:
    prose = BLOCK.sub("", page(language))
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    assert all(re.search(SCRIPTS[language], heading) for heading in headings)
    assert len(re.findall(SCRIPTS[language], prose)) > 2000


def test_code_in_hebrew_is_written_from_left_to_right() -> None:
    text = page("he")
    assert text.startswith('<div dir="rtl" lang="he">\n\n# ') and text.endswith("\n</div>\n")
    assert text.count("<div ") == text.count("</div>")
    outside = re.sub(r'^<div dir="ltr">\n\n.*?^</div>$', "", text, flags=re.MULTILINE | re.DOTALL)
    assert "```" not in outside and "`" not in outside
    assert '<code class="literal" dir="ltr">broadcast_dimensions</code>' in outside


def test_an_example_and_its_refusal() -> None:
    text = page("en")
    assert "```text\ns32[2,3] {{8, 10, 12}, {11, 13, 15}}\n```" in text
    assert "example.py:4: add of operands of different rank, s32[3] and s32[2,3], needs\n" in text
    assert "(1, 2, 5) (7, 2, 1) (7, 2, 5)\n" in text


def test_an_unknown_example_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcasting, "EXAMPLES", {})
    with pytest.raises(KeyError, match="matrix-and-vector"):
        broadcasting._page("en")
