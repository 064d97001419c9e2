"""Mutants of native functions that no schedule can tell from the original, with the reason of each.

An ordering that nobody needs is weakened in the code instead; here is what must stay for a reason that the checker of
interleavings cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping

EQUIVALENT: Mapping[str, str] = {}
"""By the names that `python -m tests.stress mutations` prints."""

UNEXPLORED: Mapping[str, str] = {}
"""Files whose functions no test of schedules runs, and why."""
