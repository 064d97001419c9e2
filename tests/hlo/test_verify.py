"""Verification of modules: for each rule, a module that breaks it, the code and the values of the error."""

from __future__ import annotations

import pytest

from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.error_codes.structure import values as value_codes
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


def refuse(module: Module, code: ErrorCode, *values: str) -> None:
    """Checks that verification raises an error with a code that names the values."""
    with raises(VerificationError, code, *values):
        verify(module)


def refuse_text(text: str, code: ErrorCode, *values: str) -> None:
    refuse(parse_hlo(text, verify=False), code, *values)


def test_a_sound_module(module: Module):
    verify(module)


def test_missing_entry():
    refuse(Module("empty"), module_codes.ENTRY_COMPUTATION, "empty")


def test_missing_root(module: Module):
    module.find("square").root = None
    refuse(module, module_codes.ROOT, "square")


def test_no_root_in_a_computation_listed_after_its_caller(module: Module):
    square = module.find("square")
    edit.reorder_computations(module, [module.entry_computation, square])
    square.root = None
    refuse(module, module_codes.ROOT, "square")


def test_the_root_of_another_computation(module: Module):
    module.find("square").root = module.entry_computation.find("a")
    refuse(module, module_codes.ROOT, "computation square", "root a")


def test_computations_that_call_each_other():
    text = (
        "HloModule m\nf { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=g }\n"
        "g { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=f }\n"
        "ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=f }\n"
    )
    refuse_text(text, module_codes.CALL_CYCLE, "f -> g -> f")


def test_a_computation_that_calls_itself():
    text = "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=e\n}\n"
    refuse_text(text, module_codes.CALL_CYCLE, "e -> e")


def test_long_cycles_are_shortened():
    parts = [f"c{i} {{ x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=c{(i + 1) % 20} }}" for i in range(20)]
    text = "HloModule m\n" + "\n".join(parts)
    refuse_text(text, module_codes.CALL_CYCLE, ": c0 -> c1 -> c2 -> c3 -> c4 -> c5 -> c6 -> ... -> c0")


def test_the_entry_is_called():
    text = (
        "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n"
        "f { x = f32[] parameter(0)  ROOT y = f32[] call(x), to_apply=e }\n"
    )
    refuse_text(text, module_codes.ENTRY_CALLED, "e", "y (call)")


def test_parameter_numbers():
    text = "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  y = f32[] parameter(2)\n  ROOT z = f32[] add(x, y)\n}\n"
    refuse_text(text, module_codes.PARAMETER_NUMBERS, "[0, 2]")
    refuse_text(text.replace("parameter(2)", "parameter(0)"), module_codes.PARAMETER_NUMBERS, "[0, 0]")
    refuse_text(text.replace("parameter(2)", "parameter(-1)"), module_codes.PARAMETER_NUMBERS, "[-1, 0]")


def test_operands_of_another_computation(module: Module):
    edit.set_operands(module.find("square").find("y"), [module.entry_computation.find("a")] * 2)
    refuse(module, module_codes.SAME_COMPUTATION, "y (multiply)", "uses a")


def test_operands_that_were_removed(module: Module):
    main = module.entry_computation
    extra = edit.create(main, opcodes.NEGATE, [main.find("a")])
    edit.remove(extra)
    edit.replace_operand(main.find("s"), 0, extra)
    refuse(module, module_codes.SAME_COMPUTATION, "s (add)", "negate")


def test_dependency_cycles(module: Module):
    main = module.entry_computation
    edit.add_control_edge(main.find("c"), main.find("s"))
    refuse(module, module_codes.DEPENDENCY_CYCLE, "s -> c -> s")
    edit.remove_control_edges(main.find("c"))
    edit.replace_operand(main.find("s"), 0, main.find("s"))
    refuse(module, module_codes.DEPENDENCY_CYCLE, "s -> s")


def test_any_order_will_do_unless_it_is_a_schedule(module: Module):
    main = module.entry_computation
    edit.reorder(main, reversed(main.instructions))
    verify(module)
    module.config.is_scheduled = True
    refuse(module, module_codes.SCHEDULE_ORDER, "r (tuple)", "before c")


def test_a_declared_shape(module: Module):
    edit.set_shape(module.entry_computation.find("s"), Shape.parse("f32[3]"))
    refuse(module, operand_codes.RESULT_SHAPE, "s (add)", "(f32[2], f32[2])", "f32[3]")


def test_the_number_of_operands(module: Module):
    edit.set_operands(module.entry_computation.find("s"), [module.entry_computation.find("a")])
    refuse(module, operand_codes.OPERAND_COUNT, "s (add)", "takes 2", "given 1")


def test_called_computations(module: Module):
    main = module.entry_computation
    edit.set_computations(main.find("c"), [])
    refuse(module, operand_codes.CALLED_COMPUTATIONS, "c (call)", "needs 1", "computations (to_apply)", "given 0")
    edit.set_computations(main.find("c"), [module.find("square")] * 2)
    refuse(module, operand_codes.CALLED_COMPUTATIONS, "c (call)", "needs 1", "computations (to_apply)", "given 2")
    edit.set_computations(main.find("c"), [module.find("square")])
    edit.set_computations(main.find("s"), [module.find("square")])
    refuse(module, operand_codes.CALLED_COMPUTATIONS, "s (add)", "given 1")


def test_computations_of_another_module(module: Module):
    other = parse_hlo(TEXT)
    edit.set_computations(module.entry_computation.find("c"), [other.find("square")])
    refuse(module, module_codes.CALLED_IN_MODULE, "c (call)", "square")


