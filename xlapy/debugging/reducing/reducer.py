"""Delta debugging of modules: tries smaller modules as long as one of them is still interesting.

A `ReductionPass` offers numbered changes. They are tried all at once, then in halves, quarters and so on down to single
ones, as in ddmin.

Responsible for the order of the passes, for the acceptance of smaller modules only, and for the validity of each module
tried. Does not depend on what a pass changes or why a module is interesting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xlapy.base.errors import XlaError
from xlapy.debugging.reducing import attributes, calls, constants, instructions, shapes, tuples, variadic
from xlapy.debugging.reducing.cleaning import UNUSED, clean, unused_names
from xlapy.debugging.reducing.reduction_pass import ReductionPass, Weight, weight
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify

Interesting = Callable[[Module], bool]

PASSES: tuple[ReductionPass, ...] = (
    UNUSED,
    *instructions.ROOTS,
    *attributes.PASSES,
    *instructions.PASSES,
    *calls.PASSES,
    *tuples.PASSES,
    *variadic.PASSES,
    *shapes.PASSES,
    *constants.PASSES,
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a reduction: the current pass, the number of modules tried and kept, and the best module so
    far."""

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

    def attempt(self, pass_: ReductionPass, numbers: Sequence[int]) -> bool:
        """Makes changes in a copy of the best module. Keeps it and returns True if it is valid, smaller and still
        interesting.
        """
        candidate = edit.clone_module(self.best)
        try:
            pass_.apply(candidate, numbers)
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
            self._report(pass_)
            return False
        self.best, self.weight, self.kept = candidate, size, self.kept + 1
        self._report(pass_)
        return True

    def _report(self, pass_: ReductionPass) -> None:
        self.report(Progress(pass_.name, self.tried, self.kept, self.best))

    def run(self, pass_: ReductionPass) -> None:
        """Tries all changes of a pass, in groups that become smaller. A change that is kept renumbers those after
        it."""
        size = count = pass_.count(self.best)
        while size:
            start = 0
            while start < count:
                numbers = range(start, min(start + size, count))
                if self.attempt(pass_, numbers):
                    count = pass_.count(self.best)
                else:
                    start += size
            size //= 2


def reduce_module(
    module: Module, interesting: Interesting, report: Callable[[Progress], None] = lambda progress: None
) -> Module:
    """Returns the smallest module found for which `interesting` is true; it must be true for `module`.

    Passes are repeated until none of them helps. `interesting` is called with valid modules only, once per module, and
    `report` after each call. An exception of `interesting` or `report` is passed on; the last `Progress` then holds the
    best module.
    """
    reduction = _Reduction(module, interesting, report, weight(module))
    before = None
    while before is not reduction.best:
        before = reduction.best
        for pass_ in PASSES:
            reduction.run(pass_)
    return reduction.best
