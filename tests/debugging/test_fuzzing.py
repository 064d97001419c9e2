"""Fuzzing finds, names and reduces differences; crashes and hangs of the worker are results."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.raising import raises
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, F32, PrimitiveType
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.shape import Shape
from xlapy.debugging.fuzzing.campaign import Settings, arguments_for, examine, reduce_fault, replay
from xlapy.debugging.fuzzing.differential import Verdict, compare, compare_steps
from xlapy.debugging.fuzzing.implementations import XLA_CPU, cpu_comparable, find_implementation, run_on_platform
from xlapy.debugging.fuzzing.survival import OutOfTime, outcomes, time_limit, try_texts
from xlapy.debugging.fuzzing.unordered_sorts import with_unordered_rows_arranged
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import RULES
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.testing.instruction_by_instruction import assert_step, flat_module, steps_of
from xlapy.testing.random_modules import random_module
from xlapy.testing.random_modules.elementwise import BINARY, UNARY
from xlapy.testing.random_modules.module import FAMILIES
from xlapy.testing.sum_errors import Step
from xlapy.text import parse_hlo
from xlapy.tools.fuzz.command import _examined


@pytest.fixture(autouse=True)
def memory_limit() -> Iterator[None]:
    """Keeps workers from limiting the memory of the process, because here it is the process of the tests."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class TestWorker:
    def test_results_and_exceptions_are_passed_on(self) -> None:
        with Worker("operator:truediv") as worker:
            assert worker.call(np.float32(3), 2) == 1.5
            with raises(WorkerError, codes.WORKER, "ZeroDivisionError: division by zero"):
                worker.call(1, 0)
            assert worker.call(1, 4) == 0.25

    def test_a_crash_is_reported_and_another_process_started(self) -> None:
        with Worker("os:abort") as worker:
            for _ in range(2):
                with raises(WorkerDied, codes.WORKER, "SIGABRT"):
                    worker.call()

    def test_an_exit_counts_as_a_crash(self) -> None:
        with Worker("os:_exit") as worker, raises(WorkerDied, codes.WORKER, "code 3"):
            worker.call(3)

    def test_the_time_is_limited(self) -> None:
        start = time.monotonic()
        with Worker("time:sleep", seconds=1) as worker, raises(WorkerDied, codes.WORKER, "1 seconds"):
            worker.call(60)
        assert time.monotonic() - start < 20

    def test_printed_text_does_not_disturb_the_protocol(self) -> None:
        with Worker("builtins:print") as worker:
            assert worker.call("noise") is None


class TestImplementations:
    def test_names(self) -> None:
        assert find_implementation("xla") is XLA_CPU
        assert find_implementation("interpreter").keywords == {"platform": "interpreter"}
        with raises(InvalidArgumentError, codes.CHOICE, "'tpu'"):
            find_implementation("tpu")

    def test_a_missing_jaxlib_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("xlapy.debugging.fuzzing.implementations.find_spec", lambda name: None)
        with raises(InvalidArgumentError, codes.OPTIONAL_PACKAGE, "'xlapy[xla]'"):
            find_implementation("xla")

    def test_a_platform_returns_plain_arrays(self) -> None:
        text = """HloModule m
            ENTRY e { p = f32[2] parameter(0)  k = token[] after-all()  ROOT t = (f32[2], (), token[]) tuple(p, n, k)
            }""".replace("k = token", "n = () tuple()\n k = token")
        array, empty, token = run_on_platform(text, [np.array([1, 2], np.float32)], "interpreter")
        assert isinstance(array, np.ndarray) and array.tolist() == [1, 2]
        assert empty == () and token is None


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES.find(opcodes.TANH)
    monkeypatch.setitem(RULES.table, opcodes.TANH, lambda *given: right(*given) * np.float32(1.25))


def seed_with(op: str, settings: Settings) -> int:
    return next(s for s in range(1000) if any(i.op.name == op for i in settings.module(s).entry_computation))


SMALL = Settings(size=12, families=("elementwise", "movement"), types=(F32,))


