"""Emits shuffles between contiguous vectors in memory and registers whose lanes are elements with a stride.

For a stride of 2 and registers of 4 lanes:

    a0 b0 a1 b1   a2 b2 a3 b3   <->   a0 a1 a2 a3   b0 b1 b2 b3

Responsible for the shuffles. Does not depend on addresses or on the structure of loop IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.cpu.llvm.text import IrBuilder, llvm_type
from xlapy.loops import ScalarType


def deinterleave(
    ir: IrBuilder, type: ScalarType, vectors: Sequence[str], places: Sequence[int], offsets: list[int]
) -> str:
    """Returns the elements at some positions of contiguous vectors, which start at increasing offsets.

    places: the position of each lane, in any order.
    """
    lanes = len(places)

    def lane_of(number: int, lane: int) -> int | None:
        place = places[lane] - offsets[number]
        return place if 0 <= place < lanes else None

    return _chained(ir, type, vectors, lanes, lane_of)


def interleave(
    ir: IrBuilder, type: ScalarType, registers: Sequence[str], lanes: int, *, reverse: bool = False
) -> list[str]:
    """Returns the vectors that contain the first lanes of all registers, then their second lanes, and so on.

    reverse: the last lanes come first.
    """
    count = len(registers)

    def vector(first: int) -> str:
        def lane_of(number: int, lane: int) -> int | None:
            place, register = divmod(first + lane, count)
            return None if register != number else lanes - 1 - place if reverse else place

        return _chained(ir, type, registers, lanes, lane_of)

    return [vector(number * lanes) for number in range(count)]


def _chained(
    ir: IrBuilder, type: ScalarType, sources: Sequence[str], lanes: int, lane_of: Callable[[int, int], int | None]
) -> str:
    """Returns a register whose lanes come from several sources, merged one after the other.

    lane_of: returns the lane of a source that goes to a lane of the result, or None. Later sources take precedence.
    """
    vector = llvm_type(type, lanes)
    register, chosen = sources[0], [lane_of(0, lane) for lane in range(lanes)]
    if len(sources) == 1:
        return _shuffled(ir, vector, register, "poison", chosen)
    for number, source in enumerate(sources[1:], start=1):
        for lane in range(lanes):
            found = lane_of(number, lane)
            chosen[lane] = chosen[lane] if found is None else lanes + found
        register = _shuffled(ir, vector, register, source, chosen)
        chosen = list(range(lanes))
    return register


def _shuffled(ir: IrBuilder, vector: str, left: str, right: str, chosen: Sequence[int | None]) -> str:
    lanes = ", ".join("i32 poison" if lane is None else f"i32 {lane}" for lane in chosen)
    return ir.assign(f"shufflevector {vector} {left}, {vector} {right}, <{len(chosen)} x i32> <{lanes}>")
