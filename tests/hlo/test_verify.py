"""Verification of modules: for each rule, a module that breaks it and the message."""

from __future__ import annotations

import pytest

from xlapy import opcodes
from xlapy.base.errors import VerificationError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.module import Alias, BufferDonor, Module
from xlapy.hlo.verify import verify
from xlapy.text import parse_hlo

TEXT = """HloModule m

square {
  x = f32[2] parameter(0)
  ROOT y = f32[2] multiply(x, x)
}

ENTRY main {
  a = f32[2] parameter(0)
  b = (f32[2], token[]) parameter(1)
  e = f32[2] get-tuple-element(b), index=0
  s = f32[2] add(a, e)
  c = f32[2] call(s), to_apply=square
  ROOT r = (f32[2], f32[2], f32[]) tuple(c, s, k)
}
""".replace("  ROOT r", "  k = f32[] constant(1)\n  ROOT r")


@pytest.fixture
def module() -> Module:
    return parse_hlo(TEXT)


def refusal(module: Module) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(module)
    return str(caught.value)


def broken(text: str) -> str:
    return refusal(parse_hlo(text, verify=False))


def test_a_sound_module(module: Module):
    verify(module)


def test_missing_entry():
    assert refusal(Module("empty")) == "module empty has no entry computation"


def test_missing_root(module: Module):
    module.find("square").root = None
    assert refusal(module) == "computation square has no root"


def test_no_root_in_a_computation_listed_after_its_caller(module: Module):
    square = module.find("square")
    edit.reorder_computations(module, [module.entry_computation, square])
    square.root = None
    assert refusal(module) == "computation square has no root"


def test_the_root_of_another_computation(module: Module):
    module.find("square").root = module.entry_computation.find("a")
    assert refusal(module) == "computation square has the root a of another one"


def test_computations_that_call_each_other():
    text = (
        "HloModule m\nf { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=g }\n"
        "g { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=f }\n"
        "ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=f }\n"
    )
    assert broken(text) == "computations call each other in a cycle: f -> g -> f"


def test_a_computation_that_calls_itself():
    text = "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=e\n}\n"
    assert broken(text) == "computations call each other in a cycle: e -> e"


def test_long_cycles_are_shortened():
    parts = [f"c{i} {{ x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=c{(i + 1) % 20} }}" for i in range(20)]
    message = broken("HloModule m\n" + "\n".join(parts))
    assert message == "computations call each other in a cycle: c0 -> c1 -> c2 -> c3 -> c4 -> c5 -> c6 -> ... -> c0"


def test_the_entry_is_called():
    text = (
        "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n"
        "f { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=e }\n"
    )
    assert broken(text) == "entry computation e is called by y"


def test_parameter_numbers():
    text = "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  y = f32[] parameter(2)\n  ROOT z = f32[] add(x, y)\n}\n"
    message = "computation e: parameters must be numbered 0 to 1 without gaps or repeats, found"
    assert broken(text) == f"{message} [0, 2]"
    assert broken(text.replace("parameter(2)", "parameter(0)")) == f"{message} [0, 0]"
    assert broken(text.replace("parameter(2)", "parameter(-1)")) == f"{message} [-1, 0]"


def test_operands_of_another_computation(module: Module):
    edit.set_operands(module.find("square").find("y"), [module.entry_computation.find("a")] * 2)
    assert refusal(module) == "square: y (multiply): uses a, which is not part of the computation"


def test_operands_that_were_removed(module: Module):
    main = module.entry_computation
    extra = edit.create(main, opcodes.NEGATE, [main.find("a")])
    edit.remove(extra)
    edit.replace_operand(main.find("s"), 0, extra)
    assert refusal(module) == "main: s (add): uses negate, which is not part of the computation"


def test_dependency_cycles(module: Module):
    main = module.entry_computation
    edit.add_control_edge(main.find("c"), main.find("s"))
    assert refusal(module) == "computation main has a dependency cycle: s -> c -> s"
    edit.remove_control_edges(main.find("c"))
    edit.replace_operand(main.find("s"), 0, main.find("s"))
    assert refusal(module) == "computation main has a dependency cycle: s -> s"