class TestCampaign:
    def test_modules_agree(self) -> None:
        report = examine(1, Settings())
        assert report.modules == 1 and report.faults == []
        assert report.count(Verdict.AGREES) > 10
        assert sum(report.known_divergences.values()) == report.count(Verdict.KNOWN_DIVERGENCE)

    def test_reports_add_up(self) -> None:
        total = examine(1, SMALL)
        one = total.count(Verdict.AGREES)
        total.add(examine(2, SMALL))
        assert total.modules == 2 and total.count(Verdict.AGREES) > one > 0

    @pytest.mark.usefixtures("wrong_tanh")
    def test_a_wrong_rule_is_found_and_reduced_to_one_instruction(self) -> None:
        seed = seed_with("tanh", SMALL)
        (fault, *_) = examine(seed, SMALL).faults
        assert (fault.seed, fault.verdict, fault.op) == (seed, Verdict.DIFFERS, "tanh")
        assert "break the rule 'elementwise'" in fault.message
        finding = reduce_fault(fault, SMALL)
        module = parse_hlo(finding.reduced)
        assert [i.op.name for i in module.entry_computation] == ["parameter", "tanh"]
        assert module.entry_computation.root_instruction.shape.size == 1
        assert np.allclose(finding.ours, np.float32(1.25) * np.tanh(finding.arguments[0]))
        assert np.allclose(finding.theirs, np.tanh(finding.arguments[0]))
        assert finding.original == SMALL.module(seed).to_text(print_large_constants=True)

    def test_a_rule_that_raises_is_found_and_reduced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise FloatingPointError("broken")

        seed = seed_with("tanh", SMALL)
        monkeypatch.setitem(RULES.table, opcodes.TANH, fail)
        (fault,) = examine(seed, SMALL).faults
        assert fault.verdict is Verdict.FAILED and "FloatingPointError: broken" in fault.message
        module = parse_hlo(reduce_fault(fault, SMALL).reduced)
        assert [i.op.name for i in module.entry_computation][-1] == "tanh" and module.instruction_count == 2

    def test_a_value_of_another_shape_than_declared_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seed = seed_with("tanh", SMALL)
        monkeypatch.setitem(RULES.table, opcodes.TANH, lambda context, instruction, values: np.float32(0))
        faults = [fault for fault in examine(seed, SMALL).faults if fault.op == "tanh"]
        assert faults or SMALL.module(seed).entry_computation.find("tanh").shape.is_scalar
        assert all("the interpreter gives float32[] for" in fault.message for fault in faults)

    def test_arguments_of_reduced_modules_are_cropped_original_arguments(self) -> None:
        module = parse_hlo("HloModule m\nENTRY e { x = f32[2,1] parameter(0)  ROOT r = f32[2,1] negate(x) }")
        given = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
        assert arguments_for(module, given)[0].tolist() == [[0], [2]]
        assert arguments_for(module, given, last=True)[0].tolist() == [[3], [5]]
        assert arguments_for(module, {})[0].shape == (2, 1)


@pytest.fixture(scope="module")
def xla() -> Iterator[Worker]:
    with Worker(XLA_CPU.function) as worker:
        yield worker


class TestComparison:
    def test_only_the_refused_instruction_is_named(self, xla: Worker) -> None:
        text = """HloModule m
            ENTRY e {
              p = f32[2] parameter(0)
              a = f32[2] negate(p)
              c = f32[2] custom-call(a), custom_call_target="nobody"
              ROOT b = f32[2] add(a, p)
            }"""
        module = parse_hlo(text)
        steps = steps_of(parse_hlo(text.replace('custom-call(a), custom_call_target="nobody"', "negate(a)")), [
            np.ones(2, np.float32)
        ])  # fmt: skip
        call = module.entry_computation.find("c")
        replaced = [s if s.instruction.name != "c" else type(s)(call, s.operands, s.value) for s in steps]
        verdicts = {o.step.instruction.name: o.verdict for o in compare_steps(replaced, XLA_CPU, xla)}
        assert verdicts == {"a": Verdict.AGREES, "c": Verdict.REFUSED, "b": Verdict.AGREES}

    def test_asynchronous_chains_are_compared_at_their_done(self) -> None:
        text = """HloModule m
            f { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }
            ENTRY e {
              p = f32[2] parameter(0)
              s = ((f32[2]), f32[2], u32[]) async-start(p), calls=f
              u = ((f32[2]), f32[2], u32[]) async-update(s)
              ROOT d = f32[2] async-done(u)
            }"""
        (step,) = steps_of(parse_hlo(text), [np.array([1, 2], np.float32)])
        assert step.instruction.name == "d" and step.value.tolist() == [-1, -2]
        flat, arguments = flat_module([step])
        assert [i.op.name for i in flat.entry_computation] == [
            "parameter", "async-start", "async-update", "async-done", "tuple",
        ]  # fmt: skip
        with Worker("xlapy.debugging.fuzzing.implementations:run_on_platform") as worker:
            assert [o.verdict for o in compare(flat, arguments, find_implementation("interpreter"), worker)] == [
                Verdict.AGREES, Verdict.AGREES,
            ]  # fmt: skip


