"""Values that are computed again so that a program fits a limit of memory."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.cpu.compiler import compile_module, passes
from xlapy.cpu.program.memory_report import program_bytes
from xlapy.cpu.transforms.rematerialization.recomputation import can_be_recomputed
from xlapy.cpu.transforms.rematerialization.rematerialize import Rematerialize, estimated_peak
from xlapy.hlo.verify import verify
from xlapy.passes.pipeline import Pipeline
from xlapy.testing.random_arguments import random_arguments

BATCH, WIDTH = 512, 64
ACTIVATIONS = BATCH * WIDTH * 4
"""The bytes of the activations of a layer."""


def dot(name: str, shape: str, left: str, right: str, contracting: tuple[int, int]) -> str:
    dimensions = f"lhs_contracting_dims={{{contracting[0]}}}, rhs_contracting_dims={{{contracting[1]}}}"
    return f"{name} = {shape} dot({left}, {right}), {dimensions}"


def layers(depth: int) -> tuple[str, str]:
    """The instructions of a step of gradient descent on layers x -> tanh(x w), and the tuple of the new weights."""
    wide, square = f"f32[{BATCH},{WIDTH}]", f"f32[{WIDTH},{WIDTH}]"
    lines: list[str] = []
    above = "x"
    for n in range(depth):
        lines += [dot(f"p{n}", wide, above, f"w{n}", (1, 0)), f"t{n} = {wide} tanh(p{n})"]
        above = f"t{n}"
    gradient = above
    for n in reversed(range(depth)):
        lines += [
            f"square{n} = {wide} multiply(t{n}, t{n})",
            f"slope{n} = {wide} subtract(ones, square{n})",
            f"scaled{n} = {wide} multiply({gradient}, slope{n})",
            dot(f"change{n}", square, f"t{n - 1}" if n else "x", f"scaled{n}", (0, 0)),
            f"new{n} = {square} subtract(w{n}, change{n})",
            dot(f"above{n}", wide, f"scaled{n}", f"w{n}", (1, 1)),
        ]
        gradient = f"above{n}"
    types = ", ".join([square] * depth)
    return "\n  ".join(lines), f"({types}) tuple({', '.join(f'new{n}' for n in range(depth))})"


def training(depth: int, header: str = "") -> str:
    square = f"f32[{WIDTH},{WIDTH}]"
    text, results = layers(depth)
    weights = "\n  ".join(f"w{n} = {square} parameter({n + 1})" for n in range(depth))
    return f"""HloModule training{header}
ENTRY main {{ x = f32[{BATCH},{WIDTH}] parameter(0)
  {weights}
  one = f32[] constant(1)
  ones = f32[{BATCH},{WIDTH}] broadcast(one), dimensions={{}}
  {text}
  ROOT r = {results} }}"""


def training_loop(depth: int) -> str:
    square, wide = f"f32[{WIDTH},{WIDTH}]", f"f32[{BATCH},{WIDTH}]"
    text, results = layers(depth)
    types = ", ".join([square] * depth)
    new = results[results.index(" tuple(") + 7 :]
    weights = "\n  ".join(f"w{n} = {square} get-tuple-element(s), index={n + 2}" for n in range(depth))
    arguments = "\n  ".join(f"w{n} = {square} parameter({n + 1})" for n in range(depth))
    names = ", ".join(f"w{n}" for n in range(depth))
    state = f"(s32[], {wide}, {types})"
    return f"""HloModule loop
below {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT r = pred[] compare(i, n), direction=LT }}
next {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = {wide} get-tuple-element(s), index=1
  {weights}
  one = f32[] constant(1)  step = s32[] constant(1)  j = s32[] add(i, step)
  ones = {wide} broadcast(one), dimensions={{}}
  {text}
  ROOT r = {state} tuple(j, x, {new} }}