def test_any_order_will_do_unless_it_is_a_schedule(module: Module):
    main = module.entry_computation
    edit.reorder(main, reversed(main.instructions))
    verify(module)
    module.config.is_scheduled = True
    assert refusal(module) == "main: r (tuple): is scheduled before c, which it depends on"


def test_a_declared_shape(module: Module):
    edit.set_shape(module.entry_computation.find("s"), Shape.parse("f32[3]"))
    assert refusal(module) == "main: s (add): add of (f32[2], f32[2]) has shape f32[2], declared f32[3]"


def test_the_number_of_operands(module: Module):
    edit.set_operands(module.entry_computation.find("s"), [module.entry_computation.find("a")])
    assert refusal(module) == "main: s (add): add takes 2 operands, given 1"


def test_called_computations(module: Module):
    main = module.entry_computation
    edit.set_computations(main.find("c"), [])
    assert refusal(module) == "main: c (call): needs 1 called computations (to_apply), given 0"
    edit.set_computations(main.find("c"), [module.find("square")] * 2)
    assert refusal(module) == "main: c (call): needs 1 called computations (to_apply), given 2"
    edit.set_computations(main.find("c"), [module.find("square")])
    edit.set_computations(main.find("s"), [module.find("square")])
    assert refusal(module) == "main: s (add): calls no computation, given 1"


def test_computations_of_another_module(module: Module):
    other = parse_hlo(TEXT)
    edit.set_computations(module.entry_computation.find("c"), [other.find("square")])
    assert refusal(module) == "main: c (call): calls square, which is not part of the module"


def test_names(module: Module):
    module.entry_computation.find("s").name = "a"
    assert refusal(module) == "computation main has two instructions named a"
    module.find("square").name = "main"
    assert refusal(module) == "two computations are named main"


def test_the_entry_layout(module: Module):
    text = "HloModule m, entry_computation_layout={(f32[2])->f32[3]}\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n"
    assert "does not fit the entry computation (x: f32[2]) -> f32[2]" in broken(text)
    assert "does not fit" in broken(text.replace("(f32[2])->f32[3]", "()->f32[2]"))
    verify(parse_hlo(text.replace("f32[3]", "f32[2]{0}")))


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ([Alias((0,), 0, ()), Alias((0,), 1, (0,))], "input_output_alias names output [0] twice"),
        ([Alias((0,), 0, ()), Alias((1,), 0, ())], "input_output_alias names parameter 0 at [] twice"),
        ([Alias((3,), 0, ())], "input_output_alias [3]: (0, []) names no buffer of "),
        ([Alias((0,), 2, ())], "input_output_alias [0]: (2, []) names no buffer of "),
        ([Alias((0,), -1, ())], "input_output_alias [0]: (-1, []) names no buffer of "),
        ([Alias((0,), 1, (2,))], "input_output_alias [0]: (1, [2]) names no buffer of "),
        ([Alias((2,), 0, ())], "input_output_alias [2]: (0, []) pairs f32[] with f32[2], which differ in size"),
    ],
)
def test_aliases(module: Module, aliases: list[Alias], message: str):
    module.config.input_output_alias = tuple(aliases)
    assert refusal(module).startswith(message)


def test_sound_aliases_and_donors(module: Module):
    module.config.input_output_alias = (Alias((0,), 0, ()),)
    module.config.buffer_donors = (BufferDonor(1, (0,)),)
    verify(module)


def test_a_buffer_that_must_be_shared_is_the_same_at_the_entry():
    aliases = "input_output_alias={{}: (0, {}, must-alias)}"
    text = f"""HloModule m, {aliases}, entry_computation_layout={{(f32[2]{{0:S(5)}})->f32[2]{{0}}}}
ENTRY e {{
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}}
"""
    assert broken(text) == (
        "input_output_alias []: (0, []) must share a buffer, which the entry has as f32[2]{0:S(5)} and f32[2]{0}"
    )
    verify(parse_hlo(text.replace("must-alias", "may-alias")))
    verify(parse_hlo(text.replace(":S(5)", "")))


