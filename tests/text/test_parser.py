"""Parsing HLO text: accepted forms, inferred shapes, names, annotations, and the message and position of each error."""

from __future__ import annotations

import pytest

from tests.raising import Wanted, raises
from tests.text.modules import ASYNC, FRAMES, LOOP, REDUCE
from xlapy import opcodes
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.error_codes.structure import asynchronous as async_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError, VerificationError
from xlapy.base.shape import Shape
from xlapy.hlo.module import Alias, BufferDonor
from xlapy.text import parse_hlo, print_module

HEAD = "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n"


def test_header_and_annotations_are_kept() -> None:
    module = parse_hlo(REDUCE)
    config = module.config
    assert (module.name, config.is_scheduled, config.replica_count, config.num_partitions) == (
        "reduce_rows",
        True,
        2,
        4,
    )
    assert config.input_output_alias == (Alias((), 0, (), must=True),)
    assert config.buffer_donors == (BufferDonor(1, ()),)
    assert config.frontend_attributes == {"a": "x y", "j": '{"k": [1, {}]}'}
    assert config.entry_computation_layout is not None
    assert config.entry_computation_layout.parameters[1] == Shape.parse("f32[4,8]{0,1}")
    entry = module.entry_computation
    assert entry.find("zero").metadata is not None
    assert entry.find("zero").metadata.op_name == 'jit(f)/"q"'
    assert entry.find("zero").metadata.source_line == 7
    assert entry.find("start").original_value == '{"start"}'
    assert entry.find("start").attributes.parameter_replication == (True,)
    assert entry.find("total").backend_config == '{"kind": {"n": "}"}}'
    assert entry.find("out").backend_config == 'plain "text"'
    assert entry.find("out").statistics == "visualizing_index=1,count=3,share=0.25"
    assert entry.find("out").control_predecessors == (entry.find("total"),)
    assert entry.find("scaled").result_accuracy == "tolerance={atol=1,rtol=0.5,ulps=2}"
    assert str(entry.find("rows").sharding) == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
    assert entry.find("total").to_apply is module.find("add_f32")


def test_layouts_default_to_row_major_and_dynamic_dimensions_are_kept() -> None:
    state = parse_hlo(LOOP).entry_computation.find("start").shape
    assert state.tuple_shapes[1] == Shape.parse("f32[2,<=3]{1,0}")
    assert state.tuple_shapes[1].dynamic_dimensions == (False, True)


def test_branches_keep_the_order_of_the_text() -> None:
    entry = parse_hlo(LOOP).entry_computation
    assert [c.name for c in entry.find("c").computations] == ["left", "right"]
    assert [c.name for c in entry.find("d").computations] == ["right", "left"]
    assert entry.find("w").computation("body").name == "body"


def test_missing_shapes_are_inferred() -> None:
    module = parse_hlo(f"{HEAD}  q = negate(p)\n  t = tuple(p, q)\n  ROOT r = get-tuple-element(t), index=1\n}}")
    assert module.entry_computation.find("t").shape == Shape.parse("(f32[4]{0}, f32[4]{0})")
    assert module.entry_computation.root_instruction.shape == Shape.parse("f32[4]")


def test_names_are_made_unique_in_the_module() -> None:
    module = parse_hlo(
        "HloModule m\na { x = f32[] parameter(0) }\nb { x = f32[] parameter(0) }\n"
        "ENTRY e { x = f32[] parameter(0)\n y = f32[] call(x), to_apply=a\n "
        "ROOT z = f32[] call(y), to_apply=b }"
    )
    assert [i.name for i in module.instructions()] == ["x", "x.1", "x.2", "y", "z"]


def test_without_entry_the_last_computation_is_the_entry() -> None:
    module = parse_hlo("HloModule m\na { x = f32[] parameter(0) }\nb { y = f32[2] parameter(0) }")
    assert module.entry_computation.name == "b"
    assert module.config.entry_computation_layout.result == Shape.parse("f32[2]")


def test_without_root_the_last_instruction_is_the_root() -> None:
    assert parse_hlo(f"{HEAD}  q = f32[4] negate(p)\n}}").entry_computation.root_instruction.name == "q"


def test_computations_without_header() -> None:
    module = parse_hlo(
        "f (x: f32[]) -> f32[] { x = f32[] parameter(0) }\nENTRY g { x = f32[] parameter(0)\n"
        "ROOT y = f32[] call(x), to_apply=f }"
    )
    assert (module.name, module.entry_computation.name) == ("module_g", "g")


def test_operands_of_a_single_instruction_become_parameters() -> None:
    module = parse_hlo("f32[2] add(f32[2] %a, f32[2])")
    entry = module.entry_computation
    assert [p.name for p in entry.parameters] == ["a", "_1"]
    assert entry.root_instruction.op is opcodes.ADD
    assert module.config.is_scheduled


