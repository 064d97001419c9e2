"""Replaces the dots that a loop computes of the slices of an array by one dot before the loop.

A step of a recurrent network multiplies its input, a slice of the whole sequence, by weights. One product of all steps
reads the weights once instead of once per step:

    body: x = f32[1,4,128] dynamic-slice(f32[64,4,128] sequence, i, 0, 0)
          gates = f32[4,512] dot(reshape(x), f32[128,512] weights)
    ->    before the loop: all = f32[64,4,512] dot(sequence, weights)
          body: gates = reshape(f32[1,4,512] dynamic-slice(all, i, 0, 0))

Any index gives the same slice of both, because it is clamped to the same range. Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Final

from xlapy import opcodes
from xlapy.analysis.counted_loops import estimated_trip_count
from xlapy.analysis.loops import TupleLoop
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.passes.control_flow.hoist_loop_invariants import carry_values, extensible_loop, rewrite_loops
from xlapy.passes.rewrite import Writer, replace_with_new

MAX_ROWS: Final = 16
"""The largest number of rows of a dot that is computed before the loop. An LSTM takes 0.6x the time with 1 row and
0.94x with 16; a GRU with 64 rows takes 1.09x, because the products of all steps leave the caches
(`benchmarks/transformers.py`)."""

MAX_BYTES: Final = 1 << 24
"""The largest size in bytes of the products of all steps, which the loop itself needs no memory for."""


@dataclass(frozen=True)
class HoistSlicedDots:
    """Computes dots of slices of an array, one per iteration, as one dot of the array."""

    name: ClassVar[str] = "hoist-sliced-dots"

    def run(self, module: Module) -> bool:
        return rewrite_loops(module, _hoist)


@dataclass(frozen=True, slots=True)
class _SlicedDot:
    """A dot of the body whose left operand is a slice of one index of the first dimension of an array."""

    dot: Instruction
    slice: Instruction

    @property
    def array(self) -> Instruction:
        return self.slice.operands[0]

    @property
    def weights(self) -> Instruction:
        return self.dot.operands[1]


def _hoist(loop: Instruction) -> bool:
    """Moves all dots of slices of a loop that has an iteration for each; returns whether there are any."""
    view = extensible_loop(loop)
    found = [] if view is None else list(_sliced_dots(view))
    trips = estimated_trip_count(loop) if found and loop.computations[0].root_instruction.op is opcodes.COMPARE else 0
    found = [one for one in found if one.array.shape.dimensions[0] <= trips < inf]
    if view is None or not found:
        return False
    moved: dict[Instruction, None] = {}
    carried: list[Instruction] = []
    for one in found:
        moved |= {value: None for value in (one.array, one.weights) if value.op is opcodes.TRANSPOSE}
        whole = _dot_of_array(one)
        moved[whole] = None
        carried.append(whole)
        _replace_by_slice(one, whole)
    carry_values(view, moved, carried)
    return True


def _sliced_dots(view: TupleLoop) -> Iterator[_SlicedDot]:
    for instruction in view.body:
        if instruction.op is opcodes.DOT and len(instruction.operands) == 2 and not instruction.has_control_edges:
            left, right = instruction.operands
            source = left.operands[0] if left.op is opcodes.RESHAPE else left
            one = _SlicedDot(instruction, source)
            if _is_step(view, one) and _is_invariant(view, right) and _is_small(one):
                yield one


def _is_step(view: TupleLoop, one: _SlicedDot) -> bool:
    """Whether the left operand is a slice of one index of the first dimension, without that dimension."""
    if one.slice.op is not opcodes.DYNAMIC_SLICE or not _is_invariant(view, one.array):
        return False
    sizes = one.slice.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    dimensions = one.array.shape.dimensions
    if len(one.slice.operands) != 1 + len(dimensions) or sizes != (1, *dimensions[1:]) or not dimensions[0]:
        return False
    return one.dot.operands[0].shape.dimensions == dimensions[1:] and not one.array.shape.is_dynamic


def _is_invariant(view: TupleLoop, value: Instruction) -> bool:
    """Whether a value is an invariant element of the state, or a transpose of one."""
    element = value.operands[0] if value.op is opcodes.TRANSPOSE else value
    reads = element.op is opcodes.GET_TUPLE_ELEMENT and element.operands[0] is view.body.parameters[0]
    return reads and view.is_invariant(element.tuple_index) and not element.shape.is_dynamic


def _is_small(one: _SlicedDot) -> bool:
    attrs: DotAttributes = one.dot.attributes_as(DotAttributes)
    shape = one.dot.operands[0].shape
    rows = one.dot.shape.size // max(1, one.weights.shape.size // max(1, _terms(one)))
    size = one.array.shape.dimensions[0] * one.dot.shape.byte_size
    return not attrs.lhs_batch_dims and bool(shape.size) and rows <= MAX_ROWS and size <= MAX_BYTES


def _terms(one: _SlicedDot) -> int:
    shape = one.dot.operands[0].shape
    terms = 1
    for dimension in one.dot.attributes_as(DotAttributes).lhs_contracting_dims:
        terms *= shape.dimensions[dimension]
    return terms


def _dot_of_array(one: _SlicedDot) -> Instruction:
    """Writes the products of all indices of the array, in front of the dot."""
    attrs: DotAttributes = one.dot.attributes_as(DotAttributes)
    contracted = tuple(dimension + 1 for dimension in attrs.lhs_contracting_dims)
    shape = one.dot.shape.with_dimensions((one.array.shape.dimensions[0], *one.dot.shape.dimensions))
    made = attrs.replace(lhs_contracting_dims=contracted)
    return Writer(one.dot).add(opcodes.DOT, one.array, one.weights, attributes=made, shape=shape)


def _replace_by_slice(one: _SlicedDot, whole: Instruction) -> None:
    """Replaces the dot by the slice of the products at the index of its operand."""
    writer = Writer(one.dot)
    first = one.slice.operands[1]
    others = [writer.scalar(0, first.shape.element_type) for _ in one.dot.shape.dimensions]
    attrs = DynamicSliceAttributes.make(dynamic_slice_sizes=(1, *one.dot.shape.dimensions))
    shape = whole.shape.with_dimensions((1, *one.dot.shape.dimensions))
    taken = writer.add(opcodes.DYNAMIC_SLICE, whole, first, *others, attributes=attrs, shape=shape)
    replace_with_new(one.dot, writer.reshape(taken, one.dot.shape))
