"""Errors that end several processes are shown once, and calls of MPI that wait for all processes end in time."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.processes import environment, run_job
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError
from xlapy.runtime.collectives import error_reports
from xlapy.runtime.collectives.error_reports import error_key, show_once
from xlapy.runtime.collectives.process_group import ErrorReport

ERROR = ExecutionError(codes.PROCESS_LOST, "process 9 has ended")
KEY = error_key(ERROR, has_failed=True)


class Others:
    """A transport whose other processes have reported something, or do so once they are asked several times."""

    def __init__(self, reports: dict[int, list[ErrorReport | None]], lost: tuple[int, ...] = ()) -> None:
        self.has_failed = True
        self.told: list[tuple[int, bool]] = []
        self._reports, self._lost = reports, lost

    def report_error(self, key: int, *, is_shown: bool) -> None:
        self.told.append((key, is_shown))

    def reported_error(self, process: int) -> ErrorReport | None:
        row = self._reports.get(process, [None])
        return row.pop(0) if len(row) > 1 else row[0]

    def is_present(self, process: int) -> bool:
        return process not in self._lost


def is_shown(monkeypatch: pytest.MonkeyPatch, index: int, others: Others) -> bool:
    group: Any = SimpleNamespace(process_index=index, is_forked=False, transport=others)
    monkeypatch.setattr(error_reports, "current_process_group", lambda: group)
    monkeypatch.setattr(error_reports, "REPORT_SECONDS", 0.2)
    monkeypatch.setattr(error_reports, "SHOW_SECONDS", 0.4)
    shown: list[bool] = []
    show_once(ERROR, lambda: shown.append(True))
    assert others.told == [(KEY, False), (KEY, True)][: 1 + len(shown)]
    return bool(shown)


ANNOUNCED, SHOWN, ANOTHER = ErrorReport(KEY, False), ErrorReport(KEY, True), ErrorReport(KEY + 2, True)


@pytest.mark.parametrize(
    ("index", "reports", "lost", "expected"),
    [
        (0, {1: [SHOWN]}, (), True),
        (1, {0: [SHOWN]}, (), False),
        (2, {0: [None], 1: [None, ANNOUNCED, ANNOUNCED, SHOWN]}, (), False),
        (2, {0: [None], 1: [ANNOUNCED]}, (), True),
        (2, {0: [ANOTHER], 1: [None]}, (1,), True),
        (2, {}, (0, 1), True),
        (2, {}, (), True),
        (1, {0: [SHOWN]}, (0,), False),
    ],
    ids=["first", "shown before", "shown later", "never shown", "another error", "others are lost", "alone", "left"],
)
def test_the_first_process_with_an_error_shows_it(
    monkeypatch: pytest.MonkeyPatch,
    index: int,
    reports: dict[int, list[ErrorReport | None]],
    lost: tuple[int, ...],
    expected: bool,
) -> None:
    assert is_shown(monkeypatch, index, Others(reports, lost)) == expected


def test_keys_tell_errors_apart() -> None:
    text = RuntimeError(f"INTERNAL: process 9 has ended; a waits for b [{codes.PROCESS_LOST}]")
    assert error_key(text, has_failed=True) == KEY
    keys = [error_key(error, has_failed=False) for error in (ERROR, text, ValueError("a"), ValueError("b"))]
    assert len({KEY, *keys}) == 5 and all(0 < key < 1 << 62 for key in keys)
    assert error_key(ValueError("a"), has_failed=True) == keys[2]


BAD_CALLS = {
    "devices": ("xla.Client('cpu', devices=1 + xla.distributed.process_index())", device_codes.PROCESS_CLIENTS),
    "too few devices": (
        "xla.Client('cpu').compile('HloModule m, replica_count=7 ENTRY e { ROOT x = f32[] parameter(0) }')",
        device_codes.RUN_DEVICES,
    ),
    "twice": ("xla.distributed.initialize()", codes.ALREADY_INITIALIZED),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_an_error_of_all_processes_is_printed_once(name: str, tmp_path: Any) -> None:
    call, code = BAD_CALLS[name]
    path = tmp_path / "program.py"
    path.write_text(f"import xlapy as xla; xla.distributed.initialize(); {call}")
    done = run_job(path, 3)
    assert done.code == 1 and not done.output
    assert done.errors.count("Traceback") == 1 and done.errors.count(f"[{code}]") == 1, done.errors


def test_a_bad_argument_of_all_processes_is_printed_once(tmp_path: Any) -> None:
    path = tmp_path / "program.py"
    path.write_text("import xlapy as xla; xla.distributed.initialize(num_processes=0)")
    done = run_job(path, 3)
    assert done.code == 1 and done.errors.count(f"[{codes.PROCESS_COUNT}]") == 1, done.errors


def test_a_time_limit_ends_a_process_that_holds_the_lock_of_the_interpreter() -> None:
    code = """import ctypes, time
from xlapy.runtime.collectives.mpi.time_limit import time_limit
for seconds in (0, 0.01):
    with time_limit(0.3, "not this one"):
        time.sleep(seconds)
time.sleep(0.5)
print("in time", flush=True)
with time_limit(0.2, "process 0: too late"):
    ctypes.PyDLL(None).sleep(20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (1, "in time\n", "process 0: too late\n")


def test_equal_errors_of_threads_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure, each thread that waits has an error of its own words."""
    group: Any = SimpleNamespace(process_index=1, is_forked=False, transport=Others({}))
    monkeypatch.setattr(error_reports, "current_process_group", lambda: group)
    shown: list[BaseException | None] = []
    hook = error_reports._first_of_threads(lambda given: shown.append(given.exc_value))
    errors = [ExecutionError(codes.PROCESS_LOST, f"thread {n} has waited") for n in range(3)] + [ValueError("own")]
    for error in (*errors, *errors):
        hook(threading.ExceptHookArgs((type(error), error, None, None)))
    assert shown == [errors[0], errors[3]]
    monkeypatch.setattr(error_reports, "current_process_group", lambda: None)
    hook(threading.ExceptHookArgs((ValueError, errors[3], None, None)))
    assert shown[2:] == [errors[3]]
