"""The reducer keeps the interesting instruction and removes the rest. Every module that it tries is valid."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xlapy.debugging.reducing import Progress, reduce_module
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.testing.random_modules import random_module
from xlapy.text import parse_hlo


def holds(op: str) -> Callable[[Module], bool]:
    return lambda module: any(i.op.name == op for i in module.instructions())


def reduced(text: str, interesting: Callable[[Module], bool]) -> str:
    return reduce_module(parse_hlo(text), interesting).to_text()


@pytest.mark.parametrize(
    ("op", "most"),
    [("tanh", 2), ("dot", 3), ("transpose", 2), ("reduce", 8), ("sort", 5), ("conditional", 8), ("convolution", 3)],
)
def test_a_random_module_becomes_one_instruction_and_its_operands(op: str, most: int) -> None:
    module = next(m for seed in range(1000) if holds(op)(m := random_module(seed, instructions=30)))
    best = reduce_module(module, holds(op))
    verify(best)
    assert holds(op)(best)
    assert best.instruction_count <= most < module.instruction_count


def test_modules_tried_are_valid_and_distinct_and_modules_kept_are_smaller() -> None:
    module = random_module(5)
    tried: list[str] = []
    sizes: list[int] = []

    def interesting(candidate: Module) -> bool:
        verify(candidate)
        tried.append(candidate.to_text(print_large_constants=True))
        return holds("while")(candidate) or holds("select")(candidate)

    def report(progress: Progress) -> None:
        assert progress.tried == len(tried)
        sizes.append(progress.best.instruction_count)

    assert interesting(module)
    tried.clear()
    best = reduce_module(module, interesting, report)
    assert len(tried) == len(set(tried)) > 20
    assert sizes[-1] == best.instruction_count < module.instruction_count


def test_an_unused_instruction_may_be_interesting() -> None:
    """Dead instructions, uncalled computations and annotations are removed only if the module stays interesting."""
    text = """HloModule m
        spare { x = f32[] parameter(0)  ROOT y = f32[] tanh(x) }
        ENTRY e {
          a = f32[4] parameter(0)
          dead = f32[4] cosine(a), metadata={op_name="here"}
          ROOT b = f32[4] add(a, a)
        }"""
    assert "tanh(" in reduced(text, holds("tanh")) and "cosine(" in reduced(text, holds("cosine"))
    named = reduced(text, lambda m: any(i.metadata is not None for i in m.instructions()))
    assert 'op_name="here"' in named
    assert "cosine" not in reduced(text, holds("tanh")) and "tanh" not in reduced(text, holds("cosine"))


def test_sizes_attributes_windows_and_numbers_shrink() -> None:
    text = """HloModule m, replica_count=2
        f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
        ENTRY e {
          p = f32[8,6]{0,1} parameter(0), sharding={replicated}
          z = f32[] constant(3.25)
          ROOT w = f32[4,6] reduce-window(p, z), window={size=2x3 stride=2x1 pad=0_0x1_1}, to_apply=f
        }"""
    lines = reduced(text, holds("reduce-window")).splitlines()
    root = next(line for line in lines if "ROOT" in line and "reduce-window" in line)
    assert "f32[1,1]" in root and "window={size=1x1}" in root
    assert "replica_count" not in lines[0]
    assert not any("sharding" in line or "3.25" in line for line in lines)


def test_calls_and_conditionals_are_inlined() -> None:
    text = """HloModule m
        g { x = f32[2] parameter(0)  ROOT y = f32[2] tanh(x) }
        yes { x = f32[2] parameter(0)  ROOT y = f32[2] call(x), to_apply=g }
        no { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }
        ENTRY e {
          p = pred[] parameter(0)
          x = f32[2] parameter(1)
          ROOT c = f32[2] conditional(p, x, x), true_computation=yes, false_computation=no
        }"""
    short = reduced(text, holds("tanh"))
    assert "conditional" not in short and "call" not in short and short.count("tanh(") == 1


def test_carried_values_of_loops_are_dropped() -> None:
    text = """HloModule m
        condition {
          c = (s32[], f32[9], f32[2]) parameter(0)
          i = s32[] get-tuple-element(c), index=0
          n = s32[] constant(3)
          ROOT r = pred[] compare(i, n), direction=LT
        }
        body {
          b = (s32[], f32[9], f32[2]) parameter(0)
          i = s32[] get-tuple-element(b), index=0
          x = f32[9] get-tuple-element(b), index=1
          y = f32[2] get-tuple-element(b), index=2
          one = s32[] constant(1)
          j = s32[] add(i, one)
          z = f32[9] tanh(x)
          ROOT t = (s32[], f32[9], f32[2]) tuple(j, z, y)
        }
        ENTRY e {
          i = s32[] constant(0)
          x = f32[9] parameter(0)
          y = f32[2] parameter(1)
          t = (s32[], f32[9], f32[2]) tuple(i, x, y)
          w = (s32[], f32[9], f32[2]) while(t), condition=condition, body=body
          ROOT r = f32[9] get-tuple-element(w), index=1
        }"""
    module = reduce_module(parse_hlo(text), lambda m: holds("while")(m) and holds("tanh")(m))
    loop = next(i for i in module.instructions() if i.op.name == "while")
    assert len(loop.shape.tuple_shapes) == 1
    assert module.instruction_count < 13


def test_an_exception_ends_the_search_and_the_best_module_so_far_is_known() -> None:
    seen: list[Module] = []

    def report(progress: Progress) -> None:
        if progress.kept == 2:
            raise KeyboardInterrupt
        seen.append(progress.best)

    with pytest.raises(KeyboardInterrupt):
        reduce_module(random_module(3), holds("tuple"), report)
    assert seen[-1].instruction_count < random_module(3).instruction_count
