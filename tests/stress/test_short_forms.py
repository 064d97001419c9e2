"""The short form of every stress test runs without a fault."""

from __future__ import annotations

import pytest

from tests.stress import harness


@pytest.mark.parametrize("name", harness.names())
def test_short_form_has_no_fault(name: str):
    run = harness.perform(name, seed=1, short=True)
    assert not run.faults, "\n".join(run.faults)
    assert run.done > 0
    if run.amount.count is not None:
        assert run.done >= run.amount.count
