"""Writes the generated pages of docs/reference: `python -m docs._generate` (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from docs._generate.pages import ROOT, pages
from docs._generate.tables import ERRORS, OPERATIONS, tables


def write(written: dict[str, str], root: Path = ROOT) -> None:
    """Writes pages, and removes those of operations and errors that no longer exist."""
    for folder in (OPERATIONS, ERRORS):
        for file in (root / folder).glob("*.md"):
            if f"{folder}/{file.name}" not in written:
                file.unlink()
    for path, text in written.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    write({**pages(), **tables()})
