"""Delta debugging of modules: tries smaller modules as long as one of them is still interesting.

Owns: the order of the passes, what counts as smaller, and that every module tried is sound. Must not know: what a pass
changes, why a module is interesting.

A pass is a list of `Proposals`: `count(module)` says how many there are, and `apply(module, numbers)` makes some
of them in a copy. Proposals are tried all at once, then halves, quarters and so on, down to single ones, as in ddmin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xlapy.base.errors import XlaError
from xlapy.debugging.reducing import attributes, calls, carried, constants, instructions, shapes, tuples
from xlapy.debugging.reducing.cleaning import UNUSED, clean, unused_names
from xlapy.debugging.reducing.proposals import Proposals, Weight, weight
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify

Interesting = Callable[[Module], bool]

PASSES: tuple[Proposals, ...] = (
    UNUSED,
    *instructions.ROOTS,
    *attributes.PASSES,
    *instructions.PASSES,
    *calls.PASSES,
    *tuples.PASSES,
    *carried.PASSES,
    *shapes.PASSES,
    *constants.PASSES,
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reduction has come: the pass at work, modules tried and kept, and the best one."""

    name: str
    tried: int
    kept: int
    best: Module


@dataclass(slots=True)
class _Reduction:
    best: Module
    interesting: Interesting
    report: Callable[[Progress], None]
    weight: Weight
    tried: int = 0
    kept: int = 0
    seen: set[int] = field(default_factory=set[int])

    def attempt(self, proposals: Proposals, numbers: Sequence[int]) -> bool:
        """Whether the best module with these changes is sound, smaller and still interesting; then it is the best."""
        candidate = edit.clone_module(self.best)
        try:
            proposals.apply(candidate, numbers)
            clean(candidate, unused_names(self.best))
            if candidate.entry_computation.program_shape != self.best.entry_computation.program_shape:
                candidate.config.entry_computation_layout = candidate.entry_computation.program_shape
            verify(candidate)
        except XlaError:
            return False
        size = weight(candidate)
        text = hash(candidate.to_text(print_large_constants=True))
        if size >= self.weight or text in self.seen:
            return False
        self.seen.add(text)
        self.tried += 1
        if not self.interesting(candidate):
            self._tell(proposals)
            return False
        self.best, self.weight, self.kept = candidate, size, self.kept + 1
        self._tell(proposals)
        return True

    def _tell(self, proposals: Proposals) -> None:
        self.report(Progress(proposals.name, self.tried, self.kept, self.best))

    def run(self, proposals: Proposals) -> None:
        """All proposals of a pass, in pieces that become smaller; what is kept renumbers those that follow."""
        size = count = proposals.count(self.best)
        while size:
            start = 0
            while start < count:
                numbers = range(start, min(start + size, count))
                if self.attempt(proposals, numbers):
                    count = proposals.count(self.best)
                else:
                    start += size
            size //= 2


def reduce_module(
    module: Module, interesting: Interesting, report: Callable[[Progress], None] = lambda progress: None
) -> Module:
    """The smallest module found for which `interesting` is true, as it must be for `module` itself.

    Passes are repeated until none of them helps. `interesting` is given sound modules only, each once; `report` is
    called after each. Whatever `interesting` raises comes through: keep the best module of the last `Progress`.
    """
    reduction = _Reduction(module, interesting, report, weight(module))
    before = None
    while before is not reduction.best:
        before = reduction.best
        for proposals in PASSES:
            reduction.run(proposals)
    return reduction.best
