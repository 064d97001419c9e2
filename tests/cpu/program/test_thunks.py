"""The protocol of thunks: a new kind of thunk is one class, and nothing tests the class of a thunk."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from tests.raising import raises
from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as compiling_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, VerificationError
from xlapy.cpu.compiler import Instrument, compile_module
from xlapy.cpu.program.buffer_slices import AccessedRange, BufferSlice, Replacements, replaced
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.native_program import print_program
from xlapy.cpu.program.thunks import Thunk, ThunkEmitter
from xlapy.runtime.engine.native_call import NativeCall
from xlapy.tools.native_forms import native_forms

PACKAGE = Path(xla.__file__).parent


@dataclass(eq=False, slots=True)
class InvertThunk(Thunk):
    """Inverts the bits of a slice of 64 bytes, possibly in place."""

    source: BufferSlice
    target: BufferSlice
    op_name: str = ""

    @property
    def reads(self) -> list[BufferSlice]:
        return [self.source]

    @property
    def writes(self) -> list[BufferSlice]:
        return [self.target]

    def replace(self, mapping: Replacements) -> None:
        self.source, self.target = replaced([self.source, self.target], mapping)

    def may_compute_in(self, result: BufferSlice, target: BufferSlice) -> bool:
        return result is self.target

    def may_overlap(self, written: int, others: Any) -> bool:
        return True

    def ranges(self) -> Iterator[AccessedRange]:
        yield AccessedRange(f"the input {self.source}", 0, 64, self.source.size)

    @property
    def cost(self) -> int:
        return 1

    @property
    def title(self) -> str:
        return f"invert {self.source} to {self.target}"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        source, target = emitter.address(function, self.source), emitter.address(function, self.target)
        value = function.ir.assign(f"load <16 x i32>, ptr {source}, align 4")
        ones = ", ".join(["i32 -1"] * 16)
        inverted = function.ir.assign(f"xor <16 x i32> {value}, <{ones}>")
        function.ir.emit(f"store <16 x i32> {inverted}, ptr {target}, align 4")


def lower_invert(context: LoweringContext, instruction: Any) -> None:
    (result,) = context.allocate(instruction)
    context.thunks.append(InvertThunk(context.slice_of(instruction.operands[0]), result, instruction.name))


LOOP = """HloModule inverts
below { s = (s32[], u32[16], u32[16]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], u32[16], u32[16]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  v = u32[16] get-tuple-element(s), index=1  w = u32[16] get-tuple-element(s), index=2  j = s32[] add(i, one)
  d = u32[16] custom-call(v), custom_call_target="invert"  e = u32[16] add(w, d)
  ROOT r = (s32[], u32[16], u32[16]) tuple(j, d, e) }
ENTRY main { x = u32[16] parameter(0)  z = s32[] constant(0)  a = u32[16] custom-call(x), custom_call_target="invert"
  t = (s32[], u32[16], u32[16]) tuple(z, a, x)  w = (s32[], u32[16], u32[16]) while(t), condition=below, body=body
  v = u32[16] get-tuple-element(w), index=1  u = u32[16] get-tuple-element(w), index=2
  ROOT r = (u32[16], u32[16]) tuple(v, u) }
"""
X = np.arange(16, dtype=np.uint32) * 1000
# After the first inversion, the loop leaves x, ~x and x.
EXPECTED = (X, X + X + ~X + X)


@pytest.fixture(autouse=True)
def new_thunk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(THUNK_RULES.table, opcodes.CUSTOM_CALL, lower_invert)
    with registered(np.invert, name="invert"):
        yield


@pytest.mark.parametrize("set_flags", [{}, {"verify_buffers": True}, {"check_bounds": True}], ids=str)
def test_a_new_class_runs_through_the_pipeline(monkeypatch: pytest.MonkeyPatch, set_flags: dict[str, bool]):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags(set_flags))
    executable = xla.Client("cpu").compile(xla.parse_hlo(LOOP, verify=True))
    for result, expected in zip(executable(X), EXPECTED, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("instrument", [None, *Instrument])
def test_a_new_class_is_printed_and_counted(instrument: Instrument | None):
    compiled = compile_module(xla.parse_hlo(LOOP, verify=True), instrument=instrument)
    assert print_program(compiled.program).count("invert ") == 2
    results = [np.empty(16, np.uint32) for _ in range(2)]
    counted: list[Any] = []
    call = NativeCall(compiled)
    call.on_counted = lambda table, _: counted.append(table)
    call(X.ctypes.data, *(result.ctypes.data for result in results))
    for result, expected in zip(results, EXPECTED, strict=True):
        np.testing.assert_array_equal(result, expected)
    if compiled.program.counters is not None:
        names = [name for counter in compiled.program.counters.all for name in counter.names]
        inverting = [i.name for i in compiled.module.instructions() if i.op is opcodes.CUSTOM_CALL]
        assert len(counted) == 1 and set(inverting) <= set(names)


def test_a_new_class_is_explained():
    forms = native_forms(xla.parse_hlo(LOOP, verify=True))
    assert sum("invert" in title for titles in forms.thunks.values() for title in titles) == 2


def test_wrong_ranges_of_a_new_class_are_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"check_bounds": True}))
    monkeypatch.setattr(InvertThunk, "ranges", lambda self: iter([AccessedRange("the input", 8, 64, 64)]))
    with raises(ExecutionError, codes.ACCESS_BOUNDS, "byte 8", "to 72", "64 bytes"):
        compile_module(xla.parse_hlo(LOOP, verify=True))


def test_wrong_accesses_of_a_new_class_are_reported(monkeypatch: pytest.MonkeyPatch):
    """A thunk that does not say what it writes leaves its result undefined."""
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"verify_buffers": True}))
    monkeypatch.setattr(InvertThunk, "writes", property(lambda self: []))
    with raises(VerificationError, compiling_codes.BUFFER_ASSIGNMENT):
        compile_module(xla.parse_hlo(LOOP, verify=True))


def _classes(of: type) -> set[str]:
    return {of.__name__}.union(*map(_classes, of.__subclasses__()))


def test_nothing_tests_the_class_of_a_thunk():
    names = _classes(Thunk)
    assert {"KernelThunk", "TransferThunk", "InvertThunk"} <= names
    found: list[str] = []
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if "Thunk" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                tested = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            elif isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
                tested = {node.cls.id}
            else:
                continue
            found += [f"{path}:{node.lineno}"] * bool(tested & names)
    assert not found
