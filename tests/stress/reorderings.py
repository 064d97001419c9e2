"""Native functions with two statements in the other order or another condition: which ones the explorations notice.

As `mutations`, but a mutant that survives is no fault: many a pair of statements may be in either order. Whoever
changes a protocol reads the survivors, and adds a property to the tests for each order that matters.
"""

from __future__ import annotations

from tests.stress.harness import Amount, Run, Stress
from tests.stress.mutants import STATEMENTS
from tests.stress.mutations import perform


def _run(run: Run) -> None:
    perform(run, STATEMENTS, survivors_are_faults=False)


STRESS = Stress(
    "native functions with statements in another order or changed conditions: shows what no test of schedules notices",
    Amount(count=1),
    Amount(count=40),
    _run,
)