@pytest.mark.parametrize(
    ("donor", "message"),
    [
        (BufferDonor(2, ()), "buffer_donor (2, []) names no buffer of "),
        (BufferDonor(1, (5,)), "buffer_donor (1, [5]) names no buffer of "),
        (BufferDonor(0, ()), "buffer_donor (0, []) is already aliased with an output"),
    ],
)
def test_donors(module: Module, donor: BufferDonor, message: str):
    module.config.input_output_alias = (Alias((0,), 0, ()),)
    module.config.buffer_donors = (donor,)
    assert refusal(module).startswith(message)


def test_a_long_computation_out_of_order_takes_no_time():
    """The verifier searches for cycles once, not once per instruction."""
    lines = "\n".join(f"  v{i + 1} = f32[] negate(v{i})" for i in range(5000))
    module = parse_hlo(f"HloModule deep\nENTRY main {{\n  v0 = f32[] parameter(0)\n{lines}\n}}\n")
    edit.reorder(module.entry_computation, reversed(module.entry_computation.instructions))
    verify(module)


@pytest.mark.parametrize(
    "line, message",
    [
        (
            "idle = f32[2] negate(x)\n  ROOT y = f32[2] multiply(x, x)",
            "main: f (fusion): idle (negate) in the fused computation is neither its root nor used",
        ),
        (
            "ROOT y = f32[2] multiply(x, x)\n  more = f32[2] negate(y)",
            "main: f (fusion): the root y of the fused computation is used by more",
        ),
    ],
)
def test_a_fused_computation_serves_its_root_alone(line: str, message: str):
    text = f"""HloModule m

fused {{
  x = f32[2] parameter(0)
  {line}
}}

ENTRY main {{
  a = f32[2] parameter(0)
  ROOT f = f32[2] fusion(a), kind=kLoop, calls=fused
}}
"""
    assert broken(text) == message


def test_dimensions_are_bounded():
    assert broken("HloModule m\nENTRY e {\n  ROOT x = (f32[2], f32[?]) parameter(0)\n}\n") == (
        "e: x (parameter): has shape (f32[2], f32[?]): a program that is run has no unbounded dimensions; "
        "give them a bound, as in f32[<=8], or a size"
    )


def test_reduced_arrays_have_one_floating_point_type():
    text = """HloModule m
f {
  a = f32[] parameter(0)
  b = bf16[] parameter(1)
  c = f32[] parameter(2)
  d = bf16[] parameter(3)
  ROOT t = (f32[], bf16[]) tuple(c, d)
}
ENTRY e {
  x = f32[2] parameter(0)
  y = bf16[2] parameter(1)
  i = f32[] constant(0)
  j = bf16[] constant(0)
  ROOT r = (f32[], bf16[]) reduce(x, y, i, j), dimensions={0}, to_apply=f
}
"""
    assert broken(text) == (
        "e: r (reduce): takes floating-point operands of one type, x is f32[2] and y is bf16[2]; convert one of them"
    )
    verify(parse_hlo(text.replace("bf16", "s32")))


def test_a_fusion_may_have_spare_operands():
    text = """HloModule m
f {
  ROOT x = f32[2] parameter(0)
}
ENTRY e {
  a = f32[2] parameter(0)
  b = s32[] parameter(1)
  ROOT r = f32[2] fusion(a, b), kind=kLoop, calls=f
}
"""
    verify(parse_hlo(text))
    spare = text.replace(
        "ROOT x = f32[2] parameter(0)",
        "w = f32[2] parameter(0)\n y = s32[] parameter(1)\n ROOT x = (f32[2], s32[]) tuple(w, y)",
    )
    assert "fusion has 1 operands" in broken(spare.replace("fusion(a, b)", "fusion(a)"))


def test_large_tuples_of_many_instructions():
    """16 lines double a tuple to 2**15 leaves; each further line has all of them."""
    doubled = "".join(f"  t{k} = tuple({'p, p' if k == 1 else f't{k - 1}, t{k - 1}'})\n" for k in range(1, 16))
    repeated = "".join(f"  v{k} = tuple(t15)\n" for k in range(80))
    text = f"ENTRY e {{\n  p = f32[] parameter(0)\n{doubled}{repeated}  ROOT r = f32[] negate(p)\n}}"
    with pytest.raises(VerificationError, match="more than 4194304, the most that a module may have"):
        parse_hlo(text)
