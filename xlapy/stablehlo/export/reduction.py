"""Export rules of reduce, reduce-window, select-and-scatter, map and scan."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import ScanAttributes, WindowAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import constant, integer, integers, matrix
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.REDUCE)
def reduce(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = {"dimensions": integers(instruction.dimensions)}
    return builder.emit_for("stablehlo.reduce", instruction, attributes, [builder.region(instruction.to_apply)])


@RULES.rule(opcodes.REDUCE_WINDOW)
def reduce_window(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    window = instruction.attributes_as(WindowAttributes).window
    attributes = {
        **_window(window),
        "base_dilations": integers(dimension.base_dilation for dimension in window.dimensions),
        "window_dilations": integers(dimension.window_dilation for dimension in window.dimensions),
    }
    return builder.emit_for("stablehlo.reduce_window", instruction, attributes, [builder.region(instruction.to_apply)])


def _window(window: Window) -> dict[str, Any]:
    return {
        "window_dimensions": integers(dimension.size for dimension in window.dimensions),
        "window_strides": integers(dimension.stride for dimension in window.dimensions),
        "padding": matrix([(dimension.padding_low, dimension.padding_high) for dimension in window.dimensions]),
    }


@RULES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = instruction.attributes_as(WindowAttributes)
    if any(each.base_dilation != 1 or each.window_dilation != 1 for each in attributes.window.dimensions):
        raise UnsupportedError(codes.EXPORTED_ATTRIBUTE, "StableHLO's select_and_scatter has no window dilation")
    regions = [builder.region(instruction.computation(role)) for role in ("select", "scatter")]
    return builder.emit_for("stablehlo.select_and_scatter", instruction, _window(attributes.window), regions)


@RULES.rule(opcodes.MAP)
def map_(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    dimensions = integers(instruction.dimensions or range(instruction.shape.rank))
    return builder.emit_for(
        "stablehlo.map", instruction, {"dimensions": dimensions}, [builder.region(instruction.to_apply)]
    )


@RULES.rule(opcodes.SCAN)
def scan(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(ScanAttributes)
    carries = given.num_carries
    results = len(instruction.shape.tuple_shapes) if instruction.shape.is_tuple else 1
    attributes: dict[str, Any] = {
        "dimension": integer(instruction.dimensions[0]),
        "is_reverse": given.is_reverse,
        "operandSegmentSizes": _segments(len(instruction.operands) - carries, carries),
        "resultSegmentSizes": _segments(results - carries, carries),
    }
    if given.is_associative is not None:
        attributes["is_associative"] = given.is_associative
    return builder.emit_for("chlo.scan", instruction, attributes, [builder.region(instruction.to_apply)])


def _segments(*sizes: int) -> ir.ElementsAttribute:
    return constant(np.array(sizes, np.int32), S32)
