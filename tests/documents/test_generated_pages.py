"""The pages that show tables of the code are the output of `make docs`."""

from __future__ import annotations

from pathlib import Path

from docs._generate.__main__ import write
from docs._generate.pages import ROOT
from docs._generate.tables import OPERATIONS, tables


def test_the_pages_are_up_to_date() -> None:
    written = tables()
    assert [path for path, text in written.items() if (ROOT / path).read_text() != text] == [], "run `make docs`"
    ours = {f"{OPERATIONS}/{file.name}" for file in (ROOT / OPERATIONS).iterdir()}
    assert ours <= written.keys(), "run `make docs`"


def test_pages_of_operations_that_do_not_exist_are_removed(tmp_path: Path) -> None:
    (tmp_path / OPERATIONS).mkdir(parents=True)
    (tmp_path / OPERATIONS / "gone.md").write_text("# gone\n")
    (tmp_path / "docs" / "mine.md").write_text("# mine\n")
    write({f"{OPERATIONS}/add.md": "# add\n", "docs/reference/flags.md": "# flags\n"}, tmp_path)
    found = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.md")}
    assert found == {
        "docs/mine.md": "# mine\n",
        f"{OPERATIONS}/add.md": "# add\n",
        "docs/reference/flags.md": "# flags\n",
    }
