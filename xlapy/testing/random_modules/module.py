"""`random_module`: puts the makers of all families together.

Owns: how often each family is drawn, and the entry computation. Must not know: evaluation, other implementations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.random_modules import (
    contraction,
    control,
    custom,
    elementwise,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    transfer,
)
from xlapy.testing.random_modules.draft import Choices, Draft, Maker

FAMILIES: dict[str, tuple[float, Sequence[tuple[OpDef, Maker]]]] = {
    "elementwise": (35, elementwise.MAKERS),
    "movement": (24, movement.MAKERS),
    "contraction": (6, contraction.MAKERS),
    "reduction": (12, reduction.MAKERS),
    "indexing": (7, indexing.MAKERS),
    "sorting": (4, sorting.MAKERS),
    "control": (7, control.MAKERS),
    "tuples": (5, control.TUPLE_MAKERS),
    "linalg": (3, linalg.MAKERS),
    "random": (3, random.MAKERS),
    "normalization": (2, normalization.MAKERS),
    "transfer": (1, transfer.MAKERS),
    "custom": (1, custom.MAKERS),
}
"""Weight and makers of each family. A new one is a file of makers and a line here: nothing else knows the families."""


def random_module(
    seed: int,
    *,
    instructions: int = 20,
    element_types: Sequence[PrimitiveType] = ARRAY_TYPES,
    families: Collection[str] = tuple(FAMILIES),
    without: Collection[OpDef] = (),
) -> Module:
    """A legal module whose entry holds `instructions` drawn ones, and the sources of operands that they lack.

    Equal arguments give equal modules. Arrays have rank 0 to 6 and at most 256 elements; sizes of 0 occur. Called
    computations hold a few instructions each, loops run at most four times. Results are determined by the arguments:
    ties of sorts are stable, reducers are associative (rounding aside), and called computations use only operations
    that every implementation computes to the same bits. The entry returns every value that nothing else uses, in a
    tuple.

    element_types: what arrays may hold; PRED and S32 occur in any case, as predicates, counters and positions.
    families: names of `FAMILIES` to draw from; alone, "tuples" and "control" find nothing to work on. without: ops that
    must not be drawn.
    """
    rng = np.random.default_rng(seed)
    module = Module(f"random_{seed}")
    entry = edit.add_computation(module, "entry", entry=True)
    draft = Draft(module, entry, rng, _choices(element_types, without), tuple(f for f in FAMILIES if f in families))
    draft.grow(instructions)
    draft.finish(draft.add(TUPLE, [i for i in draft.pool if not i.has_users]))
    module.config.entry_computation_layout = entry.program_shape
    return module


def _choices(element_types: Sequence[PrimitiveType], without: Collection[OpDef]) -> Choices:
    makers = {family: [maker for op, maker in pairs if op not in without] for family, (_, pairs) in FAMILIES.items()}
    return Choices(tuple(element_types), makers, {family: weight for family, (weight, _) in FAMILIES.items()})
