"""Test cases of rewrite rules: what a case consists of, and how it is checked.

A case is the lines of an entry computation, and the lines into which a rule rewrites them. Does not depend on any
particular rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.passes.runner import assert_same_results, body, program
from xlapy.hlo.edit import clone_module
from xlapy.hlo.verify import verify
from xlapy.passes.algebra import REWRITES
from xlapy.passes.simplify import Simplify, simplify_computation
from xlapy.text import parse_hlo

CALLED = """
plus { p0 = f32[] parameter(0) p1 = f32[] parameter(1) ROOT sum = f32[] add(p0, p1) }
plus_s32 { p2 = s32[] parameter(0) p3 = s32[] parameter(1) ROOT whole = s32[] add(p2, p3) }
most { p4 = f32[] parameter(0) p5 = f32[] parameter(1) ROOT greater = f32[] maximum(p4, p5) }
less { p6 = f32[] parameter(0) p7 = f32[] parameter(1) ROOT first = pred[] compare(p6, p7), direction=LT }
less_of_pairs {
  p8 = f32[] parameter(0) p9 = f32[] parameter(1) p10 = s32[] parameter(2) p11 = s32[] parameter(3)
  ROOT before = pred[] compare(p8, p9), direction=LT
}
pair {
  p12 = f32[] parameter(0) p13 = s32[] parameter(1) p14 = f32[] parameter(2) p15 = s32[] parameter(3)
  peak = f32[] maximum(p12, p14) total = s32[] add(p13, p15) ROOT both = (f32[], s32[]) tuple(peak, total)
}
"""
"""The computations that the cases call."""

RULES = {rule.__name__: rule for rule in REWRITES.all_rules()}


@dataclass(frozen=True)
class Rewrites:
    """A rule rewrites `before` to `after`; both are lines of the entry computation."""

    rule: str
    before: str
    after: str

    def check(self) -> None:
        """Checks the text that the rule produces, that results of rule and pass are equal bit by bit, and that the pass
        converges.
        """
        original = parse_hlo(program(*self.before.strip().splitlines(), before=CALLED))
        once, whole = clone_module(original), clone_module(original)
        assert simplify_computation(once.entry_computation, rules=[RULES[self.rule]])
        verify(once)
        assert body(once) == "\n".join(line.strip() for line in self.after.strip().splitlines())
        assert_same_results(original, once)
        assert Simplify().run(whole)
        assert_same_results(original, whole)
        assert not Simplify().run(whole)


@dataclass(frozen=True)
class NoMatch:
    """A rule does not match any of the lines."""

    rule: str
    lines: str

    def check(self) -> None:
        module = parse_hlo(program(*self.lines.strip().splitlines(), before=CALLED))
        assert not simplify_computation(module.entry_computation, rules=[RULES[self.rule]]), body(module)
