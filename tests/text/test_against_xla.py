"""Compares parsing and printing with jaxlib's parser and printer, for the three presets and for single options."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests import xla_reference
from tests.text.modules import MODULES
from xlapy.text import PrintOptions, parse_hlo, print_module

PROGRAMS = sorted(Path(__file__).parent.parent.joinpath("programs").glob("*.hlo"))

FORMS = {
    "long": ({}, PrintOptions.long()),
    "short": ({"short": True}, PrintOptions.short()),
    "canonical": ({"canonical": True}, PrintOptions.canonical()),
}

OPTIONS = [
    {"print_large_constants": True},
    {"print_metadata": False},
    {"print_backend_config": False},
    {"print_operand_shape": True},
    {"print_operand_names": False},
    {"print_program_shape": False},
    {"include_layout_in_shapes": False},
    {"print_percent": False},
    {"print_control_dependencies": False},
    {"compact_operands": True},
    {"print_ids": False},
    {"print_result_shape": False},
    {"print_extra_attributes": False},
    {"indent_amount": 2},
    {"is_in_nested_computation": True},
    {"canonicalize_instruction_names": True, "print_percent": False, "print_operand_shape": True},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODULES)
def test_printed_text_equals_that_of_xla(name: str, form: str) -> None:
    theirs, ours = FORMS[form]
    module = parse_hlo(MODULES[name])
    assert print_module(module, ours) == xla_reference.parse_and_print(MODULES[name], **theirs)


@pytest.mark.parametrize("changes", OPTIONS, ids=lambda changes: "+".join(changes))
@pytest.mark.parametrize("name", ["reduce", "loop", "async"])
def test_single_options(name: str, changes: dict[str, bool | int]) -> None:
    module = parse_hlo(MODULES[name])
    printed = print_module(module, dataclasses.replace(PrintOptions(), **changes))
    assert printed == xla_reference.parse_and_print(MODULES[name], **changes)


@pytest.mark.parametrize("name", MODULES)
def test_printed_text_reads_back_to_the_same_module(name: str) -> None:
    options = PrintOptions(print_large_constants=True)
    text = print_module(parse_hlo(MODULES[name]), options)
    again = parse_hlo(text)
    assert print_module(again, options) == text
    by_name = {i.name: i for i in again.instructions()}
    for before in parse_hlo(MODULES[name]).instructions():
        after = by_name[before.name]
        assert (after.op, after.shape, after.attributes) == (before.op, before.shape, before.attributes)
        assert [o.name for o in after.operands] == [o.name for o in before.operands]
        assert (after.sharding, after.backend_config, after.frontend_attributes) == (
            before.sharding,
            before.backend_config,
            before.frontend_attributes,
        )


@pytest.mark.parametrize("path", PROGRAMS[::8], ids=lambda path: path.stem)
def test_programs_print_as_xla_prints_them(path: Path) -> None:
    text = path.read_text()
    module = parse_hlo(text, verify=False)
    for theirs, ours in FORMS.values():
        assert print_module(module, ours) == xla_reference.parse_and_print(text, **theirs)


LENIENT = [
    "f { a = f32[] parameter(0) }",
    "ENTRY f { a = f32[2]{0} parameter(0)\n ROOT b = add(a, maximum(a, a)) }",
    "a = f32[] add(f32[] x, f32[] y)",
    "f32[] add(f32[] %a, f32[])",
    'f32[2]{0:T(8)} negate(f32[2] x), metadata={op_name="n"}',
    "ROOT a = f32[] call(f32[] x), to_apply={ p = f32[] parameter(0)\n ROOT q = f32[] negate(p) }",
    "HloModule m\n f { ROOT a = f32[2] parameter(0) } b { ROOT a = f32[2] parameter(0) }",
    "HloModule m:\nENTRY %e { %a = f32[2]{0} parameter(0)\n ROOT %b = (f32[2], (f32[2])) "
    "tuple(%a, (f32[2]) tuple(%a)) }",
    "HloModule m\nENTRY e { p = f32[4] parameter(0)\n add.1 = add(p, p)\n "
    "ROOT r = multiply(add(p, p), add(p, add.1)) }",
    "HloModule m\nENTRY e { p = f32[4] parameter(0)\n add.anon = add(p, p)\n ROOT r = multiply(add(p, p), add.anon) }",
    "HloModule m, allow_spmd_sharding_propagation_to_output={true,false}, alias_passthrough_params=true\n"
    "ENTRY e { ROOT p = (f32[4], f32[]) parameter(0) }",
    "HloModule m\nENTRY e { ROOT c = (f32[2], (pred[], s4[2])) constant(({1, 2}, (true, {3, -4}))) }",
    "HloModule m\nENTRY e { c = c64[2] constant({(1, 2), (inf, -1e-3)})\n ROOT d = bf16[2] constant({1.5, -nan}) }",
    "HloModule m\nENTRY e { ROOT c = f32[] constant(/*a*/ 1 // b\n) }",
    "HloModule m\nENTRY e { p = f32[?,<=4]{0,1:T(2,128)(2,1)S(5)} parameter(0)\n ROOT q = f32[?,<=4]{0,1} copy(p) }",
    "HloModule m\nw { q = f32[4] parameter(0)\n r = f32[4] negate(q)\n "
    'ROOT t = f32[4] negate(r) }, execution_thread="side"\n'
    "ENTRY e { p = f32[4] parameter(0)\n s = ((f32[4]), f32[4], s32[]) async-start(p), "
    'async_execution_thread="side", calls=w\n ROOT d = f32[4] async-done(s) }',
    'HloModule m, origin_recovery_table={ {"b" {1}} : {"c"}, "f { ROOT p = f32[] parameter(0) }" '
    '{"a"}:{"d"} }\n'
    'ENTRY e { ROOT p = f32[4] parameter(0), origin={({"x" {0}}, {})} }',
    # XLA replaces the declared shapes of transfers by its own.
    "HloModule m\nENTRY e { p = f32[4] parameter(0)\n t = token[] after-all()\n"
    " s = f32[9] send(p, t), channel_id=1\n d = (f32[4], token[]) send-done(s), channel_id=1\n"
    " r = (f32[2]{0:T(8)}, s32[]) recv(t), channel_id=2\n q = (f32[3], token[]) recv-done(r), channel_id=2\n"
    " o = (s32[]) outfeed(p, t)\n i = ((f32[2], s8[]), u8[]) infeed(t)\n a = f32[3] after-all(t, d)\n"
    " ROOT n = f32[8] add-dependency(p, a) }",
    # Constants lose the element size in bits; tiles and memory spaces are kept.
    "HloModule m\nENTRY e { a = s4[2]{0:T(8)E(4)S(2)} constant({1, 2})\n b = s4[]{:E(4)} constant(3)\n"
    " ROOT c = (s4[2,1]{0,1:E(4)}, f32[2]{0:S(1)}) constant(({{1}, {2}}, {3, 4})) }",
    # The program shape of a single instruction is row-major.
    "f32[2,3]{0,1:T(8)S(1)} negate(f32[2,3]{0,1:S(1)} x)",
    "c = (f32[2,3]{0,1}, f32[]) tuple(f32[2,3]{0,1} x, f32[] y)",
    # A get-tuple-element of a `tuple` instruction has the original value of the tuple's operand.
    'HloModule m\nENTRY e { p = f32[2] parameter(0), origin={{"p"}}\n q = f32[2] parameter(1)\n'
    ' u = (f32[2], f32[2]) tuple(p, q), origin={({"u" {0}}, {"u" {1}})}\n g = f32[2] get-tuple-element(u), index=0\n'
    ' x = f32[2] get-tuple-element(u), index=0, origin={{"y"}}\n'
    ' y = f32[2] get-tuple-element(u), index=0, metadata={op_name="a"}\n ROOT z = f32[2] add(x, y) }',
    "HloModule m\nENTRY e { ROOT p = f32[] parameter(0), "
    'backend_config={"a":1,\n "wait_on_operation_queues" : [ ],"b":2} }',
    'HloModule m\nENTRY e { ROOT p = f32[] parameter(0), backend_config={"a":1, "wait_on_operation_queues":[]} }',
    "HloModule m\nENTRY e { p = f32[2,2] parameter(0)\n"
    " ROOT d = f32[2,2] dot(p, p), lhs_contracting_dims={/*k*/1}, rhs_contracting_dims={ 0 // k\n} }",
    "HloModule m\nENTRY e { p = f32[] parameter(0)\n ROOT r = f32[] exponential(p), result_accuracy={mode=HIGHEST} }",
]


@pytest.mark.parametrize("text", LENIENT)
def test_unusual_forms(text: str) -> None:
    assert print_module(parse_hlo(text, verify=False)) == xla_reference.parse_and_print(text)


def test_nested_callees_print_in_the_order_of_xla() -> None:
    """The loop and the loop in its body call the same condition, which XLA prints after the body."""
    text = (
        "HloModule m\ncond { s = (s32[]) parameter(0)\n ROOT r = pred[] constant(false) }\n"
        "inner { ROOT s = (s32[]) parameter(0) }\n"
        "outer { s = (s32[]) parameter(0)\n ROOT w = (s32[]) while(s), condition=cond, body=inner }\n"
        "ENTRY e { s = (s32[]) parameter(0)\n ROOT w = (s32[]) while(s), condition=cond, body=outer }"
    )
    printed = print_module(parse_hlo(text))
    assert printed == xla_reference.parse_and_print(text)
    assert printed.index("%outer") < printed.index("%cond (")
    assert print_module(parse_hlo(printed)) == printed


def test_recovery_tables_are_indented_with_the_module() -> None:
    text = (
        'HloModule m, origin_recovery_table={ {"b" {1}} : {"c"}, "f { ROOT p = f32[] parameter(0) }" {"a"}:{"d"} }\n'
        "ENTRY e { ROOT p = f32[4] parameter(0) }"
    )
    options = {"indent_amount": 2, "is_in_nested_computation": True}
    printed = print_module(parse_hlo(text), dataclasses.replace(PrintOptions(), **options))
    assert printed == xla_reference.parse_and_print(text, **options)
