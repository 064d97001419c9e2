"""inline-calls: which calls are inlined, and which are kept."""

from __future__ import annotations

from tests.passes.runner import assert_unchanged, program, rewritten, run_passes
from xlapy import opcodes
from xlapy.text import parse_hlo

CALLED = """
once { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
twice { q = f32[2] parameter(0) a = f32[2] call(q), to_apply=once ROOT b = f32[2] call(a), to_apply=once }
same { s = f32[2] parameter(0) t = f32[2] parameter(1) ROOT u = f32[2] abs(s) }
through { v = f32[2] parameter(0) ROOT w = f32[2] parameter(1) }
"""


COMPOSITE = 'is_composite=true, frontend_attributes={composite.name="my.once"}'


def test_calls_of_calls_are_inlined_and_their_computations_go() -> None:
    text = program("x = f32[2] parameter(0)", "ROOT r = f32[2] call(x), to_apply=twice", before=CALLED)
    module = parse_hlo(text)
    assert run_passes(module, "inline-calls")
    assert [c.name for c in module.computations] == ["same", "through", "main"]
    assert rewritten(text, "inline-calls").splitlines() == [
        "x = f32[2] parameter(0)",
        "n.3 = f32[2] negate(x)",
        "ROOT n.4 = f32[2] negate(n.3)",
    ]


def test_a_parameter_as_result() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "y = f32[2] parameter(1)",
        "ROOT r = f32[2] call(x, y), to_apply=through",
        before=CALLED,
    )
    assert rewritten(text, "inline-calls") == "x = f32[2] parameter(0)\nROOT y = f32[2] parameter(1)"


def test_control_edges_and_annotations_are_transferred() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "first = f32[2] abs(x)",
        'c = f32[2] call(x, first), to_apply=same, sharding={replicated}, frontend_attributes={k="v"}, '
        "control-predecessors={first}",
        "ROOT r = f32[2] add(first, c)",
        before=CALLED,
    )
    module = parse_hlo(text)
    assert run_passes(module, "inline-calls")
    inlined = module.entry_computation.root_instruction.operands[1]
    assert inlined.op is opcodes.ABS
    assert [i.name for i in inlined.control_predecessors] == ["first"]
    assert inlined.sharding is not None
    assert inlined.frontend_attributes == {"k": "v"}


def test_calls_that_are_not_inlined() -> None:
    for options in ('frontend_attributes={inlineable="false"}', COMPOSITE):
        line = f"ROOT r = f32[2] call(x), to_apply=once, {options}"
        assert_unchanged(program("x = f32[2] parameter(0)", line, before=CALLED.splitlines()[1]), "inline-calls")
    shard = "ROOT r = f32[2] call(x, x), to_apply=through, sharding={replicated}"
    assert_unchanged(program("x = f32[2] parameter(0)", shard, before=CALLED.splitlines()[4]), "inline-calls")


def test_composites_on_request() -> None:
    text = program("x = f32[2] parameter(0)", f"ROOT r = f32[2] call(x), to_apply=once, {COMPOSITE}", before=CALLED)
    assert rewritten(text, "inline-calls{composites=true}").splitlines()[-1] == "ROOT n.1 = f32[2] negate(x)"


def test_growth_has_a_limit() -> None:
    """Twenty computations that each call the previous one twice would become a million instructions."""
    lines = ["f0 { p = f32[] parameter(0) a = f32[] negate(p) ROOT b = f32[] abs(a) }"]
    lines += [
        f"f{i} {{ p{i} = f32[] parameter(0) a{i} = f32[] call(p{i}), to_apply=f{i - 1} "
        f"ROOT b{i} = f32[] call(a{i}), to_apply=f{i - 1} }}"
        for i in range(1, 20)
    ]
    text = program("x = f32[] parameter(0)", "ROOT r = f32[] call(x), to_apply=f19", before="\n".join(lines))
    module = parse_hlo(text)
    assert run_passes(module, "inline-calls{max_caller_size=100}")
    assert max(map(len, module.computations)) <= 100
