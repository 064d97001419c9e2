"""Damaged input of every format: it is read, or rejected with an error of xlapy, within a second and 200 MB.

A unit is one input; its format and its seed give it. The inputs of all formats take turns, in batches. An input is run
again by `xlapy fuzz --hostile FORMAT --seed SEED`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.stress.harness import Amount, Run, Stress
from xlapy.debugging.hostile.campaign import Campaign, HostileFault, HostileReport
from xlapy.debugging.hostile.examiner import Verdict
from xlapy.debugging.hostile.formats import format_names

_BATCH = 200
"""Inputs of a format in turn."""


def run(run: Run) -> None:
    def count(report: HostileReport, fault: HostileFault | None) -> None:
        if fault is not None:
            run.fault(str(fault))
        run.advance()

    campaign = Campaign(1 if run.short else 2, count)
    report = campaign.run(_ranges(run))
    for format_ in format_names():
        for verdict in Verdict:
            if report.count(format_, verdict):
                run.count(f"{format_}: {verdict.value}", report.count(format_, verdict))
    run.figures["slowest (CPU seconds)"] = report.slowest
    run.figures["largest (MiB)"] = report.largest >> 20


def _ranges(run: Run) -> Iterator[tuple[str, int, int]]:
    """Yields ranges of seeds of one format after the other, until all units are given out."""
    first, given = run.seed * 10_000_000, 0
    size = _BATCH if run.amount.count is None else max(1, min(_BATCH, run.amount.count // len(format_names())))
    while run.goes_on and (run.amount.count is None or given < run.amount.count):
        for format_ in format_names():
            yield format_, first, size
            given += size
        first += size


STRESS = Stress("damaged input of every format", Amount(300), Amount(1_000_000), run)