class TestSurvival:
    def test_texts_are_rejected_or_run(self) -> None:
        good = "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }"
        large = "HloModule m\nENTRY e { ROOT p = f32[99999999] parameter(0) }"
        assert outcomes([good, "HloModule", large]) == [("ran", ""), ("refused", ""), ("not run", "")]

    def test_unexpected_exceptions_are_recorded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("xlapy.debugging.fuzzing.survival.parse_hlo", lambda text: {}[text])
        ((end, trouble),) = outcomes(["x"])
        assert end == "" and "KeyError: 'x'" in trouble

    def test_the_text_that_crashes_the_process_is_found(self) -> None:
        with Worker("tests.debugging.killer:outcomes") as worker:
            survival = try_texts(["a", "kill", "b"], worker)
        assert survival.counts == {"ran": 2} and survival.tried == 3
        assert [text for text, _ in survival.faults] == ["kill"]

    def test_the_time_limit(self) -> None:
        with pytest.raises(OutOfTime), time_limit(0.05):
            while True:
                pass


ELSEWHERE = {"parameter", "constant", "iota", "dynamic-reshape", "set-dimension-size"}
"""Sources, which every module has, and operations on dynamic dimensions."""
ANY = (
    "add-dependency async-done bitcast broadcast call compare concatenate conditional constant convert convolution "
    "copy copy-done custom-call domain dot dynamic-slice dynamic-update-slice fusion gather get-dimension-size "
    "get-tuple-element map opt-barrier pad parameter reduce reduce-window reshape reverse scan scatter select shuffle "
    "slice sort transpose tuple while"
)
KINDS = {"pred", "signed", "unsigned", "floating", "complex", "narrow"}


def test_every_op_is_drawn() -> None:
    """All ops except collectives and transfers, which need several devices or a host."""
    drawn = {op for _, op_generators in FAMILIES.values() for op, _ in op_generators}
    single = {op for op in REGISTRY.values() if op.family not in ("collectives", "transfer")}
    assert {op.name for op in single - drawn} == ELSEWHERE
    assert {op.name for op in drawn - single} == {"copy-start", "copy-done"}


def test_every_op_is_drawn_with_every_accepted_kind_of_element_type() -> None:
    """Some kinds are drawn once in hundreds of modules, so that the number of modules depends on all op generators."""
    seen: dict[str, set[str]] = {}
    missing = dict.fromkeys(ANY.split(), KINDS)
    for first in range(0, 2000, 100):
        for seed in range(first, first + 100):
            _add_seen(seen, random_module(seed).instructions())
        missing = {name: KINDS - seen.get(name, set()) for name in ANY.split()}
        if not any(missing.values()):
            break
    assert {op.name for _, op_generators in FAMILIES.values() for op, _ in op_generators} <= set(seen)
    assert missing == {name: set() for name in ANY.split()}


def test_every_elementwise_op_is_drawn_with_every_kind_of_element_type() -> None:
    modules = (random_module(seed, instructions=80, families=("elementwise",)) for seed in range(120))
    seen: dict[str, set[str]] = {}
    for module in modules:
        _add_seen(seen, module.instructions())
    for op in (*UNARY, *BINARY):
        taken = {_kind(t) for t in ARRAY_TYPES if _takes(op, t)}
        assert seen[op.name] >= taken, op.name


