"""The examples in docs/reference/ops have the values shown there, and every constraint listed there is enforced."""

from __future__ import annotations

import ast
import inspect
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests import xla_reference
from tests.raising import raises
from tests.xla_reference_devices import Case, run_on_devices
from xlapy import opcodes
from xlapy.base.errors import UnsupportedError, XlaError
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.runtime.backend import PLATFORMS
from xlapy.testing.comparison import assert_close
from xlapy.testing.examples import Example, Refusal, all_examples, all_refusals, examples_of, refusals_of
from xlapy.testing.samples import FAMILIES
from xlapy.tools.ops.support import refusal_of

EXAMPLES = list(all_examples())
REFUSALS = list(all_refusals())
every_op = pytest.mark.parametrize("op", sorted(REGISTRY.values(), key=lambda op: op.name), ids=lambda op: op.name)
every_platform = pytest.mark.parametrize("platform", sorted(PLATFORMS))


def names(given: list[Example] | list[Refusal]) -> list[str]:
    return [f"{each.op}-{number}" for number, each in enumerate(given)]


every_example = pytest.mark.parametrize("example", EXAMPLES, ids=names(EXAMPLES))


def leaves(value: Any) -> Iterator[Any]:
    """Returns the arrays of a result, without tokens."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    elif hasattr(value, "__array__"):
        yield np.asarray(value)


def same(actual: Any, expected: list[Any], where: str) -> None:
    assert_close(tuple(leaves(actual)), tuple(literal.array for literal in expected), where=where)


# -- examples


@every_example
def test_the_example_of_an_operation_contains_it(example: Example) -> None:
    assert example.op in {instruction.op.name for instruction in xla.parse_hlo(example.module).instructions()}


@every_platform
@every_example
def test_a_platform_computes_the_values_or_says_why_not(example: Example, platform: str) -> None:
    client = xla.Client(platform, devices=example.devices)
    if refusal_of(platform, opcodes.lookup(example.op)):
        with pytest.raises(UnsupportedError):
            client.compile(example.module)
        return
    executable = client.compile(example.module)
    for value in example.infeed:
        executable.devices[0].transfer_to_infeed(value.array)
    results = executable.execute_sharded([[each.array for each in row] for row in example.arguments])
    for device, (result, expected) in enumerate(zip(results, example.results, strict=True)):
        same(result, expected, f"device {device}")
    for value in example.outfeed:
        same(executable.devices[0].transfer_from_outfeed(), [value], "outfeed")


ON_ONE = [example for example in EXAMPLES if not example.xla_cpu and example.devices == 1]
ON_SEVERAL = [example for example in EXAMPLES if not example.xla_cpu and example.devices > 1]


@pytest.mark.parametrize("example", ON_ONE, ids=names(ON_ONE))
def test_xla_cpu_computes_the_values(example: Example) -> None:
    arguments = [literal.array for literal in example.arguments[0]]
    same(xla_reference.run_hlo(example.module, arguments, fast=True), example.results[0], "XLA:CPU")


def test_xla_cpu_computes_the_values_on_several_devices() -> None:
    cases = [
        Case(each.module, [[v.array for v in row] for row in each.arguments], each.replicas, each.partitions)
        for each in ON_SEVERAL
    ]
    for example, results in zip(ON_SEVERAL, run_on_devices(cases), strict=True):
        assert not isinstance(results, str), f"{example.op}: {results}"
        for device, (result, expected) in enumerate(zip(results, example.results, strict=True)):
            same(result, expected, f"{example.op} on device {device}")


# -- constraints


@pytest.mark.parametrize("refusal", REFUSALS, ids=names(REFUSALS))
def test_a_module_that_violates_a_constraint_is_refused(refusal: Refusal) -> None:
    with raises(XlaError, *refusal.violation):
        xla.parse_hlo(refusal.module, verify=True)
    assert refusal.violation[0] in REGISTRY[refusal.op].constraints[refusal.constraint - 1].codes


@every_op
def test_every_constraint_is_violated_by_some_module(op: OpDef) -> None:
    broken = {refusal.constraint for refusal in REFUSALS if refusal.op == op.name}
    assert broken == set(range(1, len(op.constraints) + 1))


UNREACHABLE_CHECKS = {
    "_check_constant": "text gives a literal the declared shape",
    "_check_parameter": "the numbers of a computation's parameters are checked first",
    "_check_constraints": "text gives every shape a layout",
    "_check_labels": "text cannot name a dimension twice",
    "_infer_conditional": "the branches are counted first",
    "higher_precision_type": "text declares the element type of the result",
    "_check_rng": "the operands are found to differ in type first",
    "reshaped": "the shape of a reshape in the builder",
    "_dynamic_target": "the shape of a reshape in the builder",
    "_candidates": "the shape of a reshape in the builder",
    "_with_dimension": "the shape of a scan in the builder",
    "scan_shape": "the shape of a scan in the builder",
}
"""Functions with checks that no module text reaches, and the reason."""


def family_modules() -> list[ModuleType]:
    return [import_module(f"xlapy.opcodes.{family}") for family in FAMILIES]


def raises_of(module: ModuleType) -> Iterator[tuple[str, str, int]]:
    """Returns (file, function, last line) of every `raise ShapeError` in a module of definitions."""
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(function, ast.FunctionDef) and function.name not in UNREACHABLE_CHECKS:
            for node in ast.walk(function):
                if isinstance(node, ast.Raise) and "ShapeError" in ast.unparse(node):
                    yield Path(inspect.getfile(module)).name, function.name, node.lineno


def raised_by(refusal: Refusal) -> set[tuple[str, int]]:
    """Returns (file, line) of the stack frames of the error and of the errors that caused it."""
    try:
        xla.parse_hlo(refusal.module, verify=True)
    except XlaError as error:
        found: set[tuple[str, int]] = set()
        cause: BaseException | None = error
        while cause is not None:
            found |= {(Path(f.filename).name, f.lineno or 0) for f in traceback.extract_tb(cause.__traceback__)}
            cause = cause.__cause__ or cause.__context__
        return found
    return set()


def test_every_check_of_a_shape_rule_is_among_the_constraints() -> None:
    reached: set[tuple[str, int]] = set()
    for refusal in REFUSALS:
        reached |= raised_by(refusal)
    wanted = {raised for module in family_modules() for raised in raises_of(module)}
    assert sorted(raised for raised in wanted if (raised[0], raised[2]) not in reached) == []


def test_each_family_has_examples_and_refusals_of_its_operations() -> None:
    for family in FAMILIES:
        mine = {op.name for op in REGISTRY.values() if op.family == family}
        assert {example.op for example in examples_of(family)} == mine
        assert {refusal.op for refusal in refusals_of(family)} <= mine


# -- the notation


def test_a_line_outside_the_notation_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an argument, instruction or result: 'what'"):
        _ = Example("add", "what").module
    with pytest.raises(ValueError, match="3 values for 2 devices"):
        _ = Example("add", "x = f32[] 1 | 2 | 3\ny = f32[] negate(x)", replicas=2).module
