"""Tuning files as text, fingerprints of kernels, and other plans of a kernel."""

from __future__ import annotations

import json

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.extraction import kernel_fingerprint, kernel_module
from xlapy.codegen.plan import DemandedPlan, KernelPlan, record_plan
from xlapy.codegen.plan_variants import neighboring_plans, strategy_plans, tile_plans
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import choose_plan
from xlapy.codegen.tuning import TunedKernel, merged_kernels, parse_tuning, plans_for, tuning_text
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo

A, B = "a" * 32, "b" * 32
DIRECT = DemandedPlan("direct-gemm", (("tile_rows", 4), ("tile_vectors", 2)))
LOOPS = DemandedPlan("loops", (("flat", True),))
KERNELS = [
    TunedKernel("AVX2", B, LOOPS, "copy"),
    TunedKernel("AVX512", A, DIRECT, "dot"),
    TunedKernel("AVX2", A, LOOPS),
]

TEXT = f"""{{
"format": "xlapy tuning 1",
"kernels": [
{{"kernel": "{A}", "instructions": "AVX2", "plan": {{"strategy": "loops", "flat": true}}, "what": ""}},
{{"kernel": "{B}", "instructions": "AVX2", "plan": {{"strategy": "loops", "flat": true}}, "what": "copy"}},
{{"kernel": "{A}", "instructions": "AVX512", "plan": {{"strategy": "direct-gemm", "tile_rows": 4, "tile_vectors": 2}}, \
"what": "dot"}}
]
}}
"""


def test_the_text_is_sorted_and_reads_back():
    assert tuning_text(KERNELS) == tuning_text(reversed(KERNELS)) == TEXT
    assert parse_tuning(TEXT, "f") == sorted(KERNELS)
    assert parse_tuning(tuning_text([]), "f") == []


def test_merging_keeps_the_new_plan_of_a_kernel():
    new = TunedKernel("AVX2", A, DIRECT)
    merged = merged_kernels(KERNELS, [new])
    assert merged == sorted([KERNELS[0], KERNELS[1], new])


def test_plans_of_another_instruction_set_do_not_count():
    assert plans_for(KERNELS, "AVX2", "f").digest == plans_for([KERNELS[0], KERNELS[2]], "AVX2", "g").digest != ""
    assert plans_for(KERNELS, "AVX512", "f").digest != plans_for(KERNELS, "AVX2", "f").digest
    assert plans_for(KERNELS, "SSE4_2", "f").digest == ""


ENTRY = json.loads(KERNELS[0].line)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["no tuning file"]),
        ("{", ["no tuning file", "line 1"]),
        ("[" * 100_000, ["no tuning file"]),
        ("[]", ["no tuning file", "kernels"]),
        ('{"format": "xlapy tuning 1"}', ["no tuning file", "kernels"]),
        ('{"format": "xlapy tuning 9", "kernels": []}', ['"xlapy tuning 9"', '"xlapy tuning 1"']),
        ('{"kernels": []}', ["null", '"xlapy tuning 1"']),
        ([ENTRY, 7], ["kernel 2", "object", "7"]),
        ([{**ENTRY, "kernel": "a"}], ["kernel 1", '"a"', "fingerprint"]),
        ([{**ENTRY, "kernel": 3}], ["kernel 1", '"kernel"', "string"]),
        ([{"kernel": A, "plan": {"strategy": "loops"}}], ["kernel 1", '"instructions"']),
        ([{"kernel": A, "instructions": "AVX2"}], ["kernel 1", "plan", "strategy"]),
        ([{**ENTRY, "plan": {"strategy": 1}}], ["kernel 1", "strategy"]),
        ([{**ENTRY, "plan": {"strategy": "loops", "lanes": "8"}}], ["kernel 1", "lanes", '"8"']),
    ],
    ids=str,
)
def test_malformed_files_are_errors_that_name_the_kernel(text, parts):
    if not isinstance(text, str):
        text = json.dumps({"format": "xlapy tuning 1", "kernels": text})
    with raises(InvalidArgumentError, codes.TUNING_FILE, "some.tuning", *parts):
        parse_tuning(text, "some.tuning")


