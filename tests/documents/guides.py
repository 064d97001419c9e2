"""Follows a guide: applies the files on its page to a copy of the repository, and runs its commands there.

A block with a title is a file of the copy. A file that does not exist is created; to one that exists, the block is
appended, or inserted after the line that `after` gives, or before the line of `before`:

    ```python title="xlapy/ops.py" after="    sinh,"
    softsign,
    ```

A block of `sh` or Python that is followed by a block of `text` is run in a process of its own, after the blocks above
it are applied, and must print that text, in which `...` matches as in `pages`. `pip install ./FOLDER` is done, too.
Every other block is an excerpt.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.extensions.file_blocks import BLOCK, Place, place_of
from tests.documents.pages import ROOT, pattern_of

_COPIED = ("xlapy", "tests", "docs", "examples", "pyproject.toml")


@dataclass(frozen=True)
class FileBlock:
    """Text that a guide adds to a file: at its end, or after or before a line."""

    place: Place
    text: str


@dataclass(frozen=True)
class Example:
    """Commands or a Python program on a page, and what they print."""

    language: str
    code: str
    printed: str


def steps_of(page: str) -> Iterator[FileBlock | Example]:
    """Returns what a reader of the page does, in order."""
    blocks = list(BLOCK.finditer(page))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        place = place_of(block)
        if place is not None:
            yield FileBlock(place, block["body"])
        elif block["language"] in ("sh", "python") and _shows_output(page, block, after):
            assert after is not None
            yield Example(block["language"], block["body"], after["body"])
        elif block["language"] == "sh" and block["body"].startswith("pip install ./"):
            yield Example("sh", block["body"], "")


def _shows_output(page: str, block: re.Match[str], after: re.Match[str] | None) -> bool:
    """Whether the block after a block of code shows what the code prints."""
    if after is None or after["language"] != "text" or after["options"]:
        return False
    return not page[block.end() : after.start()].strip()


class GuideFollower:
    """A copy of the repository in which a guide is followed, as a context: leaving it removes the copy's bytecode.

    files: the files that blocks changed, in order. shown: the number of examples that were run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[str] = []
        self.shown = 0
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)
        self._environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "120"}

    def __enter__(self) -> GuideFollower:
        return self

    def __exit__(self, *_: object) -> None:
        if sys.pycache_prefix is not None:
            shutil.rmtree(f"{sys.pycache_prefix}{self.folder.resolve()}", ignore_errors=True)

    def follow(self, page: str, without: Iterable[str] = ()) -> None:
        """Does what a page of `docs/` says, except for the files in `without`."""
        left_out = set(without)
        (path,) = (ROOT / "docs").rglob(page)
        for step in steps_of(path.read_text()):
            if isinstance(step, Example):
                self.check(step)
            elif step.place.file not in left_out:
                self.apply(step)

    def apply(self, block: FileBlock) -> None:
        """Writes a block to its file."""
        place = block.place
        path = self.folder / place.file
        line = place.after or place.before
        if line:
            text = path.read_text()
            assert f"\n{line}\n" in text, f"{place.file} has no line {line!r}"
            lines = f"{line}\n{block.text}" if place.after else f"{block.text}{line}\n"
            path.write_text(text.replace(f"\n{line}\n", f"\n{lines}", 1))
        elif path.exists():
            path.write_text(f"{path.read_text()}\n\n{block.text}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        self.files.append(place.file)

    def check(self, example: Example) -> None:
        """Runs an example in the copy and compares what it prints with what the page shows."""
        self.shown += 1
        if example.language == "python":
            printed = self.run([sys.executable, "-c", example.code])
        else:
            printed = "".join(map(self._run_line, example.code.splitlines()))
        lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
        assert re.fullmatch(pattern_of(example.printed), lines), f"{example.code}\nprinted\n{printed}"

    def _run_line(self, line: str) -> str:
        words = shlex.split(line, comments=True)
        if words[:2] == ["pip", "install"]:
            self._install(self.folder / words[2])
            return ""
        programs = {"xlapy": ["-m", "xlapy"], "pytest": ["-m", "pytest"], "python": []}
        return self.run([sys.executable, *programs[words[0]], *words[1:]], fails_allowed=True) if words else ""

    def _install(self, package: Path) -> None:
        """Installs a package of Python files into the copy as pip does, but without a network."""
        project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
        for file in package.glob("*.py"):
            shutil.copy(file, self.folder)
        info = self.folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        groups = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items())
            for group, entries in project["entry-points"].items()
        ]
        (info / "entry_points.txt").write_text("\n".join(groups))

    def run(self, command: list[str], fails_allowed: bool = False) -> str:
        """Runs a command in the copy; returns what it prints to both streams."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert fails_allowed or done.returncode == 0, done.stdout
        return done.stdout

    def run_program(self, program: str) -> str:
        """Runs a Python program in the copy, which must succeed; returns what it prints."""
        return self.run([sys.executable, "-c", program])
