"""Shape rules and attributes of control flow: call, while, conditional, fusion, async-*, ordering."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, read, refusal, rewritten, shapes, written
from xlapy import opcodes
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
    ("operands", "calls", "message"),
    [
        (["f32[2]"], [], "call calls 1 computation, given 0"),
        (
            ["f32[2]", "f32[2]"],
            [SQUARE],
            "call has 2 operands, but the called computation is (x: f32[2]) -> f32[2]",
        ),
        (["f32[3]"], [SQUARE], "call: parameter 0 of the called computation is f32[2], operand 0 is f32[3]"),
    ],
)
def test_call_refuses(operands: list[str], calls: list[str], message: str) -> None:
    assert refusal(opcodes.CALL, None, *operands, calls=calls) == message


def test_composite_is_printed_after_the_computation() -> None:
    (field,) = opcodes.CALL.attributes.fields
    assert field.after_computations and not field.is_printed(False) and field.is_printed(True)


def test_while_has_the_shape_of_its_state() -> None:
    state = "(s32[], f32[4])"
    calls = [f"(s: {state}) -> pred[]", f"(s: {state}) -> {state}"]
    assert inferred(opcodes.WHILE, state, calls=calls) == state
    assert opcodes.WHILE.in_place_pairs == ((0, ()),)


@pytest.mark.parametrize(
    ("condition", "body", "message"),
    [
        (
            "(a: s32[], b: s32[]) -> pred[]",
            "(a: s32[]) -> s32[]",
            "while: the condition must take one parameter, given",
        ),
        ("(a: s32[]) -> pred[]", "() -> s32[]", "while: the body must take one parameter, given () -> s32[]"),
        (
            "(a: f32[]) -> pred[]",
            "(a: s32[]) -> s32[]",
            "while: the condition's parameter is f32[], the initial value s32[]",
        ),
        (
            "(a: s32[]) -> pred[]",
            "(a: u32[]) -> s32[]",
            "while: the body's parameter is u32[], the initial value s32[]",
        ),
        ("(a: s32[]) -> s32[]", "(a: s32[]) -> s32[]", "while: the condition must return pred[], it returns s32[]"),
        ("(a: s32[]) -> pred[1]", "(a: s32[]) -> s32[]", "while: the condition must return pred[], it returns pred[1]"),
        ("(a: s32[]) -> pred[]", "(a: s32[]) -> f32[]", "while: the body returns f32[], the initial value is s32[]"),
    ],
)
def test_while_refuses(condition: str, body: str, message: str) -> None:
    assert refusal(opcodes.WHILE, None, "s32[]", calls=[condition, body]).startswith(message)


def test_conditional_has_the_shape_of_its_branches() -> None:
    calls = ["(a: f32[2]) -> f32[3]", "(b: s32[]) -> f32[3]"]
    assert inferred(opcodes.CONDITIONAL, "pred[]", "f32[2]", "s32[]", calls=calls) == "f32[3]"
    assert inferred(opcodes.CONDITIONAL, "s32[]", "f32[2]", "s32[]", calls=calls) == "f32[3]"


def test_conditional_is_dynamic_where_any_branch_is() -> None:
    calls = ["(a: f32[]) -> (f32[4], s32[<=2,3])", "(a: f32[]) -> (f32[<=4], s32[2,3])"]
    assert inferred(opcodes.CONDITIONAL, "s32[]", "f32[]", "f32[]", calls=calls) == "(f32[<=4], s32[<=2,3])"


@pytest.mark.parametrize(
    ("operands", "calls", "message"),
    [
        (["f32[]", "f32[2]"], [SQUARE], "conditional: the branch index must be pred[] or s32[], operand 0 is f32[]"),
        (["s32[1]", "f32[2]"], [SQUARE], "conditional: the branch index must be pred[] or s32[], operand 0 is s32[1]"),
        (["pred[]", "f32[2]"], [SQUARE], "conditional on pred[] calls 2 computations, given 1"),
        (["s32[]"], [], "conditional on s32[] needs at least one branch computation, given none"),
        (["s32[]", "f32[2]"], [SQUARE] * 2, "conditional takes one operand per branch: 2 branches, 1 operands"),
        (["s32[]", "f32[2]"], ["() -> f32[]"], "conditional: branch 0 must take one parameter, given () -> f32[]"),
        (["s32[]", "f32[3]"], [SQUARE], "conditional: the parameter of branch 0 is f32[2], operand 1 is f32[3]"),
        (
            ["s32[]", "f32[2]", "f32[2]"],
            [SQUARE, "(x: f32[2]) -> s32[2]"],
            "conditional: branch 1 returns s32[2], branch 0 f32[2]",
        ),
    ],
)
def test_conditional_refuses(operands: list[str], calls: list[str], message: str) -> None:
    assert refusal(opcodes.CONDITIONAL, None, *operands, calls=calls) == message


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
    ("alias", "message"),
    [
        (OutputAlias((), 1), "fusion: alias {}: (1, {}) names operand 1, but there are 1 operands"),
        (OutputAlias((0,), 0), "fusion: alias {0}: (0, {}): f32[2] has no element at tuple index {0}"),
        (OutputAlias((), 0, (3,)), "fusion: alias {}: (0, {3}): f32[2] has no element at tuple index {3}"),
    ],
)
def test_fusion_refuses_aliases(alias: OutputAlias, message: str) -> None:
    found = refusal(
        opcodes.FUSION, None, "f32[2]", calls=[SQUARE], kind=FusionKind.LOOP, output_to_operand_aliasing=(alias,)
    )
    assert found == message


def test_fusion_refuses_an_alias_between_shapes_that_differ() -> None:
    found = refusal(
        opcodes.FUSION,
        None,
        "f32[2]",
        calls=["(x: f32[2]) -> s32[2]"],
        kind=FusionKind.LOOP,
        output_to_operand_aliasing=(OutputAlias((), 0),),
    )
    assert found == "fusion: alias {}: (0, {}) pairs output s32[2] with operand f32[2]"


def test_fusion_text() -> None:
    assert read(opcodes.FUSION, "kind", "kCustom") is FusionKind.CUSTOM
    text = "{{0}: (0, {}), {1,2}: (1, {3})}"
    aliases = (OutputAlias((0,), 0), OutputAlias((1, 2), 1, (3,)))
    assert read(opcodes.FUSION, "output_to_operand_aliasing", " { { 0 } : ( 0 , { } ) ,{1, 2}: (1, {3})}") == aliases
    assert rewritten(opcodes.FUSION, "output_to_operand_aliasing", text) == text
    with pytest.raises(ParseError, match=r"expected an alias such as \{1\}: \(0, \{\}\)"):
        read(opcodes.FUSION, "output_to_operand_aliasing", "{0: (0, {})}")
    with pytest.raises(ParseError, match="expected one of kLoop, kInput, kOutput, kCustom; found 'kLoops'"):
        read(opcodes.FUSION, "kind", "kLoops")


def test_order() -> None:
    assert inferred(opcodes.OPT_BARRIER, "(f32[2], token[])") == "(f32[2], token[])"
    assert inferred(opcodes.AFTER_ALL) == inferred(opcodes.AFTER_ALL, "token[]", "token[]") == "token[]"
    assert inferred(opcodes.ADD_DEPENDENCY, "f32[2]", "token[]") == "f32[2]"
    assert (
        refusal(opcodes.ADD_DEPENDENCY, None, "f32[2]", "f32[]")
        == "add-dependency takes a token as operand 1, given f32[]"
    )
    for op in (opcodes.OPT_BARRIER, opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY):
        assert op.effect is Effect.ORDERED


DOMAIN = '{kind="sharding", entry={devices=[2]<=[2]}, exit={{replicated}, {maximal device=0}}}'


def test_domain_text() -> None:
    assert inferred(opcodes.DOMAIN, "f32[4]", domain=read(opcodes.DOMAIN, "domain", DOMAIN)) == "f32[4]"
    assert rewritten(opcodes.DOMAIN, "domain", DOMAIN) == DOMAIN
    loose = '{ exit={ {replicated},{maximal device=0} } , kind="sharding", entry={ devices=[2]<=[2] } }'
    assert rewritten(opcodes.DOMAIN, "domain", loose) == DOMAIN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{kind="sharding", entry={}}', "domain needs kind=, entry= and exit=, found only kind, entry"),
        ('{kind="x", entry={}, exit={}}', "unsupported domain kind 'x'; expected sharding"),
        ("{entry={}, entry={}}", "expected each of kind=, entry= and exit= once"),
        ('{kind="sharding", entry={{}', "expected } to end the braces"),
    ],
)
def test_domain_text_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read(opcodes.DOMAIN, "domain", text)


PAIR = "(a: f32[2], b: s32[]) -> f32[3]"


def test_async_start() -> None:
    assert accepts(opcodes.ASYNC_START, "((f32[2], s32[]), f32[3], u32[])", "f32[2]", "s32[]", calls=[PAIR])
    assert accepts(opcodes.ASYNC_START, "((f32[2]), (), u32[])", "f32[2]", calls=[PAIR])  # an update has the type s32[]
    attributes = AsyncStartAttributes.make(async_execution_thread="host")
    assert written(opcodes.ASYNC_START, attributes) == ["async_execution_thread"]
    assert written(opcodes.ASYNC_START, AsyncStartAttributes.make()) == []


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            "(f32[2], f32[3])",
            "async-start: the shape must be ((operands...), result, context...), given (f32[2], f32[3])",
        ),
        ("((f32[2]), f32[3])", "async-start has operands (f32[2], s32[]), its shape begins with (f32[2])"),
        ("((f32[2], s32[]), f32[4])", "async-start has result f32[4], the called computation returns f32[3]"),
    ],
)
def test_async_start_refuses(shape: str, message: str) -> None:
    assert refusal(opcodes.ASYNC_START, shape, "f32[2]", "s32[]", calls=[PAIR]) == message


def test_async_start_refuses_operands_of_other_shapes() -> None:
    message = "async-start binds (s32[]), the called computation takes (f32[2], s32[])"
    assert refusal(opcodes.ASYNC_START, "((s32[]), f32[3])", "s32[]", calls=[PAIR]) == message


def test_async_start_aliases_parts_of_its_whole_shape() -> None:
    shape = "((f32[2]), f32[2], u32[])"
    good, bad = OutputAlias((1,), 0), OutputAlias((2,), 0)
    assert accepts(opcodes.ASYNC_START, shape, "f32[2]", calls=[SQUARE], output_to_operand_aliasing=(good,))
    message = refusal(opcodes.ASYNC_START, shape, "f32[2]", calls=[SQUARE], output_to_operand_aliasing=(bad,))
    assert message == "async-start: alias {2}: (0, {}) pairs output u32[] with operand f32[2]"


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
    ("shape", "operands", "message"),
    [
        (
            "((s32[]), f32[3])",
            ["((f32[2]), f32[3])"],
            "async-update: the operands (f32[2]) of operand 0 must be a prefix of",
        ),
        (
            "((f32[2]), f32[4])",
            ["((f32[2]), f32[3])"],
            "async-update: the result f32[3] of operand 0 must be a prefix of",
        ),
        ("((f32[2]), f32[3])", ["((f32[2]), f32[3])", "s32[]"], "async-update adds operands (s32[]), its shape"),
        ("((f32[2]), f32[3])", ["f32[2]"], "async-update: operand 0 must be ((operands...), result, context...)"),
        ("f32[3]", ["((f32[2]), f32[3])"], "async-update: the shape must be ((operands...), result, context...)"),
    ],
)
def test_async_update_refuses(shape: str, operands: list[str], message: str) -> None:
    assert refusal(opcodes.ASYNC_UPDATE, shape, *operands).startswith(message)


def test_async_done_requires_a_start() -> None:
    message = "async-done: operand 0 must be ((operands...), result, context...), given f32[2]"
    assert refusal(opcodes.ASYNC_DONE, None, "f32[2]") == message
    message = "async-done: operand 0 ((f32[2]), f32[3]) has result f32[3], declared f32[4]"
    assert refusal(opcodes.ASYNC_DONE, "f32[4]", "((f32[2]), f32[3])") == message


def test_tuples() -> None:
    assert inferred(opcodes.TUPLE) == "()"
    assert inferred(opcodes.TUPLE, "f32[2]", "(s32[], token[])") == "(f32[2], (s32[], token[]))"
    assert inferred(opcodes.GET_TUPLE_ELEMENT, "(f32[2], (s32[], token[]))", index=1) == "(s32[], token[])"
    assert (
        refusal(opcodes.GET_TUPLE_ELEMENT, None, "f32[2]", index=0)
        == "get-tuple-element takes a tuple, operand is f32[2]"
    )
    for index in (2, -1):
        message = f"get-tuple-element: index {index} is out of bounds for (f32[], f32[]) of 2 elements"
        assert refusal(opcodes.GET_TUPLE_ELEMENT, None, "(f32[], f32[])", index=index) == message
