"""Effects of instructions, including those of called computations."""

from __future__ import annotations

from xlapy.analysis.effects import Effects, has_side_effect
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import Effect
from xlapy.text import parse_hlo

TEXT = """HloModule m

draw { l = f32[] parameter(0) ROOT g = f32[2] rng(l, l), distribution=rng_uniform }
deep { k = f32[] parameter(0) ROOT c = f32[2] call(k), to_apply=draw }
guarded { p = f32[2] parameter(0) ROOT b = f32[2] opt-barrier(p) }
plain { q = f32[2] parameter(0) ROOT n = f32[2] negate(q) }

ENTRY main {
  x = f32[] parameter(0)
  y = f32[2] call(x), to_apply=deep
  z = f32[2] call(y), to_apply=guarded
  w = f32[2] call(z), to_apply=plain
  one = f32[2] custom-call(w), custom_call_target="f"
  two = f32[2] custom-call(one), custom_call_target="f", custom_call_has_side_effect=true
  ROOT r = f32[2] add(one, two)
}
"""

EXPECTED = {
    "x": Effect.PURE,
    "y": Effect.SIDE_EFFECT,
    "z": Effect.ORDERED,
    "w": Effect.PURE,
    "one": Effect.PURE,
    "two": Effect.SIDE_EFFECT,
    "r": Effect.PURE,
}


def test_the_strongest_effect_inside_counts() -> None:
    module = parse_hlo(TEXT)
    effects = Effects(module)
    found: dict[str, Instruction] = {i.name: i for i in module.entry_computation}
    assert {name: effects.of(i) for name, i in found.items()} == EXPECTED
    assert {name for name, i in found.items() if has_side_effect(i)} == {"y", "two"}
    assert effects.has_side_effect(found["y"]) and not effects.is_pure(found["z"]) and effects.is_pure(found["w"])


def test_a_long_chain_of_calls() -> None:
    """Each computation calls the previous one twice; every computation must be analyzed once, not a million times."""
    lines = ["f0 { p = f32[] parameter(0) ROOT a = f32[] negate(p) }"]
    lines += [
        f"f{i} {{ p{i} = f32[] parameter(0) a{i} = f32[] call(p{i}), to_apply=f{i - 1} "
        f"ROOT b{i} = f32[] call(a{i}), to_apply=f{i - 1} }}"
        for i in range(1, 60)
    ]
    main = "ENTRY main { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f59 }"
    module = parse_hlo("\n".join(["HloModule m", *lines, main]))
    root = module.entry_computation.root_instruction
    assert not has_side_effect(root)
    assert Effects(module).is_pure(root)
