"""Programs on cpu agree with the interpreter: samples, programs that JAX printed, random modules.

Operations without a native form fall back to the host; the test lists them by name. Invalid programs are rejected when
they are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.programs.test_programs import NAMES, OPTIMIZED, arguments_of, plain, text_of
from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError, UnsupportedError, VerificationError, XlaError
from xlapy.cpu.compiler import passes
from xlapy.cpu.program.builder import build_program
from xlapy.cpu.program.thunks import CallbackThunk
from xlapy.debugging.fuzzing.implementations import without_denormals
from xlapy.interpreter import TOKEN
from xlapy.passes.pipeline import Pipeline
from xlapy.testing.comparison import assert_close
from xlapy.testing.instruction_by_instruction import Step, assert_step, flat_module, steps_of
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import Sample, all_samples

INTERPRETER = xla.Client("interpreter")
CPU = xla.Client("cpu")


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [np.asarray(value)] if hasattr(value, "array") else []


@pytest.mark.parametrize("sample", list(all_samples()), ids=lambda sample: sample.name)
def test_a_sample_agrees_with_the_interpreter(sample: Sample, monkeypatch: pytest.MonkeyPatch):
    module = xla.parse_hlo(sample.text)
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"collective_timeout": 0}))  # there is no host to feed it
    try:
        executable = CPU.compile(module)
    except (InvalidArgumentError, VerificationError) as error:
        assert "devices" in str(error) or "replicas" in str(error)  # the sample needs several devices
        return
    except UnsupportedError:
        with pytest.raises(UnsupportedError):
            INTERPRETER.compile(module)(*random_arguments(module.entry_computation.program_shape.parameters, 1))
        return
    arguments = random_arguments(executable.program_shape.parameters, 1)
    try:
        expected = INTERPRETER.compile(module)(*arguments)
    except XlaError:
        return  # the tests of the interpreter give the reason
    for ours, theirs in zip(leaves(executable(*arguments)), leaves(expected), strict=True):
        assert_close(ours, theirs, rule="program", flush_denormals=True, where=sample.name)


LEFT_TO_THE_HOST = {
    "all_reduce_uneven_groups",
    "collective_permute_of_slices",
    "collective_permute_start_of_slices",
    "collective_reduce_dynamic_root",
    "infeed_of_empty_tuple",
    "map_with_branches",
    "map_with_loop",
    "ragged_all_to_all",
    "ragged_all_to_all_of_all",
    "ragged_all_to_all_of_partitions",
    "ragged_all_to_all_of_several_slices",
    "recv_from_host",
    "send_and_recv_without_channel",
    "send_to_host",
}
"""Samples with operations that have no native form, except calls of Python."""


def test_only_listed_samples_fall_back_to_the_host():
    left: set[str] = set()
    for sample in all_samples():
        module = xla.parse_hlo(sample.text)
        try:
            Pipeline(passes()).run(module)
            program = build_program(module, (), module.config.replica_count, module.config.num_partitions)
        except UnsupportedError:
            continue
        thunks = (thunk for thunk in program.host_calling_thunks if type(thunk) is CallbackThunk)
        if any(
            thunk.calling_convention is None and thunk.instruction.op is not opcodes.CUSTOM_CALL for thunk in thunks
        ):
            left.add(sample.name)
    assert left == LEFT_TO_THE_HOST


@pytest.mark.parametrize("name", [*NAMES, *(f"{name}.optimized" for name in OPTIMIZED)])
def test_a_program_agrees_with_the_interpreter(name: str):
    module = xla.parse_hlo(text_of(name))
    plain_name = name.removesuffix(".optimized")
    arguments = arguments_of(plain_name, xla.parse_hlo(text_of(plain_name)))
    ours, theirs = (plain(client.compile(module)(*arguments)) for client in (CPU, INTERPRETER))
    assert_close(ours, theirs, rule="program", flush_denormals=True, where=name)


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_every_instruction_of_a_random_module(seed: int):
    module = random_module(seed)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    steps = steps_of(module, random_arguments(shapes, seed, special=True), without_denormals)
    steps = [step for step in steps if runs(step)]
    flat, arguments = flat_module(steps)
    for step, value in zip(steps, CPU.compile(flat)(*arguments), strict=True):
        assert_step(step, as_value(value), flush_denormals=True)


def runs(step: Step) -> bool:
    try:
        CPU.compile(flat_module([step])[0])
    except UnsupportedError:
        return False
    return True


def as_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(as_value, value))
    return np.asarray(value) if hasattr(value, "array") else TOKEN
