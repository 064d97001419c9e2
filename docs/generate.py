"""Writes the pages of docs/reference that are generated: `python -m docs.generate` (`make docs`).

Responsible for which files are written. The text of each page comes from the module that knows its facts.
"""

from __future__ import annotations

from pathlib import Path

from docs.generators import command_line, flags, functions
from tests.pjrt.c_api import entries_page
from xlapy.tools.explain_error.page import pages as error_pages
from xlapy.tools.ops import builder_page, ops_page

REFERENCE = Path(__file__).parent / "reference"


def pages() -> dict[str, str]:
    """Returns the text of every generated page by its path in docs/reference."""
    return {
        **{f"ops/{name}": text for name, text in ops_page.pages().items()},
        **{f"errors/{name}": text for name, text in error_pages()},
        "api/functions.md": functions.page(),
        "builder.md": builder_page.markdown(),
        "command-line.md": command_line.page(),
        "flags.md": flags.page(),
        "pjrt-entries.md": entries_page.page(),
    }


def write(folder: Path = REFERENCE) -> None:
    """Writes the pages, and removes pages of operations and of errors that no longer exist."""
    written = pages()
    for path in [*(folder / "ops").glob("*.md"), *(folder / "errors").glob("*.md")]:
        if f"{path.parent.name}/{path.name}" not in written:
            path.unlink()
    for name, text in written.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    write()
