"""Edits of the IR keep users, callers, parameters and names consistent."""

from __future__ import annotations

import pytest

from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import editing as edit_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.text import parse_hlo

TEXT = """HloModule m, input_output_alias={ {}: (0, {}) }, frontend_attributes={a="b"}

square {
  x = f32[2] parameter(0)
  ROOT y = f32[2] multiply(x, x)
}

ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  s = f32[2] add(a, b), metadata={op_name="sum"}
  c = f32[2] call(s), to_apply=square
  d = f32[2] call(c), to_apply=square
  ROOT r = f32[2] subtract(d, s)
}
"""


@pytest.fixture
def module() -> Module:
    return parse_hlo(TEXT)


def names(instructions) -> list[str]:
    return [instruction.name for instruction in instructions]


def find(module: Module, name: str) -> Instruction:
    return module.entry_computation.find(name)


def assert_edges_are_true(module: Module) -> None:
    """Checks that `users`, `callers` and `parameters` agree with operands, called computations and parameter
    numbers."""
    for computation in module.computations:
        callers = [i for i in module.instructions() if computation in i.computations]
        assert set(computation.callers) == set(callers)
        for instruction in computation:
            assert instruction.parent is computation
            assert set(instruction.users) == {i for i in computation if instruction in i.operands}
            assert all(instruction in before.control_successors for before in instruction.control_predecessors)
        numbers = [p.attributes.number for p in computation.parameters]
        assert numbers == sorted(i.attributes.number for i in computation if i.op is opcodes.PARAMETER)
    verify(module)


# -- making


def test_create_infers_the_shape_and_links(module: Module):
    a, b = find(module, "a"), find(module, "b")
    made = edit.create(module.entry_computation, opcodes.DOT, [a, b], opcodes.DOT.attributes.make(
        lhs_contracting_dims=(0,), rhs_contracting_dims=(0,)
    ))  # fmt: skip
    assert (made.name, made.shape) == ("dot", Shape.parse("f32[]"))
    assert names(a.users) == ["s", "dot"]
    assert_edges_are_true(module)


def test_create_raises_the_errors_of_the_op(module: Module):
    with raises(ShapeError, operand_codes.OPERAND_COUNT, "takes 2", "given 1"):
        edit.create(module.entry_computation, opcodes.ADD, [find(module, "a")])
    assert len(module.entry_computation) == 6


def test_names_become_unique_in_the_module(module: Module):
    a = find(module, "a")
    assert edit.create(module.entry_computation, opcodes.NEGATE, [a], name="s").name == "s.1"
    assert edit.create(module.entry_computation, opcodes.NEGATE, [a], name="y").name == "y.1"  # square has a y
    assert edit.create(module.entry_computation, opcodes.NEGATE, [a]).name == "negate"
    assert edit.add_computation(module, "square").name == "square.1"


def test_parameters_are_in_the_order_of_their_numbers():
    module = Module("m")
    main = edit.add_computation(module, "main", entry=True)
    for number in (2, 0, 1):
        attributes = opcodes.PARAMETER.attributes.make(number=number)
        edit.create(main, opcodes.PARAMETER, (), attributes, shape=Shape.parse("f32[]"), name=f"p{number}")
    assert names(main.parameters) == ["p0", "p1", "p2"]
    edit.set_root(main, main.parameters[1])
    assert main.program_shape.parameter_names == ("p0", "p1", "p2")


def test_an_instruction_is_in_one_computation_only(module: Module):
    with raises(InvalidArgumentError, edit_codes.ONE_OWNER, "a is already", "main"):
        edit.append(module.find("square"), find(module, "a"))


def test_adopt_makes_names_unique(module: Module):
    free = Computation("square")
    edit.append_with_name(
        free,
        Instruction(opcodes.PARAMETER, Shape.parse("f32[]"), (), opcodes.PARAMETER.attributes.make(number=0), name="a"),
    )
    edit.set_root(free, free.parameters[0])
    edit.add_built_computation(module, free)
    assert (free.name, names(free)) == ("square.1", ["a.1"])
    assert module.computations[-1] is free


# -- changing


def test_replace_uses_and_remove(module: Module):
    main = module.entry_computation
    s, c = find(module, "s"), find(module, "c")
    product = edit.create(main, opcodes.MULTIPLY, s.operands)
    edit.replace_uses(s, product)
    assert (s.users, names(product.users)) == ((), ["c", "r"])
    assert c.operands == (product,)
    edit.remove(s)
    assert s not in main
    assert s.parent is None
    assert_edges_are_true(module)


