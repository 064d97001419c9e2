"""A plugin of pytest that notes which native functions each test explores: `-p tests.stress.explored`.

At the end it writes a JSON object to the file that the variable EXPLORED names: from the identifier of each test to its
seconds and the names of the functions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from xlapy.native.checker import explore
from xlapy.native.checker.code import Program, prepare
from xlapy.native.function import NativeFunction

_FUNCTIONS: set[str] = set()
_TESTS: dict[str, tuple[float, list[str]]] = {}


def _noting_prepare(functions: Iterable[NativeFunction[Any, Any]]) -> Program:
    program = prepare(functions)
    _FUNCTIONS.update(program.codes)
    return program


def pytest_configure() -> None:
    explore.prepare = _noting_prepare  # type: ignore[attr-defined]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        _TESTS[report.nodeid] = report.duration, sorted(_FUNCTIONS)
        _FUNCTIONS.clear()


def pytest_sessionfinish() -> None:
    Path(os.environ["EXPLORED"]).write_text(json.dumps(_TESTS))
