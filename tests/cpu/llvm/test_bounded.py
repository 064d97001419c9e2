"""LLVM within limits: modules with which it does not end are compiled in a simpler form, or refused, by name."""

from __future__ import annotations

import ctypes
import logging
import threading
import time

import numpy as np
import pytest

from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm import jit
from xlapy.cpu.llvm.bounded import fallback
from xlapy.cpu.llvm.bounded.escape import Limits
from xlapy.cpu.llvm.bounded.generator import OPTIMIZED, Generator, StageLimitExceededError
from xlapy.cpu.llvm.processor import LEVELS, Processor, host_processor

REPEATED = ", ".join(f"i32 {lane % 2}" for lane in range(64))
ENDLESS = f"""
define i32 @other(i32 %x) {{
  ret i32 %x
}}

define void @endless(ptr %p, ptr %q) {{
  %a = load <4 x i8>, ptr %p
  %v = shufflevector <4 x i8> %a, <4 x i8> poison, <2 x i32> <i32 2, i32 3>
  %b = shufflevector <2 x i8> %v, <2 x i8> poison, <64 x i32> <{REPEATED}>
  %c = icmp ne <64 x i8> %b, zeroinitializer
  %d = shufflevector <64 x i1> %c, <64 x i1> poison, <2 x i32> <i32 0, i32 1>
  %e = zext <2 x i1> %d to <2 x i8>
  %f = shufflevector <2 x i8> %e, <2 x i8> poison, <64 x i32> <{REPEATED}>
  %g = shufflevector <4 x i8> %a, <4 x i8> poison, <64 x i32> <{REPEATED}>
  %h = or <64 x i8> %f, %g
  %i = icmp ne <64 x i8> %h, zeroinitializer
  %j = shufflevector <64 x i1> %i, <64 x i1> poison, <2 x i32> <i32 0, i32 1>
  %k = zext <2 x i1> %j to <2 x i8>
  store <2 x i8> %k, ptr %q
  ret void
}}
"""
"""LLVM 22 does not end on this for AVX-512. Code can be generated for it on any x86-64 machine."""

AVX512 = LEVELS["AVX512"]


def generate(text: str, limits: Limits) -> bytes:
    return Generator(AVX512, OPTIMIZED).object_file(text, CompileTrace(), jit._escape(), limits)


@pytest.fixture
def avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles for AVX-512, within a fifth of a second."""
    monkeypatch.setattr(jit, "target_processor", lambda: AVX512)
    monkeypatch.setattr(Limits, "of", staticmethod(lambda text: Limits(0.2, 1 << 34)))


def test_a_call_is_left_after_its_time():
    with pytest.raises(StageLimitExceededError, match=r"^LLVM exceeded 0\.2 s of processor time in code generation$"):
        generate(ENDLESS, Limits(0.2, 1 << 34))
    assert generate("define void @f() {\n  ret void\n}", Limits(0.2, 1 << 34)).startswith(b"\x7fELF")


def test_a_call_is_left_when_it_takes_too_much_memory():
    """The limit is below what the process has used before: the module itself needs little memory."""
    with pytest.raises(StageLimitExceededError, match="LLVM exceeded -1024 MiB of memory in code generation"):
        generate(ENDLESS, Limits(20, -(1 << 30)))


def test_other_threads_compile_meanwhile_and_afterwards():
    failed: list[str] = []

    def fail() -> None:
        with pytest.raises(StageLimitExceededError) as caught:
            generate(ENDLESS, Limits(0.3, 1 << 34))
        failed.append(str(caught.value))

    threads = [threading.Thread(target=fail) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(20):
        code = jit.compile_text(f"define i32 @f() {{\n  ret i32 {number}\n}}", ["f"], {})
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.addresses["f"])() == number
    for thread in threads:
        thread.join()
    assert len(failed) == 2


def test_time_in_which_the_thread_waits_does_not_count():
    escape = jit._escape()
    assert escape is not None
    with escape.limited(Limits(0.2, 1 << 34), threading.Lock()) as calls:
        time.sleep(0.4)
        assert calls._guard.ticks <= 1


def test_a_module_is_compiled_in_a_simpler_form(avx512, caplog):
    with caplog.at_level(logging.WARNING, "xlapy"):
        code = jit.compile_text(ENDLESS, ["endless"], {}, name="module windows")
    assert caplog.messages == [
        "module windows: LLVM exceeded 0.2 s of processor time in code generation of its function endless; "
        "its code is generated for AVX2, and may be slower"
    ]
    if host_processor().features >= {"avx2", "fma"}:
        x, y = np.array([1, 0, 0, 0], np.uint8), np.zeros(2, np.uint8)
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.addresses["endless"])
        function(x.ctypes.data, y.ctypes.data)
        assert y.tolist() == [1, 0]


def test_a_module_without_any_form_is_refused_by_name(avx512, monkeypatch):
    monkeypatch.setattr(fallback, "simpler_forms", lambda processor: {"as before": (processor, OPTIMIZED)})
    monkeypatch.setattr(jit, "endless_function", lambda *_: "")
    with raises(UnsupportedError, codes.CODE_GENERATION_LIMITS):
        jit.compile_text(ENDLESS, ["endless"], {}, name="module windows")


def test_simpler_forms_use_less_of_the_processor():
    forms = fallback.simpler_forms(AVX512)
    assert list(forms) == ["for AVX2", "for SSE4.2", "for SSE4.2 without optimization", "without optimization"]
    assert all(simpler.features <= AVX512.features for simpler, _ in forms.values())
    assert forms["for AVX2"][0].vector_bytes == 32
    assert list(fallback.simpler_forms(Processor("nehalem", LEVELS["SSE4_2"].features))) == [
        "for SSE4.2 without optimization",
        "without optimization",
    ]


def test_functions_are_found_and_declared_elsewhere():
    text = "@c = private constant i32 1\ndefine internal i32 @f(ptr %p) #0 {\nentry:\n  ret i32 0\n}\n" + ENDLESS
    alone = dict(fallback.functions_alone(text))
    assert list(alone) == ["f", "other", "endless"]
    assert "declare i32 @f(ptr %p)\n" in alone["other"]
    assert "define i32 @f(ptr %p) #0 {" in alone["f"]
    assert alone["f"].count("define ") == 1


def test_flags_set_the_limits(monkeypatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"compile_timeout": 7, "compile_memory": 3}))
    assert Limits.of("short") == Limits(7.0, 3 << 20)
    assert Limits.of(" " * (3 << 20)) == Limits(21.0, 3 << 20)
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"compile_timeout": 0, "compile_memory": 0}))
    assert Limits.of("short") == Limits(float("inf"), 1 << 62)
