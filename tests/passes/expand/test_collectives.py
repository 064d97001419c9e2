"""Expansion of ragged-all-to-all into collectives of whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy import opcodes
from xlapy.base.errors import ExecutionError

ROWS, HEIGHT = 13, 29


def module(offsets: str, element: str = "f32", rest: str = ",3", groups: str = "{}") -> str:
    x, y = f"{element}[{ROWS}{rest}]", f"{element}[{HEIGHT}{rest}]"
    return f"""HloModule m
    ENTRY e {{ x = {x} parameter(0)
      y = {y} parameter(1)
      a = {offsets} parameter(2)
      b = {offsets} parameter(3)
      c = {offsets} parameter(4)
      d = {offsets} parameter(5)
      ROOT r = {y} ragged-all-to-all(x, y, a, b, c, d), replica_groups={groups} }}"""


def arguments(
    devices: int, several: tuple[int, ...], dtype: Any, rest: tuple[int, ...], groups: list[list[int]], seed: int
) -> list[list[np.ndarray]]:
    """Slices anywhere in the inputs and outputs, which may overlap."""
    random = np.random.default_rng(seed)
    members = len(groups[0])
    shape = (devices, members, *several)
    sizes = random.integers(0, 5, shape)
    starts, targets = random.integers(0, ROWS - sizes + 1), random.integers(0, HEIGHT - sizes + 1)
    made: list[list[np.ndarray]] = []
    for device in range(devices):
        group = next(group for group in groups if device in group)
        expected = np.stack([sizes[sender, group.index(device)] for sender in group])
        x = (random.standard_normal((ROWS, *rest)) * 100).astype(dtype)
        y = (random.standard_normal((HEIGHT, *rest)) * 100).astype(dtype)
        made.append([x, y, starts[device], sizes[device], targets[device], expected])
    return made


@pytest.mark.parametrize(
    ("devices", "several", "offsets", "element", "rest", "groups"),
    [
        (1, (), "s32[1]", "f32", (3,), "{}"),
        (2, (), "s32[2]", "f32", (3,), "{}"),
        (3, (2,), "s64[3,2]", "s8", (), "{}"),
        (5, (), "u32[5]", "bf16", (2, 2), "{}"),
        (4, (3,), "s16[2,3]", "c64", (3,), "{{3,1},{0,2}}"),
        (2, (0,), "s32[2,0]", "f32", (3,), "{}"),
        (2, (), "s32[2]", "f32", (0,), "{}"),
    ],
)
def test_rows_are_those_of_the_interpreter(
    devices: int, several: tuple[int, ...], offsets: str, element: str, rest: tuple[int, ...], groups: str
):
    text = module(offsets, element, "".join(f",{size}" for size in rest), groups)
    shape, numbers = xla.Shape.parse(f"{element}[1]"), xla.Shape.parse(offsets)
    listed = [list(range(devices))] if groups == "{}" else [[3, 1], [0, 2]]
    for seed in range(3):
        given = arguments(devices, several, shape.dtype, rest, listed, seed)
        given = [[x, y, *(each.astype(numbers.dtype) for each in others)] for x, y, *others in given]
        results = []
        for platform in ("cpu", "interpreter"):
            executable = xla.Client(platform, devices=devices).compile(text, num_replicas=devices)
            results.append([np.asarray(one).tobytes() for one in executable.execute_sharded(given)])
        assert results[0] == results[1]


def test_the_host_takes_no_part():
    executable = xla.Client("cpu", devices=2).compile(module("s32[2]"), num_replicas=2)
    thunks = executable.program.compiled.program.host_calling_thunks
    assert {thunk.instruction.op for thunk in thunks} == {opcodes.ALL_TO_ALL}


def test_rows_out_of_bounds_are_not_written():
    """The interpreter refuses them; native code stays within the arrays."""
    executable = xla.Client("cpu", devices=1).compile(module("s32[1]", rest=""))
    x, y = np.arange(ROWS, dtype=np.float32), -np.ones(HEIGHT, np.float32)

    def moved(start: int, size: int, target: int) -> list[float]:
        numbers = [np.array([each], np.int32) for each in (start, size, target, size)]
        return np.asarray(executable(x, y, *numbers)).tolist()

    assert moved(ROWS - 2, 5, 1) == [-1, 11, 12, *[-1] * 26]
    assert moved(-1, 3, 0) == [-1, 0, 1, *[-1] * 26]
    assert moved(0, 3, HEIGHT - 1) == [*[-1] * 28, 0]
    assert moved(0, 3, -2) == [2, *[-1] * 28]
    assert moved(0, -3, 4) == [-1] * 29


def test_offsets_that_are_no_integers_are_refused():
    executable = xla.Client("cpu").compile(module("f32[1]"))
    one = np.zeros(1, np.float32)
    x, y = np.zeros((ROWS, 3), np.float32), np.zeros((HEIGHT, 3), np.float32)
    with pytest.raises(ExecutionError, match="offsets and sizes must be integers, given f32"):
        np.asarray(executable(x, y, one, one, one, one))
