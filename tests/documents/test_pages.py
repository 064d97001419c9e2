"""The examples on the pages print the output that the pages show, and every page with examples is run by a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpu.instruction_sets import limited_to
from tests.documents.pages import ROOT, check_page, check_text, examples

SHOWN = {
    "CONTRIBUTING.md": 0,
    "README.md": 1,
    "docs/index.md": 1,
    "docs/explanation/cpu.md": 1,
    "docs/how-to/custom-calls.md": 1,
    "docs/how-to/performance.md": 4,
    "docs/reference/api/index.md": 0,
    "docs/tutorials/tour.md": 9,
}
"""The number of examples that show their output, on each page that is run here."""

ON_JAX = {"docs/how-to/jax.md": 1}
"""The same of pages whose programs choose the platform by `JAX_PLATFORMS=xlapy`."""

WRITTEN_WITH_OUTPUT = ("docs/reference/operation-semantics/", "docs/reference/broadcasting", "docs/reference/errors/")
"""Pages that are generated: the output of their examples is what the examples print when the page is written."""


@pytest.mark.parametrize("name", SHOWN)
def test_examples_print_the_shown_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with limited_to("AVX2"):
        assert check_page(name) == SHOWN[name]


@pytest.mark.parametrize("name", ON_JAX)
def test_programs_of_jax_print_the_shown_output(name: str, tmp_path: Path) -> None:
    code = f"from tests.documents.pages import check_page; assert check_page({name!r}) == {ON_JAX[name]}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "xlapy"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "step.mlir").exists()


def test_every_page_with_examples_is_run() -> None:
    """A page is run here, or by a test of this folder that names it."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("*.py"))
    missing: list[str] = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        name = page.relative_to(ROOT).as_posix()
        names = [name.removeprefix("docs/"), *([page.name, page.stem] if page.name != "index.md" else [])]
        named = name in SHOWN or name in ON_JAX or any(f'"{each}"' in tests for each in names)
        if any(examples(page.read_text())) and not named and not name.startswith(WRITTEN_WITH_OUTPUT):
            missing.append(name)
    assert missing == []


def test_a_wrong_output_is_detected() -> None:
    page = "```python\nprint(1)\nprint(2)\n```\n\n```text\n1\n3\n```\n\nwords\n\n```text\nno output\n```\n"
    assert list(examples(page)) == [("python", "print(1)\nprint(2)\n", "1\n3\n")]
    with pytest.raises(AssertionError, match="print"):
        check_text(page)


def test_a_block_that_is_not_run_says_so() -> None:
    assert check_text("```sh (not run)\nxlapy opt a.hlo\n```\n") == 0
    assert check_text("```sh\nmake demo    # trains a classifier\nmake test\n```\n") == 0
    for command in ("xlapy opt a.hlo", "make nothing"):
        with pytest.raises(AssertionError, match="neither run"):
            check_text(f"```sh\nmake demo\n{command}\n```\n")
