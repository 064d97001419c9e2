"""Runs the example of an error code: the smallest program that violates its rule.

Responsible for the four kinds of example and for the samples that operations refuse. Does not depend on how an
explanation is shown.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent

import numpy as np

import xlapy as xla
from xlapy import ops
from xlapy.base.error_codes.code import CodeExample, ErrorCode, ExampleKind
from xlapy.base.errors import XlaError
from xlapy.testing.examples import all_refusals


def example_of(code: ErrorCode) -> CodeExample | None:
    """Returns the example of a code: its own, or the first refused sample of an operation whose constraint it is."""
    return code.example if code.example is not None else _refused_examples().get(code)


@cache
def _refused_examples() -> dict[ErrorCode, CodeExample]:
    found: dict[ErrorCode, CodeExample] = {}
    for refusal in all_refusals():
        found.setdefault(refusal.violation[0], CodeExample(ExampleKind.HLO, refusal.module))
    return found


def run_example(example: CodeExample) -> str:
    """Runs an example in an empty directory; returns the message of its error.

    Raises AssertionError if there is none.
    """
    with _empty_directory():
        if example.kind is ExampleKind.COMMAND:
            return _run_command(dedent(example.text).strip())
        try:
            _run(example.kind, dedent(example.text).lstrip("\n"))
        except XlaError as error:
            return str(error)
    raise AssertionError(f"the example raises no error:\n{example.text}")


def _run(kind: ExampleKind, text: str) -> None:
    match kind:
        case ExampleKind.HLO:
            xla.Client("cpu").compile(xla.parse_hlo(text, verify=True))
        case ExampleKind.STABLEHLO:
            xla.Client("cpu").compile(xla.parse_stablehlo(text))
        case _:
            exec(compile(text, "example.py", "exec"), {"np": np, "xla": xla, "ops": ops})


def _run_command(text: str) -> str:
    """Runs commands of xlapy, and lines `echo 'TEXT' > FILE`; returns what the last one prints on standard error."""
    *preparations, last = text.splitlines()
    for line in preparations:
        words = shlex.split(line)
        if words[0] == "echo" and words[2] == ">":
            Path(words[3]).write_text(words[1] + "\n")
        elif _invoke(line)[0] != 0:
            raise AssertionError(f"{line!r} fails")
    status, printed = _invoke(last)
    if status == 0:
        raise AssertionError(f"{last!r} succeeds")
    return printed


def _invoke(line: str) -> tuple[int, str]:
    """Returns the exit code of a command of xlapy, and what it prints on standard error."""
    from xlapy.tools.command_line import invoke

    words = shlex.split(line)
    if words[0].startswith("XLAPY_FLAGS=") and words[1] == "xlapy":
        # Flags are read when a process starts.
        environment = os.environ | {"XLAPY_FLAGS": words[0].partition("=")[2]}
        command = [sys.executable, "-m", "xlapy", *words[2:]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.strip()
    if words[0] != "xlapy":
        raise AssertionError(f"{line!r} is not a command of xlapy")
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
        status = invoke(words[1:])
    return status, printed.getvalue().strip()


@contextlib.contextmanager
def _empty_directory() -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
