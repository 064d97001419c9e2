"""Every generated page of docs/reference is the output of `make docs`."""

from __future__ import annotations

from docs.generate import REFERENCE, pages, write


def test_the_pages_are_up_to_date() -> None:
    written = pages()
    assert [name for name, text in written.items() if (REFERENCE / name).read_text() != text] == [], "run `make docs`"
    ours = {f"ops/{path.name}" for path in (REFERENCE / "ops").iterdir()}
    assert ours <= written.keys(), "run `make docs`"


def test_pages_of_operations_that_do_not_exist_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("docs.generate.pages", lambda: {"ops/add.md": "# add\n", "flags.md": "# flags\n"})
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "gone.md").write_text("# gone\n")
    (tmp_path / "mine.md").write_text("# mine\n")
    write(tmp_path)
    found = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.md")}
    assert found == {"ops/add.md": "# add\n", "flags.md": "# flags\n", "mine.md": "# mine\n"}