def test_computations_may_be_used_before_they_are_defined() -> None:
    module = parse_hlo(
        "HloModule m\nENTRY e { p = f32[] parameter(0)\n ROOT c = f32[] call(p), to_apply=f }\n"
        "f { x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }"
    )
    assert module.entry_computation.root_instruction.to_apply is module.find("f")
    assert print_module(module).index("%f (") < print_module(module).index("ENTRY")


def test_computations_and_instructions_written_in_place_of_names() -> None:
    module = parse_hlo(
        f"{HEAD}  ROOT c = f32[4] call(add(p, multiply(p, p))), "
        "to_apply={ q = f32[4] parameter(0)\n ROOT r = f32[4] negate(q) }\n}"
    )
    root = module.entry_computation.root_instruction
    assert [i.name for i in module.entry_computation] == ["p", "multiply.anon", "add.anon", "c"]
    assert root.to_apply.root_instruction.op is opcodes.NEGATE
    assert [c.name for c in module.computations] == ["_", "e"]


def test_a_number_sign_takes_an_element_of_a_tuple() -> None:
    module = parse_hlo(
        "HloModule m\nENTRY e { t = (f32[2], (s32[], f32[3])) parameter(0)\nROOT r = f32[3] add(t#1#1, f32[3] %t#1#1) }"
    )
    root = module.entry_computation.root_instruction
    assert root.operands[0] is root.operands[1]
    assert [i.name for i in module.entry_computation] == ["t", "t_1", "t_1_1", "r"]


def test_the_short_asynchronous_form_makes_a_computation() -> None:
    module = parse_hlo(ASYNC)
    start = module.entry_computation.find("s")
    assert start.op is opcodes.ASYNC_START
    assert start.computations[0].root_instruction.op is opcodes.NEGATE
    assert start.computations[0].root_instruction.metadata == start.metadata
    assert start.computations[0].execution_thread == start.async_execution_thread == "side"
    assert module.entry_computation.find("c").computations[0].root_instruction.to_apply is module.find("work")
    assert "negate-update(%s)" in print_module(module)
    assert module.entry_computation.find("f").operands[0].op is opcodes.ALL_REDUCE_START


@pytest.mark.parametrize("operands", ["y, x", "x, x"])
def test_the_short_asynchronous_form_is_not_printed_if_it_would_change_operands(operands: str) -> None:
    text = (
        "HloModule m\nf { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT d = f32[] subtract(OPERANDS) }\n"
        "ENTRY e { p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
        " s = ((f32[], f32[]), f32[], u32[]) async-start(p, q), calls=f\n ROOT r = f32[] async-done(s) }"
    )
    printed = print_module(parse_hlo(text.replace("OPERANDS", operands)))
    assert "async-start(%p, %q), calls=%f" in printed
    assert print_module(parse_hlo(printed)) == printed
    assert "subtract-start(%p, %q)" in print_module(parse_hlo(text.replace("OPERANDS", "x, y")))


def test_only_used_stack_frames_are_kept() -> None:
    module = parse_hlo(FRAMES)
    frames = module.stack_frames
    assert frames is not None
    assert frames.file_names == ["lib.py", 'a"b.py']
    assert [(f.file_location_id, f.parent_frame_id) for f in frames.frames] == [(1, 0), (2, 1)]
    assert module.entry_computation.find("b").metadata.stack_frame_id == 2
    assert module.entry_computation.find("c").metadata.stack_frame_id == 0


def test_comments_are_allowed_between_all_tokens() -> None:
    module = parse_hlo(
        "HloModule /*a*/ m // b\nENTRY e /*{*/ {\n/*1*/p = /*2*/ f32[ /*3*/ 4] parameter(/*4*/0)/*5*/\n"
        'ROOT q = f32[4] add(p, /*index=1*/p), /*x*/ metadata={op_name="/*no*/"} }'
    )
    assert module.entry_computation.find("q").metadata.op_name == "/*no*/"
    assert module.entry_computation.find("p").shape == Shape.parse("f32[4]")


def test_operand_shapes_must_agree() -> None:
    assert parse_hlo(f"{HEAD}  ROOT q = f32[4] negate(f32[<=4]{{0}} %p)\n}}").entry_computation.find("q")
    with raises(ParseError, text_codes.REDECLARED_SHAPE, "'p'", "f32[5]{0}", "f32[4]{0}"):
        parse_hlo(f"{HEAD}  ROOT q = f32[4] negate(f32[5] p)\n}}")


