"""Finds the description of the machine of a simulation: by name, in a file, or this machine as it was calibrated.

Responsible for files and their formats. Does not depend on what is simulated.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

from xlapy.analysis.simulation.description import machine_from_tables, tables_of_machine
from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.analysis.simulation.presets import PRESETS
from xlapy.base import flags
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.machine import machine_roofline
from xlapy.tools.files import write_file
from xlapy.tools.simulate.this_machine import uncalibrated_machine

MAX_BYTES = 1 << 20
"""The largest file of a description."""


def find_machine(name: str | None) -> MachineDescription:
    """Returns the machine of a name in `PRESETS` or of a file. Without a name: this machine as it was calibrated, or
    else as its roofline says."""
    if name in PRESETS:
        return PRESETS[name]
    if name is not None:
        return _read(Path(name))
    stored = calibrated_path()
    if stored.exists():
        return _read(stored)
    return uncalibrated_machine(machine_roofline())


def calibrated_path() -> Path:
    """The file that `--calibrate` writes unless the user names one."""
    folder = Path(str(flags.get("cache_dir")) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "xlapy")
    return folder.expanduser() / "simulated-machine.json"


def write_machine(machine: MachineDescription, path: Path) -> None:
    """Writes a description as JSON."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(tables_of_machine(machine), indent=1) + "\n"
    write_file(str(path), lambda sink: sink.write(text.encode()))


def _read(path: Path) -> MachineDescription:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    where = str(path)
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"the file is larger than {MAX_BYTES} bytes")
        text = data.decode()
        tables = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of both formats, and of UTF-8
        raise InvalidArgumentError(codes.MACHINE_DESCRIPTION, f"{where}: {error}") from error
    return machine_from_tables(tables, where)
