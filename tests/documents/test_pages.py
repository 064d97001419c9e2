"""The examples on the pages print the output that the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cpu.instruction_sets import limited_to
from tests.documents.pages import ROOT, check_page, examples

SHOWN = {"tutorials/tour.md": 9, "how-to/performance.md": 4}
"""The number of examples on each page that show their output."""


@pytest.mark.parametrize("name", SHOWN)
def test_examples_print_the_shown_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with limited_to("AVX2"):
        assert check_page(name) == SHOWN[name]


def test_a_wrong_output_is_detected() -> None:
    page = "```python\nprint(1)\nprint(2)\n```\n\n```text\n1\n3\n```\n\nwords\n\n```text\nno output\n```\n"
    assert list(examples(page)) == [("python", "print(1)\nprint(2)\n", "1\n3\n")]
