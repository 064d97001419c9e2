"""Locks of the package are free in the child of a fork."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "xlapy"

REASONS: dict[str, str] = {
    "base/concurrency/forking.py": "makes the locks that forks wait for",
    "debugging/hostile/campaign.py": "a lock of one campaign, whose process does not fork",
    "runtime/collectives/mpi/coordinator.py": "a program of its own",
    "runtime/collectives/process_group.py": "a child of a fork is refused before it asks for the lock",
    "runtime/collectives/rendezvous.py": "a lock of one launch, which a child does not continue",
}
"""Files that make locks which forks do not wait for -> reason."""

_LOCK = re.compile(r"threading\.(?:R?Lock|Semaphore|BoundedSemaphore|Condition)\((?!fork_safe_lock\(\))")


def test_forks_wait_for_every_lock():
    """`fork_safe_lock` makes such locks. A lock that another thread held would stay locked in the child."""
    files = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if _LOCK.search(file.read_text())}
    assert files == REASONS.keys()
