"""Import rules: reductions, windows, maps, scans.

Owns: operations whose region combines scalars. Must not know: what the regions compute.

A region may compute in a wider type than its operands have (sums of bf16 in f32): then the operands are converted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import MapAttributes, ReduceAttributes, ScanAttributes, WindowAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import flag, integer, integers, matrix, pairs
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope, only_block
from xlapy.stablehlo.importing.core.types import known_shape


def combined(scope: Scope, region: ir.Region, operands: Sequence[Instruction]) -> tuple[list[Instruction], Computation]:
    """Operands in the types that a region of scalars computes in, and the region as a computation.

    The region takes two scalars for each value that is reduced; operands are n values, or n values and their n inits.
    """
    arguments = only_block(region).arguments
    shapes = [_scalar(argument) for argument in arguments]
    count = len(shapes) // 2
    if not count or len(operands) % count:
        raise ShapeError(f"its region takes {len(shapes)} scalars for {len(operands)} operands")
    if shapes[:count] != shapes[count:]:
        raise ShapeError(f"its region takes two of each type, given are {_listed(shapes)}")
    converted = [_promoted(scope, operand, shapes[place % count]) for place, operand in enumerate(operands)]
    body = scope.body(region, shapes)
    results = [leaf for _, leaf in body.root_instruction.shape.leaves()]
    if results != shapes[:count]:
        raise ShapeError(f"its region combines {_listed(shapes[:count])}, it gives {_listed(results)}")
    return converted, body


def _promoted(scope: Scope, operand: Instruction, shape: Shape) -> Instruction:
    """The operand in the type that a region computes in: its own, or a wider one of its kind."""
    given, wanted = operand.shape.element_type, shape.element_type
    kinds = [(kind.is_integral, kind.is_floating, kind.is_complex, kind.is_signed) for kind in (given, wanted)]
    if given is not wanted and (kinds[0] != kinds[1] or given.bits > wanted.bits):
        raise ShapeError(
            f"its region computes in {shape.to_text(layout=False)}, "
            f"which {operand.shape.to_text(layout=False)} does not become"
        )
    return scope.convert(operand, wanted)


def _listed(shapes: Sequence[Shape]) -> str:
    return f"({', '.join(shape.to_text(layout=False) for shape in shapes)})"


def _scalar(argument: ir.Value) -> Shape:
    shape = known_shape(argument.type)
    if shape is None or not shape.is_array or shape.rank:
        raise ShapeError("its region takes scalars")
    return shape


@rule("stablehlo.reduce", operands=SOME, results=SOME, regions=1, stored=True)
def reduce(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    operands, body = combined(scope, operation.regions[0], scope.operands(operation))
    attributes = ReduceAttributes.make(dimensions=integers(operation, "dimensions"))
    result = scope.emit(opcodes.REDUCE, operands, attributes, (body,))
    return scope.elements(result, len(operation.results))


@rule("stablehlo.reduce_window", operands=SOME, results=SOME, regions=1, stored=True)
def reduce_window(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    return emit_reduce_window(scope, operation, scope.operands(operation), window(operation))


def emit_reduce_window(
    scope: Scope, operation: ir.Operation, operands: Sequence[Instruction], over: Window
) -> Sequence[Instruction]:
    """Reductions over the places of a window."""
    converted, body = combined(scope, operation.regions[0], operands)
    result = scope.emit(opcodes.REDUCE_WINDOW, converted, WindowAttributes.make(window=over), (body,))
    return scope.elements(result, len(operation.results))


def window(operation: ir.Operation) -> Window:
    """The window of an operation's attributes."""
    padding = matrix(operation, "padding")
    return Window.make(
        integers(operation, "window_dimensions"),
        integers(operation, "window_strides", ()),
        pairs(None if padding is None else np.asarray(padding), "padding"),
        integers(operation, "base_dilations", ()),
        integers(operation, "window_dilations", ()),
    )


@rule("stablehlo.select_and_scatter", operands=3, regions=2, stored=True)
def select_and_scatter(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, source, init = scope.operands(operation)
    chooser = scope.body(operation.regions[0], [Shape.scalar(operand.shape.element_type)] * 2)
    (operand, source, init), body = combined(scope, operation.regions[1], (operand, source, init))
    attributes = WindowAttributes.make(window=_whole_window(operation, operand.shape.rank))
    return scope.emit(opcodes.SELECT_AND_SCATTER, (operand, source, init), attributes, (chooser, body))


def _whole_window(operation: ir.Operation, rank: int) -> Window:
    if "window_dimensions" in operation.attributes:
        return window(operation)
    return Window.make((1,) * rank, integers(operation, "window_strides", ()))


@rule("stablehlo.map", operands=SOME, regions=1, stored=True)
def map_(scope: Scope, operation: ir.Operation) -> Instruction:
    operands = scope.operands(operation)
    body = scope.body(operation.regions[0], [Shape.scalar(operand.shape.element_type) for operand in operands])
    attributes = MapAttributes.make(dimensions=integers(operation, "dimensions"))
    return scope.emit(opcodes.MAP, operands, attributes, (body,))


@rule("chlo.scan", operands=SOME, results=SOME, regions=1, stored=True)
def scan(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """The region takes slices of the inputs without the scanned dimension, then the carries.

    Declared sizes count: without inputs, they alone tell how long the scan is.
    """
    operands = scope.operands(operation)
    dimension = integer(operation, "dimension")
    inits = len(operands) - _input_count(operation)
    inputs, carries = operands[: len(operands) - inits], operands[len(operands) - inits :]
    slices = [_without(value.shape, dimension) for value in inputs] + [value.shape for value in carries]
    body = scope.body(operation.regions[0], slices)
    attributes = ScanAttributes.make(
        dimensions=(dimension,),
        num_carries=len(carries),
        is_reverse=flag(operation, "is_reverse"),
        is_associative=flag(operation, "is_associative") if "is_associative" in operation.attributes else None,
    )
    declared = [known_shape(result.type) for result in operation.results]
    shapes = [shape for shape in declared if shape is not None]
    whole = len(shapes) == len(declared)
    shape = (shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)) if whole else None
    result = scope.emit(opcodes.SCAN, operands, attributes, (body,), shape=shape)
    return scope.elements(result, len(operation.results))


def _input_count(operation: ir.Operation) -> int:
    """How many of a scan's operands are inputs: as many as its segments say."""
    segments = integers(operation, "operandSegmentSizes", ())
    if not segments:
        segments = integers(operation, "operand_segment_sizes")
    return segments[0]


def _without(shape: Shape, dimension: int) -> Shape:
    if not 0 <= dimension < shape.rank:
        raise ShapeError(f"{shape.to_text(layout=False)} has no dimension {dimension}")
    sizes = list(shape.dimensions)
    del sizes[dimension]
    return Shape.array(shape.element_type, sizes)
