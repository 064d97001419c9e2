"""Expansion of ragged-all-to-all into exchanges of blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.thunks import CallbackThunk
from xlapy.passes.expand import collectives
from xlapy.passes.expand.expand import Expand

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


@pytest.mark.parametrize("small_bytes", [collectives.SMALL_EXCHANGE_BYTES, 0], ids=["whole inputs", "blocks"])
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
    devices: int,
    several: tuple[int, ...],
    offsets: str,
    element: str,
    rest: tuple[int, ...],
    groups: str,
    small_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(collectives, "SMALL_EXCHANGE_BYTES", small_bytes)
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


def test_the_host_only_raises_errors():
    executable = xla.Client("cpu", devices=2).compile(module("s32[2]"), num_replicas=2)
    program = executable.program.compiled.program
    assert {thunk.instruction.op for thunk in program.host_calling_thunks} == {opcodes.ALL_TO_ALL, opcodes.CUSTOM_CALL}
    assert not any(isinstance(thunk, CallbackThunk) for thunk in program.thunks)


@pytest.mark.parametrize(
    ("start", "size", "target", "expected"),
    [
        (ROWS - 2, 5, 1, 5),
        (-1, 3, 0, 3),
        (0, 3, HEIGHT - 1, 3),
        (0, 3, -2, 3),
        (0, -3, 4, -3),
        (0, 3, 0, 4),
        (1, 2**63 - 1, 0, 2**63 - 1),
        (2**63 - 1, 1, 0, 1),
        (-(2**63), 0, 0, 0),
        (ROWS + 1, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("element", ["f32[13]", "f32[13,0]", "f32[0,3]"])
def test_rows_out_of_bounds_are_refused_as_by_the_interpreter(
    start: int, size: int, target: int, expected: int, element: str
):
    given = xla.Shape.parse(element)
    rest = "".join(f",{size}" for size in given.dimensions[1:])
    text = module("s64[1,2]", rest=rest).replace(f"f32[{ROWS}", f"f32[{given.dimensions[0]}")
    arrays = [np.ones(given.dimensions, np.float32), np.ones((HEIGHT, *given.dimensions[1:]), np.float32)]
    arrays += [np.array([[0, each]]) for each in (start, size, target, expected)]
    code = codes.RECEIVED_SIZES if size != expected else codes.SLICE_BOUNDS
    messages = []
    for platform in ("cpu", "interpreter"):
        executable = xla.Client(platform).compile(text)
        with raises(ExecutionError, code, "r (ragged-all-to-all)") as raised:
            np.asarray(executable(*arrays))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("small_bytes", [collectives.SMALL_EXCHANGE_BYTES, 0], ids=["whole inputs", "blocks"])
def test_each_device_checks_what_it_receives(small_bytes: int, monkeypatch: pytest.MonkeyPatch):
    """The slice of device 1 for device 2 begins behind the output."""
    monkeypatch.setattr(collectives, "SMALL_EXCHANGE_BYTES", small_bytes)
    given = arguments(3, (), np.float32, (3,), [[0, 1, 2]], 5)
    given[1][4][2] = HEIGHT
    given[1][3][2] = given[2][5][1] = 2
    messages = []
    for platform in ("cpu", "interpreter"):
        executable = xla.Client(platform, devices=3).compile(module("s64[3]"), num_replicas=3)
        values = "device 2", "r (ragged-all-to-all)", f"2 rows from row {HEIGHT}"
        with raises(ExecutionError, codes.SLICE_BOUNDS, *values) as raised:
            xla.block_until_ready(executable.execute_sharded(given))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_offsets_that_are_no_integers_are_refused():
    executable = xla.Client("cpu").compile(module("f32[1]"))
    one = np.zeros(1, np.float32)
    x, y = np.zeros((ROWS, 3), np.float32), np.zeros((HEIGHT, 3), np.float32)
    with raises(ExecutionError, codes.INTEGER_OFFSETS, "f32"):
        np.asarray(executable(x, y, one, one, one, one))


def test_a_member_sends_its_rows_in_blocks_and_not_to_all_others() -> None:
    """4 members with 64 kB of rows each: an exchange sends 16 kB to each, and another one if a slice is longer."""
    text = """HloModule m
    ENTRY e { x = f32[256,64] parameter(0)
      y = f32[512,64] parameter(1)
      o = s32[4] parameter(2)
      ROOT r = f32[512,64] ragged-all-to-all(x, y, o, o, o, o), replica_groups={} }"""
    expanded = xla.parse_hlo(text)
    Expand(("ragged-all-to-all",)).run(expanded)
    sent = [i.shape.byte_size for i in expanded.instructions() if i.op is opcodes.ALL_TO_ALL]
    assert max(sent) == 256 * 64 * 4
    assert any(i.op is opcodes.WHILE for i in expanded.instructions())