def test_parsing_without_verification() -> None:
    text = f"{HEAD}  ROOT q = f32[5] negate(p)\n}}"
    assert parse_hlo(text, verify=False).entry_computation.find("q").shape == Shape.parse("f32[5]")
    with raises(VerificationError, operand_codes.RESULT_SHAPE, "q (negate)"):
        parse_hlo(text)


ERRORS = [
    # text, line, column, code and values
    ("", 1, 1, (text_codes.TOKEN, "a shape or an operation")),
    ("HloModule", 1, 10, (text_codes.TOKEN, "the name of the module")),
    ("HloModule m, is_schedule=true\n", 1, 14, (text_codes.UNKNOWN_KEY, "'is_schedule'", "'is_scheduled'")),
    ("HloModule m, replica_count=1, replica_count=1\n", 1, 31, (text_codes.REPEATED_KEY, "'replica_count'")),
    ("HloModule m\nENTRY e {\n", 3, 1, (text_codes.TOKEN, "the name of an instruction")),
    ("HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n", 2, 9, (text_codes.CLOSING_BRACKET, "'e'")),
    (
        "HloModule m\nENTRY e { p = f32[4] parameter(0) }\nENTRY f { p = f32[4] parameter(0) }",
        3,
        1,
        (text_codes.ONE_MARK, "ENTRY", "'e'"),
    ),
    (
        "HloModule m\nf { p = f32[] parameter(0) }\nf { p = f32[] parameter(0) }",
        3,
        1,
        (module_codes.UNIQUE_NAMES, "'f'"),
    ),
    ("HloModule m\nf { p = f32[] parameter(0) } junk", 2, 34, (text_codes.TOKEN, "'{'")),
    (
        "HloModule m\nENTRY e () -> f32[5] { p = f32[4] parameter(0) }",
        2,
        15,
        (text_codes.REDECLARED_SHAPE, "f32[5]", "p"),
    ),
    (HEAD + "  q = f32[4] negate(r)\n}", 4, 21, (text_codes.UNDEFINED_NAME, "'r'")),
    (HEAD + "  qq = f32[4] negate(p)\n  r = f32[4] negate(q)\n}", 5, 21, (text_codes.UNDEFINED_NAME, "'qq'")),
    (HEAD + "  q = f32[4] negate(p, p)\n}", 4, 14, (operand_codes.OPERAND_COUNT, "negate takes 1", "given 2")),
    (HEAD + "  q = f32[4] negate(p\n}", 5, 1, (text_codes.TOKEN, "','", "')'", "'p'", "'}'")),
    (HEAD + "  q = f32[4] reverse(p)\n}", 4, 14, (text_codes.MISSING_KEY, "reverse", "'dimensions'")),
    (
        HEAD + "  q = f32[4] reverse(p), dimension={0}\n}",
        4,
        26,
        (text_codes.UNKNOWN_KEY, "'dimension'", "'dimensions'"),
    ),
    (
        HEAD + "  q = f32[4] reverse(p), dimensions={0}, dimensions={0}\n}",
        4,
        42,
        (text_codes.REPEATED_KEY, "'dimensions'"),
    ),
    (
        HEAD + "  q = f32[4] reverse(p), dimensions={99999999999999999999999}\n}",
        4,
        38,
        (text_codes.INTEGER_RANGE, "64 bits"),
    ),
    (HEAD + "  q = f32[4] reverse(p),\n}", 5, 1, (text_codes.TOKEN, "dimensions=", "{0}", "'}'")),
    (HEAD + "  q = f32[4] map(p), dimensions={0}\n}", 4, 14, (text_codes.MISSING_KEY, "'to_apply'")),
    (HEAD + "  q = f32[4] call(p), to_apply=f\n}", 4, 32, (text_codes.UNDEFINED_NAME, "'f'")),
    (HEAD + "  p = f32[4] negate(p)\n}", 4, 3, (module_codes.UNIQUE_NAMES, "'p'")),
    (HEAD + "  ROOT a = f32[4] negate(p)\n  ROOT b = f32[4] negate(p)\n}", 5, 3, (text_codes.ONE_MARK, "'a'")),
    (HEAD + "  %u2 = f32[4] negate(p)\n}", 4, 4, (text_codes.INSTRUCTION_NAME, "'u2'", "'u2_'")),
    (HEAD + "  __a = f32[4] negate(p)\n}", 4, 3, (text_codes.INSTRUCTION_NAME, "'a_a'")),
    (HEAD + "  c = f32[2] constant({1, 2, 3})\n}", 4, 30, (value_codes.LITERAL_SIZE, "expected 2")),
    (HEAD + "  c = constant(1)\n}", 4, 7, (operand_codes.INFERRED_SHAPE, "constant")),
    (HEAD + "  q = reshape(p)\n}", 4, 7, (operand_codes.INFERRED_SHAPE, "reshape")),
    (HEAD + "  q = f32[4 negate(p)\n}", 4, 13, (text_codes.TOKEN, "expected")),
    (HEAD + "  q = f32[4]{1,0} negate(p)\n}", 4, 13, (value_codes.LAYOUT_RANK, "1", "orders 2")),
    (
        HEAD + "  q = f32[4] negate(p), sharding={devices=[3]<=[4]}\n}",
        4,
        51,
        (annotation_codes.SHARDING_DEVICES, "[3]", "given 4"),
    ),
    (HEAD + '  q = f32[4] negate(p), metadata={op_nam="x"}\n}', 4, 42, (text_codes.UNKNOWN_KEY, "'op_nam'")),
    (HEAD + '  q = f32[4] negate(p), backend_config={"a":{}\n', 4, 40, (text_codes.CLOSING_BRACKET, "dictionary")),
    (HEAD + '  q = f32[4] negate(p), metadata={op_name="\\q"}\n}', 4, 43, (text_codes.ESCAPE,)),
    (HEAD + "  q = f32[4] negate(p), control-predecessors={r}\n}", 4, 47, (text_codes.UNDEFINED_NAME, "'r'")),
    (HEAD + "  q = f32[4] negate-start(p)\n}", 4, 14, (async_codes.ASYNC_SHAPE, "(operands...)")),
    (HEAD + "  q = f32[4] negate-done(p)\n}", 4, 14, (async_codes.ASYNC_OPERAND, "operand 0")),
    ("f32[] add(x, y)", 1, 11, (text_codes.UNDEFINED_NAME, "'x'")),
    ("f32[] add(f32[] x, f32[] y) z", 1, 29, (text_codes.TOKEN, "a module begins with HloModule")),
]


