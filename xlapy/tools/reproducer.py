"""Writes a folder that reproduces an internal error: the command, its input files, the traceback.

Responsible for the format of that folder. Does not depend on what failed.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xlapy.base import flags


@dataclass
class StandardInput:
    """What a command read from standard input, for the folder that reproduces an internal error."""

    data: bytes | None = None


def write_reproducer(arguments: Sequence[str], error: BaseException, standard_input: bytes | None = None) -> Path:
    """Returns the folder `xlapy-failure-*`, created in the directory of the flag `failure_dir` (default: the current
    directory).

    `command.sh` runs the same command on copies of its input files and of its standard input; `error.txt` holds the
    traceback.
    """
    base = Path(str(flags.get("failure_dir") or "."))
    folder = Path(tempfile.mkdtemp(prefix="xlapy-failure-", dir=base if os.access(base, os.W_OK) else None)).resolve()
    replayed = [_copied(argument, folder) for argument in arguments]
    command = f'exec "${{PYTHON:-{sys.executable}}}" -m xlapy {shlex.join(replayed)}'
    if standard_input is not None:
        (folder / "stdin.hlo").write_bytes(standard_input)
        command += " < stdin.hlo"
    script = f'#!/bin/sh\ncd "$(dirname "$0")"\n{command}\n'
    (folder / "command.sh").write_text(script)
    (folder / "command.sh").chmod(0o755)
    (folder / "error.txt").write_text("".join(traceback.format_exception(error)))
    (folder / "versions.txt").write_text(_versions())
    return folder


def _copied(argument: str, folder: Path) -> str:
    """Returns the argument; the name of a file is replaced by that of its copy in the folder."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    source = Path(value)
    try:
        if not value or not source.is_file():
            return argument
        target = folder / f"{len(list(folder.iterdir()))}-{source.name}"
        shutil.copyfile(source, target)
    except OSError:
        return argument
    return f"{option}{equals}{target.name}"


def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    lines = [f"python {platform.python_version()} on {platform.platform()}"]
    for package in ("xlapy", "numpy", "ml_dtypes", "scipy"):
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            lines.append(f"{package} not installed")
    return "\n".join(lines) + "\n"