def _takes(op: OpDef, t: PrimitiveType) -> bool:
    try:
        op.result_shape([Shape.scalar(t)] * op.arity.minimum)
    except ShapeError:
        return False
    return True


def _add_seen(seen: dict[str, set[str]], instructions: Iterable[Instruction]) -> None:
    """Adds the kinds of element types that occur with each opcode."""
    for instruction in instructions:
        for shape in (instruction.shape, *instruction.operand_shapes):
            kinds = (_kind(leaf.element_type) for _, leaf in shape.leaves() if leaf.is_array)
            seen.setdefault(instruction.op.name, set()).update(kinds)


def _kind(t: Any) -> str:
    kinds = {"signed": t.is_signed, "unsigned": t.is_unsigned, "floating": t.is_floating, "complex": t.is_complex}
    return "narrow" if t.bits < 8 else next((kind for kind, holds in kinds.items() if holds), "pred")


def test_a_crash_is_recorded_as_a_fault_of_the_seed() -> None:
    with Worker("os:abort") as worker:
        report = _examined(7, worker, SMALL)
    assert [(f.seed, f.verdict) for f in report.faults] == [(7, Verdict.FAILED)]


@pytest.mark.parametrize(
    ("line", "values", "is_known"),
    [
        ("negate(x)", [np.array([1e-38 + 1j], np.complex64)], False),
        (
            "dot(x, x), lhs_contracting_dims={}, rhs_contracting_dims={}",
            [np.array(complex(1, np.inf), np.complex64)],
            True,
        ),
    ],
)
def test_known_divergences_of_cpu(line, values, is_known):
    size = ",".join(map(str, values[0].shape))
    text = f"HloModule m\nENTRY e {{\n  x = c64[{size}] parameter(0)\n  ROOT r = c64[{size}] {line}\n}}\n"
    root = parse_hlo(text).entry_computation.root_instruction
    reason = find_implementation("cpu").known_divergence(Step(root, tuple(values * len(root.operands)), values[0]))
    assert (reason is not None) == is_known


@pytest.mark.parametrize(
    ("name", "line", "values", "left_out"),
    [
        ("xla", "s32[3] power(x, x)", [np.array([-1, 63, 64], np.int32)], [True, False, True]),
        ("xla", "s4[2] popcnt(x)", [np.array([-1, 7]).astype(ml_dtypes.int4)], [True, False]),
        ("xla", "c64[3] multiply(x, x)", [np.array([1, 1e19j, np.nan], np.complex64)], [False, True, True]),
        ("xla", "f32[2] reduce-precision(x), exponent_bits=5, mantissa_bits=0", [np.array([np.nan, 1], "f")], [1, 0]),
        ("xla", "c64[2] log-plus-one(x)", [np.array([-1 - 1.2e-38j, -1 - 1e-30j], np.complex64)], [True, False]),
        ("xla", "f32[2] power(x, x)", [np.array([-1, 64], np.float32)], [False, False]),
        ("cpu", "c64[3] rsqrt(x)", [np.array([1e-38 + 1j, 0, 1], np.complex64)], [True, False, False]),
        ("cpu", "c64[2] power(x, x)", [np.array([30j, 1 + 1j], np.complex64)], [True, False]),
        ("cpu", "c64[2] negate(x)", [np.array([1e-38 + 1j, 1], np.complex64)], [False, False]),
    ],
)
def test_only_the_elements_that_diverge_are_left_out(name, line, values, left_out):
    """A result that differs everywhere differs in all other elements."""
    shape = line.split("(")[0].split()[0]
    text = f"HloModule m\nENTRY e {{\n  x = {shape} parameter(0)\n  ROOT r = {line}\n}}\n"
    (step,) = steps_of(parse_hlo(text), values)
    other = np.full(step.value.shape, 5, step.value.dtype)
    implementation = find_implementation(name)
    assert implementation.known_divergence(step) is None
    compared, theirs = implementation.compared(step, other)
    assert [bool(a == b == 1) for a, b in zip(compared.value, theirs, strict=True)] == [bool(b) for b in left_out]