@pytest.mark.parametrize(("text", "line", "column", "expected"), ERRORS)
def test_errors_have_a_position(text: str, line: int, column: int, expected: Wanted) -> None:
    with raises(ParseError, *expected) as caught:
        parse_hlo(text)
    assert isinstance(caught.value, ParseError)
    check_position(caught.value, text, line, column)


def check_position(error: ParseError, text: str, line: int, column: int) -> None:
    assert (error.line, error.column) == (line, column)
    assert error.source_line == (text.split("\n")[line - 1] if text else "")
    assert str(error).splitlines()[-1] == " " * (column + 1) + "^"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        (HEAD + "  q = f32[4] subtrct(p, p)\n}", 4, 14, "unknown operation 'subtrct'; did you mean subtract"),
        (HEAD + "  q = f32[4] reverse(p), dimensions={0,x}\n}", 4, 37, "expected a braced list of integers"),
    ],
)
def test_errors_of_operations_and_attributes_have_a_position(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_hlo(text)
    assert message in caught.value.message
    check_position(caught.value, text, line, column)


def test_errors_name_the_file() -> None:
    with pytest.raises(ParseError, match=r"^model\.hlo:4:14: unknown operation"):
        parse_hlo(f"{HEAD}  q = f32[4] foo(p)\n}}", filename="model.hlo")


def test_an_instruction_named_x_after_sizes_joined_by_x() -> None:
    """`1_2` and `2x2` are whole tokens, as in XLA: an `x` on the next line begins a name."""
    module = parse_hlo("""HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  p = f32[5,4] parameter(0)
  z = f32[] constant(0)
  d = f32[8,6] pad(p, z), padding=1_2x1_1
  xor.1 = f32[8,6] pad(p, z), padding=1_2_0x1_1_0
  x2 = f32[4,3] reduce-window(p, z), window={size=2x2}, to_apply=add
  x = f32[5,4] negate(p)
  ROOT t = (f32[8,6], f32[8,6], f32[4,3], f32[5,4]) tuple(d, xor.1, x2, x)
}""")
    text = module.to_text()
    assert "%d = f32[8,6]{1,0} pad(%p, %z), padding=1_2x1_1\n" in text
    assert "%xor.1 = f32[8,6]{1,0} pad(%p, %z), padding=1_2x1_1\n" in text
    assert "%x = f32[5,4]{1,0} negate(%p)\n" in text


@pytest.mark.parametrize("padding", ["1_2 x0_0", "1_2x 0_0", "1_2x", "1_2\n  x0_0"])
def test_paddings_have_no_blanks(padding: str) -> None:
    with pytest.raises(ParseError):
        parse_hlo(
            "ENTRY e { p = f32[2,2] parameter(0)  z = f32[] constant(0)\n"
            f"ROOT d = f32[5,2] pad(p, z), padding={padding} }}"
        )
