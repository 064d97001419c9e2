"""Every file or folder of the repository that a page names exists, or is one that the reader of a guide creates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_AT_ROOT = [page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"]  # it names what once was
PAGES = [*_AT_ROOT, *sorted((ROOT / "docs").rglob("*.md"))]

_NAMED = re.compile(r"`((?:xlapy|tests|benchmarks|examples|docs)/[\w/.-]*)`")
"""A path from the root of the repository, in backquotes."""

_WITHIN_PACKAGE = re.compile(r"`((?:[a-z_]+/)+[a-z_]*\w(?:\.py)?/?)`")
"""A path in backquotes that may be relative to `xlapy/`."""

_TOP = {path.name for path in (ROOT / "xlapy").iterdir() if path.is_dir()}


_CREATED = re.compile(r'^```\w* title="([^"]+)"$', re.MULTILINE)
"""The file of a block that a guide adds to the repository."""


def named_paths(text: str) -> list[Path]:
    paths = [ROOT / found for found in _NAMED.findall(text)]
    inside = [found for found in _WITHIN_PACKAGE.findall(text) if found.split("/")[0] in _TOP]
    created = [ROOT / found for found in _CREATED.findall(text)]
    return [path for path in paths + [ROOT / "xlapy" / found for found in inside] if path not in created]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    missing = [
        path for path in named_paths(page.read_text()) if not path.exists() and not path.with_suffix(".py").exists()
    ]
    assert [str(path.relative_to(ROOT)) for path in missing] == []


def test_a_missing_path_is_found() -> None:
    (path,) = named_paths("see `xlapy/no_such_file.py`, and `HloModule/x`")
    assert not path.exists()
    assert named_paths('see `xlapy/a.py`\n\n```python title="xlapy/a.py"\n```\n') == []
    assert named_paths("see `cpu/compiler.py`") == [ROOT / "xlapy" / "cpu" / "compiler.py"]
