"""The interpreter computes what the definitions say: on all samples, on random programs, and on several devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.reference.agreement import assert_module_agrees, same_bits
from xlapy import opcodes
from xlapy.base.errors import XlaError
from xlapy.debugging.fuzzing.differential import arguments_of
from xlapy.hlo.module import Module
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules import random_module
from xlapy.testing.random_modules.collective_module import device_arguments, random_collective_module
from xlapy.testing.random_modules.dynamic import random_dynamic_module
from xlapy.testing.samples import REFUSED_AT_RUN, all_samples
from xlapy.text import parse_hlo

PROGRAMS = 200
"""The number of random programs. 2,000 were run once."""

MODULES = {sample.name: sample.text for sample in all_samples() if sample.note != REFUSED_AT_RUN}


def devices_of(module: Module) -> int:
    return module.config.replica_count * module.config.num_partitions


def needs_host(module: Module) -> bool:
    return any(
        i.op in (opcodes.INFEED, opcodes.OUTFEED) or getattr(i.attributes, "is_host_transfer", False)
        for i in module.instructions()
    )


def outcome(platform: str, module: Module, arguments: list[list[Any]]) -> Any:
    """Returns the values on each device, or the type of the error."""
    try:
        executable = xla.Client(platform, devices=len(arguments)).compile(module)
        results = executable.execute_sharded(arguments)
    except XlaError as error:
        return type(error)
    return tuple(tuple(np.asarray(leaf) for leaf in leaves(result)) for result in results)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if hasattr(value, "__array__") else []


@pytest.mark.parametrize("name", MODULES)
def test_samples(name: str) -> None:
    module = parse_hlo(MODULES[name])
    if needs_host(module):
        return  # the worked examples exchange values with the host: tests/testing/test_examples.py
    program = module.entry_computation.program_shape
    if devices_of(module) > 1 or {i.op for i in module.instructions()} & {opcodes.SEND, opcodes.RECV}:
        arguments = [random_arguments(program.parameters, seed) for seed in range(devices_of(module))]
        expected, actual = (outcome(platform, module, arguments) for platform in ("reference", "interpreter"))
        assert expected is actual or same_bits(expected, actual)
        return
    try:
        arguments = check_arguments(program, random_arguments(program.parameters, seed=1))
        xla.Client("interpreter").compile(module)
    except XlaError as refusal:  # unbounded sizes, unknown targets
        with raises(type(refusal), refusal.code):
            xla.Client("reference").compile(module)(*random_arguments(program.parameters, seed=1))
        return
    assert assert_module_agrees(module, arguments) or len(module.entry_computation) == len(program.parameters)


@pytest.mark.parametrize("first", range(0, PROGRAMS, 50))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 50):
        module = random_module(seed)
        assert assert_module_agrees(module, arguments_of(module, seed)) >= 20


def test_random_programs_on_dynamic_dimensions() -> None:
    for seed in range(40):
        module = random_dynamic_module(seed)
        program = module.entry_computation.program_shape
        arguments = check_arguments(program, random_arguments(program.parameters, seed))
        assert assert_module_agrees(module, arguments) > 10


@pytest.mark.parametrize(("replicas", "partitions"), [(4, 1), (2, 2), (1, 4)])
def test_random_programs_on_several_devices(replicas: int, partitions: int) -> None:
    for seed in range(10):
        module = random_collective_module(seed, replicas, partitions, portable=False, asynchronous=seed % 2 == 0)
        arguments: Any = device_arguments(module, seed)
        expected, actual = (outcome(platform, module, arguments) for platform in ("reference", "interpreter"))
        assert isinstance(expected, tuple) and same_bits(expected, actual), f"seed {seed}"
