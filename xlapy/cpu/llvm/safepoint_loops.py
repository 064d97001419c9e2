"""Selects the loops of kernels that poll for cancellation: those that run too long for a program to stop in time.

Most kernels need no polls: a long computation consists of iterations of a parallel loop, which run in chunks with polls
between them. A single iteration may still be long, such as the sum or the sort of a very long row.

Responsible for which loops poll, how often, and for the emitted code. Does not depend on what happens when a program
stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xlapy.cpu.llvm.safepoints import POLL_INTERVAL
from xlapy.cpu.llvm.shared_code import POLL
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.loops import AxisKind, For, If, Kernel, TransposeStatement, Value, While
from xlapy.loops.ir import Block, Statement, inner_blocks

MIN_POLLED_LOOP_STATEMENTS = 1 << 23
"""Loops that execute more vector statements poll. That many take some hundredths of a second on memory that is touched
for the first time."""

LEAVE = "leave"
"""The label of the end of the function, to which a poll jumps if the program should stop."""


class PollEntries(NamedTuple):
    """The entries of the address table that the poll function receives."""

    shared: int
    poll: int


def loops_with_polls(kernel: Kernel) -> dict[For | While, int]:
    """Returns the loops of a kernel that poll, each with the iterations between polls, a power of two."""
    largest = max((buffer.size for buffer in (*kernel.buffers, *kernel.scratch)), default=1)
    loop = kernel.parallel_loop
    iterations = loop.extent if loop is not None and isinstance(loop.extent, int) else 1
    unknown_extent = -(-largest // max(1, iterations))
    return dict(_long_loops(kernel.body, unknown_extent))


def _long_loops(block: Block, unknown_extent: int) -> Iterator[tuple[For | While, int]]:
    for statement in block.statements:
        if isinstance(statement, If):
            yield from _long_loops(statement.then, unknown_extent)
        elif isinstance(statement, For | While):
            once = _iteration_weight(statement, unknown_extent)
            if (
                not _is_divided(statement)
                and _iterations(statement, unknown_extent) * once > MIN_POLLED_LOOP_STATEMENTS
            ):
                yield statement, 1 << (max(1, POLL_INTERVAL // once).bit_length() - 1)
            for inner in inner_blocks(statement):
                yield from _long_loops(inner, unknown_extent)


def _is_divided(loop: For | While) -> bool:
    """Whether the caller of the kernel divides the loop into chunks, or the loop is unrolled."""
    return isinstance(loop, For) and loop.kind in (AxisKind.PARALLEL, AxisKind.UNROLL)


def _block_weight(block: Block, unknown_extent: int) -> int:
    return sum(_statement_weight(statement, unknown_extent) for statement in block.statements)


def _statement_weight(statement: Statement, unknown_extent: int) -> int:
    if isinstance(statement, For | While):
        return _iterations(statement, unknown_extent) * _iteration_weight(statement, unknown_extent)
    if isinstance(statement, If):
        return _block_weight(statement.then, unknown_extent)
    if isinstance(statement, TransposeStatement):
        return max(1, _max_extent(statement.rows, unknown_extent) * _max_extent(statement.columns, unknown_extent) >> 4)
    return 1


def _iterations(loop: For | While, unknown_extent: int) -> int:
    if isinstance(loop, While):
        # A loop that loads nothing evaluates a mathematical function and ends soon.
        return unknown_extent if any(map(_loads, inner_blocks(loop))) else 1
    return -(-_max_extent(loop.extent, unknown_extent) // (loop.width if loop.kind is AxisKind.VECTOR else 1))


def _max_extent(extent: int | Value, unknown_extent: int) -> int:
    """Returns an upper bound of an extent.

    Extents that depend on data are bounded by the largest array per iteration.
    """
    if isinstance(extent, int):
        return extent
    return unknown_extent if extent.range is None else min(unknown_extent, max(1, extent.range[1]))


def _loads(block: Block) -> bool:
    """Whether a block loads from memory."""
    return any(
        statement.op == "load" if isinstance(statement, Value) else any(map(_loads, inner_blocks(statement)))
        for statement in block.statements
    )


def _iteration_weight(loop: For | While, unknown_extent: int) -> int:
    """Returns the statements of one iteration. Nested loops of unknown extent divide the same elements among them."""
    is_known = isinstance(loop, For) and isinstance(loop.extent, int)
    return 1 + sum(_block_weight(block, unknown_extent if is_known else 1) for block in inner_blocks(loop))


def emit_poll(ir: IrBuilder, entries: PollEntries, counter: str, step: int, period: int) -> None:
    """Emits a poll once in `period` iterations, each of which adds `step` to the counter; jumps to LEAVE to stop."""
    due, on = ir.new_label("due"), ir.new_label("on")
    phase = ir.assign(f"and i64 {counter}, {period * (1 << (step - 1).bit_length()) - 1}")
    ir.cond_br(ir.assign(f"icmp ult i64 {phase}, {step}"), due, on)
    ir.start_block(due)
    arguments = [("ptr", "%table"), ("i64", str(entries.shared)), ("i64", str(entries.poll))]
    status = ir.call("i32", POLL, arguments)
    ir.cond_br(ir.assign(f"icmp eq i32 {status}, 0"), on, LEAVE)
    ir.start_block(on)
