"""Mutants of native functions that no schedule can tell from the original, with the reason of each.

An ordering that nobody needs is weakened in the code instead; here is what must stay for a reason that the checker of
interleavings cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping

_FENCES = (
    "an access in the total order acts as a fence in the checker, so one of the two in this function suffices there; "
    "the language orders the addition before the load only if both are in the total order"
)

EQUIVALENT: Mapping[str, str] = {
    "xlapy/native/locks.py: release_permit: semaphore.permits.fetch_add(1, SEQ_CST) "
    "-> semaphore.permits.fetch_add(1, ACQ_REL)": _FENCES,
    "xlapy/native/locks.py: release_permit: semaphore.sleepers.load(SEQ_CST) "
    "-> semaphore.sleepers.load(ACQUIRE)": _FENCES,
}
"""By the names that `python -m tests.stress mutations` prints."""

UNEXPLORED: Mapping[str, str] = {}
"""Files whose functions no test of schedules runs, and why."""
