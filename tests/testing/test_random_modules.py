"""Random modules are valid and reproducible, and XLA:CPU and the interpreter agree on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests import xla_reference
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, F32, PRED, S32
from xlapy.debugging.fuzzing.differential import arguments_of, compare
from xlapy.debugging.fuzzing.implementations import XLA_CPU, readable
from xlapy.debugging.fuzzing.known_divergences import NEWER_THAN_JAXLIB
from xlapy.debugging.fuzzing.worker import Worker
from xlapy.hlo.verify import verify
from xlapy.interpreter import TOKEN
from xlapy.runtime.backends.interpreter import InterpreterBackend
from xlapy.testing.comparison import RULE_OF_OPERATION
from xlapy.testing.instruction_by_instruction import assert_step, flat_module, steps_of
from xlapy.testing.random_modules import random_module
from xlapy.testing.random_modules.module import FAMILIES
from xlapy.testing.samples.sample import JAXLIB_TYPES
from xlapy.testing.sum_errors import Step
from xlapy.text import parse_hlo

SEEDS = range(60)
SUMS = {name for name, rule in RULE_OF_OPERATION.items() if rule == "accumulation"}
WHOLE = {"print_large_constants": True}
JAXLIB_READS = [t for t in JAXLIB_TYPES if t is not F8E8M0FNU]
"""Element types whose values jaxlib reads correctly: it reads the smallest number of f8e8m0fnu as the next one."""


def steps(seed: int) -> list[Step]:
    module = random_module(seed)
    return steps_of(module, arguments_of(module, seed))


class TestGenerator:
    def test_equal_seeds_give_equal_modules(self) -> None:
        texts = [random_module(seed).to_text(**WHOLE) for seed in range(20)]
        assert texts == [random_module(seed).to_text(**WHOLE) for seed in range(20)]
        assert len({text.partition("\n")[2] for text in texts}) == 20

    @pytest.mark.parametrize("instructions", [5, 40])
    def test_the_number_of_instructions(self, instructions: int) -> None:
        for seed in range(10):
            entry = random_module(seed, instructions=instructions).entry_computation
            assert instructions <= len(entry) <= 10 * instructions

    def test_element_types_families_and_ops_can_be_restricted(self) -> None:
        used: Counter[Any] = Counter()
        types = set()
        for seed in range(20):
            module = random_module(
                seed, element_types=[F32], families=("elementwise",), without=(opcodes.TANH, opcodes.SELECT)
            )
            used.update(i.op for i in module.instructions())
            types |= {i.shape.element_type for i in module.instructions() if i.shape.is_array}
        assert used[opcodes.ADD] and used[opcodes.COMPARE] and not used[opcodes.TANH] and not used[opcodes.SELECT]
        assert not {op.family for op in used} - {"elementwise", "sources", "movement", "tuples"}
        assert types <= {F32, PRED, S32} and F32 in types

    def test_every_op_type_and_rank_occurs(self) -> None:
        instructions = [i for seed in range(150) for i in random_module(seed).instructions()]
        drawn = {op for _, op_generators in FAMILIES.values() for op, _ in op_generators}
        arrays = [i.shape for i in instructions if i.shape.is_array]
        assert drawn <= {i.op for i in instructions}
        assert {shape.element_type for shape in arrays} == set(ARRAY_TYPES)
        assert {shape.rank for shape in arrays} >= set(range(7))
        assert any(0 in shape.dimensions for shape in arrays) and all(shape.size <= 256 for shape in arrays)

    def test_modules_verify_and_round_trip_through_text(self) -> None:
        """Names inside asynchronous calls are excepted, because the short form does not print them."""
        for seed in SEEDS:
            module = random_module(seed, without=(opcodes.ASYNC_START, opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE))
            verify(module)
            text = module.to_text(**WHOLE)
            again = parse_hlo(text)
            verify(again)
            assert again.to_text(**WHOLE) == text

    def test_modules_run_on_the_interpreter(self) -> None:
        for seed in SEEDS:
            module = random_module(seed)
            result = InterpreterBackend().compile(module).execute(arguments_of(module, seed))
            leaves = [s for _, s in module.entry_computation.root_instruction.shape.leaves() if s.is_array]
            values = [value for value in flat_values(result) if value is not TOKEN]
            assert [(v.dtype, v.shape) for v in values] == [(s.dtype, s.dimensions) for s in leaves]


def flat_values(value: Any) -> Any:
    for element in value:
        if isinstance(element, tuple):
            yield from flat_values(element)
        else:
            yield element


class TestInstructionByInstruction:
    def test_the_flat_module_computes_every_step(self) -> None:
        for seed in range(20):
            expected = steps(seed)
            module, arguments = flat_module(expected)
            verify(module)
            results = InterpreterBackend().compile(module).execute(arguments)
            assert len(results) == len(expected) > 10
            for step, result in zip(expected, results, strict=True):
                assert_step(step, result, rule="bits")

    def test_a_wrong_element_is_found(self) -> None:
        found = 0
        for step in (step for seed in range(4) for step in steps(seed)):
            name = step.instruction.op.name
            if step.instruction.shape.to_text(layout=False)[:4] != "f32[" or not step.value.size or name in SUMS:
                continue
            wrong = np.array(step.value, order="C")
            wrong.reshape(-1)[-1] = 12345.5
            with pytest.raises(AssertionError, match=f"{step.instruction.name}: f32.* {name}"):
                assert_step(step, wrong)
            found += 1
        assert found > 5

    def test_later_instructions_use_adjusted_values(self) -> None:
        module = parse_hlo("""HloModule m
            ENTRY e {
              p = f32[2] parameter(0)
              a = f32[2] add(p, p)
              t = (f32[2]) tuple(a)
              ROOT g = f32[2] get-tuple-element(t), index=0
            }""")
        found = steps_of(module, [np.array([1, 2], np.float32)], lambda array: array + np.float32(1))
        assert [np.asarray(v).tolist() for step in found for v in step.operands] == [
            [2, 3], [2, 3], [5, 7], [[6, 8]],
        ]  # fmt: skip
        assert found[0].value.tolist() == [4, 6] and found[-1].value.tolist() == [6, 8]

    def test_tokens_are_not_compared(self) -> None:
        text = """HloModule m
            ENTRY e {
              p = f32[] parameter(0)
              t = token[] after-all()
              ROOT a = f32[] add-dependency(p, t)
            }"""
        expected = steps_of(parse_hlo(text), [np.array(3, np.float32)])
        module, arguments = flat_module(expected)
        verify(module)
        results = InterpreterBackend().compile(module).execute(arguments)
        assert results[0] is TOKEN and results[1] == 3

    def test_the_bound_of_a_sum_depends_on_its_absolute_terms(self) -> None:
        text = """HloModule m
            f {
              a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT r = f32[] add(a, b)
            }
            ENTRY e {
              p = f32[3] parameter(0)
              z = f32[] parameter(1)
              ROOT s = f32[] reduce(p, z), dimensions={0}, to_apply=f
            }"""
        operand = np.array([1e6, 0.5, -1e6], np.float32)
        (step,) = steps_of(parse_hlo(text), [operand, np.array(0, np.float32)])
        assert_step(step, np.array(0.4, np.float32))
        with pytest.raises(AssertionError, match="break the rule 'accumulation'"):
            assert_step(step, np.array(2.5, np.float32))
        huge = np.array([3e38, 3e38, -3e38], np.float32)
        (step,) = steps_of(parse_hlo(text), [huge, np.array(0, np.float32)])
        assert_step(step, np.array(3e38, np.float32))  # whether there is an overflow depends on the order


@pytest.fixture(scope="module")
def xla() -> Iterator[Worker]:
    with Worker(XLA_CPU.function) as worker:
        yield worker


class TestAgainstXla:
    def test_jaxlib_prints_the_same_text(self) -> None:
        """Asynchronous calls are excepted, because jaxlib also shortens those that drop or reorder operands."""
        left_out = (*NEWER_THAN_JAXLIB, opcodes.ASYNC_START, opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE)
        for seed in SEEDS:
            module = random_module(seed, element_types=JAXLIB_READS, without=left_out)
            text = module.to_text(**WHOLE)
            assert xla_reference.parse_and_print(readable(text), **WHOLE) == text

    @pytest.mark.parametrize("first", SEEDS[::15])
    def test_xla_cpu_computes_the_same(self, xla: Worker, first: int) -> None:
        for seed in range(first, first + 15):
            module = random_module(seed, instructions=15, without=NEWER_THAN_JAXLIB)
            outcomes = compare(module, arguments_of(module, seed), XLA_CPU, xla)
            assert [str(o) for o in outcomes if o.is_bad] == [], f"seed {seed}"


@pytest.mark.parametrize(
    ("opcode", "operands", "expected", "actual"),
    [
        ("multiply", (2e30 + 2e30j, 2e30 + 2e30j), complex(0, np.inf), complex(np.nan, np.inf)),
        ("multiply", (complex(np.inf, 1e30), 1 + 1e30j), complex(np.inf, np.inf), complex(np.nan, np.inf)),
        ("divide", (2e30 + 2e30j, 2e-30 + 2e-30j), complex(np.inf, 0), complex(np.inf, np.nan)),
        ("divide", (complex(-np.inf, 0), -3e38 - 0.1j), complex(np.inf, -np.inf), complex(np.inf, np.nan)),
    ],
)
def test_terms_of_a_complex_part_may_overflow_where_their_difference_does_not(
    opcode: str, operands: tuple[complex, complex], expected: complex, actual: complex
):
    module = parse_hlo(
        f"ENTRY e {{ a = c64[2] parameter(0)\n b = c64[2] parameter(1)\n ROOT m = c64[2] {opcode}(a, b) }}"
    )
    left, right = (np.array([operand, 1 + 1j], np.complex64) for operand in operands)
    step = Step(module.entry_computation.root, (left, right), np.array([expected, 3j], np.complex64))
    assert_step(step, np.array([actual, 3j], np.complex64))
    with pytest.raises(AssertionError, match="elementwise"):
        assert_step(step, np.array([actual, 1 + 3j], np.complex64))
