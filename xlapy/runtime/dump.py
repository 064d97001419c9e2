"""Writes the modules that are compiled, and what becomes of them, to a directory, for whoever wants to see them.

Owns: the names of those files, which are XLA's. Must not know: why a module is compiled.
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
    """Writes `module_0003.name.before_optimizations.txt` under the flag `dump_to`, if it is set; returns the file.

    Numbers go on behind those of files that are there; none is overwritten, by other processes neither.
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
    """Writes the further forms of a module beside its first file, under the same number and name."""
    for ending, text in stages.items():
        place = first.with_name(first.name.replace("before_optimizations.txt", ending))
        unfinished = place.with_name(place.name + ".unfinished")
        unfinished.write_text(text)
        unfinished.replace(place)
