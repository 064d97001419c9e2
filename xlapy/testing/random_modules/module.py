"""`random_module`: puts the op generators of all families together.

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
from xlapy.testing.random_modules.generator import Choices, ModuleGenerator, OpGenerator

FAMILIES: dict[str, tuple[float, Sequence[tuple[OpDef, OpGenerator]]]] = {
    "elementwise": (35, elementwise.OP_GENERATORS),
    "movement": (24, movement.OP_GENERATORS),
    "contraction": (6, contraction.OP_GENERATORS),
    "reduction": (12, reduction.OP_GENERATORS),
    "indexing": (7, indexing.OP_GENERATORS),
    "sorting": (4, sorting.OP_GENERATORS),
    "control": (7, control.OP_GENERATORS),
    "tuples": (5, control.TUPLE_OP_GENERATORS),
    "linalg": (3, linalg.OP_GENERATORS),
    "random": (3, random.OP_GENERATORS),
    "normalization": (2, normalization.OP_GENERATORS),
    "transfer": (1, transfer.OP_GENERATORS),
    "custom": (1, custom.OP_GENERATORS),
}
"""Weight and op generators of each family. To add a family, add a file of op generators and an entry here."""


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
    generator = ModuleGenerator(
        module, entry, rng, _choices(element_types, without), tuple(f for f in FAMILIES if f in families)
    )
    generator.grow(instructions)
    generator.finish(generator.add(TUPLE, [i for i in generator.pool if not i.has_users]))
    module.config.entry_computation_layout = entry.program_shape
    return module


def _choices(element_types: Sequence[PrimitiveType], without: Collection[OpDef]) -> Choices:
    op_generators = {
        family: [op_generator for op, op_generator in pairs if op not in without]
        for family, (_, pairs) in FAMILIES.items()
    }
    return Choices(tuple(element_types), op_generators, {family: weight for family, (weight, _) in FAMILIES.items()})
