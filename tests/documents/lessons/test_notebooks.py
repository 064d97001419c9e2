"""The notebooks' cells print and show what is stored in them, and the files are valid notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documents.lessons.notebooks import code_cells, comparable, page_of, run_cell, run_notebook
from tests.documents.lessons.page_runner import ROOT

FOLDER = ROOT / "docs" / "tutorials" / "notebooks"
NAMES = ["hlo-interactively", "what-the-compiler-does"]


def read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((FOLDER / f"{name}.ipynb").read_text())
    return notebook


def test_each_notebook_has_an_up_to_date_page() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES
    for name in NAMES:
        assert (FOLDER / f"{name}.md").read_text() == page_of(read(name), name)


def test_a_page_shows_text_code_and_outputs() -> None:
    shown = {"data": {"text/plain": ["<M>"], "text/html": ["<b>\n", "M</b>"]}}
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# A\n", "b"]},
            {
                "cell_type": "code",
                "source": ["x"],
                "outputs": [{"text": ["1\n"]}, shown, {"data": {"text/plain": ["2"]}}],
            },
        ]
    }
    assert page_of(notebook, "a") == (
        "# A\nb\n\n[This page as a notebook for Jupyter](a.ipynb).\n\n```python\nx\n```\n\n```text\n1\n```\n\n"
        "```{raw} html\n<b>\nM</b>\n```\n\n```text\n2\n```\n"
    )


@pytest.mark.parametrize("name", NAMES)
def test_cells_show_what_is_stored(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents.lessons.notebooks", str(FOLDER / f"{name}.ipynb")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAPY_FLAGS": "--max_isa=AVX2"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(list(code_cells(read(name))))


@pytest.mark.parametrize("name", NAMES)
def test_the_file_has_the_fields_of_nbformat_4_5(name: str) -> None:
    notebook = read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for number, cell in enumerate(code_cells(notebook), 1):
        assert cell.keys() == {"cell_type", "id", "metadata", "source", "execution_count", "outputs"}
        assert cell["execution_count"] == number
    for cell in notebook["cells"]:
        assert "".join(cell["source"]) and (cell["cell_type"] == "markdown" or "outputs" in cell)


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_plain_python(name: str) -> None:
    for cell in code_cells(read(name)):
        assert not any(line.lstrip().startswith(("%", "!")) for line in cell["source"])
        compile("".join(cell["source"]), name, "exec")


@pytest.mark.parametrize("name", NAMES)
def test_modules_and_executables_are_shown_as_html(name: str) -> None:
    shown = [
        "".join(output["data"]["text/plain"])
        for cell in code_cells(read(name))
        for output in cell["outputs"]
        if "text/html" in output.get("data", {})
    ]
    assert any(text.startswith("<Module") for text in shown)
    assert any(text.startswith("<Executable") for text in shown)


def test_outputs_of_a_cell() -> None:
    space: dict[str, Any] = {}
    assert run_cell("x = 3", space, 1) == []
    printed, shown = run_cell("print('a')\nx + 1", space, 2)
    assert printed == {"name": "stdout", "output_type": "stream", "text": ["a\n"]}
    assert shown["data"] == {"text/plain": ["4"]} and shown["execution_count"] == 2


def test_another_output_is_noticed() -> None:
    notebook = {"cells": [{"cell_type": "code", "source": ["1 + 1"], "outputs": [{"text": "3"}]}]}
    (made,) = run_notebook(notebook)
    assert comparable(made) != comparable(notebook["cells"][0]["outputs"])
    assert comparable([{"text": "code 1.5 KiB"}]) == comparable([{"text": "code 900 B"}])