def test_replace_uses_moves_the_root(module: Module):
    root, s = find(module, "r"), find(module, "s")
    edit.replace_uses(root, s)
    assert module.entry_computation.root is s
    edit.remove(root)
    assert_edges_are_true(module)


def test_a_replacement_may_use_the_replaced_instruction(module: Module):
    s = find(module, "s")
    twice = edit.create(module.entry_computation, opcodes.ADD, [s, s])
    edit.replace_uses(s, twice)
    assert names(s.users) == ["add"]
    assert_edges_are_true(module)


def test_replace_uses_keeps_the_shape(module: Module):
    wrong = edit.create(module.entry_computation, opcodes.CONVERT, [find(module, "s")], shape=Shape.parse("f64[2]"))
    with raises(InvalidArgumentError, edit_codes.REPLACEMENT_SHAPE, "s of", "convert of", "f32[2]", "f64[2]"):
        edit.replace_uses(find(module, "s"), wrong)


def test_replace_one_operand(module: Module):
    root, a, s = find(module, "r"), find(module, "a"), find(module, "s")
    edit.replace_operand(root, 1, a)
    assert names(root.operands) == ["d", "a"]
    assert names(s.users) == ["c"]
    edit.replace_operand(root, 0, a)
    assert a.users == (s, root)
    edit.set_operands(root, [s, s])
    assert_edges_are_true(module)


def test_instructions_that_cannot_be_removed(module: Module):
    main = module.entry_computation
    for name, reason in {"s": "it has users", "r": "is the root", "b": "it has users"}.items():
        with raises(InvalidArgumentError, edit_codes.REMOVED_IN_USE, f"cannot remove {name}: ", reason):
            edit.remove(find(module, name))
    edit.set_operands(find(module, "s"), [find(module, "a")] * 2)
    with raises(InvalidArgumentError, edit_codes.REMOVED_IN_USE, "parameter b"):
        edit.remove(find(module, "b"))
    ordered = edit.create(main, opcodes.NEGATE, [find(module, "a")])
    edit.add_control_edge(find(module, "c"), ordered)
    with raises(InvalidArgumentError, edit_codes.REMOVED_IN_USE, "negate", "control edges"):
        edit.remove(ordered)
    edit.remove_control_edges(ordered)
    edit.remove(ordered)
    assert_edges_are_true(module)


def test_calls(module: Module):
    main, square = module.entry_computation, module.find("square")
    other = edit.clone_computation(square, module)
    c, d = find(module, "c"), find(module, "d")
    edit.set_computations(c, [other])
    assert (square.callers, other.callers) == ((d,), (c,))
    with raises(InvalidArgumentError, edit_codes.REMOVED_IN_USE, "square.1"):
        edit.remove_computation(other)
    edit.set_computations(c, [square])
    edit.remove_computation(other)
    assert module.computations == (square, main)
    with raises(InvalidArgumentError, edit_codes.REMOVED_IN_USE, "computation main"):
        edit.remove_computation(main)
    assert_edges_are_true(module)


def test_removing_a_caller_removes_it_from_callers(module: Module):
    free = edit.add_computation(module, "user")
    x = edit.create(
        free, opcodes.PARAMETER, (), opcodes.PARAMETER.attributes.make(number=0), shape=Shape.parse("f32[2]")
    )
    edit.set_root(free, edit.create(free, opcodes.CALL, [x], computations=[module.find("square")]))
    assert len(module.find("square").callers) == 3
    edit.remove_computation(free)
    assert_edges_are_true(module)


def test_control_edges(module: Module):
    a, c, d = (find(module, name) for name in "acd")
    edit.add_control_edge(a, d)
    edit.add_control_edge(a, d)
    assert (a.control_successors, d.control_predecessors) == ((d,), (a,))
    with raises(InvalidArgumentError, module_codes.SAME_COMPUTATION, "a and x"):
        edit.add_control_edge(a, module.find("square").find("x"))
    edit.add_control_edge(c, d)
    edit.remove_control_edges(a)
    assert (a.control_successors, d.control_predecessors) == ((), (c,))
    assert_edges_are_true(module)


