"""Runs notebooks and compares what their cells print and show with the outputs that are stored in them.

    python -m tests.documents.lessons.notebooks docs/tutorials/notebooks/hlo-interactively.ipynb            # compares
    python -m tests.documents.lessons.notebooks --write docs/tutorials/notebooks/hlo-interactively.ipynb    # stores

Storing also writes the page `hlo-interactively.md` of the site, which has the cells with their outputs.

Cells are plain Python without commands of IPython, so no kernel is needed. The last expression of a cell is shown as
Jupyter does it: as text and, if the value has `_repr_html_`, as HTML.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CODE_SIZE = re.compile(r"code [\d.]+ \w+")
"""The size of machine code, which differs between versions of LLVM."""


def run_cell(source: str, space: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Runs a cell and returns its outputs in nbformat 4."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines_of(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines_of(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": lines_of(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def lines_of(text: str) -> list[str]:
    """Returns text as notebooks store it: a list of lines with their ends."""
    return text.splitlines(keepends=True)


def code_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def run_notebook(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Runs all cells and returns the outputs of each."""
    space: dict[str, Any] = {"__name__": "__main__"}
    return [run_cell("".join(cell["source"]), space, n) for n, cell in enumerate(code_cells(notebook), 1)]


def store(notebook: dict[str, Any], outputs: list[list[dict[str, Any]]]) -> None:
    """Replaces the outputs of a notebook."""
    for number, (cell, made) in enumerate(zip(code_cells(notebook), outputs, strict=True), 1):
        cell["outputs"], cell["execution_count"] = made, number


def page_of(notebook: dict[str, Any], name: str) -> str:
    """Returns the page of a site that shows a notebook: its text, its code, and its outputs as text or HTML."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            language, shown = ("{raw} html", data["text/html"]) if "text/html" in data else ("text", _text(output))
            parts.append(f"```{language}\n{''.join(shown).strip()}\n```")
    parts.insert(1, f"[This page as a notebook for Jupyter]({name}.ipynb).")
    return "\n\n".join(parts) + "\n"


def _text(output: dict[str, Any]) -> list[str]:
    lines: list[str] = output["text"] if "text" in output else output["data"]["text/plain"]
    return lines


def comparable(outputs: list[dict[str, Any]]) -> str:
    return _CODE_SIZE.sub("code", json.dumps(outputs, sort_keys=True))


def main(arguments: list[str]) -> int:
    """Runs the notebook that the command line names."""
    path = Path(arguments[-1])
    notebook = json.loads(path.read_text())
    outputs = run_notebook(notebook)
    if "--write" in arguments:
        store(notebook, outputs)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        path.with_suffix(".md").write_text(page_of(notebook, path.stem))
        return 0
    differ = [
        "".join(cell["source"]) + "\nmade\n" + json.dumps(made, indent=1)
        for cell, made in zip(code_cells(notebook), outputs, strict=True)
        if comparable(cell["outputs"]) != comparable(made)
    ]
    print("\n\n".join(differ) or len(outputs), file=sys.stderr if differ else sys.stdout)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
