"""Export rules: operations that move elements.

Owns: reshapes, transposes, slices, pads, sizes of dynamic dimensions; copies, which give their operand, since StableHLO
has no layouts. Must not know: where elements lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S64
from xlapy.base.layout import Layout
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import ShuffleMode
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer, integers
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope
from xlapy.stablehlo.export.sources import emit_constant


@RULES.rule(opcodes.BROADCAST)
def broadcast(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {"broadcast_dimensions": integers(instruction.dimensions)}
    return scope.all("stablehlo.broadcast_in_dim", instruction, attributes)


@RULES.rule(opcodes.RESHAPE)
def reshape(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.reshape", instruction)


@RULES.rule(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(scope: Scope, instruction: Instruction) -> Structure:
    """The sizes stand in one array."""
    operand, *sizes = scope.operands(instruction)
    shape = Shape.array(instruction.operands[1].shape.element_type, (1,)) if sizes else Shape.array(S64, (0,))
    parts = [scope.one("stablehlo.reshape", [size], shape) for size in sizes]
    if parts:
        listed = scope.one(
            "stablehlo.concatenate", parts, shape.with_dimensions((len(parts),)), {"dimension": integer(0)}
        )
    else:
        listed = emit_constant(scope, Literal.of(np.empty(0, np.int64)))
    return scope.all("stablehlo.dynamic_reshape", instruction, operands=[operand, listed])


@RULES.rule(opcodes.TRANSPOSE)
def transpose(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.transpose", instruction, {"permutation": integers(instruction.dimensions)})


@RULES.rule(opcodes.REVERSE)
def reverse(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.reverse", instruction, {"dimensions": integers(instruction.dimensions)})


@RULES.rule(opcodes.CONCATENATE)
def concatenate(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.concatenate", instruction, {"dimension": integer(instruction.dimension)})


@RULES.rule(opcodes.SLICE)
def slice_(scope: Scope, instruction: Instruction) -> Structure:
    ranges = instruction.ranges
    attributes = {
        "start_indices": integers(ranges.starts),
        "limit_indices": integers(ranges.limits),
        "strides": integers(ranges.strides),
    }
    return scope.all("stablehlo.slice", instruction, attributes)


@RULES.rule(opcodes.PAD)
def pad(scope: Scope, instruction: Instruction) -> Structure:
    dimensions = instruction.padding.dimensions
    attributes = {
        "edge_padding_low": integers(dimension.low for dimension in dimensions),
        "edge_padding_high": integers(dimension.high for dimension in dimensions),
        "interior_padding": integers(dimension.interior for dimension in dimensions),
    }
    return scope.all("stablehlo.pad", instruction, attributes)


@RULES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(scope: Scope, instruction: Instruction) -> Structure:
    array, *starts = instruction.operands
    operands = [scope.value(array), *_starts(scope, starts)]
    attributes = {"slice_sizes": integers(instruction.dynamic_slice_sizes)}
    return scope.all("stablehlo.dynamic_slice", instruction, attributes, operands=operands)


@RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(scope: Scope, instruction: Instruction) -> Structure:
    array, update, *starts = instruction.operands
    operands = [scope.value(array), scope.value(update), *_starts(scope, starts)]
    return scope.all("stablehlo.dynamic_update_slice", instruction, operands=operands)


def _starts(scope: Scope, starts: Sequence[Instruction]) -> list[ir.Value]:
    """A scalar for each dimension; HLO may also have them in one array."""
    if len(starts) != 1 or starts[0].shape.rank != 1:
        return [scope.value(start) for start in starts]
    listed = scope.value(starts[0])
    scalars: list[ir.Value] = []
    for index in range(starts[0].shape.dimensions[0]):
        attributes = {
            "start_indices": integers([index]),
            "limit_indices": integers([index + 1]),
            "strides": integers([1]),
        }
        one = scope.one("stablehlo.slice", [listed], starts[0].shape.with_dimensions((1,)), attributes)
        scalars.append(scope.one("stablehlo.reshape", [one], starts[0].shape.with_dimensions(())))
    return scalars


@RULES.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.get_dimension_size", instruction, {"dimension": integer(instruction.dimension)})


@RULES.rule(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.set_dimension_size", instruction, {"dimension": integer(instruction.dimension)})


@RULES.rule(opcodes.SHUFFLE)
def shuffle(scope: Scope, instruction: Instruction) -> Structure:
    """A rotation is two slices put together the other way round, for each dimension; else elements are gathered."""
    (operand,) = instruction.operands
    value, shape = scope.value(operand), operand.shape
    if not math.prod(shape.dimensions) or not instruction.dimensions:
        return value
    if instruction.mode is ShuffleMode.PERMUTE:
        return _permuted(scope, instruction, value)
    for dimension, shift in zip(instruction.dimensions, instruction.shifts, strict=True):
        size = shape.dimensions[dimension]
        if size and shift % size:
            value = _rotated(scope, value, shape, dimension, shift % size)
    return value


def _permuted(scope: Scope, instruction: Instruction, value: ir.Value) -> ir.Value:
    """Each element read at coordinates, which are written out for all dimensions."""
    shape = instruction.shape
    given = instruction.indices.array.astype(np.int64)
    if len(instruction.dimensions) == 1:
        given = given[..., np.newaxis]
    places = np.moveaxis(np.indices(shape.dimensions, np.int64), 0, -1)
    places[..., list(instruction.dimensions)] = given
    everything = tuple(range(shape.rank))
    fields = {"collapsed_slice_dims": everything, "start_index_map": everything, "index_vector_dim": shape.rank}
    attributes = {
        "dimension_numbers": ir.StructAttribute("stablehlo.gather", fields),
        "slice_sizes": integers([1] * shape.rank),
    }
    return scope.one("stablehlo.gather", [value, emit_constant(scope, Literal.of(places))], shape, attributes)


def _rotated(scope: Scope, value: ir.Value, shape: Shape, dimension: int, shift: int) -> ir.Value:
    size = shape.dimensions[dimension]
    parts = [_part(scope, value, shape, dimension, *ends) for ends in ((shift, size), (0, shift))]
    return scope.one("stablehlo.concatenate", parts, shape, {"dimension": integer(dimension)})


def _part(scope: Scope, value: ir.Value, shape: Shape, dimension: int, start: int, limit: int) -> ir.Value:
    starts, limits = [0] * shape.rank, list(shape.dimensions)
    starts[dimension], limits[dimension] = start, limit
    sizes = list(shape.dimensions)
    sizes[dimension] = limit - start
    attributes = {
        "start_indices": integers(starts),
        "limit_indices": integers(limits),
        "strides": integers([1] * shape.rank),
    }
    return scope.one("stablehlo.slice", [value], shape.with_dimensions(tuple(sizes)), attributes)


@RULES.rule(opcodes.COPY, opcodes.COPY_DONE)
def same(scope: Scope, instruction: Instruction) -> Structure:
    return scope.values[instruction.operands[0]]


@RULES.rule(opcodes.COPY_START)
def copy_start(scope: Scope, instruction: Instruction) -> Structure:
    return scope.values[instruction.operands[0]]


@RULES.rule(opcodes.BITCAST)
def bitcast(scope: Scope, instruction: Instruction) -> Structure:
    """The operand's elements as they lie in memory, taken as the result's: both orders are written out."""
    (operand,) = instruction.operands
    value, given, wanted = scope.value(operand), operand.shape, instruction.shape
    value = _transposed(scope, value, given, _major_to_minor(given))
    if given.element_type is not wanted.element_type:
        value = _recast(scope, value, given, wanted)
    final = _major_to_minor(wanted)
    lying = wanted.without_layout().with_dimensions(tuple(wanted.dimensions[d] for d in final))
    value = scope.one("stablehlo.reshape", [value], lying)
    return _transposed(scope, value, lying, [final.index(d) for d in range(len(final))])


def _recast(scope: Scope, value: ir.Value, given: Shape, wanted: Shape) -> ir.Value:
    """Elements in a row as elements of another type: several of the narrower are one of the wider."""
    count, narrow, wide = math.prod(given.dimensions), given.element_type, wanted.element_type
    ratio = max(narrow.bits, wide.bits) // min(narrow.bits, wide.bits)
    row = Shape.array(narrow, (count // ratio, ratio) if wide.bits > narrow.bits else (count,))
    value = scope.one("stablehlo.reshape", [value], row)
    result = (count, ratio) if wide.bits < narrow.bits else row.dimensions[:1]
    return scope.one("stablehlo.bitcast_convert", [value], Shape.array(wide, result))


def _major_to_minor(shape: Shape) -> list[int]:
    layout = shape.layout or Layout.default(shape.rank)
    return list(reversed(layout.minor_to_major))


def _transposed(scope: Scope, value: ir.Value, shape: Shape, permutation: Sequence[int]) -> ir.Value:
    if list(permutation) == list(range(len(permutation))):
        return value
    moved = shape.without_layout().with_dimensions(tuple(shape.dimensions[d] for d in permutation))
    return scope.one("stablehlo.transpose", [value], moved, {"permutation": integers(permutation)})
