"""Shared words are accessed by typed native functions, which the checker of interleavings runs."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "xlapy"

REASONS: dict[str, str] = {
    "cpu/llvm/bounded/escape.py": "one thread and its own signal handler",
    "cpu/llvm/kernels.py": "a fence after nontemporal stores, which no ordering of atomics covers",
    "cpu/llvm/roofline_kernels.py": "a fence after nontemporal stores, too",
    "native/llvm.py": "emits native functions",
}
"""Files with atomic instructions in LLVM text -> reason."""

_ATOMIC = re.compile(r"\b(?:load|store) atomic\b|\bcmpxchg\b|\batomicrmw\b|\bfence (?:seq_cst|acq|rel)|futex\.\w+_text")


def test_text_contains_no_atomic_instructions():
    """Nothing checks the protocols of words that text describes by offsets. What several threads use is declared as a
    `Record`; text calls native functions."""
    files = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if _ATOMIC.search(file.read_text())}
    assert files == REASONS.keys()
