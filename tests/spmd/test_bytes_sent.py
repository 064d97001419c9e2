"""Partitioned programs send no more than those of XLA's partitioner, in a process of its own that has eight devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(*words: str) -> None:
    command = [sys.executable, "-m", "benchmarks.partitioner", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def test_some_programs_send_no_more_than_those_of_xla() -> None:
    check("product of matrices", "rolls", "cumulative")


@pytest.mark.slow
def test_programs_send_no_more_than_those_of_xla() -> None:
    check()
