"""Mutants of native functions that no schedule of the checker can tell from the original, with the reason of each.

An ordering that nobody needs is weakened in the code instead; here is what must stay for a reason that the checker of
interleavings cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping

_PROGRAM_ORDER = (
    "the checker performs the accesses of a thread in their order; in the language, an earlier load may be performed "
    "after an access that does not release, and a later store before one that does not acquire"
)
_ORDER_OF_STEPS = (
    "the total order that the checker explores is that of the steps; in the language, only the release orders the "
    "store before it for those who acquire the change"
)
_YIELDS = "giving the processor to others saves time only"

EQUIVALENT: Mapping[str, str] = {
    "xlapy/cpu/llvm/communication/infeeds.py: leave_infeed: sched_yield(f) -> dropped": _YIELDS,
    "xlapy/cpu/llvm/communication/queues.py: notify: queue.sent.fetch_xor(NOTIFIED, RELEASE) "
    "-> queue.sent.fetch_xor(NOTIFIED, RELAXED)": _ORDER_OF_STEPS,
    "xlapy/cpu/llvm/pool.py: run_chunks: next_ticket.compare_exchange(ticket, ticket + 1, ACQ_REL, RELAXED) "
    "-> next_ticket.compare_exchange(ticket, ticket + 1, RELAXED, RELAXED)": _PROGRAM_ORDER,
    "xlapy/cpu/llvm/pool.py: open_job: ticket.fetch_or(_NO_CHUNK, ACQ_REL) "
    "-> ticket.fetch_or(_NO_CHUNK, RELAXED)": _PROGRAM_ORDER,
    "xlapy/cpu/llvm/pool.py: await_job: sched_yield(f) -> dropped": _YIELDS,
    "xlapy/cpu/llvm/pool.py: xlapy_parallel: sched_yield(f) -> dropped": _YIELDS,
}
"""By the names that `python -m tests.stress mutations` prints."""

UNEXPLORED: Mapping[str, str] = {}
"""Files whose functions no test of schedules runs, and why."""
