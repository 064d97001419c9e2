"""Every consumer has a rule for every operation, or states a reason why it has none."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from xlapy import opcodes
from xlapy.analysis.cost.elements import CLASSIFIED
from xlapy.interpreter import RULES as INTERPRETER
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.reference import definition_of
from xlapy.reference.core import DYNAMIC_DEFINITIONS
from xlapy.testing.samples import FAMILIES, samples_of
from xlapy.text import parse_hlo
from xlapy.tools.ops.support import refusal_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "xlapy"

_NAMES = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce all-reduce-done
all-reduce-start all-to-all and asin asinh async-done async-start async-update atan atan2 atanh
batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil cholesky clamp
collective-broadcast collective-permute collective-permute-done collective-permute-start collective-reduce compare
complex concatenate conditional constant convert convolution copy copy-done copy-start cosh cosine count-leading-zeros
custom-call divide domain dot dynamic-reshape dynamic-slice dynamic-update-slice erf exponential exponential-minus-one
fft floor fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one logistic map
maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter partition-id popcnt power
ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision reduce-scatter reduce-window remainder
replica-id reshape reverse rng rng-bit-generator rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt
scaled-dot scan scatter select select-and-scatter send send-done set-dimension-size shift-left shift-right-arithmetic
shift-right-logical shuffle sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk transpose
triangular-solve tuple while xor
"""
OPCODES = frozenset(_NAMES.split())

_HALVES = "the start or done half of an asynchronous operation, which a pass creates"
NOT_BUILT: dict[str, str] = {
    **dict.fromkeys(("all-gather-start", "all-gather-done", "all-reduce-start", "all-reduce-done"), _HALVES),
    **dict.fromkeys(("collective-permute-start", "collective-permute-done", "copy-start", "copy-done"), _HALVES),
    **dict.fromkeys(("async-start", "async-update", "async-done"), _HALVES),
    "domain": "marks where sharding changes; passes create it",
    "fusion": "the fusion pass creates it from other operations",
    "rng-get-and-update-state": "the expansion of rng creates it to update the generator state",
}
"""Operations that no builder function creates, and the reason."""

every_family = pytest.mark.parametrize("family", FAMILIES)
every_op = pytest.mark.parametrize("op", sorted(REGISTRY.values(), key=lambda op: op.name), ids=lambda op: op.name)


def test_all_operations_of_xla_are_defined():
    assert len(OPCODES) == 136
    assert REGISTRY.keys() >= OPCODES


def test_the_families_match_the_definitions():
    assert {op.family for op in REGISTRY.values()} == set(FAMILIES)


@every_op
def test_an_operation_is_defined_in_the_file_of_its_family(op: OpDef):
    module = import_module(f"xlapy.opcodes.{op.family}")
    assert getattr(module, op.constant_name) is op
    assert getattr(opcodes, op.constant_name) is op


@every_family
def test_every_consumer_has_a_file_for_each_family(family: str):
    files = [
        f"xlapy/{folder}/{family}.py"
        for folder in ("opcodes", "builder", "reference", "interpreter", "testing/samples", "testing/examples")
    ]
    files += [f"tests/{folder}/test_{family}.py" for folder in ("opcodes", "builder", "interpreter")]
    assert [file for file in files if not (ROOT / file).is_file()] == []


@every_op
def test_the_reference_defines_an_operation_in_the_file_of_its_family(op: OpDef):
    """Conversions have a file of their own, as have dynamic dimensions of all operations."""
    module = inspect.getmodule(definition_of(op))
    assert module is not None
    assert module.__name__ in (f"xlapy.reference.{op.family}", "xlapy.reference.conversion")
    assert inspect.getdoc(definition_of(op)) or op.elementwise
    reason = DYNAMIC_DEFINITIONS.refusals.get(op, "")
    assert (op in DYNAMIC_DEFINITIONS) != (len(reason) > 5)


@every_op
def test_the_interpreter_has_a_rule_or_a_reason(op: OpDef):
    import_module(f"xlapy.interpreter.{op.family}")
    reason = INTERPRETER.refusals.get(op, "")
    assert op in INTERPRETER or len(reason) > 5
    if op in INTERPRETER:
        module = inspect.getmodule(INTERPRETER.find(op))
        assert module is not None
        folder, _, file = module.__name__.rpartition(".")
        in_family = folder == "xlapy.interpreter" and file.startswith(op.family)
        assert in_family or _kernel_module(op) == module.__name__, f"the rule of {op.name} is in {module.__name__}"


def _kernel_module(op: OpDef) -> str:
    """Returns the module of `interpreter/kernels` with the rules of conversions, or the family's own file for other
    ops.
    """
    return (
        "xlapy.interpreter.kernels.conversion" if op.name in ("bitcast-convert", "convert", "reduce-precision") else ""
    )


@every_op
def test_the_interpreter_handles_dynamic_dimensions_or_has_a_reason(op: OpDef):
    reason = DYNAMIC_RULES.refusals.get(op, "")
    assert (op in DYNAMIC_RULES) != (len(reason) > 5)


def mentioned_constants(file: Path) -> set[str]:
    """Returns the uppercase names that a file uses outside of imports."""
    nodes = ast.walk(ast.parse(file.read_text()))
    names = (node.id if isinstance(node, ast.Name) else getattr(node, "attr", "") for node in nodes)
    return {name for name in names if name.isupper()}


@pytest.fixture(scope="module")
def built() -> set[str]:
    files = (PACKAGE / "builder").rglob("*.py")
    return {name for file in files for name in mentioned_constants(file)}


@every_op
def test_a_builder_function_creates_the_op_or_a_reason_is_given(op: OpDef, built: set[str]):
    if op.constant_name in built:
        assert op.name not in NOT_BUILT, "a builder function creates it: remove the reason"
    else:
        assert NOT_BUILT.get(op.name), f"{op.name} has no builder function"


def test_the_reasons_name_operations():
    assert NOT_BUILT.keys() - REGISTRY.keys() == set()


@every_family
def test_each_operation_occurs_in_the_samples_of_its_family(family: str):
    wanted = {op for op in REGISTRY.values() if op.family == family}
    found: Counter[OpDef] = Counter()
    for sample in samples_of(family):
        found.update(instruction.op for instruction in parse_hlo(sample.text).instructions())
    assert sorted(op.name for op in wanted - found.keys()) == []


@every_op
def test_cpu_runs_the_operation(op: OpDef):
    assert refusal_of("cpu", op) == ""


def test_the_cost_of_every_elementwise_operation_is_chosen():
    """An opcode that is in no class costs as much as a transcendental function."""
    assert [op.name for op in REGISTRY.values() if op.elementwise and op not in CLASSIFIED] == []
