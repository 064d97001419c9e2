"""Converts the counters of a program on cpu to the rows of a profile.

The time of a counter is that of its thunks: one, or several short ones that are timed together, between which it is
divided by their numbers of statements. The cost of reading the clock is subtracted.

Does not depend on how clocks are read or rows are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlapy import opcodes
from xlapy.analysis.cost import Cost, instruction_costs
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.cpu.program.thunks import Thunk
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.loops.operations import Operations, kernel_operations
from xlapy.runtime.machine import Machine, Roofline
from xlapy.text.describe import computing
from xlapy.tools.profile.measuring import Measured
from xlapy.tools.profile.reuse import Access, reuse_distances
from xlapy.tools.profile.rows import HostCallback, Row, merged, rows_by_instruction


def native_rows(measured: Measured, machine: Machine) -> list[Row]:
    """Returns the rows of the entry computation, most expensive first; rows inside loops and branches are their
    children.
    """
    clocks = measured.compiled.program.counters
    assert clocks is not None, "the program is instrumented"
    return _Reader(measured, machine).rows(clocks.top_level)


def host_callbacks(measured: Measured, rows: Sequence[Row]) -> list[HostCallback]:
    """Returns the instructions that the host computes in every run, most expensive first."""
    by_name = {row.name: row for row in rows_by_instruction(rows).values()}
    found: list[HostCallback] = []
    for thunk in measured.compiled.program.host_calling_thunks:
        row = by_name.get(thunk.op_name)
        if thunk.callback_reason and row is not None:
            opcode = thunk.instruction.op.name
            found.append(HostCallback(thunk.op_name, opcode, thunk.callback_reason, row.executions, row.seconds))
    return sorted(found, key=lambda one: -one.seconds)


class _Reader:
    def __init__(self, measured: Measured, machine: Machine) -> None:
        module = measured.compiled.module
        self.measured = measured
        self.machine = machine
        self.instructions = {instruction.name: instruction for instruction in module.instructions()}
        self.costs: Mapping[Instruction, Cost] = instruction_costs(module)
        self.divided: dict[ProfilingCounter, float] = {}
        """The times of thunks that are counted but not timed."""
        self._operations: dict[Kernel, Operations] = {}
        self.accesses: dict[str, list[Access]] = {}
        """The accesses of the thunks of each row, by its name."""
        for thunk, accesses in reuse_distances(measured.compiled.program, self.moved).items():
            self.accesses.setdefault(thunk.label, []).extend(accesses)

    def moved(self, thunk: Thunk) -> float | None:
        """Returns the bytes that an execution of a thunk reads and writes; None if that is unknown."""
        instruction = self.instructions.get(thunk.op_name)
        return None if instruction is None else float(self.costs[instruction].bytes_accessed)

    def rows(self, clocks: Sequence[ProfilingCounter]) -> list[Row]:
        rows = [row for clock in clocks for row in self.rows_of(clock)]
        kernels = _runs_of_kernels([thunk for clock in clocks for thunk in clock.thunks], rows)
        found = merged(rows)
        for row in found:
            if not row.children:
                self.count(row, kernels.get(row.name, row.executions))
        return found

    def rows_of(self, clock: ProfilingCounter) -> list[Row]:
        seconds, begun, busy = self.measured.figures[clock.number].tolist()
        measured = seconds
        seconds = max(0.0, seconds - self.measured.clock_reading_seconds * self.clock_readings(clock))
        subtracted = measured - seconds
        seconds = self.divided.get(clock, seconds)
        total = _statements(clock.thunks)
        rows = [self.row(thunk, seconds * thunk.statements / total, begun) for thunk in clock.thunks]
        for thunk, row in zip(clock.thunks, rows, strict=True):
            row.subtracted = subtracted * thunk.statements / total
        (first, *_) = rows
        if busy and seconds:
            first.threads, first.is_parallel = busy / seconds, True
        if clock.nested:
            inside = [inner for part in clock.nested for inner in part]
            if any(not inner.is_timed for inner in inside):
                self.divide(clock, seconds)
            first.children = self.rows(inside)
            # The cost of reading the clock, which is subtracted, is an estimate, and a loop reads it more often.
            first.seconds = max(first.seconds, sum(child.seconds for child in first.children))
            first.set_totals_of_children()
            if clock.thunks[0].is_loop:
                first.iterations = self.measured.figures[clock.nested[1][0].number, 1] if clock.nested[1] else 0.0
        return rows

    def divide(self, loop: ProfilingCounter, seconds: float) -> None:
        """Divides the time of a loop with short iterations between its body and its condition."""
        condition, _ = loop.thunks[0].nested
        (body,) = loop.nested[1]
        own, inner = _statements(condition), _statements(body.thunks)
        self.divided[body] = seconds * inner / (own + inner)

    def clock_readings(self, clock: ProfilingCounter) -> float:
        """Returns how often the clock was read for this counter and those inside it."""
        own = float(self.measured.figures[clock.number, 1]) if clock.is_timed else 0.0
        return own + sum(self.clock_readings(one) for part in clock.nested for one in part)

    def row(self, thunk: Thunk, seconds: float, executions: float) -> Row:
        instruction = self.instructions.get(thunk.subject)
        if thunk.copies_bytes:
            row = Row(thunk.label, "copy", instruction, seconds, executions)
            row.read = row.written = executions * sum(slice_.size for slice_ in thunk.writes)
            return row
        opcode = instruction.op.name if instruction is not None else "kernel"
        row = Row(thunk.label, opcode, instruction, seconds, executions)
        if thunk.own_kernel is not None:
            operations = self.operations(thunk.own_kernel)
            if operations.is_known:
                row.operations = {name: executions * count for name, count in operations.counts.items()}
        return row

    def operations(self, kernel: Kernel) -> Operations:
        found = self._operations.get(kernel)
        if found is None:
            found = self._operations[kernel] = kernel_operations(kernel)
        return found

    def count(self, row: Row, executions: float) -> None:
        """Adds the memory traffic and arithmetic of an instruction, and its minimum time on this machine."""
        row.executions = executions
        if row.opcode != "copy" and row.instruction is not None:
            cost = self.costs[row.instruction]
            row.read, row.written = executions * sum(cost.operands), executions * cost.result
            row.flops = executions * (cost.flops + cost.transcendentals)
        limits = self.machine.of_threads(row.threads) if row.is_parallel else self.machine.one
        self.limit_memory(row, limits)
        row.arithmetic_seconds = limits.arithmetic_seconds(row.operations or {"f32": row.flops})
        row.minimum_seconds = max(row.memory_seconds, row.arithmetic_seconds)
        # A kernel of some ten nanoseconds is shorter than the error of the cost that was subtracted.
        row.seconds = max(row.seconds, min(row.minimum_seconds, row.seconds + row.subtracted))

    def limit_memory(self, row: Row, limits: Roofline) -> None:
        """Sets the least time for the memory traffic of a row, and the level of memory at which most of it is spent.

        The traffic divides in proportion to the bytes of the arrays, each of which lies at the level that its reuse
        distance says. What a gather reads may be the same few elements again and again, which then are in the fastest
        cache.
        """
        accesses = self.accesses.get(row.name, [])
        touched = sum(access.touched for access in accesses)
        if not touched or not row.executions:
            return
        written = sum(access.touched for access in accesses if access.is_written)
        updated = sum(access.touched for access in accesses if access.is_update)
        in_place = row.written * updated / written if written else 0.0
        seconds: dict[str, float] = {}
        is_gather = row.instruction is not None and any(one.op is opcodes.GATHER for one in computing(row.instruction))
        for access in accesses:
            distance = 0.0 if is_gather and access.is_partial else access.distance
            whole = limits.memory_seconds(row.read, row.written, distance, in_place)
            level = self.machine.level(distance, limits.threads)
            seconds[level] = seconds.get(level, 0.0) + whole * access.touched / touched
        row.memory_seconds = sum(seconds.values())
        row.level = max(seconds, key=lambda level: seconds[level])


def _statements(thunks: Sequence[Thunk]) -> int:
    return sum(thunk.statements for thunk in thunks)


def _runs_of_kernels(thunks: Sequence[Thunk], rows: Sequence[Row]) -> dict[str, float]:
    """Returns how often each instruction ran; several kernels may compute parts of it, and several thunks run the same
    kernel.
    """
    counts: dict[str, dict[Kernel | None, float]] = {}
    for thunk, row in zip(thunks, rows, strict=True):
        if not thunk.nested:
            kernels = counts.setdefault(row.name, {})
            kernels[thunk.own_kernel] = kernels.get(thunk.own_kernel, 0.0) + row.executions
    return {name: max(kernels.values()) for name, kernels in counts.items()}
