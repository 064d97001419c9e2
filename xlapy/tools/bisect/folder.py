"""Folders that reproduce a bisection: modules, arguments, the report, and the command.

Responsible for the format of such a folder. Does not depend on how the fault was found.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.debugging.bisecting import BisectResult, BisectSettings
from xlapy.runtime.engine.arguments import leaves
from xlapy.tools.files import save_arrays

_OURS = ("README.md", "run.sh", "before.hlo", "after.hlo", "reduced.hlo", "kernel.hlo", "optimized.hlo")


def write_folder(
    folder: Path,
    found: BisectResult,
    settings: BisectSettings,
    arguments: Sequence[Sequence[Any]],
    report: Sequence[str],
) -> None:
    """Writes the folder. Overwrites the folder of an earlier bisection; any other folder that is not empty is an
    error."""
    _prepare(folder)
    loads = [_copied(load, folder) for load in settings.loads]
    name = "optimized" if found.position is None else "before"
    (folder / f"{name}.hlo").write_text(found.before)
    save(folder / "arguments.npz", arguments[0])
    shown, given = f"{name}.hlo", "arguments.npz"
    if found.after is not None:
        (folder / "after.hlo").write_text(found.after)
    if found.reduced is not None:
        shown, given = "reduced.hlo", "reduced.npz"
        (folder / shown).write_text(found.reduced.text)
        save(folder / given, found.reduced.arguments[0])
    elif found.kernel is not None:
        shown, given = "kernel.hlo", "kernel.npz"
        (folder / shown).write_text(found.kernel.text)
        save(folder / given, found.kernel.arguments)
    command = ["bisect", shown, "--input", given, "--reduce", "0", "-o", "again", *_options(found, settings)]
    command += [word for load in loads for word in ("--load", load)]
    script = f'#!/bin/sh\ncd "$(dirname "$0")"\nexec "${{PYTHON:-{sys.executable}}}" -m xlapy {shlex.join(command)}\n'
    (folder / "run.sh").write_text(script)
    (folder / "run.sh").chmod(0o755)
    (folder / "README.md").write_text("\n".join(["# What `xlapy bisect` found", "", "```text", *report, "```", ""]))


def _options(found: BisectResult, settings: BisectSettings) -> list[str]:
    if found.position is None:
        return ["--optimized"]
    chosen = [] if settings.passes is None else ["--passes", settings.passes]
    return [*chosen, "--only", found.position.position]


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / "run.sh").is_file():
        raise InvalidArgumentError(codes.OUTPUT_FOLDER, f"{folder} holds other things: give another folder by -o")
    for name in _OURS:
        (folder / name).unlink(missing_ok=True)


def _copied(load: str, folder: Path) -> str:
    """Returns the name of the copy of a Python file in the folder; module names are returned unchanged."""
    if not load.endswith(".py"):
        return load
    target = folder / Path(load).name
    if Path(load).resolve() != target.resolve():
        shutil.copyfile(load, target)
    return target.name


def save(path: Path, arguments: Sequence[Any]) -> None:
    """Saves the arguments, one array per leaf."""
    parts = [np.asarray(leaf) for argument in arguments for leaf in leaves(argument)]
    save_arrays(str(path), {f"argument{number}": part for number, part in enumerate(parts)})
