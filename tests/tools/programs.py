"""Small programs and array files for the tests of the command line, and functions that run it in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

AXPY = """HloModule axpy

ENTRY main {
  a = f32[] parameter(0)
  x = f32[3] parameter(1)
  y = f32[3] parameter(2)
  wide = f32[3] broadcast(a), dimensions={}
  product = f32[3] multiply(wide, x)
  ROOT sum = f32[3] add(product, y)
}
"""

COUNT_TO_3 = """HloModule count

body {
  before = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT after = s32[] add(before, one)
}

condition {
  value = s32[] parameter(0)
  limit = s32[] constant(3)
  ROOT below = pred[] compare(value, limit), direction=LT
}

ENTRY main {
  start = s32[] parameter(0)
  ROOT count = s32[] while(start), condition=condition, body=body
}
"""

FOREVER = COUNT_TO_3.replace("compare(value, limit), direction=LT", "constant(true)").replace(
    "start = s32[] parameter(0)", "start = s32[] constant(0)"
)

SEVEN = """HloModule seven

ENTRY main {
  ROOT seven = s32[] constant(7)
}
"""


def xlapy(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs `python -m xlapy` in a new process; options as of `subprocess.run`. Captures output unless they say
    otherwise.
    """
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run(command(*arguments), env=environment(), timeout=60, check=False, **options)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "xlapy", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
