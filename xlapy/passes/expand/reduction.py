"""Expansions of select-and-scatter and scan."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import ScatterAttributes
from xlapy.opcodes.reduction import ScanAttributes, WindowAttributes
from xlapy.opcodes.requirements import elements_of
from xlapy.passes.expand.blocks import (
    compare,
    counted_loop,
    index_type,
    iota,
    new_computation,
    slice_at_index,
    update_at_index,
)
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer


def _require_static(instruction: Instruction) -> None:
    for shape in (instruction.shape, *(operand.shape for operand in instruction.operands)):
        if shape.is_dynamic:
            raise UnsupportedError(
                codes.EXPANSION, f"{instruction.op.name} of dynamic dimensions, given {shape.to_text(layout=False)}"
            )


# -- select-and-scatter


@EXPANSIONS.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(write: Writer, instruction: Instruction) -> Instruction:
    """A reduce-window that finds the index of the element selected in each window, and a scatter to these indices."""
    _require_static(instruction)
    return scatter_selected(write, instruction, instruction.operands)


def scatter_selected(
    write: Writer,
    instruction: Instruction,
    operands: Sequence[Instruction],
    valid_elements: Instruction | None = None,
    valid_windows: Instruction | None = None,
) -> Instruction:
    """Writes the select-and-scatter of operands of static shapes.

    valid_elements: which elements may be selected; valid_windows: which window positions count. Both are PRED arrays;
    without them, all are valid.
    """
    operand, source, initial = operands
    select, scatter = instruction.computations
    start = write.broadcast(initial, operand.shape.with_element_type(initial.shape.element_type))
    if not source.shape.size or not operand.shape.size:
        return start
    window = WindowAttributes.make(window=instruction.attributes_as(WindowAttributes).window)
    places = _selected_indices(write, operand, select, window, valid_elements)
    if valid_windows is not None:
        places = write.add(opcodes.SELECT, valid_windows, places, write.splat(-1, places.shape))
    row = start.shape.with_dimensions((operand.shape.size,))
    attributes = ScatterAttributes.make(
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )
    count = source.shape.size
    scattered = write.add(
        opcodes.SCATTER,
        write.reshape(start, row),
        write.reshape(places, places.shape.with_dimensions((count,))),
        write.reshape(source, source.shape.with_dimensions((count,))),
        attributes=attributes,
        computations=[scatter],
    )
    return write.reshape(scattered, start.shape)


def _selected_indices(
    write: Writer,
    operand: Instruction,
    select: Computation,
    attributes: WindowAttributes,
    valid_elements: Instruction | None,
) -> Instruction:
    """Returns the flat index of the element selected in each window, -1 if the window has only padding.

    The index -1 means that no element is selected yet: the first element of a window is selected whatever `select`
    returns. It also marks invalid elements, which are never selected.
    """
    shape = operand.shape
    t = index_type(shape.size)
    numbers = write.reshape(iota(write, Shape.array(t, (shape.size,)), 0), shape.with_element_type(t))
    if valid_elements is not None:
        numbers = write.add(opcodes.SELECT, valid_elements, numbers, write.splat(-1, numbers.shape))
    value, place = Shape.scalar(shape.element_type), Shape.scalar(t)

    def choose(into: Writer, given: list[Instruction]) -> Instruction:
        best, best_place, candidate, candidate_place = given
        preferred = inline_call(into.add(opcodes.CALL, best, candidate, computations=[select]))
        is_place = compare(into, best_place, into.scalar(0, t), ComparisonDirection.GE)
        stays = into.add(opcodes.AND, preferred, is_place)
        if valid_elements is not None:
            missing = compare(into, candidate_place, into.scalar(0, t), ComparisonDirection.LT)
            stays = into.add(opcodes.OR, stays, missing)
        return into.add(
            opcodes.TUPLE,
            into.add(opcodes.SELECT, stays, best, candidate),
            into.add(opcodes.SELECT, stays, best_place, candidate_place),
        )

    found = write.add(
        opcodes.REDUCE_WINDOW,
        operand,
        numbers,
        write.scalar(0, shape.element_type),
        write.scalar(-1, t),
        attributes=attributes,
        computations=[new_computation(write, "choose", [value, place, value, place], choose)],
    )
    return write.get_tuple_element(found, 1)


# -- scan


@EXPANSIONS.rule(opcodes.SCAN)
def scan(write: Writer, instruction: Instruction) -> Instruction:
    """A loop along the scanned dimension that calls the body for each slice."""
    _require_static(instruction)
    attributes: ScanAttributes = instruction.attributes_as(ScanAttributes)
    axis, carries = attributes.dimensions[0], attributes.num_carries
    results = elements_of(instruction.shape)
    inputs = instruction.operands[: len(instruction.operands) - carries]
    outputs = [write.splat(0, shape) for shape in results[: len(results) - carries]]
    size = (*inputs, *outputs)[0].shape.dimensions[axis]
    if not size:
        return _packed(write, instruction, [*outputs, *instruction.operands[len(inputs) :]])
    body = instruction.to_apply
    pieces = [parameter.shape for parameter in body.parameters[: len(inputs)]]

    def step(into: Writer, number: Instruction, state: list[Instruction]) -> Sequence[Instruction]:
        made, carried = state[len(inputs) : len(inputs) + len(outputs)], state[len(inputs) + len(outputs) :]
        given = state[: len(inputs)]
        place = number
        if attributes.is_reverse:
            place = into.add(opcodes.SUBTRACT, into.scalar(size - 1, number.shape.element_type), number)
        slices = [
            into.reshape(slice_at_index(into, value, place, axis), piece)
            for value, piece in zip(given, pieces, strict=True)
        ]
        returned = _returned(into, body, [*slices, *carried])
        written = [
            update_at_index(into, output, into.reshape(piece, _with_axis(piece.shape, axis)), place, axis)
            for output, piece in zip(made, returned, strict=False)
        ]
        return [*given, *written, *returned[len(outputs) :]]

    state = [*inputs, *outputs, *instruction.operands[len(inputs) :]]
    return _packed(write, instruction, counted_loop(write, size, state, step, "scan")[len(inputs) :])


def _returned(write: Writer, body: Computation, operands: Sequence[Instruction]) -> list[Instruction]:
    """Writes a call of the body; returns its results."""
    called = write.add(opcodes.CALL, *operands, computations=[body])
    if not called.shape.is_tuple:
        return [called]
    return [write.get_tuple_element(called, i) for i in range(len(called.shape.tuple_shapes))]


def _with_axis(shape: Shape, axis: int) -> Shape:
    return shape.with_dimensions((*shape.dimensions[:axis], 1, *shape.dimensions[axis:]))


def _packed(write: Writer, instruction: Instruction, values: Sequence[Instruction]) -> Instruction:
    return write.add(opcodes.TUPLE, *values) if instruction.shape.is_tuple else values[0]
