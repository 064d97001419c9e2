"""Export rules: reductions, and the other ops that apply a computation to elements.

Owns: reduce, reduce-window, select-and-scatter, map, scan. Must not know: what the computations compute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import constant, integer, integers, table
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope


@RULES.rule(opcodes.REDUCE)
def reduce(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {"dimensions": integers(instruction.dimensions)}
    return scope.all("stablehlo.reduce", instruction, attributes, [scope.region(instruction.to_apply)])


@RULES.rule(opcodes.REDUCE_WINDOW)
def reduce_window(scope: Scope, instruction: Instruction) -> Structure:
    window = instruction.window
    attributes = {
        **_window(window),
        "base_dilations": integers(dimension.base_dilation for dimension in window.dimensions),
        "window_dilations": integers(dimension.window_dilation for dimension in window.dimensions),
    }
    return scope.all("stablehlo.reduce_window", instruction, attributes, [scope.region(instruction.to_apply)])


def _window(window: Window) -> dict[str, Any]:
    return {
        "window_dimensions": integers(dimension.size for dimension in window.dimensions),
        "window_strides": integers(dimension.stride for dimension in window.dimensions),
        "padding": table([(dimension.padding_low, dimension.padding_high) for dimension in window.dimensions]),
    }


@RULES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(scope: Scope, instruction: Instruction) -> Structure:
    if any(each.base_dilation != 1 or each.window_dilation != 1 for each in instruction.window.dimensions):
        raise UnsupportedError("StableHLO's select_and_scatter has no dilation")
    regions = [scope.region(instruction.computation(role)) for role in ("select", "scatter")]
    return scope.all("stablehlo.select_and_scatter", instruction, _window(instruction.window), regions)


@RULES.rule(opcodes.MAP)
def map_(scope: Scope, instruction: Instruction) -> Structure:
    dimensions = integers(instruction.dimensions or range(instruction.shape.rank))
    return scope.all("stablehlo.map", instruction, {"dimensions": dimensions}, [scope.region(instruction.to_apply)])


@RULES.rule(opcodes.SCAN)
def scan(scope: Scope, instruction: Instruction) -> Structure:
    carries = instruction.num_carries
    results = len(instruction.shape.tuple_shapes) if instruction.shape.is_tuple else 1
    attributes: dict[str, Any] = {
        "dimension": integer(instruction.dimensions[0]),
        "is_reverse": instruction.is_reverse,
        "operandSegmentSizes": _segments(len(instruction.operands) - carries, carries),
        "resultSegmentSizes": _segments(results - carries, carries),
    }
    if instruction.is_associative is not None:
        attributes["is_associative"] = instruction.is_associative
    return scope.all("chlo.scan", instruction, attributes, [scope.region(instruction.to_apply)])


def _segments(*sizes: int) -> ir.ElementsAttribute:
    return constant(np.array(sizes, np.int32), S32)
