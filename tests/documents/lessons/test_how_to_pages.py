"""The how-to pages print what they show. Each runs in a process of its own, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents.lessons.checking import check_page
from tests.documents.lessons.page_runner import agrees, blocks
from tests.documents.pages import pattern_of

HOW_TO = {
    "call-native-code-from-a-program": 1,
    "call-python-from-a-program": 4,
    "coming-from-xla-client": 1,
    "compare-two-modules": 2,
    "compare-with-xla": 3,
    "compile-once-and-cache": 1,
    "convert-between-formats": 4,
    "draw-a-graph": 2,
    "find-the-pass-that-breaks-a-program": 2,
    "get-the-same-bits": 1,
    "limit-memory": 3,
    "pass-arguments-without-copying": 3,
    "read-stablehlo-from-jax-export": 3,
    "reduce-a-failing-module": 2,
    "run-a-module-on-random-arguments": 4,
    "run-on-several-devices": 4,
    "save-and-load-a-compiled-program": 2,
    "see-the-machine-code-of-a-kernel": 3,
    "see-the-value-of-an-instruction": 3,
    "set-flags": 2,
    "simulate-a-cluster": 4,
    "time-a-program": 2,
    "tune-a-program": 3,
}
"""The number of outputs that each page shows."""


LONG = {"read-stablehlo-from-jax-export", "reduce-a-failing-module"}
"""Pages that start many processes, or JAX."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in HOW_TO]
)
def test_the_page_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    assert check_page(f"how-to/{name}.md", tmp_path) == HOW_TO[name]


def test_blocks_of_a_page() -> None:
    page = (
        "```{code-block} text\n:caption: a.hlo\n\nHloModule a\n```\n\n```sh\nxlapy opt a.hlo\n```\n\n```text\nb\n```\n"
        "\n```python (not run)\nx\n```\n\n```python\ny\n```\nwords\n```text\nz\n```\n"
    )
    found = [(block.language, block.contents, block.output and block.output.contents) for block in blocks(page)]
    assert found == [
        ("{code-block} text", ":caption: a.hlo\n\nHloModule a\n", None),
        ("sh", "xlapy opt a.hlo\n", "b\n"),
        ("python", "y\n", None),
    ]


def test_dots_stand_for_words_and_lines() -> None:
    assert re.fullmatch(pattern_of("a ... c\n...\nd\n"), "a b c\nx\ny\nd\n")
    assert not re.fullmatch(pattern_of("a ... c\n"), "a b c\nd\n")


def test_a_page_that_shows_another_output_fails(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match=r"print\(1\)"):
        check_page(str(tmp_path / "page.md"), tmp_path)


def test_only_words_count_where_figures_differ() -> None:
    page = "```sh\nxlapy profile m\n```\n\n```text (figures differ)\n2 runs: 3.5 ms\ndot    L2  40% 1.0\nadd 7\n```\n"
    (block,) = blocks(page)
    assert block.output is not None
    assert agrees(block.output, "20 runs: 12 us\nadd 100\ndot memory\n")
    assert not agrees(block.output, "20 runs: 12 us\nadd 100\ntanh memory\n")
    assert not agrees(block.output, "20 runs: 12 us\nadd 100\n")
