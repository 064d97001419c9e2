"""Programs on cpu agree with the interpreter: samples, programs that JAX printed, random modules.

Operations without a native form fall back to the host; the test lists them by name. Invalid programs are rejected when
they are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from tests.programs.test_programs import NAMES, OPTIMIZED, arguments_of, text_of
from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError, UnsupportedError, VerificationError, XlaError
from xlapy.cpu.compiler import passes
from xlapy.cpu.program.builder import build_program
from xlapy.cpu.program.thunks import CallbackThunk
from xlapy.debugging.fuzzing.implementations import plain, without_denormals
from xlapy.interpreter import TOKEN
from xlapy.passes.pipeline import Pipeline
from xlapy.testing.instruction_by_instruction import assert_step, flat_module, steps_of
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments, suitable_arguments
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import REFUSED_AT_RUN, Sample, all_samples

INTERPRETER = xla.Client("interpreter")
CPU = xla.Client("cpu")


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
    if any(instruction.op in FROM_THE_HOST for instruction in module.instructions()):
        return  # see test_feeds
    arguments = suitable_arguments(module, 1)
    try:
        tolerance = program_tolerance(module, arguments, flush_denormals=True)
    except XlaError:
        assert sample.note == REFUSED_AT_RUN
        return
    tolerance.assert_close(plain(executable(*arguments)), sample.name)
    shown = any(map(has_numbers, leaves(tolerance.expected)))
    assert shown == (sample.name not in WITHOUT_NUMBERS), "compares no numbers"


def has_numbers(array: np.ndarray) -> bool:
    """Whether an array has an element that is neither 0 nor NaN nor infinite."""
    wide = array.astype(np.complex128)
    return bool(np.any(np.isfinite(wide) & (np.abs(wide) > 1e-30)))


FROM_THE_HOST = {opcodes.INFEED, opcodes.RECV}
WITHOUT_NUMBERS = {
    "after_all_of_none",
    "batch_norm_grad_empty_batch",
    "batch_norm_grad_no_features",
    "batch_norm_inference_empty_batch",
    "batch_norm_inference_no_features",
    "batch_norm_training_empty_batch",
    "batch_norm_training_no_features",
    "broadcast_to_empty",
    "call_in_call",
    "cholesky_empty",
    "constant_f32_empty",
    "constant_f32_empty_inside",
    "convolution_of_nothing",
    "convolution_of_padding_only",
    "convolution_too_large",
    "dot_of_nothing",
    "dot_to_nothing",
    "dot_two_contractions_of_nothing",
    "dynamic_slice_empty",
    "fft_empty_batch",
    "gather_of_nothing",
    "gather_without_indices",
    "iota_empty",
    "outfeed_of_nested_tuple",
    "outfeed_of_tuple",
    "outfeed_twice",
    "pad_to_empty",
    "parameter_empty",
    "ragged_dot_contracting",
    "reduce_to_nothing",
    "reduce_window_pred",
    "reduce_window_too_large",
    "reshape_empty",
    "rng_normal_empty",
    "rng_uniform_pred",
    "send_to_host",
    "slice_empty",
    "sort_empty",
    "sort_empty_rows",
    "topk_none",
    "triangular_solve_empty",
    "triangular_solve_no_columns",
    "tuple_of_none",
}
"""Samples whose results are empty, tokens, or 0 for every argument."""


LEFT_TO_THE_HOST = {
    "all_reduce_uneven_groups",
    "collective_permute_of_slices",
    "collective_permute_start_of_slices",
    "collective_reduce_dynamic_root",
    "infeed_of_empty_tuple",
    "map_with_branches",
    "map_with_loop",
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
    ours = plain(CPU.compile(module)(*arguments))
    program_tolerance(module, arguments, flush_denormals=True).assert_close(ours, name)


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_every_instruction_of_a_random_module(seed: int):
    module = random_module(seed)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    steps = steps_of(module, random_arguments(shapes, seed, special=True), without_denormals)
    flat, arguments = flat_module(steps)
    for step, value in zip(steps, CPU.compile(flat)(*arguments), strict=True):
        assert_step(step, as_value(value), flush_denormals=True)


def as_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(as_value, value))
    return np.asarray(value) if hasattr(value, "array") else TOKEN
