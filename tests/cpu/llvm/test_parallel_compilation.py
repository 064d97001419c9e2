"""Large programs are compiled in parts at the same time.

The parts together are the module, the code is the same for any number of threads, and failures of one part are those of
the program.
"""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation.compiling import CODE_GENERATION_LIMITS
from xlapy.base.errors import UnsupportedError
from xlapy.cpu import compiler
from xlapy.cpu.llvm import jit
from xlapy.cpu.llvm.bounded.escape import Limits
from xlapy.cpu.llvm.parallel import compilation, parts
from xlapy.cpu.llvm.parallel.parts import ModuleParts

ATTRIBUTES = "attributes #0 = { nounwind }"


def module(count: int, *, loops: bool = False) -> str:
    """Kernels of different sizes; with loops, also functions that use the same constant array."""
    lines, value = ["x = f32[64] parameter(0)", "c = f32[4] constant({1, -2, 3, 4})"], "x"
    computations = ""
    for n in range(count):
        size = 5 + n % 50
        lines.append(f"t{n} = f32[{size}] slice({value}), slice={{[0:{size}]}}")
        lines.append(f"m{n} = f32[{size}] sine(t{n})")
        lines.append(f"v{n} = f32[64] pad(m{n}, z), padding=0_{64 - size}")
        value = f"v{n}"
        if loops and n % 4 == 0:
            state = "(s32[], f32[4], f32[4])"
            computations += (
                f"c{n} {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  "
                f"n = s32[] constant({n + 2})  ROOT r = pred[] compare(i, n), direction=LT }}\n"
                f"b{n} {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  "
                f"a = f32[4] get-tuple-element(s), index=1  d = f32[4] get-tuple-element(s), index=2  "
                "k = f32[4] constant({1, -2, 3, 4})  one = s32[] constant(1)  j = s32[] add(i, one)  "
                f"e = f32[4] multiply(a, k)  f = f32[4] subtract(e, d)  ROOT t = {state} tuple(j, f, d) }}\n"
            )
            lines.append(f"p{n} = f32[4] slice({value}), slice={{[1:5]}}")
            lines.append(f"q{n} = {state} tuple(i0, p{n}, c)")
            lines.append(f"w{n} = {state} while(q{n}), condition=c{n}, body=b{n}")
            lines.append(f"g{n} = f32[4] get-tuple-element(w{n}), index=1")
            lines.append(f"h{n} = f32[4] tanh(g{n})")
            lines.append(f"o{n} = f32[64] dynamic-update-slice({value}, h{n}, i0)")
            value = f"o{n}"
    body = "\n  ".join(
        ["z = f32[] constant(0.5)", "i0 = s32[] constant(0)", *lines, f"ROOT r = f32[64] negate({value})"]
    )
    return f"HloModule parts\n{computations}ENTRY e {{\n  {body}\n}}\n"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 4096)


def compiled(text: str) -> compiler.Compiled:
    return compiler.compile_module(xla.parse_hlo(text))


@pytest.mark.parametrize("loops", [False, True])
def test_results_are_those_of_the_interpreter(small_parts, loops):
    text = module(60, loops=loops)
    assert len(compiled(text).code.images) > 3
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    found, expected = (np.asarray(xla.Client(platform).compile(text)(x)) for platform in ("cpu", "interpreter"))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_code_does_not_depend_on_the_number_of_threads(small_parts, monkeypatch):
    images = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(compilation, "thread_count", lambda threads=threads: threads)
        images.append(compiled(module(100)).code.images)
    assert len(images[0]) > 3
    assert images[0] == images[1] == images[2]


def test_small_modules_stay_whole():
    found = compiled(module(3))
    assert len(found.code.images) == 1
    assert "declare void @kernel" not in found.llvm


def test_serialized_programs_keep_their_parts(small_parts):
    client, x = xla.Client("cpu"), np.linspace(-2, 2, 64, dtype=np.float32)
    executable = client.compile(module(40))
    loaded = client.deserialize(executable.serialize())
    np.testing.assert_array_equal(np.asarray(loaded(x)), np.asarray(executable(x)))


def test_steps_of_other_threads_have_their_number(small_parts, monkeypatch):
    monkeypatch.setattr(compilation, "thread_count", lambda: 2)
    spans = compiled(module(100)).record.trace.spans
    assert {span.thread for span in spans if span.kind == "stage"} == {1}
    assert {span.thread for span in spans if span.name == "generate code"} > {2}


