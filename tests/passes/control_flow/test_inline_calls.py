"""inline-calls: which calls are inlined, and which are kept."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_unchanged, program, rewritten, run_passes
from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.verify import verify
from xlapy.passes.control_flow.inline_calls import InlineCalls
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
        "n.1 = f32[2] negate(x)",
        "ROOT n.2 = f32[2] negate(n.1)",
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


@pytest.mark.parametrize(("size", "is_inlined"), [(8, False), (9, True)])
def test_a_callee_with_several_callers_is_inlined_if_its_copies_are_few(size: int, is_inlined: bool) -> None:
    called = "f { p = f32[] parameter(0) a = f32[] negate(p) ROOT b = f32[] abs(a) }"
    lines = [
        "x = f32[] parameter(0)",
        *(f"c{n} = f32[] call({'x' if not n else f'c{n - 1}'}), to_apply=f" for n in (0, 1)),
    ]
    module = parse_hlo(program(*lines, "ROOT r = f32[] call(c1), to_apply=f", before=called))
    assert run_passes(module, f"inline-calls{{max_shared_size=2,max_copied_size={size}}}") == is_inlined
    assert any(i.op is opcodes.CALL for i in module.instructions()) != is_inlined


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


def nest(depth: int) -> str:
    """Calls in calls, each computation with one caller."""
    text = "HloModule nest\nf0 { x = f32[4] parameter(0)  ROOT r = f32[4] negate(x) }\n"
    for level in range(1, depth):
        text += (
            f"f{level} {{ x = f32[4] parameter(0)  s = f32[4] sine(x)  ROOT r = f32[4] call(s), "
            f"to_apply=f{level - 1} }}\n"
        )
    return text + f"ENTRY e {{ x = f32[4] parameter(0)  ROOT r = f32[4] call(x), to_apply=f{depth - 1} }}\n"


def test_each_instruction_of_a_nest_is_copied_once_per_call_of_its_computation(monkeypatch):
    copies = []
    original = edit.clone_instruction

    def clone_instruction(instruction, *rest):
        copies.append(instruction)
        return original(instruction, *rest)

    monkeypatch.setattr(edit, "clone_instruction", clone_instruction)
    module = parse_hlo(nest(60))
    assert InlineCalls().run(module)
    assert len(module.computations) == 1
    assert sum(i.op is opcodes.SINE for i in module.entry_computation) == 59
    assert len(copies) < 4 * 60


def test_calls_in_a_callee_that_stays_are_inlined():
    """The callee is inlined by its size at first, and stays because its caller has grown meanwhile."""
    text = """HloModule m
    small { x = f32[4] parameter(0)  s = f32[4] sine(x)  t = f32[4] tan(s)  ROOT r = f32[4] negate(t) }
    large { x = f32[4] parameter(0)  a = f32[4] call(x), to_apply=small  b = f32[4] cosine(a)  c = f32[4] negate(b)
      d = f32[4] exponential(c)  ROOT r = f32[4] tanh(d) }
    first { x = f32[4] parameter(0)  a = f32[4] sine(x)  b = f32[4] cosine(a)  c = f32[4] negate(b)
      ROOT r = f32[4] tanh(c) }
    ENTRY e { x = f32[4] parameter(0)  a = f32[4] call(x), to_apply=first  ROOT r = f32[4] call(a), to_apply=large }
    """
    module = parse_hlo(text)
    assert InlineCalls(max_caller_size=10).run(module)
    verify(module)
    calls = [i for c in module.computations for i in c if i.op is opcodes.CALL]
    assert [call.computations[0].name for call in calls] == ["large"]