DOT = """HloModule m
ENTRY e {
  a = f32[8,70] parameter(0)
  b = f32[70,30] parameter(1)
  ROOT d = f32[8,30] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
REDUCE = """HloModule m
add { x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT s = s32[] add(x, y) }
ENTRY e { a = s32[70,90] parameter(0)
  zero = s32[] constant(0)
  ROOT r = s32[90] reduce(a, zero), dimensions={0}, to_apply=add }"""


def root(text: str) -> Instruction:
    return parse_hlo(text).entry_computation.root_instruction


def test_fingerprints_ignore_names_metadata_and_plans():
    other = DOT.replace("d =", "product =").replace("m\n", "other\n").replace(" a", " left").replace("(a", "(left")
    other = other.replace(
        "{0}\n}", '{0}, metadata={op_name="x"}, backend_config={"kernel_plan":{"strategy":"loops"}}\n}'
    )
    assert kernel_fingerprint(root(other)) == kernel_fingerprint(root(DOT))
    renamed = REDUCE.replace("add {", "plus {").replace("to_apply=add", "to_apply=plus").replace("x", "first")
    assert kernel_fingerprint(root(renamed)) == kernel_fingerprint(root(REDUCE))


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (DOT, "70", "71"),
        (DOT, "f32", "f64"),
        (DOT, "rhs_contracting_dims={0}", "rhs_contracting_dims={0}, operand_precision={highest,highest}"),
        (DOT.replace("70", "8").replace("30", "8"), "dot(a, b)", "dot(a, a)"),
        (DOT.replace("70", "8").replace("30", "8"), "rhs_contracting_dims={0}", "rhs_contracting_dims={1}"),
        (REDUCE, "add(x, y)", "multiply(x, y)"),
    ],
)
def test_fingerprints_tell_kernels_apart(text, old, new):
    assert kernel_fingerprint(root(text)) != kernel_fingerprint(root(text.replace(old, new)))


CONVOLUTION = """HloModule m
ENTRY e {
  x = s32[2,9,11,5] parameter(0)
  w = s32[3,3,5,18] parameter(1)
  ROOT c = s32[2,9,11,18] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}"""
TRANSPOSE = """HloModule m
ENTRY e {
  x = s32[70,90] parameter(0)
  ROOT t = s32[90,70] transpose(x), dimensions={1,0}
}"""
EVERY = 4
"""One of this many plans is run."""


@pytest.mark.parametrize(
    "text",
    [DOT.replace("f32", "s32"), REDUCE, CONVOLUTION, TRANSPOSE],
    ids=["dot", "reduce", "convolution", "transpose"],
)
def test_every_proposed_plan_computes_the_same(text):
    """Integers are the same in whatever order they are added."""
    instruction = root(text)
    region = region_of(instruction, host_target())
    choice = choose_plan(region)
    plans: list[KernelPlan] = []
    for start in [choice.plan, *strategy_plans(instruction, region, choice)]:
        tiles = list(tile_plans(instruction, region, start))
        neighbors = list(neighboring_plans(instruction, region, start))
        assert start not in tiles + neighbors
        assert all(plan.strategy == start.strategy for plan in tiles + neighbors)
        plans += [start, *tiles[::EVERY], *neighbors[::EVERY]]
    assert len({plan.strategy for plan in plans}) > 1
    kernel = kernel_module(instruction)
    arguments = random_arguments([p.shape for p in kernel.entry_computation.parameters], 0)
    expected = xla.Client("interpreter").compile(kernel)(*arguments)
    for plan in plans:
        module = kernel_module(instruction)
        record_plan(module.entry_computation.root_instruction, plan)
        np.testing.assert_array_equal(xla.Client("cpu").compile(module)(*arguments), expected, str(plan))
