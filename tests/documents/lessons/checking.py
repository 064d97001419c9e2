"""Checks a page in a process of its own, as a reader would run it: from the top, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.documents.lessons.page_runner import ROOT


def check_page(page: str, folder: Path, **environment: str) -> int:
    """Runs a page of docs/ in the folder; returns how many outputs agree. Vectors have 32 bytes on every machine."""
    flags = f"{os.environ.get('XLAPY_FLAGS', '')} --max_isa=AVX2"
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents.lessons.page_runner", str(ROOT / "docs" / page)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAPY_FLAGS": flags, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])