def test_inaccurate_functions_of_xla_are_compared() -> None:
    text = "HloModule m\nENTRY e {\n  x = f64[3] parameter(0)\n  ROOT r = f64[3] tanh(x)\n}\n"
    (step,) = steps_of(parse_hlo(text), [np.array([0.1, 1, 3.0])])
    xla_cpu = find_implementation("xla")
    assert xla_cpu.known_divergence(step) is None and xla_cpu.rule(step) == "inaccurate"
    assert_step(step, step.value + 100 * 2.0**-52, rule="inaccurate")
    with pytest.raises(AssertionError, match="3 of 3"):
        assert_step(step, step.value + 1000 * 2.0**-52, rule="inaccurate")


def test_random_numbers_after_a_known_divergence_use_the_same_state():
    text = """
HloModule m

ENTRY e {
  a = f32[] constant(0)
  b = f32[] constant(1)
  first = f32[4] rng(a, b), distribution=rng_normal
  second = f32[4] rng(a, b), distribution=rng_uniform
  ROOT r = (f32[4], f32[4]) tuple(first, second)
}
"""
    found = {line.split(": ")[1]: verdict for verdict, line in replay(text, [], "cpu")}
    assert (found["first"], found["second"]) == (Verdict.KNOWN_DIVERGENCE, Verdict.AGREES)


SORT = """
HloModule sorts

less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = u32[] parameter(2)
  n = u32[] parameter(3)
  before = pred[] compare(a, b), direction=LT{type}
  same = pred[] compare(a, b), direction=EQ{type}
  greater = pred[] compare(m, n), direction=GT
  tied = pred[] and(same, greater)
  ROOT r = pred[] or(before, tied)
}}

ENTRY e {{
  x = f32[5,2] parameter(0)
  k = u32[5,2] parameter(1)
  ROOT s = (f32[5,2], u32[5,2]) sort(x, k), dimensions={{0}}, is_stable=true, to_apply=less
}}
"""


class TestUnorderedSorts:
    """The first column has a NaN, the second has none."""

    VALUES = np.array([[2, 3], [np.nan, 1], [1, 2], [np.nan, 5], [0, 4]], np.float32)
    NUMBERS = np.arange(10, dtype=np.uint32).reshape(5, 2)

    def step(self, type_: str = "") -> Step:
        module = parse_hlo(SORT.format(type=type_))
        return next(iter(steps_of(module, [self.VALUES, self.NUMBERS])))

    def differs(self, result: Any, type_: str = "") -> bool:
        ours, theirs = with_unordered_rows_arranged(self.step(type_), result)
        try:
            assert_step(ours, theirs)
        except AssertionError:
            return True
        return False

    def reordered(self, column: int) -> list[Any]:
        order = [3, 0, 1, 2, 4]
        results = [np.array(part) for part in self.step().value]
        for part in results:
            part[:, column] = part[order, column]
        return results

    def test_any_order_of_rows_with_nan_is_right_where_nan_is_not_ordered(self) -> None:
        assert not self.differs(tuple(self.reordered(0)))
        assert self.differs(tuple(self.reordered(0)), ", type=TOTALORDER")
        assert self.differs(tuple(self.reordered(1)))

    def test_rows_are_permutations_of_all_operands_together(self) -> None:
        values, numbers = self.reordered(0)
        numbers[[0, 1], 0] = numbers[[1, 0], 0]
        assert self.differs((values, numbers))
        values, numbers = self.reordered(0)
        values[0, 0] = 1
        assert self.differs((values, numbers))

    def test_machine_code_and_interpreter_agree(self) -> None:
        module = parse_hlo(SORT.format(type="").replace("[5,2]", "[7,300]"))
        values = np.random.default_rng(3).choice(np.array([np.nan, 1, 2, 3, -np.nan], np.float32), (7, 300))
        (step,) = steps_of(module, [values, np.arange(2100, dtype=np.uint32).reshape(7, 300)])
        result = run_on_platform(module.to_text(), step.operands, "cpu")
        assert_step(*cpu_comparable(step, result), rule="bits")
