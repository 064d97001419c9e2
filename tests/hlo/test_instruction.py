"""Properties of instructions, computations and modules."""

from __future__ import annotations

import pytest

from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.structure import editing as codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.errors import UnknownAttributeError, UnknownNameError, VerificationError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo

TEXT = """HloModule m

first { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }
second { x = f32[] parameter(0)  ROOT y = f32[] abs(x) }

ENTRY main {
  i = s32[] parameter(0)
  a = f32[] parameter(1)
  b = f32[] add(a, a)
  ROOT c = f32[] conditional(i, a, b), branch_computations={first, second}
}
"""


@pytest.fixture
def module() -> Module:
    return parse_hlo(TEXT)


def test_edges(module: Module):
    i, a, b, c = module.entry_computation.instructions
    assert (a.users, b.users, c.users) == ((b, c), (c,), ())
    assert (b.operands, b.operand(1), c.operand_shapes) == ((a, a), a, (i.shape, a.shape, b.shape))
    assert (a.has_users, c.has_users, c.is_root, b.is_root) == (True, False, True, False)
    assert b.parent is module.entry_computation


def test_called_computations_by_key(module: Module):
    c = module.entry_computation.root_instruction
    assert c.computation_keys == ("branch_computations", "branch_computations")
    assert c.computation("branch_computations") is module.find("first")
    with raises(UnknownNameError, codes.NAME_IN_MODULE, "c (conditional)", "'to_apply'"):
        _ = c.to_apply
    call = edit.create(module.entry_computation, opcodes.CALL, [c.operands[1]], computations=[module.find("second")])
    assert (call.computation_keys, call.to_apply) == (("to_apply",), module.find("second"))


def test_attributes_read_straight_from_the_instruction(module: Module):
    assert module.entry_computation.parameters[1].number == 1
    with raises(UnknownAttributeError, codes.ATTRIBUTE_NAME, "add", "'dimensions'"):
        _ = module.entry_computation.find("b").dimensions


def test_a_free_instruction():
    free = Instruction(
        opcodes.PARAMETER, Shape.parse("f32[2]"), (), opcodes.PARAMETER.attributes.make(number=0), name="x"
    )
    assert (free.parent, free.is_root, free.users, free.control_predecessors) == (None, False, (), ())


def test_repr(module: Module):
    assert repr(module.entry_computation.find("b")) == "<b = f32[] add(a, a)>"
    assert repr(module.entry_computation) == "<Computation main: 4 instructions>"
    assert repr(module) == "<Module m: 3 computations, 8 instructions>"


def test_computations(module: Module):
    main, first = module.entry_computation, module.find("first")
    assert (main.is_entry, first.is_entry) == (True, False)
    assert first.callers == (main.root,)
    assert main.program_shape.to_text() == "(i: s32[], a: f32[]) -> f32[]"
    assert main.find("b") in main
    assert len(main) == 4
    with raises(UnknownNameError, codes.NAME_IN_MODULE, "computation main", "'z'"):
        main.find("z")


def test_modules(module: Module):
    assert [computation.name for computation in module.computations] == ["first", "second", "main"]
    assert len(list(module.instructions())) == module.instruction_count == 8
    assert str(module) == module.to_text()
    with raises(UnknownNameError, codes.NAME_IN_MODULE, "module m", "'third'"):
        module.find("third")
    with raises(VerificationError, module_codes.ENTRY_COMPUTATION, "module empty"):
        _ = Module("empty").entry_computation
    unfinished = edit.add_computation(module, "unfinished")
    for part in ("root_instruction", "program_shape", "last_instruction"):
        with raises(VerificationError, module_codes.ROOT, "computation unfinished"):
            getattr(unfinished, part)


def test_users_among_instructions():
    lines = "\n".join(f"a{n} = f32[] add(x, y)" for n in range(6))
    module = parse_hlo(
        f"ENTRY e {{ x = f32[] parameter(0)\n y = f32[] negate(x)\n {lines}\n ROOT r = f32[] add(a3, x) }}"
    )
    named = {i.name: i for i in module.entry_computation}
    for wanted in (["a3"], ["r", "a1", "y"], ["a5", "a0", "a1", "a2", "a3", "a4", "y", "r", "x"], []):
        found = named["x"].users_in(dict.fromkeys(named[name] for name in wanted))
        assert {i.name for i in found} == set(wanted) - {"x"}
        assert len(found) == len(set(wanted) - {"x"})
    assert named["r"].users_in({named["x"], named["a1"]}) == []