def test_instrumented_programs_and_those_with_checks(small_parts, monkeypatch):
    """Counters are functions before all others. The functions that record accesses out of bounds are emitted last."""
    instrumented = compiler.compile_module(xla.parse_hlo(module(100)), instrument=compiler.Instrument.EVENTS)
    assert len(instrumented.code.images) > 3
    flags = compiler.flags.Flags({"check_bounds": True})
    monkeypatch.setattr(compiler.flags, "current", lambda: flags)
    assert len(compiled(module(100)).code.images) <= 2


# -- division of texts


def divided(definitions: list[str], declarations: set[str] = frozenset()) -> list[str]:
    found: list[str] = []
    module = ModuleParts(set(declarations), ATTRIBUTES, found.append)
    for definition in definitions:
        module.append(definition)
    return [*found, module.last_part()]


def function(name: str, *called: str, head: str = "define internal void") -> str:
    calls = "".join(f"  call void @{other}()\n" for other in called)
    return f"{head} @{name}() #0 {{\n{calls}  ret void\n}}"


def test_a_part_declares_what_it_uses_of_parts_before(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 30)
    first, second, third = divided(
        [function("f"), function("g", "f", "h"), "; a comment on @nothing\n" + function("k", "g", head="define void")],
        {"declare void @h()", "declare void @unused()"},
    )
    assert first == f"\ndefine void @f() #0 {{\n  ret void\n}}\n{ATTRIBUTES}\n"
    assert second.splitlines()[:3] == ["declare void @f() nounwind", "declare void @h()", ""]
    assert third.splitlines()[:2] == ["declare void @g() nounwind", ""]
    assert "define void @g() #0 {" in second


def test_constants_are_repeated(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 30)
    constant = '@c1 = private unnamed_addr constant [4 x i8] c"\\00\\01\\02\\03", align 64'
    table = "@t = internal constant [1 x [1 x i64]] [[1 x i64] [i64 7]]"
    found = divided([constant, function("f", "c1"), table, function("g", "t"), function("h", "c1", "t")])
    assert [constant in part for part in found] == [True, True, False, False, True]
    assert [table in part for part in found] == [False, False, True, True, True]


def test_parts_end_only_where_everything_is_defined(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 30)
    found = divided([function("f", "late"), function("g"), function("h"), function("late"), function("k")])
    assert len(found) < 5
    for part in found:
        known = set(re.findall(r"(?:define|declare) (?:internal )?void @(\w+)", part))
        assert set(re.findall(r"@(\w+)", part)) == known


def test_nothing_is_divided_without_a_receiver():
    module = ModuleParts(set(), ATTRIBUTES, None)
    for number in range(10):
        module.append(function(f"f{number}") + " " * parts.PART_BYTES)
    assert module.last_part() == module.whole()


# -- failures


def test_a_part_that_takes_too_long(small_parts, monkeypatch, caplog):
    """The whole program gets a simpler form, as a small one does."""
    text, limits = module(100), Limits.of("")
    spent = Limits(-1.0, limits.memory)
    monkeypatch.setattr(compilation.Limits, "of", staticmethod(lambda text: limits))
    original = jit.object_file
    taken = iter([limits] * 3 + [spent] * 1000)

    def object_file(part, trace, processor, _limits, level=jit.OPTIMIZED):
        if next(taken) is spent:
            raise compilation.StageLimitExceededError("1 s of processor time", "code generation")
        return original(part, trace, processor, limits, level)

    monkeypatch.setattr(compilation, "object_file", object_file)
    with caplog.at_level(logging.WARNING, "xlapy"):
        found = compiled(text)
    assert len(found.code.images) == 1
    assert [message.split(";")[0] for message in caplog.messages] == [
        "parts: LLVM exceeded 1 s of processor time in code generation"
    ]


def test_other_errors_of_a_part_are_raised(small_parts, monkeypatch):
    def object_file(*_):
        raise UnsupportedError(CODE_GENERATION_LIMITS, "LLVM is gone")

    monkeypatch.setattr(compilation, "object_file", object_file)
    with raises(UnsupportedError, CODE_GENERATION_LIMITS, "LLVM is gone"):
        compiled(module(100))
