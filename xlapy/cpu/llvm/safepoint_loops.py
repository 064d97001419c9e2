"""Loops of kernels that look whether to go on: those that take so long that a program would not end early for them.

Most kernels have none: what takes long is split into iterations of a parallel loop, which are run in stretches. One
iteration may be long all the same, as a sum or a sort of very many elements.

Owns: which loops look, how often, the text of that. Must not know: what becomes of a program that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xlapy.cpu.llvm.safepoints import LOOK
from xlapy.cpu.llvm.shared_code import LOOK as LOOK_FUNCTION
from xlapy.cpu.llvm.text import Writer
from xlapy.loops import AxisKind, For, If, Kernel, Transpose, Value, While
from xlapy.loops.ir import Block, Statement, inner_blocks

LONG = 1 << 23
"""Statements of loop IR, each of a vector: some hundredths of a second where memory is new."""

LEAVE = "leave"
"""The label of the end of the function, for those who leave early."""


class Places(NamedTuple):
    """Where the table of addresses has what the function that looks is told."""

    shared: int
    asking: int


def pauses(kernel: Kernel) -> dict[For | While, int]:
    """The loops that look, each after so many rounds: a power of two."""
    largest = max((buffer.size for buffer in (*kernel.buffers, *kernel.scratch)), default=1)
    loop = kernel.parallel_loop
    iterations = loop.extent if loop is not None and isinstance(loop.extent, int) else 1
    unknown = -(-largest // max(1, iterations))
    return dict(_long_loops(kernel.body, unknown))


def _long_loops(block: Block, unknown: int) -> Iterator[tuple[For | While, int]]:
    for statement in block.statements:
        if isinstance(statement, If):
            yield from _long_loops(statement.then, unknown)
        elif isinstance(statement, For | While):
            once = _round(statement, unknown)
            if not _is_split(statement) and _rounds(statement, unknown) * once > LONG:
                yield statement, 1 << (max(1, LOOK // once).bit_length() - 1)
            for inner in inner_blocks(statement):
                yield from _long_loops(inner, unknown)


def _is_split(loop: For | While) -> bool:
    """Whether whoever calls the kernel says which rounds are run, or there are none."""
    return isinstance(loop, For) and loop.kind in (AxisKind.PARALLEL, AxisKind.UNROLL)


def _weight(block: Block, unknown: int) -> int:
    return sum(_statement(statement, unknown) for statement in block.statements)


def _statement(statement: Statement, unknown: int) -> int:
    if isinstance(statement, For | While):
        return _rounds(statement, unknown) * _round(statement, unknown)
    if isinstance(statement, If):
        return _weight(statement.then, unknown)
    if isinstance(statement, Transpose):
        return max(1, _most(statement.rows, unknown) * _most(statement.columns, unknown) >> 4)
    return 1


def _rounds(loop: For | While, unknown: int) -> int:
    if isinstance(loop, While):
        return unknown if any(map(_reads, inner_blocks(loop))) else 1  # mathematics comes to an end soon
    return -(-_most(loop.extent, unknown) // (loop.width if loop.kind is AxisKind.VECTOR else 1))


def _most(extent: int | Value, unknown: int) -> int:
    """How many there may be: of what is not known as many as an iteration has of the largest array."""
    if isinstance(extent, int):
        return extent
    return unknown if extent.range is None else min(unknown, max(1, extent.range[1]))


def _reads(block: Block) -> bool:
    """Whether something in it depends on memory."""
    return any(
        statement.op == "load" if isinstance(statement, Value) else any(map(_reads, inner_blocks(statement)))
        for statement in block.statements
    )


def _round(loop: For | While, unknown: int) -> int:
    """Loops of unknown extents in each other share what they go through."""
    is_known = isinstance(loop, For) and isinstance(loop.extent, int)
    return 1 + sum(_weight(block, unknown if is_known else 1) for block in inner_blocks(loop))


def write_pause(writer: Writer, places: Places, counter: str, step: int, every: int) -> None:
    """Leaves the function if the program is to end; looks once in so many rounds, each of which adds `step`."""
    due, on = writer.new_label("due"), writer.new_label("on")
    turn = writer.let(f"and i64 {counter}, {every * (1 << (step - 1).bit_length()) - 1}")
    writer.branch(writer.let(f"icmp ult i64 {turn}, {step}"), due, on)
    writer.begin(due)
    arguments = [("ptr", "%table"), ("i64", str(places.shared)), ("i64", str(places.asking))]
    status = writer.call("i32", LOOK_FUNCTION, arguments)
    writer.branch(writer.let(f"icmp eq i32 {status}, 0"), on, LEAVE)
    writer.begin(on)
