"""Every sample is valid: it parses, verifies, prints as jaxlib prints it, and runs on the interpreter.

Samples that exchange data with other devices or the host are not run here, because there is neither.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests import xla_reference
from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.interpreter import RULES, TOKEN, DynamicArray
from xlapy.interpreter.core import DYNAMIC_RULES, is_dynamic
from xlapy.runtime.backends.interpreter import InterpreterBackend
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.samples import NEWER_THAN_JAXLIB, REFUSED_AT_RUN, Sample, all_samples
from xlapy.text import parse_hlo

SAMPLES = list(all_samples())

OUTWARD = {opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV}


def needs_other_devices_or_host(sample: Sample) -> bool:
    """Tells whether a module needs several devices, or exchanges data with the host or other devices."""
    module = parse_hlo(sample.text)
    devices = module.config.replica_count * module.config.num_partitions
    return devices > 1 or any(i.op in OUTWARD for i in module.instructions())


every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
every_sample_for_one_device = pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if not needs_other_devices_or_host(sample)], ids=lambda sample: sample.name
)


def test_names_are_unique():
    counts = Counter(sample.name for sample in SAMPLES)
    assert [name for name, count in counts.items() if count > 1] == []


@every_sample
def test_a_sample_parses_verifies_and_round_trips(sample: Sample):
    module = parse_hlo(sample.text)
    verify(module)
    printed = module.to_text(print_large_constants=True)
    again = parse_hlo(printed)
    verify(again)
    assert again.to_text(print_large_constants=True) == printed


@every_sample
def test_jaxlib_prints_the_same_text(sample: Sample):
    if sample.note == NEWER_THAN_JAXLIB:
        assert not xla_reference.accepts(sample.text)
        return
    module = parse_hlo(sample.text)
    assert module.to_text() == xla_reference.parse_and_print(sample.text)
    whole = {"print_large_constants": True}
    assert module.to_text(**whole) == xla_reference.parse_and_print(sample.text, **whole)


@every_sample_for_one_device
def test_a_sample_runs_on_the_interpreter(sample: Sample):
    module = parse_hlo(sample.text)
    if reasons_not_to_run(module) or sample.note == REFUSED_AT_RUN:
        with pytest.raises(UnsupportedError):
            run(module)
    else:
        assert_conforms(run(module), module.entry_computation.root_instruction.shape)


def reasons_not_to_run(module: Module) -> list[str]:
    """Returns the operations that the interpreter rejects, calls of unregistered targets, and unbounded sizes."""
    instructions = list(module.instructions())
    refused = [RULES.refusals[i.op] for i in instructions if i.op in RULES.refusals]
    refused += [i.custom_call_target for i in instructions if i.op is opcodes.CUSTOM_CALL]
    refused += [DYNAMIC_RULES.refusals[i.op] for i in instructions if i.op in DYNAMIC_RULES.refusals and is_dynamic(i)]
    return refused + [i.shape.to_text(layout=False) for i in instructions if "?" in i.shape.to_text(layout=False)]


def run(module: Module) -> Any:
    program = module.entry_computation.program_shape
    arguments = check_arguments(program, random_arguments(program.parameters, seed=1))
    return InterpreterBackend().compile(module).execute(arguments)


def assert_conforms(value: Any, shape: Shape) -> None:
    """Checks that a value has the structure, sizes and element types that its shape declares."""
    if shape.is_tuple:
        assert isinstance(value, tuple)
        for part, part_shape in zip(value, shape.tuple_shapes, strict=True):
            assert_conforms(part, part_shape)
    elif shape.is_dynamic:
        assert isinstance(value, DynamicArray)
        assert (value.array.shape, value.array.dtype) == (shape.dimensions, shape.dtype)
        for size, bound, dynamic in zip(value.sizes, shape.dimensions, shape.dynamic_dimensions, strict=True):
            assert 0 <= size <= bound and (dynamic or size == bound)
    elif shape.is_array:
        assert isinstance(value, np.ndarray)
        assert (value.shape, value.dtype) == (shape.dimensions, shape.dtype)
    else:
        assert value is TOKEN
