"""Verification of layouts after layout assignment: only copies, bitcasts and similar ops may change a layout.

Responsible for the ops that keep the order of dimensions, and for values that are passed on unchanged. Does not depend
on how layouts were assigned. Every failure is a `VerificationError` that names the instruction and both shapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy.base.error_codes.structure import asynchronous as codes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.verification.failure import fail
from xlapy.opcodes.control import ADD_DEPENDENCY, ASYNC_START, CALL, CONDITIONAL, FUSION, OPT_BARRIER, WHILE
from xlapy.opcodes.movement import CONCATENATE, DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE, PAD, REVERSE, SLICE
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE

_LAYOUT_PRESERVING_OPS = frozenset({CONCATENATE, DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE, PAD, REVERSE, SLICE})


def verify_layouts(module: Module) -> None:
    """Raises `VerificationError` if a value changes its layout without a copy.

    Values inside of a fusion or an asynchronous call have no memory of their own, so they are not verified.
    """
    for computation in module.computations:
        inside = any(caller.op in (FUSION, ASYNC_START) for caller in computation.callers)
        for instruction in () if inside else computation:
            for what, given, expected in (*_forwarded_values(instruction), *_same_rank_operands(instruction)):
                if not _same_layouts(given, expected):
                    fail(
                        instruction,
                        codes.LAYOUT_KEPT,
                        f"{what} has the layout of {given}, {expected} is expected; insert a copy",
                    )
    _verify_entry(module)


def _verify_entry(module: Module) -> None:
    layout = module.config.entry_computation_layout
    if layout is None:
        return
    entry = module.entry_computation
    pairs = [*zip(entry.parameters, layout.parameters, strict=True), (entry.root_instruction, layout.result)]
    for instruction, expected in pairs:
        if not _same_layouts(instruction.shape, expected):
            fail(
                instruction,
                codes.LAYOUT_KEPT,
                f"has the layout of {instruction.shape}, the layout of the entry is {expected}",
            )


def _same_rank_operands(instruction: Instruction) -> Iterator[tuple[str, Shape, Shape]]:
    """Operands that must have the layout of the result: those of the same rank, if the op preserves layouts."""
    if instruction.op.elementwise or instruction.op in _LAYOUT_PRESERVING_OPS:
        for number, operand in enumerate(instruction.operands):
            if operand.shape.rank == instruction.shape.rank:
                yield (
                    f"operand {number}",
                    operand.shape,
                    instruction.shape.with_element_type(operand.shape.element_type),
                )


def _forwarded_values(instruction: Instruction) -> Iterator[tuple[str, Shape, Shape]]:
    """Values that are passed on unchanged, as (description, shape at the source, shape at the destination)."""
    op, operands, shape = instruction.op, instruction.operands, instruction.shape
    if op is TUPLE:
        yield from (
            (f"operand {n}", o.shape, s) for n, (o, s) in enumerate(zip(operands, shape.tuple_shapes, strict=True))
        )
    elif op is GET_TUPLE_ELEMENT:
        yield "the element", operands[0].shape.tuple_shapes[instruction.tuple_index], shape
    elif op in (OPT_BARRIER, ADD_DEPENDENCY):
        yield "operand 0", operands[0].shape, shape
    elif op in (CALL, FUSION):
        yield from _forwarded_by_call(instruction, operands, 0)
    elif op is WHILE:
        for number in range(2):
            yield "the initial value", operands[0].shape, instruction.computations[number].parameters[0].shape
        yield "the body's result", instruction.computations[1].root_instruction.shape, shape
        yield "the initial value", operands[0].shape, shape
    elif op is CONDITIONAL:
        for number, operand in enumerate(operands[1:]):
            yield from _forwarded_by_call(instruction, (operand,), number)


def _forwarded_by_call(
    instruction: Instruction, operands: tuple[Instruction, ...], number: int
) -> Iterator[tuple[str, Shape, Shape]]:
    called = instruction.computations[number]
    for operand, parameter in zip(operands, called.parameters, strict=False):  # a fusion may have spare operands
        yield operand.name, operand.shape, parameter.shape
    yield f"the result of {called.name}", called.root_instruction.shape, instruction.shape


def _same_layouts(a: Shape, b: Shape) -> bool:
    """Whether all arrays of two shapes have the same dimension order; a missing layout equals no other."""
    if a.is_tuple:
        return all(_same_layouts(*each) for each in zip(a.tuple_shapes, b.tuple_shapes, strict=True))
    if not a.is_array:
        return True
    return a.layout is not None and b.layout is not None and a.layout.minor_to_major == b.layout.minor_to_major