ENTRY main {{ x = {wide} parameter(0)
  {arguments}
  zero = s32[] constant(0)
  t = {state} tuple(zero, x, {names})
  ROOT w = {state} while(t), condition=below, body=next }}"""


def small(arguments: list[Any]) -> list[Any]:
    return [np.asarray(a) * np.float32(0.01) for a in arguments]


def same_bits(ours: Any, theirs: Any) -> bool:
    pairs = zip(leaves(ours), leaves(theirs), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def needed(executable: xla.Executable) -> int:
    return executable.memory_analysis().peak_memory_in_bytes


@pytest.mark.parametrize("make", [training, training_loop])
@pytest.mark.parametrize("share", [0.8, 0.55])
def test_a_program_fits_a_limit_with_the_same_bits(make: Any, share: float, caplog: pytest.LogCaptureFixture):
    client, text = xla.Client("cpu"), make(12)
    free = client.compile(text)
    assert needed(free) >= 12 * ACTIVATIONS
    limit = int(share * needed(free))
    limited = client.compile(text, memory_limit=limit)
    assert needed(limited) <= limit
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    arguments = small(random_arguments(free.program_shape.parameters, 1))
    assert same_bits(free(*arguments), limited(*arguments))


def test_a_limit_that_is_met_changes_nothing():
    client, text = xla.Client("cpu"), training(4)
    free = client.compile(text)
    same = client.compile(text, memory_limit=needed(free))
    assert same.as_hlo_text(optimized=True) == free.as_hlo_text(optimized=True)


def test_a_chain_is_computed_once_for_all_that_need_it():
    module = xla.parse_hlo(training(12), verify=True)
    Pipeline(passes()).run(module)
    before = len(module.entry_computation)
    limit = estimated_peak(module) // 2
    assert Rematerialize(limit).run(module)
    verify(module)
    assert module.config.is_scheduled and estimated_peak(module) <= limit
    # at most each layer once more, and some of them twice
    assert len(module.entry_computation) - before <= 16


def test_a_limit_that_cannot_be_met_is_a_warning_with_the_largest_buffers(caplog: pytest.LogCaptureFixture):
    module = xla.parse_hlo(training(6), verify=True)
    free = compile_module(module)
    limited = compile_module(module, memory_limit=1000)
    assert program_bytes(limited.program) < program_bytes(free.program)
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    message = record.getMessage()
    assert f"training needs {program_bytes(limited.program):,} bytes of memory, more than the limit of 1,000" in message
    assert re.search(rf"the largest: \S+ f32\[{BATCH},{WIDTH}\] of {ACTIVATIONS:,} bytes", message)


def test_the_plans_are_those_of_the_program_that_was_chosen():
    module = xla.parse_hlo(training(6), verify=True)
    limited = compile_module(module, memory_limit=1000)
    names = {instruction.name for instruction in limited.module.instructions()}
    assert limited.record.plans and limited.record.plans.keys() <= names
    again = compile_module(limited.module, optimized=True)
    assert limited.plans() == again.plans()


def test_donated_arguments_count_once():
    client = xla.Client("cpu")
    text = training(8)
    free = client.compile(text, donate=range(1, 9))
    assert free.memory_analysis().alias_size_in_bytes == 8 * WIDTH * WIDTH * 4
    limited = client.compile(text, donate=range(1, 9), memory_limit=needed(free) * 2 // 3)
    assert limited.memory_analysis().alias_size_in_bytes == free.memory_analysis().alias_size_in_bytes
    assert needed(limited) <= needed(free) * 2 // 3


def test_unused_elements_with_control_edges_stay():
    client = xla.Client("cpu")
    fed = f"f32[{BATCH},{WIDTH}]"
    infeed = f"tk = token[] after-all()  pair = ({fed}, token[]) infeed(tk)"
    infeed += f"\n  unused = {fed} get-tuple-element(pair), index=0"
    infeed += f"\n  also_unused = {fed} exponential(x), control-predecessors={{unused}}\n  one ="
    text = training(6).replace("one =", infeed, 1)
    free = client.compile(text)
    limited = client.compile(text, memory_limit=1000)
    assert needed(limited) < needed(free)
    arguments = small(random_arguments(free.program_shape.parameters, 1))
    for _ in range(2):
        client.devices[0].transfer_to_infeed(np.zeros((BATCH, WIDTH), np.float32))
    assert same_bits(free(*arguments), limited(*arguments))


@pytest.mark.parametrize(
    "line",
    [
        "r = f32[4] rng(zero, one), distribution=rng_uniform",
        "r = (u64[2], u32[4]) rng-bit-generator(state), algorithm=rng_default",
        'r = f32[4] custom-call(x), custom_call_target="unknown"',
        "r = f32[4] all-reduce(x), replica_groups={}, to_apply=add",
        "r = f32[4] dynamic-update-slice(x, x, i)",
        "r = f32[4] exponential(x), control-predecessors={zero}",
    ],
)
def test_effects_and_updates_are_never_computed_again(line: str):
    text = f"""HloModule m
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY e {{ x = f32[4] parameter(0)  i = s32[] parameter(1)  state = u64[2] parameter(2)
  zero = f32[] constant(0)  one = f32[] constant(1)
  {line}
  y = f32[4] exponential(x)
  ROOT t = (f32[4]) tuple(y) }}"""
    computation = xla.parse_hlo(text).entry_computation
    assert not can_be_recomputed(computation.find("r"))
    assert can_be_recomputed(computation.find("y"))
