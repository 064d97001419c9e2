"""Every program in docs/explanation/departures.md has the result shown there, on all platforms and on XLA:CPU."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlapy as xla
from tests import xla_reference
from tests.documents.pages import ROOT
from tests.reference.agreement import same_bits
from tests.xla_reference_devices import Case, run_on_devices
from xlapy.opcodes.registry import lookup
from xlapy.reference import definition_of
from xlapy.testing.examples import Example

PAGE = (ROOT / "docs" / "explanation" / "departures.md").read_text()
SUM, *PROGRAMS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
OPS = ("scatter", "reduce-window", "reduce", "all-reduce", "all-gather", "maximum")
"""The operation of each program, in the order of the page."""
DEVICES = {"all-reduce": (3, 1), "all-gather": (2, 2)}
"""The numbers of replicas and partitions; others run on one device."""
EXAMPLES = {
    op: Example(op, SUM * ("sum" in text) + text, *DEVICES.get(op, (1, 1)))
    for op, text in zip(OPS, PROGRAMS, strict=True)
}


def test_every_departure_has_a_program_of_three_lines() -> None:
    assert len(PROGRAMS) == len(EXAMPLES) == PAGE.count("\n## ")
    assert all(len([line for line in text.splitlines() if not line.startswith("=>")]) <= 3 for text in PROGRAMS)


@pytest.mark.parametrize("platform", ["reference", "interpreter", "cpu"])
@pytest.mark.parametrize("op", EXAMPLES)
def test_a_platform_computes_the_shown_result(op: str, platform: str) -> None:
    example = EXAMPLES[op]
    executable = xla.Client(platform, devices=example.devices).compile(example.module)
    results = executable.execute_sharded([[value.array for value in row] for row in example.arguments])
    for result, (expected,) in zip(results, example.results, strict=True):
        assert same_bits(np.asarray(result), expected.array)


@pytest.mark.parametrize("op", [op for op, example in EXAMPLES.items() if example.devices == 1])
def test_xla_cpu_computes_the_shown_result(op: str) -> None:
    ((expected,),) = EXAMPLES[op].results
    arguments = [value.array for value in EXAMPLES[op].arguments[0]]
    assert same_bits(np.asarray(xla_reference.run_hlo(EXAMPLES[op].module, arguments)), expected.array)


def test_xla_cpu_takes_the_partitions_of_a_replica_first() -> None:
    example = EXAMPLES["all-gather"]
    arguments = [[value.array for value in row] for row in example.arguments]
    (results,) = run_on_devices([Case(example.module, arguments, example.replicas, example.partitions)])
    assert [np.asarray(result).tolist() for result in results] == [[1, 2, 3, 4]] * 4


def test_fast_minima_of_xla_cpu_drop_nan() -> None:
    arguments = [value.array for value in EXAMPLES["maximum"].arguments[0]]
    result = xla_reference.run_hlo(EXAMPLES["maximum"].module, arguments, xla_cpu_enable_fast_min_max=True)
    assert same_bits(np.asarray(result), np.array([np.nan, 1], np.float32))


@pytest.mark.parametrize("op", ["reduce", "reduce-window", "scatter"])
def test_a_definition_names_its_departure(op: str) -> None:
    assert "Departure" in (definition_of(lookup(op)).__doc__ or "")
