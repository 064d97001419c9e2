"""Programs with something missing or something wrong are imported or refused; nothing else happens."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.stablehlo.importing import programs, test_sharding, test_structure
from xlapy.base.element_types import S64
from xlapy.base.errors import XlaError
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.text import parse_text

TEXTS = [*programs.PROGRAMS.values(), *test_structure.PROGRAMS.values(), test_sharding.PROGRAM]
_STRANGE: list[Any] = [
    ir.IntegerAttribute(-1, ir.ScalarType(S64)),
    ir.IntegerAttribute(10**18, ir.ScalarType(S64)),
    ir.ElementsAttribute(ir.TensorType((1, 2), S64), np.array([[-5, 9]])),
    ir.ElementsAttribute(ir.TensorType((0,), S64), np.array([], np.int64)),
    *("x", True, (), {}, ir.Unit(), ("a", 3), ir.SymbolReference("main")),
]


def _mutate(root: ir.Operation, chance: random.Random, attributes: list[Any], types: list[ir.Type]) -> None:
    """Changes one thing of one operation."""
    operation = chance.choice([o for o in ir.walk(root) if o is not root])
    block = operation.regions[0].blocks[0] if operation.regions and operation.regions[0].blocks else None
    ways = ["result"]
    ways += ["attribute"] * 4 if operation.attributes else []
    ways += ["fewer", "more"] if operation.operands else []
    ways += ["region", "body", "argument"] if block is not None else []
    way = chance.choice(ways)
    if way == "attribute":
        operation.attributes[chance.choice(list(operation.attributes))] = chance.choice(attributes)
    elif way == "fewer":
        operation.operands.pop(chance.randrange(len(operation.operands)))
    elif way == "more":
        operation.operands.append(chance.choice(operation.operands))
    elif way == "region":
        operation.regions.pop()
    elif way == "body" and block is not None and block.operations:
        block.operations.pop(chance.randrange(len(block.operations)))
    elif way == "argument" and block is not None and block.arguments:
        block.arguments.pop()
    elif operation.results:
        operation.results[0].type = chance.choice(types)


def test_mutated_programs() -> None:
    chance = random.Random(0)
    attributes, types = list(_STRANGE), []
    for text in TEXTS:
        for operation in ir.walk(parse_text(text)):
            attributes += operation.attributes.values()
            types += [result.type for result in operation.results]
    outcomes = {"imported": 0, "refused": 0}
    for _ in range(800):
        root = parse_text(chance.choice(TEXTS))
        _mutate(root, chance, attributes, types)
        try:
            import_program(root)
            outcomes["imported"] += 1
        except XlaError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100
