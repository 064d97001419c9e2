"""Machine code in this process works as long as it is referenced, and then all its memory is freed."""

from __future__ import annotations

import ctypes
import gc

import pytest

from tests.threads import run_in_threads
from xlapy.cpu.llvm import jit
from xlapy.cpu.llvm.jit import Code, compile_text, listings


def constant(value: int) -> Code:
    return compile_text(f"define i32 @f() {{\n  ret i32 {value}\n}}", ["f"], {})


def called(code: Code) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(code.addresses["f"])()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_code_works_while_other_code_is_added_and_removed():
    kept = [constant(0)]
    for value in range(1, 200):
        code = constant(value)
        assert called(code) == value
        if value % 50 == 0:
            kept.append(code)
    assert [called(code) for code in kept] == [0, 50, 100, 150]


def test_threads_compile_at_once():
    """Functions of one name in different modules: a linker that mixes up modules, or frees code of another thread,
    returns other numbers or ends the process."""

    def compile_and_call(thread: int) -> list[int]:
        return [called(constant(value)) for value in range(75 * thread, 75 * thread + 75)]

    found = run_in_threads(4, compile_and_call)
    assert found == [list(range(75 * thread, 75 * thread + 75)) for thread in range(4)]


def test_unreferenced_code_takes_no_memory():
    for value in range(128):
        constant(value)
    gc.collect()
    before = resident()
    for value in range(256):
        constant(value)
    gc.collect()
    assert resident() - before < 1 << 20


def test_short_threads_take_no_memory(monkeypatch: pytest.MonkeyPatch):
    """Native code that calls Python is a new thread to it each time: what each thread creates anew would never be
    freed."""
    made = []
    create = jit.llvm.create_new_function_pass_manager
    monkeypatch.setattr(jit.llvm, "create_new_function_pass_manager", lambda: made.append(None) or create())
    for value in range(8):
        assert run_in_threads(1, lambda _, value=value: called(constant(value))) == [value]
    assert len(made) <= 1


def test_instructions_are_combined_where_positions_are_clamped_but_not_in_register_tiles():
    negated = "%n = mul i64 %x, -1\n  %d = add i64 %y, %n"
    text = f"""
declare i64 @llvm.smax.i64(i64, i64)
define i64 @plain(i64 %x, i64 %y) {{
  {negated}
  ret i64 %d
}}
define i64 @clamped(i64 %x, i64 %y) {{
  {negated}
  %r = call i64 @llvm.smax.i64(i64 %d, i64 0)
  ret i64 %r
}}
"""
    carried = "\n".join(f"  %v{n} = phi <4 x i64> [ splat (i64 1), %entry ], [ %v{n}, %loop ]" for n in range(8))
    tile = f"""
define i64 @tile(i64 %x, i64 %y, i1 %c) {{
entry:
  {negated}
  %r = call i64 @llvm.smax.i64(i64 %d, i64 0)
  br label %loop
loop:
{carried}
  br i1 %c, label %loop, label %end
end:
  ret i64 %r
}}
"""
    optimized, _ = listings(text + tile)
    plain, clamped, tile = optimized.split("define ")[1:]
    assert "mul i64" in plain
    assert "mul i64" not in clamped and "sub i64" in clamped
    assert "mul i64" in tile
