"""The tutorials print what they show. Each runs in a process of its own, in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.lessons.checking import check_page

SHOWN = {
    "hlo-in-ten-minutes": 12,
    "a-model-with-the-builder": 10,
    "finding-a-nan-and-a-slow-step": 11,
}
"""The number of outputs that each tutorial shows."""


LONG = pytest.mark.slow
"""The mark of pages that start many processes or measure times."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG if "slow" in name else ()) for name in SHOWN])
def test_the_tutorial_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    assert check_page(f"tutorials/{name}.md", tmp_path) == SHOWN[name]


@pytest.mark.slow
def test_jax(tmp_path: Path) -> None:
    assert check_page("tutorials/jax-on-xlapy.md", tmp_path, JAX_PLATFORMS="xlapy") == 11
