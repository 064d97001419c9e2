"""fold-constants: which instructions are evaluated, and which never are."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_unchanged, program, rewritten
from tests.raising import raises
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.passes import parse_passes

CALLED = """
plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less { d = s32[] parameter(0) limit = s32[] constant(1000) ROOT e = pred[] compare(d, limit), direction=LT }
always { f = s32[] parameter(0) ROOT g = pred[] constant(true) }
next { h = s32[] parameter(0) one = s32[] constant(1) ROOT i = s32[] add(h, one) }
guarded { j = s32[] parameter(0) ROOT k = s32[] opt-barrier(j) }
where { m = s32[] parameter(0) n = u32[] replica-id() o = s32[] convert(n) ROOT p = s32[] add(m, o) }
"""


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (("c = f32[2] constant({1, -0})", "ROOT r = f32[2] negate(c)"), "f32[2] constant({-1, 0})"),
        (("c = s8[2] constant({-128, 100})", "ROOT r = s8[2] add(c, c)"), "s8[2] constant({0, -56})"),
        (("c = f32[2,2] constant({{1,2},{3,4}})", "ROOT r = f32[4] reshape(c)"), "f32[4] constant({1, 2, 3, 4})"),
        (
            ("i = s32[4] iota(), iota_dimension=0", "c = s32[4] constant({1,1,2,2})", "ROOT r = s32[4] multiply(i, c)"),
            "s32[4] constant({0, 1, 4, 6})",
        ),
        (
            (
                "c = f32[3] constant({1,2,3})",
                "z = f32[] constant(0)",
                "ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=plus",
            ),
            "f32[] constant(6)",
        ),
        (("c = s32[] constant(5)", "ROOT r = s32[] call(c), to_apply=next"), "s32[] constant(6)"),
        (("c = s32[] constant(5)", "ROOT r = s32[] while(c), condition=less, body=next"), "s32[] constant(1000)"),
    ],
)
def test_constants_are_evaluated(lines: tuple[str, ...], value: str) -> None:
    assert rewritten(program(*lines, before=CALLED), "fold-constants").startswith("ROOT ")
    assert rewritten(program(*lines, before=CALLED), "fold-constants").endswith(" = " + value)


def test_a_tuple_becomes_a_tuple_of_constants() -> None:
    text = program(
        "a = f32[2] constant({2, 1})",
        "b = s32[2] constant({3, 4})",
        "ROOT r = (f32[2], s32[2]) sort(a, b), dimensions={0}, to_apply=before",
        before="before { p = f32[] parameter(0) q = f32[] parameter(1) s = s32[] parameter(2) t = s32[] parameter(3) "
        "ROOT u = pred[] compare(p, q), direction=LT }",
    )
    assert rewritten(text, "fold-constants").splitlines() == [
        "constant = f32[2] constant({1, 2})",
        "constant.1 = s32[2] constant({4, 3})",
        "ROOT tuple = (f32[2], s32[2]) tuple(constant, constant.1)",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ("x = f32[2] parameter(0)", "c = f32[2] constant({1, 2})", "ROOT r = f32[2] add(x, c)"),
        ("c = f32[] constant(1)", "ROOT r = f32[2] broadcast(c), dimensions={}"),
        ("c = f32[2] constant({...})", "ROOT r = f32[2] negate(c)"),
        ("c = f32[2] constant({1, 2})", "ROOT r = f32[2] opt-barrier(c)"),
        ("c = f32[] constant(1)", "ROOT r = f32[2] rng(c, c), distribution=rng_normal"),
        ("c = u64[2] constant({1, 2})", "ROOT r = (u64[2], u32[2]) rng-bit-generator(c), algorithm=rng_three_fry"),
        ("c = f32[2] constant({1, 2})", 'ROOT r = f32[2] custom-call(c), custom_call_target="f"'),
        ("c = f32[2] constant({1, 2})", "ROOT r = f32[2] all-reduce(c), replica_groups={}, to_apply=plus"),
        ("ROOT r = u32[] replica-id()",),
        ("c = s32[] constant(5)", "ROOT r = s32[] while(c), condition=always, body=next"),
        ("c = s32[] constant(5)", "ROOT r = s32[] call(c), to_apply=guarded"),
        ("c = s32[] constant(5)", "ROOT r = s32[] call(c), to_apply=where"),
        ("c = f32[2] constant({1, 2})", "t = (f32[2]) tuple(c)", "ROOT r = f32[2] get-tuple-element(t), index=0"),
    ],
)
def test_instructions_that_are_never_evaluated(lines: tuple[str, ...]) -> None:
    assert_unchanged(program(*lines, before=CALLED), "fold-constants")


def test_results_have_a_size_limit() -> None:
    lines = ("c = f32[2] constant({1, 2})", "z = f32[] constant(0)", "ROOT r = f32[100] pad(c, z), padding=0_98")
    assert_unchanged(program(*lines), "fold-constants{elements=99}")
    assert "pad" not in rewritten(program(*lines), "fold-constants{elements=100}")


def test_a_large_iota_is_not_folded() -> None:
    lines = ("i = s32[70000] iota(), iota_dimension=0", "ROOT r = s32[70000] negate(i)")
    assert_unchanged(program(*lines), "fold-constants")


def test_work_has_a_limit() -> None:
    lines = ("c = s32[] constant(0)", "ROOT r = s32[] while(c), condition=less, body=next")
    assert_unchanged(program(*lines, before=CALLED), "fold-constants{work=1000}")
    dot = (
        "i = f32[64,64] iota(), iota_dimension=0",
        "ROOT r = f32[64,64] dot(i, i), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    assert_unchanged(program(*dot), "fold-constants{work=250000}")
    assert "dot" not in rewritten(program(*dot), "fold-constants{work=300000}")


def test_options_are_checked() -> None:
    with raises(InvalidArgumentError, codes.PASS_OPTION_VALUE, "fold-constants", "least 0", "not -1"):
        parse_passes("fold-constants{work=-1}")


def doubling_calls(count: int) -> str:
    """Returns computations that each call the previous one twice: 2^count negations."""
    lines = ["f0 { p = f32[] parameter(0) ROOT a = f32[] negate(p) }"]
    lines += [
        f"f{i} {{ p{i} = f32[] parameter(0) a{i} = f32[] call(p{i}), to_apply=f{i - 1} "
        f"ROOT b{i} = f32[] call(a{i}), to_apply=f{i - 1} }}"
        for i in range(1, count + 1)
    ]
    return program("c = f32[] constant(1)", f"ROOT r = f32[] call(c), to_apply=f{count}", before="\n".join(lines))


def test_calls_that_double_or_nest_deep_are_left() -> None:
    assert rewritten(doubling_calls(5), "fold-constants") == "ROOT constant = f32[] constant(1)"
    assert_unchanged(doubling_calls(40), "fold-constants")
    assert_unchanged(doubling_calls(600), "fold-constants")


def test_a_loop_in_a_computation_that_is_mapped_is_left() -> None:
    text = program(
        "c = s32[2] constant({1, 2})",
        "ROOT r = s32[2] map(c), dimensions={0}, to_apply=looping",
        before=CALLED + "looping { v = s32[] parameter(0) ROOT w = s32[] while(v), condition=always, body=next }",
    )
    assert_unchanged(text, "fold-constants")
