"""Randomly damaged programs are imported or rejected with an XlaError; no other exception occurs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.stablehlo.importing import test_sharding, test_structure
from xlapy.base.element_types import S64
from xlapy.base.errors import XlaError
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.text import parse_text
from xlapy.testing.stablehlo import programs

TEXTS = [*programs.PROGRAMS.values(), *test_structure.PROGRAMS.values(), test_sharding.PROGRAM]
_STRANGE: list[Any] = [
    ir.IntegerAttribute(-1, ir.ScalarType(S64)),
    ir.IntegerAttribute(10**18, ir.ScalarType(S64)),
    ir.ElementsAttribute(ir.TensorType((1, 2), S64), np.array([[-5, 9]])),
    ir.ElementsAttribute(ir.TensorType((0,), S64), np.array([], np.int64)),
    *("x", True, (), {}, ir.Unit(), ("a", 3), ir.SymbolReference("main")),
]


def _mutate(root: ir.Operation, rng: random.Random, attributes: list[Any], types: list[ir.Type]) -> None:
    """Changes one property of a random operation."""
    operation = rng.choice([o for o in ir.walk(root) if o is not root])
    block = operation.regions[0].blocks[0] if operation.regions and operation.regions[0].blocks else None
    ways = ["result"]
    ways += ["attribute"] * 4 if operation.attributes else []
    ways += ["fewer", "more"] if operation.operands else []
    ways += ["region", "body", "argument"] if block is not None else []
    way = rng.choice(ways)
    if way == "attribute":
        operation.attributes[rng.choice(list(operation.attributes))] = rng.choice(attributes)
    elif way == "fewer":
        operation.operands.pop(rng.randrange(len(operation.operands)))
    elif way == "more":
        operation.operands.append(rng.choice(operation.operands))
    elif way == "region":
        operation.regions.pop()
    elif way == "body" and block is not None and block.operations:
        block.operations.pop(rng.randrange(len(block.operations)))
    elif way == "argument" and block is not None and block.arguments:
        block.arguments.pop()
    elif operation.results:
        operation.results[0].type = rng.choice(types)


def test_mutated_programs() -> None:
    rng = random.Random(0)
    attributes, types = list(_STRANGE), []
    for text in TEXTS:
        for operation in ir.walk(parse_text(text)):
            attributes += operation.attributes.values()
            types += [result.type for result in operation.results]
    outcomes = {"imported": 0, "rejected": 0}
    for _ in range(800):
        root = parse_text(rng.choice(TEXTS))
        _mutate(root, rng, attributes, types)
        try:
            import_program(root)
            outcomes["imported"] += 1
        except XlaError:
            outcomes["rejected"] += 1
    assert min(outcomes.values()) > 100
