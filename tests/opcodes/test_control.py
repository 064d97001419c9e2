"""Shape rules and attributes of control flow: call, while, conditional, fusion, async-*, ordering."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, read, refused, rewritten, shapes, written
from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import control as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import ParseError
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.control import AsyncStartAttributes, FusionKind
from xlapy.opcodes.registry import AsyncRole, Effect

SQUARE = "(x: f32[2]) -> f32[2]"


def test_call_has_the_shape_of_the_result() -> None:
    assert (
        inferred(opcodes.CALL, "f32[2]", "s32[]", calls=["(a: f32[2], b: s32[]) -> (f32[3], s32[])"])
        == "(f32[3], s32[])"
    )
    assert inferred(opcodes.CALL, "f32[<=2]", calls=[SQUARE]) == "f32[2]"


@pytest.mark.parametrize(
    ("operands", "calls", "wanted"),
    [
        (["f32[2]"], [], (shared.CALLED_COMPUTATIONS, "0")),
        (
            ["f32[2]", "f32[2]"],
            [SQUARE],
            (codes.PARAMETER_COUNT, "(x: f32[2]) -> f32[2]"),
        ),
        (["f32[3]"], [SQUARE], (codes.PARAMETER_SHAPE, "parameter 0", "f32[2]", "operand 0", "f32[3]")),
    ],
)
def test_call_refuses(operands: list[str], calls: list[str], wanted: Wanted) -> None:
    refused(wanted, opcodes.CALL, None, *operands, calls=calls)


def test_composite_is_printed_after_the_computation() -> None:
    (field,) = opcodes.CALL.attributes.fields
    assert field.after_computations and not field.is_printed(False) and field.is_printed(True)


def test_while_has_the_shape_of_its_state() -> None:
    state = "(s32[], f32[4])"
    calls = [f"(s: {state}) -> pred[]", f"(s: {state}) -> {state}"]
    assert inferred(opcodes.WHILE, state, calls=calls) == state
    assert opcodes.WHILE.in_place_pairs == ((0, ()),)


@pytest.mark.parametrize(
    ("condition", "body", "wanted"),
    [
        (
            "(a: s32[], b: s32[]) -> pred[]",
            "(a: s32[]) -> s32[]",
            (codes.PARAMETER_COUNT,),
        ),
        ("(a: s32[]) -> pred[]", "() -> s32[]", (codes.PARAMETER_COUNT, "() -> s32[]")),
        (
            "(a: f32[]) -> pred[]",
            "(a: s32[]) -> s32[]",
            (codes.PARAMETER_SHAPE, "condition's", "f32[]", "s32[]"),
        ),
        (
            "(a: s32[]) -> pred[]",
            "(a: u32[]) -> s32[]",
            (codes.PARAMETER_SHAPE, "body's", "u32[]", "s32[]"),
        ),
        ("(a: s32[]) -> s32[]", "(a: s32[]) -> s32[]", (codes.LOOP_CONDITION, "pred[]", "s32[]")),
        ("(a: s32[]) -> pred[1]", "(a: s32[]) -> s32[]", (codes.LOOP_CONDITION, "pred[]", "pred[1]")),
        ("(a: s32[]) -> pred[]", "(a: s32[]) -> f32[]", (codes.LOOP_VALUE, "f32[]", "s32[]")),
    ],
)
def test_while_refuses(condition: str, body: str, wanted: Wanted) -> None:
    refused(wanted, opcodes.WHILE, None, "s32[]", calls=[condition, body])


def test_conditional_has_the_shape_of_its_branches() -> None:
    calls = ["(a: f32[2]) -> f32[3]", "(b: s32[]) -> f32[3]"]
    assert inferred(opcodes.CONDITIONAL, "pred[]", "f32[2]", "s32[]", calls=calls) == "f32[3]"
    assert inferred(opcodes.CONDITIONAL, "s32[]", "f32[2]", "s32[]", calls=calls) == "f32[3]"


def test_conditional_is_dynamic_where_any_branch_is() -> None:
    calls = ["(a: f32[]) -> (f32[4], s32[<=2,3])", "(a: f32[]) -> (f32[<=4], s32[2,3])"]
    assert inferred(opcodes.CONDITIONAL, "s32[]", "f32[]", "f32[]", calls=calls) == "(f32[<=4], s32[<=2,3])"


@pytest.mark.parametrize(
    ("operands", "calls", "wanted"),
    [
        (["f32[]", "f32[2]"], [SQUARE], (codes.BRANCH_INDEX, "pred[]", "s32[]", "operand 0", "f32[]")),
        (["s32[1]", "f32[2]"], [SQUARE], (codes.BRANCH_INDEX, "pred[]", "s32[]", "operand 0", "s32[1]")),
        (["pred[]", "f32[2]"], [SQUARE], (shared.CALLED_COMPUTATIONS, "pred[]")),
        (["s32[]"], [], (codes.BRANCH_OPERANDS, "s32[]")),
        (["s32[]", "f32[2]"], [SQUARE] * 2, (codes.BRANCH_OPERANDS,)),
        (["s32[]", "f32[2]"], ["() -> f32[]"], (codes.PARAMETER_COUNT, "branch 0", "() -> f32[]")),
        (["s32[]", "f32[3]"], [SQUARE], (codes.PARAMETER_SHAPE, "branch 0", "f32[2]", "operand 1", "f32[3]")),
        (
            ["s32[]", "f32[2]", "f32[2]"],
            [SQUARE, "(x: f32[2]) -> s32[2]"],
            (codes.BRANCH_RESULTS, "branch 1", "s32[2]", "branch 0", "f32[2]"),
        ),
    ],
)
def test_conditional_refuses(operands: list[str], calls: list[str], wanted: Wanted) -> None:
    refused(wanted, opcodes.CONDITIONAL, None, *operands, calls=calls)


def test_conditional_names_its_branches_by_the_index_type() -> None:
    assert opcodes.CONDITIONAL.computation_slots_rule is not None
    on_pred = opcodes.CONDITIONAL.computation_slots_rule(shapes(["pred[]", "f32[]", "f32[]"]))
    on_index = opcodes.CONDITIONAL.computation_slots_rule(shapes(["s32[]", "f32[]"]))
    assert [slot.key for slot in on_pred] == ["true_computation", "false_computation"]
    assert [(slot.key, slot.variadic) for slot in on_index] == [("branch_computations", True)]


def test_fusion_has_the_shape_of_its_root() -> None:
    aliasing = (OutputAlias((1,), 0),)
    shape = "(s32[], f32[2])"
    program = f"(x: f32[2]) -> {shape}"
    assert inferred(opcodes.FUSION, "f32[2]", calls=[program], kind=FusionKind.LOOP) == shape
    assert (
        inferred(opcodes.FUSION, "f32[2]", calls=[program], kind=FusionKind.INPUT, output_to_operand_aliasing=aliasing)
        == shape
    )


@pytest.mark.parametrize(
    ("alias", "wanted"),
    [
        (OutputAlias((), 1), (codes.ALIAS_PLACE, "{}", "operand 1")),
        (OutputAlias((0,), 0), (codes.ALIAS_PLACE, "{0}", "{}", "f32[2]")),
        (OutputAlias((), 0, (3,)), (codes.ALIAS_PLACE, "{}", "{3}", "f32[2]")),
    ],
)
def test_fusion_refuses_aliases(alias: OutputAlias, wanted: Wanted) -> None:
    refused(
        wanted,
        opcodes.FUSION,
        None,
        "f32[2]",
        calls=[SQUARE],
        kind=FusionKind.LOOP,
        output_to_operand_aliasing=(alias,),
    )


def test_fusion_refuses_an_alias_between_shapes_that_differ() -> None:
    refused(
        (codes.ALIAS_SHAPES, "{}", "s32[2]", "f32[2]"),
        opcodes.FUSION,
        None,
        "f32[2]",
        calls=["(x: f32[2]) -> s32[2]"],
        kind=FusionKind.LOOP,
        output_to_operand_aliasing=(OutputAlias((), 0),),
    )


def test_fusion_text() -> None:
    assert read(opcodes.FUSION, "kind", "kCustom") is FusionKind.CUSTOM
    text = "{{0}: (0, {}), {1,2}: (1, {3})}"
    aliases = (OutputAlias((0,), 0), OutputAlias((1, 2), 1, (3,)))
    assert read(opcodes.FUSION, "output_to_operand_aliasing", " { { 0 } : ( 0 , { } ) ,{1, 2}: (1, {3})}") == aliases
    assert rewritten(opcodes.FUSION, "output_to_operand_aliasing", text) == text
    with raises(ParseError, attributes_codes.ATTRIBUTE_FORM, "{1}", "{}"):
        read(opcodes.FUSION, "output_to_operand_aliasing", "{0: (0, {})}")
    with raises(ParseError, attributes_codes.ATTRIBUTE_WORD, "'kLoops'"):
        read(opcodes.FUSION, "kind", "kLoops")


def test_order() -> None:
    assert inferred(opcodes.OPT_BARRIER, "(f32[2], token[])") == "(f32[2], token[])"
    assert inferred(opcodes.AFTER_ALL) == inferred(opcodes.AFTER_ALL, "token[]", "token[]") == "token[]"
    assert inferred(opcodes.ADD_DEPENDENCY, "f32[2]", "token[]") == "f32[2]"
    refused((shared.TOKEN_OPERAND, "operand 1", "f32[]"), opcodes.ADD_DEPENDENCY, None, "f32[2]", "f32[]")
    for op in (opcodes.OPT_BARRIER, opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY):
        assert op.effect is Effect.ORDERED


DOMAIN = '{kind="sharding", entry={devices=[2]<=[2]}, exit={{replicated}, {maximal device=0}}}'


def test_domain_text() -> None:
    assert inferred(opcodes.DOMAIN, "f32[4]", domain=read(opcodes.DOMAIN, "domain", DOMAIN)) == "f32[4]"
    assert rewritten(opcodes.DOMAIN, "domain", DOMAIN) == DOMAIN
    loose = '{ exit={ {replicated},{maximal device=0} } , kind="sharding", entry={ devices=[2]<=[2] } }'
    assert rewritten(opcodes.DOMAIN, "domain", loose) == DOMAIN


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{kind="sharding", entry={}}', (attributes_codes.ATTRIBUTE_FIELDS, "kind=", "entry=", "exit=")),
        ('{kind="x", entry={}, exit={}}', (attributes_codes.ATTRIBUTE_WORD, "'x'")),
        ("{entry={}, entry={}}", (attributes_codes.ATTRIBUTE_FIELDS, "kind=", "entry=", "exit=")),
        ('{kind="sharding", entry={{}', (attributes_codes.ATTRIBUTE_FORM,)),
    ],
)
def test_domain_text_refused(text: str, wanted: Wanted) -> None:
    with raises(ParseError, *wanted):
        read(opcodes.DOMAIN, "domain", text)


PAIR = "(a: f32[2], b: s32[]) -> f32[3]"


def test_async_start() -> None:
    assert accepts(opcodes.ASYNC_START, "((f32[2], s32[]), f32[3], u32[])", "f32[2]", "s32[]", calls=[PAIR])
    assert accepts(opcodes.ASYNC_START, "((f32[2]), (), u32[])", "f32[2]", calls=[PAIR])  # an update has the type s32[]
    attributes = AsyncStartAttributes.make(async_execution_thread="host")
    assert written(opcodes.ASYNC_START, attributes) == ["async_execution_thread"]
    assert written(opcodes.ASYNC_START, AsyncStartAttributes.make()) == []


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (
            "(f32[2], f32[3])",
            (codes.ASYNC_TUPLE, "(f32[2], f32[3])"),
        ),
        ("((f32[2]), f32[3])", (codes.ASYNC_OPERANDS, "(f32[2], s32[])", "(f32[2])")),
        ("((f32[2], s32[]), f32[4])", (codes.ASYNC_RESULT, "f32[4]", "f32[3]")),
    ],
)
def test_async_start_refuses(shape: str, wanted: Wanted) -> None:
    refused(wanted, opcodes.ASYNC_START, shape, "f32[2]", "s32[]", calls=[PAIR])


def test_async_start_refuses_operands_of_other_shapes() -> None:
    wanted = (codes.ASYNC_OPERANDS, "(s32[])", "(f32[2], s32[])")
    refused(wanted, opcodes.ASYNC_START, "((s32[]), f32[3])", "s32[]", calls=[PAIR])


def test_async_start_aliases_parts_of_its_whole_shape() -> None:
    shape = "((f32[2]), f32[2], u32[])"
    good, bad = OutputAlias((1,), 0), OutputAlias((2,), 0)
    assert accepts(opcodes.ASYNC_START, shape, "f32[2]", calls=[SQUARE], output_to_operand_aliasing=(good,))
    refused(
        (codes.ALIAS_SHAPES, "{2}", "{}", "u32[]", "f32[2]"),
        opcodes.ASYNC_START,
        shape,
        "f32[2]",
        calls=[SQUARE],
        output_to_operand_aliasing=(bad,),
    )


def test_async_update_and_done() -> None:
    started = "((f32[2]), (), u32[])"
    complete = "((f32[2], s32[]), f32[3], u32[])"
    assert accepts(opcodes.ASYNC_UPDATE, complete, started, "s32[]")
    assert accepts(opcodes.ASYNC_UPDATE, complete, complete)
    assert inferred(opcodes.ASYNC_DONE, complete) == "f32[3]"
    assert accepts(opcodes.ASYNC_DONE, "f32[3]", complete)
    assert accepts(opcodes.ASYNC_DONE, "f32[3]", "((f32[2], s32[]), (), u32[])")
    assert [opcodes.ASYNC_START.async_role, opcodes.ASYNC_UPDATE.async_role, opcodes.ASYNC_DONE.async_role] == [
        AsyncRole.START,
        AsyncRole.UPDATE,
        AsyncRole.DONE,
    ]
    assert set(opcodes.ASYNC_DONE.ignored_attributes) == {"calls", "async_execution_thread"}


@pytest.mark.parametrize(
    ("shape", "operands", "wanted"),
    [
        (
            "((s32[]), f32[3])",
            ["((f32[2]), f32[3])"],
            (codes.ASYNC_OPERANDS, "(f32[2])", "operand 0"),
        ),
        (
            "((f32[2]), f32[4])",
            ["((f32[2]), f32[3])"],
            (codes.ASYNC_OPERANDS, "f32[3]", "operand 0"),
        ),
        ("((f32[2]), f32[3])", ["((f32[2]), f32[3])", "s32[]"], (codes.ASYNC_OPERANDS, "(s32[])")),
        ("((f32[2]), f32[3])", ["f32[2]"], (codes.ASYNC_TUPLE, "operand 0")),
        ("f32[3]", ["((f32[2]), f32[3])"], (codes.ASYNC_TUPLE,)),
    ],
)
def test_async_update_refuses(shape: str, operands: list[str], wanted: Wanted) -> None:
    refused(wanted, opcodes.ASYNC_UPDATE, shape, *operands)


def test_async_done_requires_a_start() -> None:
    wanted = (codes.ASYNC_TUPLE, "operand 0", "f32[2]")
    refused(wanted, opcodes.ASYNC_DONE, None, "f32[2]")
    wanted = (codes.ASYNC_RESULT, "operand 0", "((f32[2]), f32[3])", "f32[3]", "f32[4]")
    refused(wanted, opcodes.ASYNC_DONE, "f32[4]", "((f32[2]), f32[3])")


def test_tuples() -> None:
    assert inferred(opcodes.TUPLE) == "()"
    assert inferred(opcodes.TUPLE, "f32[2]", "(s32[], token[])") == "(f32[2], (s32[], token[]))"
    assert inferred(opcodes.GET_TUPLE_ELEMENT, "(f32[2], (s32[], token[]))", index=1) == "(s32[], token[])"
    refused((movement_codes.TUPLE_OPERAND, "f32[2]"), opcodes.GET_TUPLE_ELEMENT, None, "f32[2]", index=0)
    for index in (2, -1):
        wanted = (values_codes.TUPLE_INDEX, f"{index}", "(f32[], f32[])")
        refused(wanted, opcodes.GET_TUPLE_ELEMENT, None, "(f32[], f32[])", index=index)
