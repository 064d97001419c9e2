"""Folders that reproduce a difference: the module, its arguments, both results, and the command.

Responsible for writing and reading such a folder. Does not depend on how the difference was found.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.debugging.fuzzing.campaign import Finding, Settings
from xlapy.runtime.engine.arguments import leaves
from xlapy.text import parse_hlo
from xlapy.tools.files import read_arguments, save_arrays

MODULE, ORIGINAL, ARGUMENTS, OURS, THEIRS = (
    "module.hlo",
    "original.hlo",
    "arguments.npz",
    "interpreter.npz",
    "implementation.npz",
)


def write_finding(base: Path, finding: Finding, settings: Settings) -> Path:
    """Creates a new folder under `base`, named after seed, verdict and op, and returns it."""
    fault = finding.fault
    words = f"seed{fault.seed}-{fault.verdict.value}-{fault.op}".strip("-").replace(" ", "-")
    folder = _new_folder(base, words)
    (folder / MODULE).write_text(finding.reduced)
    (folder / ORIGINAL).write_text(finding.original)
    _save(folder / ARGUMENTS, "argument", finding.arguments)
    for name, value in ((OURS, finding.ours), (THEIRS, finding.theirs)):
        if value is not None:
            _save(folder / name, "result", value)
    replay = f"xlapy fuzz --replay . --against {settings.against}"
    script = f'#!/bin/sh\ncd "$(dirname "$0")"\nexec "${{PYTHON:-{sys.executable}}}" -m {replay}\n'
    (folder / "run.sh").write_text(script)
    (folder / "run.sh").chmod(0o755)
    (folder / "README.md").write_text(_description(finding, settings, replay))
    return folder


def _new_folder(base: Path, words: str) -> Path:
    base.mkdir(parents=True, exist_ok=True)
    for number in range(10_000):
        folder = base / (words if number == 0 else f"{words}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise InvalidArgumentError(codes.OUTPUT_FOLDER, f"{base} holds too many folders named {words}")


def _save(path: Path, name: str, value: Any) -> None:
    save_arrays(str(path), {f"{name}{i}": np.asarray(array) for i, array in enumerate(leaves(tuple_of(value)))})


def tuple_of(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _description(finding: Finding, settings: Settings, replay: str) -> str:
    fault = finding.fault
    return f"""# {fault.verdict.value}: {fault.op or "the module"}

The interpreter and {settings.against}, module of seed {fault.seed} (`{ORIGINAL}`), reduced (`{MODULE}`):

```
{finding.message or fault.message}
```

`{ARGUMENTS}` holds the arguments, `{OURS}` what the interpreter gives, `{THEIRS}` what the other side gave, if it did.

Compare again, instruction by instruction:

    {replay}

Run the interpreter alone:

    xlapy run {MODULE} --input {ARGUMENTS} --print
"""


def read_finding(folder: Path) -> tuple[str, list[Any]]:
    """Returns the text and the arguments of the module in a folder."""
    text = (folder / MODULE).read_text()
    program = parse_hlo(text, filename=str(folder / MODULE)).entry_computation.program_shape
    return text, read_arguments([str(folder / ARGUMENTS)], program)
