"""Errors at run time name the line of the user's program that built the instruction, on every platform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.compilation.compiling import ELIDED_CONSTANT
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.error_codes.execution.custom_calls import FAILED_TARGET
from xlapy.base.error_codes.structure.annotations import PAIR_MEMBERS
from xlapy.base.errors import XlaError
from xlapy.base.flags import Flags

LINE = 'metadata={source_file="model.py" source_line=12}'
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
BRANCHES = f"""{ADD}
    first {{ x = f32[] parameter(0) ROOT s = f32[] all-reduce(x), replica_groups={{{{0,1}}}}, to_apply=add, {LINE} }}
    second {{ ROOT x = f32[] parameter(0) }}"""
CHOICE = """x = f32[] constant(1) id = u32[] replica-id() i = s32[] convert(id)
    ROOT r = f32[] conditional(i, x, x), branch_computations={first, second}"""
PAIRS = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'

FAILURES: dict[str, tuple[str, int, ErrorCode, str]] = {
    "a deadlock": (
        f"{BRANCHES} ENTRY e {{ {CHOICE} }}",
        2,
        codes.DEADLOCK,
        "s (all-reduce) at model.py:12 on device 0",
    ),
    "a message without a receive": (
        f"ENTRY e {{ x = f32[] constant(1) k = token[] after-all() s = (f32[], u32[], token[]) send(x, k), {PAIRS}, "
        f"{LINE} ROOT d = token[] send-done(s) }}",
        2,
        codes.UNRECEIVED_MESSAGE,
        "s (send) at model.py:12 on device 0",
    ),
    "a wait for the host": (
        f"ENTRY e {{ k = token[] after-all() ROOT i = (f32[], token[]) infeed(k), {LINE} }}",
        1,
        codes.WAIT_TIMEOUT,
        "i (infeed) at model.py:12 ",
    ),
    "a value from the host": (
        f"ENTRY e {{ k = token[] after-all() ROOT i = (f32[3], token[]) infeed(k), {LINE} }}",
        1,
        calls_codes.ARGUMENT_SHAPE,
        "i (infeed) at model.py:12 ",
    ),
    "a custom call": (
        f'ENTRY e {{ x = f32[] constant(1) ROOT c = f32[] custom-call(x), custom_call_target="target", {LINE} }}',
        1,
        FAILED_TARGET,
        "c (custom-call) at model.py:12: target 'target' raised ValueError: not now",
    ),
    "a NaN": (
        f"ENTRY e {{ x = f32[] parameter(0) ROOT n = f32[] log(x), {LINE} }}",
        1,
        codes.INVALID_VALUE,
        "(log) at model.py:12 is the first to make a NaN",
    ),
}
"""For each failure: the program, its devices, the code of the error, and how its message names the instruction."""


def refuse(_: Any) -> Any:
    raise ValueError("not now")


@pytest.mark.parametrize("loaded", [False, True], ids=["compiled", "loaded"])
@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", FAILURES)
def test_errors_of_launches(name: str, platform: str, loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if loaded and (platform == "interpreter" or name == "a NaN"):
        return  # such programs are not serialized
    values = Flags({"collective_timeout": 1})
    monkeypatch.setattr(flags, "current", lambda: values)
    text, devices, code, instruction = FAILURES[name]
    client = xla.Client(platform, devices=devices)
    arguments = [[np.float32(-1)] if "parameter(0) ROOT n" in text else []] * devices
    with registered(refuse):
        program = client.compile("HloModule m\n" + text, num_replicas=devices, check_nans=name == "a NaN")
        if loaded:
            program = client.deserialize(program.serialize())
        if name == "a value from the host":
            client.devices[0].transfer_to_infeed(np.zeros(2, np.float32))
        with raises(XlaError, code, instruction):
            xla.block_until_ready(program.execute_sharded(arguments))


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        ("f32[99] constant({...})", ELIDED_CONSTANT),
        ("f32[] collective-permute(x), source_target_pairs={{0,1}}", PAIR_MEMBERS),
    ],
)
def test_errors_of_limits(instruction: str, code: ErrorCode, platform: str) -> None:
    text = f"HloModule m\nENTRY e {{ x = f32[] parameter(0) ROOT r = {instruction}, {LINE} }}"
    name = instruction.split("(")[0].split()[-1]
    with raises(XlaError, code, f"r ({name}) at model.py:12"):
        xla.Client(platform).compile(text, num_replicas=1)


def test_the_line_of_a_program_of_the_builder() -> None:
    b = xla.XlaBuilder("logarithm")
    xla.ops.log(xla.ops.parameter(b, 0, xla.Shape.parse("f32[]"), "x"))
    with raises(XlaError, codes.INVALID_VALUE, "(log) at ", "test_source_lines.py:"):
        xla.Client("interpreter").compile(b.build(), check_nans=True)(-1.0)
