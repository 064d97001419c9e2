"""assign-layouts: where layouts come from, how many copies they cost, and the errors of the strict verifier."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_same_results, program, run_passes
from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.structure import asynchronous as codes
from xlapy.base.errors import VerificationError
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.hlo.verification.layouts import verify_layouts
from xlapy.text import PrintOptions, parse_hlo, print_computation


def assigned(text: str) -> Module:
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, "assign-layouts,verify-module{layouts=true}")
    assert_same_results(before, after)
    assert not run_passes(after, "assign-layouts")
    return after


def lines(module: Module) -> list[str]:
    text = print_computation(module.entry_computation, PrintOptions.short())
    return [line.strip() for line in text.splitlines()[1:-1]]


def test_a_transpose_moves_nothing() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "y = f32[3,4] parameter(1)",
        "t = f32[3,2] transpose(x), dimensions={1,0}",
        "e = f32[3,2] exponential(t)",
        "ROOT d = f32[2,4] dot(e, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    assert lines(assigned(text)) == [
        "x = f32[2,3]{1,0} parameter(0)",
        "bitcast = f32[3,2]{0,1} bitcast(x)",
        "e = f32[3,2]{0,1} exponential(bitcast)",
        "y = f32[3,4]{1,0} parameter(1)",
        "ROOT d = f32[2,4]{1,0} dot(e, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ]


def test_a_reshape_of_another_layout_copies_first() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "t = f32[3,2] transpose(x), dimensions={1,0}",
        "ROOT r = f32[6] reshape(t)",
    )
    assert lines(assigned(text)) == [
        "x = f32[2,3]{1,0} parameter(0)",
        "bitcast = f32[3,2]{0,1} bitcast(x)",
        "copy = f32[3,2]{1,0} copy(bitcast)",
        "ROOT bitcast.1 = f32[6]{0} bitcast(copy)",
    ]


def test_the_entry_decides() -> None:
    text = (
        "HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->(f32[2,3]{0,1}, f32[2,3]{1,0})}\n"
        "ENTRY main {\n  x = f32[2,3] parameter(0)\n  y = f32[2,3] parameter(1)\n  s = f32[2,3] add(x, y)\n"
        "  ROOT t = (f32[2,3], f32[2,3]) tuple(s, s)\n}\n"
    )
    module = assigned(text)
    assert lines(module)[:4] == [
        "x = f32[2,3]{0,1} parameter(0)",
        "y = f32[2,3]{1,0} parameter(1)",
        "copy = f32[2,3]{0,1} copy(y)",
        "s = f32[2,3]{0,1} add(x, copy)",
    ]
    assert module.entry_computation.root_instruction.shape.to_text() == "(f32[2,3]{0,1}, f32[2,3]{1,0})"
    assert [i.op for i in module.entry_computation].count(opcodes.COPY) == 2


def test_a_value_is_copied_once_a_layout() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "t = f32[3,2] transpose(x), dimensions={1,0}",
        "a = f32[6] reshape(t)",
        "b = f32[1,6] reshape(t)",
        "ROOT r = (f32[6], f32[1,6]) tuple(a, b)",
    )
    assert [i.op for i in assigned(text).entry_computation].count(opcodes.COPY) == 1


def test_loops_and_branches_have_row_major_parameters_and_results() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "c = pred[] parameter(1)",
        "t = f32[3,2] transpose(x), dimensions={1,0}",
        "ROOT r = f32[3,2] conditional(c, t, t), true_computation=yes, false_computation=no",
        before="""
yes { p = f32[3,2] parameter(0) ROOT n = f32[3,2] negate(p) }
no {
  q = f32[3,2] parameter(0)
  s = f32[2,3] transpose(q), dimensions={1,0}
  v = f32[2,3] negate(s)
  ROOT u = f32[3,2] transpose(v), dimensions={1,0}
}
""",
    )
    module = assigned(text)
    branch = module.entry_computation.root_instruction.computations[1]
    assert [i.op for i in branch] == [opcodes.PARAMETER, opcodes.NEGATE, opcodes.BITCAST, opcodes.BITCAST]


def test_layouts_that_bitcasts_rely_on_are_kept() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "t = f32[3,2]{1,0} transpose(x), dimensions={1,0}",
        "b = f32[2,3]{0,1} bitcast(t)",
        "ROOT r = f32[2,3] negate(b)",
    )
    module = assigned(text)
    bitcast = module.entry_computation.find("b")
    assert bitcast.operands[0].op is opcodes.COPY
    assert bitcast.operands[0].shape.to_text() == "f32[3,2]{1,0}"
    assert bitcast.shape.to_text() == "f32[2,3]{0,1}"


def test_memory_spaces_and_element_sizes_survive() -> None:
    text = program(
        "x = s4[2,4]{1,0:E(4)S(5)} parameter(0)",
        "t = s4[4,2]{1,0:E(4)S(5)} transpose(x), dimensions={1,0}",
        "ROOT n = s4[4,2]{1,0:E(4)S(5)} negate(t)",
    )
    module = assigned(text)
    negate = next(i for i in module.entry_computation if i.op is opcodes.NEGATE)
    assert negate.shape.to_text() == "s4[4,2]{0,1:E(4)S(5)}"


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (
            ("x = f32[2,3]{0,1} parameter(0)", "ROOT r = f32[2,3]{1,0} negate(x)"),
            ("r (negate)", "operand 0"),
        ),
        (
            ("x = f32[2,3]{0,1} parameter(0)", "ROOT r = (f32[2,3]{1,0}) tuple(x)"),
            ("r (tuple)", "operand 0"),
        ),
        (
            ("x = f32[2,3]{0,1} parameter(0)", "ROOT r = f32[2,3]{1,0} call(x), to_apply=same"),
            ("r (call)", ": x "),
        ),
        (
            ("x = (f32[2,3]{0,1}) parameter(0)", "ROOT r = f32[2,3]{1,0} get-tuple-element(x), index=0"),
            ("r (get-tuple-element)",),
        ),
    ],
)
def test_the_strict_verifier(lines: tuple[str, ...], values: tuple[str, ...]) -> None:
    module = parse_hlo(program(*lines, before="same { p = f32[2,3] parameter(0) ROOT q = f32[2,3] copy(p) }"))
    with raises(VerificationError, codes.LAYOUT_KEPT, "main", *values, "f32[2,3]{0,1}", "f32[2,3]{1,0}"):
        verify_layouts(module)


def test_the_entry_layout_is_verified() -> None:
    head = "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}"
    text = f"{head}\nENTRY main {{\n  ROOT x = f32[2,3]{{1,0}} parameter(0)\n}}\n"
    with raises(VerificationError, codes.LAYOUT_KEPT, "f32[2,3]{1,0}", "f32[2,3]{0,1}"):
        verify_layouts(parse_hlo(text))