def test_names(module: Module):
    module.entry_computation.find("s").name = "a"
    refuse(module, module_codes.UNIQUE_NAMES, "computation main", "named a")
    module.find("square").name = "main"
    refuse(module, module_codes.UNIQUE_NAMES, "main")


def test_the_entry_layout(module: Module):
    text = "HloModule m, entry_computation_layout={(f32[2])->f32[3]}\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n"
    refuse_text(text, module_codes.ENTRY_LAYOUT, "(x: f32[2]) -> f32[2]")
    refuse_text(text.replace("(f32[2])->f32[3]", "()->f32[2]"), module_codes.ENTRY_LAYOUT, "() -> f32[2]")
    verify(parse_hlo(text.replace("f32[3]", "f32[2]{0}")))


@pytest.mark.parametrize(
    ("aliases", "expected"),
    [
        ([Alias((0,), 0, ()), Alias((0,), 1, (0,))], (module_codes.ALIAS_ONCE, "input_output_alias", "[0]")),
        (
            [Alias((0,), 0, ()), Alias((1,), 0, ())],
            (module_codes.ALIAS_ONCE, "input_output_alias", "parameter 0", "[]"),
        ),
        ([Alias((3,), 0, ())], (module_codes.ALIAS_BUFFER, "input_output_alias", "[3]", "(0, [])")),
        ([Alias((0,), 2, ())], (module_codes.ALIAS_BUFFER, "input_output_alias", "[0]", "(2, [])")),
        ([Alias((0,), -1, ())], (module_codes.ALIAS_BUFFER, "input_output_alias", "[0]", "(-1, [])")),
        ([Alias((0,), 1, (2,))], (module_codes.ALIAS_BUFFER, "input_output_alias", "[0]", "(1, [2])")),
        ([Alias((2,), 0, ())], (module_codes.ALIAS_SIZE, "input_output_alias", "[2]", "(0, [])", "f32[]", "f32[2]")),
    ],
)
def test_aliases(module: Module, aliases: list[Alias], expected: Wanted):
    module.config.input_output_alias = tuple(aliases)
    refuse(module, *expected)


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
    refuse_text(text, module_codes.ALIAS_MUST, "input_output_alias", "[]", "(0, [])", "f32[2]{0:S(5)}", "f32[2]{0}")
    verify(parse_hlo(text.replace("must-alias", "may-alias")))
    verify(parse_hlo(text.replace(":S(5)", "")))


@pytest.mark.parametrize(
    ("donor", "expected"),
    [
        (BufferDonor(2, ()), (module_codes.ALIAS_BUFFER, "buffer_donor", "(2, [])")),
        (BufferDonor(1, (5,)), (module_codes.ALIAS_BUFFER, "buffer_donor", "(1, [5])")),
        (BufferDonor(0, ()), (module_codes.DONOR_ALIASED, "buffer_donor", "(0, [])")),
    ],
)
def test_donors(module: Module, donor: BufferDonor, expected: Wanted):
    module.config.input_output_alias = (Alias((0,), 0, ()),)
    module.config.buffer_donors = (donor,)
    refuse(module, *expected)


def test_a_long_computation_out_of_order_takes_no_time():
    """The verifier searches for cycles once, not once per instruction."""
    lines = "\n".join(f"  v{i + 1} = f32[] negate(v{i})" for i in range(5000))
    module = parse_hlo(f"HloModule deep\nENTRY main {{\n  v0 = f32[] parameter(0)\n{lines}\n}}\n")
    edit.reorder(module.entry_computation, reversed(module.entry_computation.instructions))
    verify(module)


@pytest.mark.parametrize(
    "line, expected",
    [
        (
            "idle = f32[2] negate(x)\n  ROOT y = f32[2] multiply(x, x)",
            (module_codes.FUSED_USERS, "f (fusion)", "idle (negate)"),
        ),
        (
            "ROOT y = f32[2] multiply(x, x)\n  more = f32[2] negate(y)",
            (module_codes.FUSED_USERS, "f (fusion)", "the root y", "by more"),
        ),
    ],
)
def test_a_fused_computation_serves_its_root_alone(line: str, expected: Wanted):
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
    refuse_text(text, *expected)


def test_dimensions_are_bounded():
    refuse_text(
        "HloModule m\nENTRY e {\n  ROOT x = (f32[2], f32[?]) parameter(0)\n}\n",
        value_codes.BOUNDED_DIMENSIONS,
        "e",
        "x (parameter)",
        "(f32[2], f32[?])",
        "f32[<=8]",
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
    refuse_text(text, module_codes.UNIFORM_PRECISION, "e", "r (reduce)", "x", "f32[2]", "y", "bf16[2]")
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
    with pytest.raises(VerificationError, match=r"r \(fusion\): fusion has 1 operands"):
        parse_hlo(spare.replace("fusion(a, b)", "fusion(a)"))


def test_large_tuples_of_many_instructions():
    """16 lines double a tuple to 2**15 leaves; each further line has all of them."""
    doubled = "".join(f"  t{k} = tuple({'p, p' if k == 1 else f't{k - 1}, t{k - 1}'})\n" for k in range(1, 16))
    repeated = "".join(f"  v{k} = tuple(t15)\n" for k in range(80))
    text = f"ENTRY e {{\n  p = f32[] parameter(0)\n{doubled}{repeated}  ROOT r = f32[] negate(p)\n}}"
    with raises(VerificationError, module_codes.MODULE_SIZE, "4194304"):
        parse_hlo(text)