def test_shapes_and_roots_renew_the_program_shape(module: Module):
    main = module.entry_computation
    assert main.program_shape.result == Shape.parse("f32[2]{0}")
    edit.set_shape(find(module, "a"), Shape.parse("f32[3]"))
    assert main.program_shape.parameters[0] == Shape.parse("f32[3]{0}")
    edit.set_root(main, find(module, "a"))
    assert main.program_shape.result == Shape.parse("f32[3]{0}")
    with raises(InvalidArgumentError, module_codes.SAME_COMPUTATION, "x is not", "main"):
        edit.set_root(main, module.find("square").find("x"))


def test_orders(module: Module):
    main = module.entry_computation
    edit.reorder(main, [find(module, name) for name in ("b", "a", "s", "c", "d", "r")])
    assert names(main) == ["b", "a", "s", "c", "d", "r"]
    assert names(main.parameters) == ["a", "b"]
    with raises(InvalidArgumentError, edit_codes.COMPLETE_ORDER, "instruction of main"):
        edit.reorder(main, main.instructions[1:])
    edit.reorder_computations(module, [main, module.find("square")])
    assert [c.name for c in module.computations] == ["main", "square"]
    with raises(InvalidArgumentError, edit_codes.COMPLETE_ORDER, "computation of m"):
        edit.reorder_computations(module, [main])


# -- copying


def test_clones_of_instructions_keep_annotations(module: Module):
    s = find(module, "s")
    s.frontend_attributes = {"k": "v"}
    copy = edit.clone_instruction(s, module.entry_computation, [find(module, "b"), find(module, "a")])
    assert (copy.name, copy.op, copy.shape, names(copy.operands)) == ("s.1", opcodes.ADD, s.shape, ["b", "a"])
    assert copy.metadata is not None
    assert (copy.metadata.op_name, copy.frontend_attributes) == ("sum", {"k": "v"})
    assert_edges_are_true(module)


def test_a_cloned_module_prints_the_same_and_shares_nothing(module: Module):
    edit.add_control_edge(find(module, "a"), find(module, "d"))
    before = module.to_text()
    copy = edit.clone_module(module)
    assert copy.to_text() == before
    assert_edges_are_true(copy)
    edit.replace_uses(copy.entry_computation.find("s"), copy.entry_computation.find("a"))
    copy.config.frontend_attributes = {}
    copy.config.input_output_alias = ()
    assert module.to_text() == before
    assert_edges_are_true(module)


def test_cloning_a_deep_chain_needs_no_recursion():
    lines = "\n".join(f"  v{i + 1} = f32[] negate(v{i})" for i in range(5000))
    module = parse_hlo(f"HloModule deep\nENTRY main {{\n  v0 = f32[] parameter(0)\n{lines}\n}}\n")
    assert edit.clone_module(module).to_text() == module.to_text()


# -- inlining


def test_inline(module: Module):
    main = module.entry_computation
    c = find(module, "c")
    result = inline_call(c)
    assert (result.op, names(result.operands), names(result.users)) == (opcodes.MULTIPLY, ["s", "s"], ["d"])
    assert c not in main
    assert module.find("square").callers == (find(module, "d"),)
    assert_edges_are_true(module)
    inline_call(find(module, "d"))
    edit.remove_computation(module.find("square"))
    assert_edges_are_true(module)
    assert "call" not in module.to_text()


def test_inline_hands_control_edges_on(module: Module):
    a, c, root = (find(module, name) for name in "acr")
    edit.add_control_edge(a, c)
    edit.add_control_edge(c, root)
    product = inline_call(c)
    assert (product.control_predecessors, product.control_successors) == ((a,), (root,))
    assert_edges_are_true(module)


def test_inline_of_a_computation_that_returns_its_parameter():
    module = parse_hlo(
        "HloModule m\nid { ROOT x = f32[] parameter(0) }\n"
        "ENTRY main {\n  a = f32[] parameter(0)\n  n = f32[] negate(a)\n"
        "  c = f32[] call(n), to_apply=id, control-predecessors={a}\n"
        "  ROOT r = f32[] abs(a), control-predecessors={c}\n}\n"
    )
    n = find(module, "n")
    assert inline_call(find(module, "c")) is n
    assert find(module, "r").control_predecessors == (find(module, "a"),)
    assert_edges_are_true(module)


def test_only_calls_are_inlined(module: Module):
    with raises(InvalidArgumentError, edit_codes.INLINED_CALL, "s"):
        inline_call(find(module, "s"))
