"""The flag `check_bounds`: accesses of kernels that are moved out of their arrays are caught, whatever their form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.error_codes.interfaces import commands as commands_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.cpu import compiler
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, walk_thunks
from xlapy.loops import Location, MatrixProduct, Store, TransposeStatement, Value
from xlapy.loops.ir import Block, Statement, inner_blocks
from xlapy.testing.random_arguments import random_arguments

CPU = xla.Client("cpu", devices=2)
FAR = 1 << 20
"""More elements than any array here has."""


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"check_bounds": True}))


ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
PROGRAMS = {
    "scalars": "ENTRY e { p = f32[] parameter(0) ROOT r = f32[] negate(p) }",
    "unrolled": "ENTRY e { p = f32[5] parameter(0) ROOT r = f32[5] negate(p) }",
    "vectors and a tail": "ENTRY e { p = f32[1003] parameter(0) ROOT r = f32[1003] negate(p) }",
    "threads": "ENTRY e { p = f32[300001] parameter(0) ROOT r = f32[300001] tanh(p) }",
    "backward": "ENTRY e { p = f32[1000] parameter(0) ROOT r = f32[1000] reverse(p), dimensions={0} }",
    "strides": "ENTRY e { p = f32[3000] parameter(0) ROOT r = f32[1000] slice(p), slice={[1:3000:3]} }",
    "padding": """ENTRY e { p = f32[700] parameter(0) z = f32[] constant(0)
        ROOT r = f32[1500] pad(p, z), padding=50_51_1 }""",
    "transpose": "ENTRY e { p = f32[200,300] parameter(0) ROOT r = f32[300,200] transpose(p), dimensions={1,0} }",
    "gather": """ENTRY e { p = f32[1000] parameter(0) i = s32[300,1] parameter(1)
        ROOT r = f32[300] gather(p, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1} }""",
    "scatter": ADD
    + """ ENTRY e { p = f32[1000] parameter(0) i = s32[300,1] parameter(1) u = f32[300] parameter(2)
        ROOT r = f32[1000] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "rows": ADD
    + """ ENTRY e { p = f32[30,300] parameter(0) z = f32[] constant(0)
        ROOT r = f32[30] reduce(p, z), dimensions={1}, to_apply=add }""",
    "columns": ADD
    + """ ENTRY e { p = f32[300,70] parameter(0) z = f32[] constant(0)
        ROOT r = f32[70] reduce(p, z), dimensions={0}, to_apply=add }""",
    "product": """ENTRY e { p = f32[150,160] parameter(0) q = f32[160,170] parameter(1)
        ROOT r = f32[150,170] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "narrow product": """ENTRY e { p = s8[100,200] parameter(0) q = s8[200,70] parameter(1)
        ROOT r = s32[100,70] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "sort": """less { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY e { p = s32[1000] parameter(0) ROOT r = s32[1000] sort(p), dimensions={0}, to_apply=less }""",
    "fewer lanes than their stride": """less { a = s32[] parameter(0) b = s32[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY e { p = s32[3,2,5] parameter(0) ROOT r = s32[3,2,5] sort(p), dimensions={1}, to_apply=less }""",
    "complex": "ENTRY e { p = c64[1000] parameter(0) ROOT r = c64[1000] exponential(p) }",
    "loop": """body { s = (s32[], s32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0
          x = s32[300] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
          u = s32[1] reshape(i) w = s32[300] dynamic-update-slice(x, u, i) ROOT t = (s32[], s32[300]) tuple(j, w) }
        condition { s = (s32[], s32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(9) ROOT c = pred[] compare(i, n), direction=LT }
        ENTRY e { p = s32[300] parameter(0) z = s32[] constant(0) t = (s32[], s32[300]) tuple(z, p)
          w = (s32[], s32[300]) while(t), condition=condition, body=body
          ROOT r = s32[300] get-tuple-element(w), index=1 }""",
}


def arguments_of(text: str) -> list[Any]:
    return random_arguments(xla.parse_hlo(text).entry_computation.program_shape.parameters, 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same_with_checks(name: str):
    text = "HloModule m\n" + PROGRAMS[name]
    given = arguments_of(text)
    expected = np.asarray(xla.Client("interpreter").compile(text)(*given))
    np.testing.assert_allclose(np.asarray(CPU.compile(text)(*given)), expected, rtol=1e-5, atol=1e-5)


def accesses(program: NativeProgram) -> Iterator[tuple[Statement, str]]:
    """Yields the statements of kernels that access memory, with the attribute that holds the location."""
    kernels = {thunk.kernel: None for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk)}
    blocks = [kernel.body for kernel in kernels]
    while blocks:
        block: Block = blocks.pop()
        for statement in block.statements:
            if isinstance(statement, Value) and statement.op == "load":
                yield statement, "attribute"
            elif isinstance(statement, Store):
                yield statement, "location"
            elif isinstance(statement, TransposeStatement):
                yield statement, "source"
                yield statement, "target"
            elif isinstance(statement, MatrixProduct):
                yield statement, "left"
                yield statement, "right"
                yield statement, "sums"
            if not isinstance(statement, Value):
                blocks += inner_blocks(statement)


def move(statement: Statement, attribute: str, elements: int) -> None:
    found = getattr(statement, attribute)
    location = found[0] if isinstance(found, tuple) else found
    moved = Location(location.buffer, location.offset + elements)
    setattr(statement, attribute, (moved, *found[1:]) if isinstance(found, tuple) else moved)


@pytest.mark.parametrize("elements", [FAR, -FAR])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_access_that_is_moved_out_of_its_array_is_caught(
    name: str, elements: int, monkeypatch: pytest.MonkeyPatch
):
    text = "HloModule m\n" + PROGRAMS[name]
    given, outline = arguments_of(text), compiler.outline_functions
    number = caught = 0
    found: list[tuple[Statement, str]] = []

    def outline_and_move(program: NativeProgram) -> None:
        outline(program)
        found[:] = list(accesses(program))
        move(*found[number], elements)

    monkeypatch.setattr(compiler, "outline_functions", outline_and_move)
    while number == 0 or number < len(found):
        executable = CPU.compile(text)
        statement, attribute = found[number]
        verb = "loads" if isinstance(statement, Value) or attribute in ("source", "left", "right") else "stores"
        message = rf"kernel .* {verb} element -?\d+ of .*, which has \d+ elements"
        if name == "sort":  # its paths depend on the data
            with suppress(ExecutionError):
                np.testing.assert_array_equal(np.asarray(executable(*given)), np.sort(given[0]))
                caught -= 1
        else:
            with raises(ExecutionError, codes.ACCESS_BOUNDS) as raised:
                executable(*given)
            assert re.search(message, raised.value.message)
        caught += 1
        number += max(1, len(found) // 6)
    assert caught


def test_the_error_names_the_instruction_the_array_and_its_size(monkeypatch: pytest.MonkeyPatch):
    outline = compiler.outline_functions

    def outline_and_move(program: NativeProgram) -> None:
        outline(program)
        for statement, attribute in accesses(program):
            if isinstance(statement, Store):
                move(statement, attribute, 1)

    monkeypatch.setattr(compiler, "outline_functions", outline_and_move)
    executable = CPU.compile("HloModule m ENTRY e { p = f32[10000] parameter(0) ROOT r = f32[10000] negate(p) }")
    with raises(ExecutionError, codes.ACCESS_BOUNDS) as caught:
        executable(np.zeros(10000, np.float32))
    text = str(caught.value)
    assert re.match(r"r: kernel \S+ stores element \d+ of \S+ \(result0:f32\[10000\]\), which has 10000 elements", text)
    with raises(ExecutionError, codes.ACCESS_BOUNDS):  # again: the record is cleared by each run
        executable(np.zeros(10000, np.float32))


def test_a_violation_on_one_device_ends_the_others(monkeypatch: pytest.MonkeyPatch):
    outline = compiler.outline_functions

    def outline_and_move(program: NativeProgram) -> None:
        outline(program)
        move(*next(accesses(program)), FAR)

    monkeypatch.setattr(compiler, "outline_functions", outline_and_move)
    executable = CPU.compile(f"""HloModule m, replica_count=2
        {ADD} ENTRY e {{ p = f32[700] parameter(0) n = f32[700] tanh(p)
          ROOT r = f32[700] all-reduce(n), replica_groups={{}}, to_apply=add }}""")
    with raises(ExecutionError, codes.ACCESS_BOUNDS):
        executable.execute_sharded([[np.zeros(700, np.float32)]] * 2)


@pytest.mark.parametrize(
    ("collective", "combine"),
    [
        ("ROOT r = s32[8,2] all-to-all(p), replica_groups={}, dimensions={0}", np.concatenate),
        ("ROOT r = s32[2,2] reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=add", np.sum),
    ],
)
def test_a_device_receives_from_its_own_block_on(collective: str, combine: Any):
    executable = xla.Client("cpu", devices=4).compile(f"""HloModule m, replica_count=4
        add {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }}
        ENTRY e {{ p = s32[8,2] parameter(0) {collective} }}""")
    given = np.arange(64, dtype=np.int32).reshape(4, 8, 2)
    results = executable.execute_sharded([[device] for device in given])
    for rank, result in enumerate(results):
        np.testing.assert_array_equal(result, combine(given[:, 2 * rank : 2 * rank + 2], axis=0))


def test_copies_that_are_too_long_are_found_by_the_compiler(monkeypatch: pytest.MonkeyPatch):
    outline = compiler.outline_functions

    def outline_and_shorten(program: NativeProgram) -> None:
        outline(program)
        for thunk in walk_thunks(program.thunks):
            if isinstance(thunk, CopyThunk):
                shape = xla.Shape.parse("f32[4]")
                thunk.target = BufferSlice(shape, thunk.target.storage, thunk.target.number, thunk.target.offset)

    monkeypatch.setattr(compiler, "outline_functions", outline_and_shorten)
    with raises(ExecutionError, codes.ACCESS_BOUNDS, "result0:f32[4]", "byte 0", "to 2000", "16 bytes"):
        CPU.compile("HloModule m ENTRY e { ROOT p = f32[500] parameter(0) }")


def test_programs_with_checks_are_not_serialized():
    executable = CPU.compile("HloModule m ENTRY e { p = f32[5] parameter(0) ROOT r = f32[5] negate(p) }")
    with raises(UnsupportedError, commands_codes.SERIALIZABLE_PROGRAM):
        executable.serialize()


def test_without_the_flag_the_code_has_no_checks(monkeypatch: pytest.MonkeyPatch):
    text = "HloModule m\n" + PROGRAMS["gather"]
    checked = compiler.compile_module(xla.parse_hlo(text)).llvm
    monkeypatch.setattr(flags, "current", flags.Flags)
    unchecked = compiler.compile_module(xla.parse_hlo(text)).llvm
    assert "out_of_bounds" in checked and "out_of_bounds" not in unchecked and "host_callback" not in unchecked
