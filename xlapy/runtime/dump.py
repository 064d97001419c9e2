"""Writes compiled modules and their intermediate forms to the directory named by the flag `dump_to`.

Responsible for the names of these files, which follow XLA's. Does not depend on how modules are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

from xlapy.base import flags
from xlapy.hlo.module import Module
from xlapy.hlo.names import sanitize
from xlapy.text import PrintOptions, print_module


def dump_module(module: Module) -> Path | None:
    """Writes `module_0003.name.before_optimizations.txt` to the directory `dump_to`, if the flag is set; returns the
    path.

    Numbering continues after the existing files. No file is overwritten, not even one of another process.
    """
    directory = str(flags.get("dump_to"))
    if not directory:
        return None
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    text = print_module(module, PrintOptions(print_large_constants=True))
    for number in count(len(list(folder.glob("module_*.before_optimizations.txt")))):
        path = folder / f"module_{number:04}.{sanitize(module.name)}.before_optimizations.txt"
        try:
            with path.open("x") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise AssertionError("count() never ends")


def dump_stages(first: Path, stages: Mapping[str, str]) -> None:
    """Writes the intermediate forms of a module next to its first file, under the same number and name."""
    for ending, text in stages.items():
        path = first.with_name(first.name.replace("before_optimizations.txt", ending))
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(text)
        unfinished.replace(path)
