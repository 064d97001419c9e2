"""Generates random modules with the op generators of all families.

Responsible for how often each family is drawn, and for the entry computation. Does not depend on evaluation or on other
implementations.
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
"""The weight and the op generators of each family. To add a family, add a file of op generators and an entry here."""


def random_module(
    seed: int,
    *,
    instructions: int = 20,
    element_types: Sequence[PrimitiveType] = ARRAY_TYPES,
    families: Collection[str] = tuple(FAMILIES),
    without: Collection[OpDef] = (),
) -> Module:
    """Returns a valid module whose entry contains `instructions` drawn instructions and the constants and parameters
    that they need.

    Equal arguments give equal modules. Arrays have rank 0 to 6 and at most 256 elements; sizes of 0 occur. Called
    computations contain a few instructions each; loops have at most four iterations. The arguments determine the
    results: ties of sorts are stable, reducers are associative except for rounding, and called computations contain
    only operations for which every implementation computes the same bits. The entry returns a tuple of every value that
    nothing else uses.

    element_types: the element types of arrays; PRED and S32 always occur, as predicates, counters and positions.
    families: names of `FAMILIES` to draw from; "tuples" and "control" need another family. without: ops that must not
    be drawn.
    """
    rng = np.random.default_rng(seed)
    module = Module(f"random_{seed}")
    entry = edit.add_computation(module, "entry", entry=True)
    generator = ModuleGenerator(
        module, entry, rng, _choices(element_types, without), tuple(f for f in FAMILIES if f in families)
    )
    generator.add_random_instructions(instructions)
    generator.finish(generator.add(TUPLE, [i for i in generator.pool if not i.has_users]))
    module.config.entry_computation_layout = entry.program_shape
    return module


def _choices(element_types: Sequence[PrimitiveType], without: Collection[OpDef]) -> Choices:
    op_generators = {
        family: [op_generator for op, op_generator in pairs if op not in without]
        for family, (_, pairs) in FAMILIES.items()
    }
    return Choices(tuple(element_types), op_generators, {family: weight for family, (weight, _) in FAMILIES.items()})
