"""Import rules of operations whose region works on scalars: reductions, windowed reductions, maps and scans.

A region may compute in a wider type than the operands have, for example sums of bf16 in f32. The operands are then
converted to the wider type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import MapAttributes, ReduceAttributes, ScanAttributes, WindowAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import flag, integer, integers, matrix, pairs
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder, single_block
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule
from xlapy.stablehlo.importing.core.types import known_shape


def import_reducer(
    builder: ComputationBuilder, region: ir.Region, operands: Sequence[Instruction]
) -> tuple[list[Instruction], Computation]:
    """Returns the operands, converted to the types that a reducer computes in, and the reducer as a computation.

    The region takes two scalars for each of n reduced values. The operands are the n values, or the n values followed
    by their n init values.
    """
    arguments = single_block(region).arguments
    shapes = [_scalar_shape(argument) for argument in arguments]
    count = len(shapes) // 2
    if not count or len(operands) % count:
        raise ShapeError(codes.REGION_SIGNATURE, f"its region takes {len(shapes)} scalars for {len(operands)} operands")
    if shapes[:count] != shapes[count:]:
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region must take two scalars of each type, but takes {_listed(shapes)}"
        )
    converted = [_promote(builder, operand, shapes[number % count]) for number, operand in enumerate(operands)]
    body = builder.import_region(region, shapes)
    results = [leaf for _, leaf in body.root_instruction.shape.leaves()]
    if results != shapes[:count]:
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region combines {_listed(shapes[:count])}, but returns {_listed(results)}"
        )
    return converted, body


def _promote(builder: ComputationBuilder, operand: Instruction, shape: Shape) -> Instruction:
    """Converts an operand to the type that a region computes in: the same type, or a wider one of the same kind."""
    source, target = operand.shape.element_type, shape.element_type
    kinds = [(each.is_integral, each.is_floating, each.is_complex, each.is_signed) for each in (source, target)]
    if source is not target and (kinds[0] != kinds[1] or source.bits > target.bits):
        raise ShapeError(
            codes.REDUCTION_TYPE,
            f"its region computes in {shape.to_text(layout=False)}, "
            f"to which {operand.shape.to_text(layout=False)} cannot be promoted",
        )
    return builder.convert(operand, target)


def _listed(shapes: Sequence[Shape]) -> str:
    return f"({', '.join(shape.to_text(layout=False) for shape in shapes)})"


def _scalar_shape(argument: ir.Value) -> Shape:
    shape = known_shape(argument.type)
    if shape is None or not shape.is_array or shape.rank:
        raise ShapeError(codes.REGION_SIGNATURE, "its region must take scalars")
    return shape


@rule("stablehlo.reduce", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def reduce(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    operands, body = import_reducer(builder, operation.regions[0], builder.operands(operation))
    attributes = ReduceAttributes.make(dimensions=integers(operation, "dimensions"))
    result = builder.emit(opcodes.REDUCE, operands, attributes, (body,))
    return builder.unpack(result, len(operation.results))


@rule("stablehlo.reduce_window", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def reduce_window(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    return emit_reduce_window(builder, operation, builder.operands(operation), window(operation))


def emit_reduce_window(
    builder: ComputationBuilder, operation: ir.Operation, operands: Sequence[Instruction], over: Window
) -> Sequence[Instruction]:
    """Emits a reduce-window with the given window and the operation's region as the reducer."""
    converted, body = import_reducer(builder, operation.regions[0], operands)
    result = builder.emit(opcodes.REDUCE_WINDOW, converted, WindowAttributes.make(window=over), (body,))
    return builder.unpack(result, len(operation.results))


def window(operation: ir.Operation) -> Window:
    """Reads the window in an operation's attributes."""
    padding = matrix(operation, "padding")
    return Window.make(
        integers(operation, "window_dimensions"),
        integers(operation, "window_strides", ()),
        pairs(None if padding is None else np.asarray(padding), "padding"),
        integers(operation, "base_dilations", ()),
        integers(operation, "window_dilations", ()),
    )


@rule("stablehlo.select_and_scatter", operands=3, regions=2, on_storage_type=True)
def select_and_scatter(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, source, init = builder.operands(operation)
    select = builder.import_region(operation.regions[0], [Shape.scalar(operand.shape.element_type)] * 2)
    (operand, source, init), body = import_reducer(builder, operation.regions[1], (operand, source, init))
    attributes = WindowAttributes.make(window=_window_or_default(operation, operand.shape.rank))
    return builder.emit(opcodes.SELECT_AND_SCATTER, (operand, source, init), attributes, (select, body))


def _window_or_default(operation: ir.Operation, rank: int) -> Window:
    """Reads the window; without `window_dimensions`, it has one element."""
    if "window_dimensions" in operation.attributes:
        return window(operation)
    return Window.make((1,) * rank, integers(operation, "window_strides", ()))


@rule("stablehlo.map", operands=ONE_OR_MORE, regions=1, on_storage_type=True)
def map_(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operands = builder.operands(operation)
    body = builder.import_region(
        operation.regions[0], [Shape.scalar(operand.shape.element_type) for operand in operands]
    )
    attributes = MapAttributes.make(dimensions=integers(operation, "dimensions"))
    return builder.emit(opcodes.MAP, operands, attributes, (body,))


@rule("chlo.scan", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def scan(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """Imports a scan, whose region takes slices of the inputs without the scanned dimension, then the carries.

    The declared shapes are passed on, because without inputs only they tell the length of the scan.
    """
    operands = builder.operands(operation)
    dimension = integer(operation, "dimension")
    inits = len(operands) - _input_count(operation)
    inputs, carries = operands[: len(operands) - inits], operands[len(operands) - inits :]
    slices = [_without_dimension(value.shape, dimension) for value in inputs] + [value.shape for value in carries]
    body = builder.import_region(operation.regions[0], slices)
    attributes = ScanAttributes.make(
        dimensions=(dimension,),
        num_carries=len(carries),
        is_reverse=flag(operation, "is_reverse"),
        is_associative=flag(operation, "is_associative") if "is_associative" in operation.attributes else None,
    )
    declared = [known_shape(result.type) for result in operation.results]
    shapes = [shape for shape in declared if shape is not None]
    all_known = len(shapes) == len(declared)
    shape = (shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)) if all_known else None
    result = builder.emit(opcodes.SCAN, operands, attributes, (body,), shape=shape)
    return builder.unpack(result, len(operation.results))


def _input_count(operation: ir.Operation) -> int:
    """Returns how many of a scan's operands are inputs, from the operand segment sizes."""
    segments = integers(operation, "operandSegmentSizes", ())
    if not segments:
        segments = integers(operation, "operand_segment_sizes")
    if not segments or not 0 <= segments[0] <= len(operation.operands):
        raise ShapeError(
            codes.OPERATION_COUNTS, f"operand segments {list(segments)} do not fit {len(operation.operands)} operands"
        )
    return segments[0]


def _without_dimension(shape: Shape, dimension: int) -> Shape:
    if not 0 <= dimension < shape.rank:
        raise ShapeError(shared.DIMENSION_NUMBER, f"{shape.to_text(layout=False)} has no dimension {dimension}")
    sizes = list(shape.dimensions)
    del sizes[dimension]
    return Shape.array(shape.element_type, sizes)
