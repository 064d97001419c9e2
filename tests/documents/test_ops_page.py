"""docs/ops.md is what `make docs` writes."""

from __future__ import annotations

from pathlib import Path

from xlapy.tools.ops import markdown_table, support_rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown_table(support_rows()), "run `make docs`"
