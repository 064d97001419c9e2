"""Random programs on dynamic dimensions: legal, determined, of the sizes they were drawn with; and XLA:CPU's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests import xla_reference
from xlapy import opcodes
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules.dynamic import random_dynamic_module
from xlapy.text import parse_hlo

SEEDS = range(40)
CLIENT = xla.Client("interpreter")


def arguments_of(module: Module, seed: int) -> list[Any]:
    return random_arguments(module.entry_computation.program_shape.parameters, seed)


def cut(results: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result without their padding: each is followed by its sizes."""
    values, arrays = [np.asarray(result) for result in results], []
    while values:
        whole = values.pop(0)
        sizes = [int(values.pop(0)) for _ in range(whole.ndim)]
        arrays.append(whole[tuple(map(slice, sizes))])
        assert arrays[-1].shape == tuple(sizes), "a size beyond its bound"
    return arrays


def test_modules_are_valid_and_determined_by_the_seed():
    for seed in SEEDS:
        module = random_dynamic_module(seed)
        verify(module)
        text = module.to_text(print_large_constants=True)
        assert text == random_dynamic_module(seed).to_text(print_large_constants=True)
        assert parse_hlo(text).to_text(print_large_constants=True) == text
    made = {i.op for seed in SEEDS for i in random_dynamic_module(seed).instructions() if i.shape.is_dynamic}
    assert made >= {
        opcodes.SORT,
        opcodes.CONCATENATE,
        opcodes.REDUCE,
        opcodes.PAD,
        opcodes.DOT,
        opcodes.RESHAPE,
        opcodes.REDUCE_WINDOW,
    }


@pytest.mark.parametrize("first", SEEDS[::10])
def test_xla_cpu_computes_the_same(first: int):
    for seed in range(first, first + 10):
        module = random_dynamic_module(seed)
        text = module.to_text(print_large_constants=True)
        arguments = arguments_of(module, seed)
        ours, theirs = cut(CLIENT.compile(text)(*arguments)), cut(xla_reference.run_hlo(text, arguments, fast=True))
        for number, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            np.testing.assert_array_equal(left, right, err_msg=f"seed {seed}, array {number}")
