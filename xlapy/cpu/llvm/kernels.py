"""Emits loop IR as LLVM text: one function per kernel.

    void @kernel(ptr %buffer0, ptr %buffer1, ..., ptr %table, i64 %begin, i64 %end)

computes the iterations from `begin` to `end` of the kernel's parallel loop; without a parallel loop, these parameters
do not exist. A kernel with safepoint polls receives the program's address table, and returns early if the program
should stop. Its buffers never overlap. Inside a VECTOR axis, a value that depends on the axis is a vector register, any
other value a scalar; the last elements of an extent that is not a multiple of the width are computed under a mask.

Responsible for control flow, tail masks and the reduction of lanes. Does not depend on HLO or on programs that call
kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xlapy.cpu.llvm.instrumentation.bounds import KernelBounds
from xlapy.cpu.llvm.operations import emit_operation
from xlapy.cpu.llvm.safepoint_loops import LEAVE, PollEntries, emit_poll, loops_with_polls
from xlapy.cpu.llvm.text import IrBuilder, lane_mask, literal, llvm_type, suffix
from xlapy.cpu.llvm.vectors.matrix_statements import MEMORY_STATEMENTS, MatrixEmitter
from xlapy.cpu.llvm.vectors.register_pressure import fills_registers, float_constants, hidden_number
from xlapy.loops import I1, I64, AxisKind, For, If, Kernel, Scan, Store, Value, While
from xlapy.loops.ir import Block, Carry, Combiner, Statement, runs_at_most_once
from xlapy.loops.lane_dependence import combiner_values, varying_values
from xlapy.loops.reduction_order import combine_halves


def emit_kernel(
    kernel: Kernel, name: str, poll_entries: PollEntries | None = None, bounds: KernelBounds | None = None
) -> tuple[str, set[str]]:
    """Returns the text of a kernel's function and the declarations that it needs.

    poll_entries: the table entries for polls; None for a kernel without polls. bounds: checks its accesses, if any.
    """
    emitter = Emitter(IrBuilder())
    emitter.bounds = bounds
    if poll_entries is not None:
        emitter.poll_entries, emitter.polled_loops = poll_entries, loops_with_polls(kernel)
    parameters = [
        f"ptr {'noalias ' if buffer.exclusive else ''}%{buffer_register(i)}" for i, buffer in enumerate(kernel.buffers)
    ]
    emitter.buffers = {buffer: f"%{buffer_register(i)}" for i, buffer in enumerate(kernel.buffers)}
    for number, buffer in enumerate(kernel.scratch):
        emitter.buffers[buffer] = f"%scratch{number}"
        emitter.ir.emit(f"%scratch{number} = alloca [{buffer.size} x {llvm_type(buffer.type)}], align 64")
    if emitter.polled_loops or bounds is not None:
        parameters.append("ptr %table")
    if kernel.parallel_loop is not None:
        parameters += ["i64 %begin", "i64 %end"]
    emitter.block(kernel.body)
    if emitter.polled_loops:
        emitter.ir.br(LEAVE)
        emitter.ir.start_block(LEAVE)
    if emitter.has_nontemporal_stores:
        emitter.ir.emit("fence seq_cst")  # nontemporal stores are not ordered with others
    emitter.ir.emit("ret void")
    head = f"define internal void @{name}({', '.join(parameters)}) #0 {{\nentry:\n"
    return head + "\n".join(emitter.ir.lines) + "\n}\n", emitter.ir.declarations


def buffer_register(number: int) -> str:
    return f"b{number}"


class Emitter(MatrixEmitter):
    poll_entries: PollEntries | None = None
    polled_loops: Mapping[For | While, int] = MappingProxyType({})
    """The loops that poll, with the number of iterations between polls."""
    hidden: Mapping[str, str] = MappingProxyType({})
    """Registers of constants, by their literals, that LLVM must not move before a loop (`register_pressure`)."""

    def operand(self, value: Value, lanes: int) -> str:
        register = super().operand(value, lanes)
        return self.hidden.get(register, register)

    # -- statements

    def block(self, block: Block) -> None:
        with self.address_cse.code(block):
            self.statements(block)

    def statements(self, block: Block) -> None:
        before, hidden = dict(self.contiguous_vectors), self.hidden
        together = self.interleaved_stores(block)
        for number, statement in enumerate(block.statements):
            if not isinstance(statement, Store) or statement not in together:
                self.statement(statement)
            elif statement is together[statement][-1]:
                self.store_interleaved(together[statement])
            if self.lanes > 1 and fills_registers(statement, self.varying):
                self.hide_constants(block.statements[number + 1 :])
        self.contiguous_vectors, self.hidden = before, hidden

    def hide_constants(self, statements: Sequence[Statement]) -> None:
        """Keeps the vector constants of the statements that follow a loop out of its registers."""
        hidden = {
            literal(c.type, c.attribute, self.lanes): self.splat(c.type, hidden_number(self.ir, c.type, c.attribute))
            for c in float_constants(statements, self.varying)
        }
        self.hidden = {**self.hidden, **hidden}

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Value):
            self.names[statement] = self.value(statement)
        elif isinstance(statement, MEMORY_STATEMENTS):
            self.memory_statement(statement)
        elif isinstance(statement, If):
            self.branch(statement)
        elif isinstance(statement, While):
            self.while_loop(statement)
        elif isinstance(statement, Scan):
            self.scan(statement)
        elif statement.kind is AxisKind.PARALLEL:
            self.counted_loop(statement, "%begin", "%end", runs_at_least_once=False)
        elif statement.kind is AxisKind.VECTOR and statement.width > 1:
            self.vector_loop(statement)
        elif statement.kind is AxisKind.UNROLL or statement.extent == 1:
            self.unrolled_loop(statement)
        elif not isinstance(statement.extent, int) and runs_at_most_once(statement.extent):
            self.optional_iteration(statement, self.scalar(statement.extent))
        else:
            extent = statement.extent
            end = str(extent) if isinstance(extent, int) else self.scalar(extent)
            self.counted_loop(statement, "0", end, runs_at_least_once=isinstance(extent, int))

    def value(self, value: Value) -> str:
        if value.op == "load":
            return self.load(value)
        if value.op == "any":
            return self.any_lane(value.args[0])
        lanes = self.lanes_of(value)
        if value.op == "affine":
            return self.index_value(value.attribute, lanes)
        if value.op in ("div", "mod") and value.attribute is not None:
            return self.divided(value, lanes)
        return emit_operation(self.ir, value, [self.operand(arg, lanes) for arg in value.args], lanes)

    def any_lane(self, condition: Value) -> str:
        """Returns one bit for all active lanes. Inactive lanes may hold poison, which must not reach a branch."""
        if condition not in self.varying:
            return self.scalar(condition)
        type = llvm_type(I1, self.lanes)
        lanes = self.ir.assign(f"freeze {type} {self.names[condition]}")
        if self.mask is not None:
            lanes = self.ir.assign(f"and {type} {lanes}, {self.mask}")
        return self.ir.call("i1", f"llvm.vector.reduce.or.{suffix(I1, self.lanes)}", [(type, lanes)])

    # -- branches and loops

    def branch(self, statement: If) -> None:
        assert statement.condition not in self.varying, "a branch cannot differ between the lanes of a vector"
        taken, after = self.ir.new_label("then"), self.ir.new_label("endif")
        self.ir.cond_br(self.scalar(statement.condition), taken, after)
        with self.address_cse.inside(statement.then):
            self.ir.start_block(taken)
            self.statements(statement.then)
            self.ir.br(after)
        self.ir.start_block(after)

    def while_loop(self, loop: While) -> None:
        assert loop.condition is not None
        head, body, after = [self.ir.new_label(p) for p in ("while", "do", "endwhile")]
        initial = [self.operand(c.initial, self.lanes_of(c.variable)) for c in loop.carries]
        before = self.ir.label
        self.ir.br(head)
        with self.address_cse.inside(loop.test):
            self.ir.start_block(head)
            count, count_line = self.ir.phi("i64", "0", before) if loop in self.polled_loops else ("", -1)
            lines = self.begin_carries(loop.carries, initial, before)
            self.statements(loop.test)
            self.ir.cond_br(self.scalar(loop.condition), body, after)
            with self.address_cse.inside(loop.body):
                self.ir.start_block(body)
                self.statements(loop.body)
                nexts = [self.next_value(carry) for carry in loop.carries]
                if loop in self.polled_loops:
                    following = self.ir.next_index(count, 1)
                    self.emit_poll(loop, following)
                    self.ir.add_incoming(count_line, following, self.ir.label)
                for line, register in zip(lines, nexts, strict=True):
                    self.ir.add_incoming(line, register, self.ir.label)
                self.ir.br(head)
        self.ir.start_block(after)
        for carry in loop.carries:
            self.set_result(carry, self.names[carry.variable])

    def begin_carries(self, carries: Sequence[Carry], initial: Sequence[str], before: str) -> list[int]:
        lines: list[int] = []
        for carry, start in zip(carries, initial, strict=True):
            type = llvm_type(carry.variable.type, self.lanes_of(carry.variable))
            self.names[carry.variable], line = self.ir.phi(type, start, before)
            lines.append(line)
        return lines

    def emit_poll(self, loop: For | While, counter: str, step: int = 1) -> None:
        """Emits a poll at the end of an iteration, if the loop polls."""
        if loop in self.polled_loops:
            assert self.poll_entries is not None
            emit_poll(self.ir, self.poll_entries, counter, step, self.polled_loops[loop])

    def next_value(self, carry: Carry) -> str:
        assert carry.next is not None
        return self.operand(carry.next, self.lanes_of(carry.variable))

    def set_result(self, carry: Carry, register: str) -> None:
        if carry.result is not None:
            self.names[carry.result] = register

    def counted_loop(self, loop: For, begin: str, end: str, *, runs_at_least_once: bool) -> None:
        """Emits a loop with one element per iteration.

        runs_at_least_once: whether the extent is known to be positive.
        """
        head, after = self.ir.new_label("loop"), self.ir.new_label("endloop")
        initial = [self.operand(c.initial, self.lanes_of(c.variable)) for c in loop.carries]
        before = self.ir.label
        if runs_at_least_once:
            self.ir.br(head)
        else:
            self.ir.cond_br(self.ir.assign(f"icmp slt i64 {begin}, {end}"), head, after)
        with self.address_cse.inside(loop.body):
            self.ir.start_block(head)
            self.names[loop.axis], line = self.ir.phi("i64", begin, before)
            lines = self.begin_carries(loop.carries, initial, before)
            self.statements(loop.body)
            following = self.ir.next_index(self.names[loop.axis], 1)
            nexts = [self.next_value(carry) for carry in loop.carries]
            self.emit_poll(loop, following)
            last = self.ir.label
            for at, register in zip([line, *lines], [following, *nexts], strict=True):
                self.ir.add_incoming(at, register, last)
            self.ir.cond_br(self.ir.assign(f"icmp slt i64 {following}, {end}"), head, after)
        self.ir.start_block(after)
        for carry, start, register in zip(loop.carries, initial, nexts, strict=True):
            self.set_result(
                carry, register if runs_at_least_once else self._either(carry, start, before, register, last)
            )

    def optional_iteration(self, loop: For, extent: str) -> None:
        """Emits a loop with one iteration or none as a branch."""
        taken, after = self.ir.new_label("once"), self.ir.new_label("endonce")
        initial = [self.operand(c.initial, self.lanes_of(c.variable)) for c in loop.carries]
        before = self.ir.label
        self.ir.cond_br(self.ir.assign(f"icmp sgt i64 {extent}, 0"), taken, after)
        with self.address_cse.inside(loop.body):
            self.ir.start_block(taken)
            self.set_axis(loop, 0)
            for carry, register in zip(loop.carries, initial, strict=True):
                self.names[carry.variable] = register
            self.statements(loop.body)
            nexts = [self.next_value(carry) for carry in loop.carries]
            last = self.ir.label
            self.ir.br(after)
        self.ir.start_block(after)
        for carry, start, register in zip(loop.carries, initial, nexts, strict=True):
            self.set_result(carry, self._either(carry, start, before, register, last))

    def _either(self, carry: Carry, start: str, before: str, register: str, last: str) -> str:
        type = llvm_type(carry.variable.type, self.lanes_of(carry.variable))
        return self.ir.assign(f"phi {type} [ {start}, %{before} ], [ {register}, %{last} ]")

    def unrolled_loop(self, loop: For) -> None:
        assert isinstance(loop.extent, int)
        for carry in loop.carries:
            self.names[carry.variable] = self.operand(carry.initial, self.lanes_of(carry.variable))
        for position in range(loop.extent):
            self.set_axis(loop, position)
            self.block(loop.body)
            for carry, register in zip(loop.carries, [self.next_value(c) for c in loop.carries], strict=True):
                self.names[carry.variable] = register
        for carry in loop.carries:
            self.set_result(carry, self.names[carry.variable])

    def set_axis(self, loop: For, position: int) -> None:
        """Starts an unrolled iteration."""
        self.names[loop.axis] = str(position)

    # -- vector axes

    def vector_loop(self, loop: For) -> None:
        """Emits vectors in a loop, `accumulators` at a time, then the remaining ones, the last one under a mask."""
        assert self.axis is None, "vector axes do not nest"
        end = None if isinstance(loop.extent, int) else self.scalar(loop.extent)
        self.axis, self.lanes, self.varying = loop.axis, loop.width, varying_values(loop)
        state: list[list[str]] = []
        if any(isinstance(s, Scan) for s in loop.body.statements):
            self.scan_loop(loop)
        elif end is not None and not loop.carries:
            self.dynamic_vector_loop(loop, end)
        else:
            state = [[self.operand(_identity(c), self.lanes) for c in loop.carries] for _ in range(loop.accumulators)]
            state = self.static_vector_loop(loop, state) if end is None else self.vector_iterations(loop, end, state)
        self.axis, self.lanes, self.varying = None, 1, frozenset()
        if state:
            self.reduce_lanes(loop, state, loop.width)

    def static_vector_loop(self, loop: For, state: list[list[str]]) -> list[list[str]]:
        assert isinstance(loop.extent, int)
        vectors, tail = divmod(loop.extent, loop.width)
        iterations, left = divmod(vectors, loop.accumulators)
        if iterations == 1 and not left and not loop.carries:  # a single vector needs no loop
            iterations, left = 0, loop.accumulators
        done = iterations * loop.accumulators * loop.width
        state = self.vector_iterations(loop, done, state) if iterations else state
        for number in range(left):
            state[number] = self.iteration(loop, str(done + number * loop.width), state[number])
        if tail:
            self.lanes = self.tail_lanes(loop, tail)
            self.mask, self.tail = lane_mask(self.lanes, tail), tail
            which = left if left < loop.accumulators else 0
            state[which] = self.masked_iteration(loop, str(done + left * loop.width), state[which])
            self.mask = self.tail = None
        return state

    def tail_lanes(self, loop: For, tail: int) -> int:
        """The number of lanes for the last elements of an extent, which do not fill a vector."""
        return loop.width

    def scan_loop(self, loop: For) -> None:
        """Emits a scan: one vector after the other, each with the last lane of the previous one in all lanes of its
        carries."""
        assert isinstance(loop.extent, int), "the extent of a scan is known"
        iterations, tail = divmod(loop.extent, loop.width)
        carried = [self.splat(c.initial.type, self.scalar(c.initial)) for c in loop.carries]
        if iterations:
            carried = self.scan_vectors(loop, iterations, carried)
        if tail:
            self.mask, self.tail = lane_mask(loop.width, tail), tail
            self.iteration(loop, str(iterations * loop.width), carried)
            self.mask = self.tail = None

    def scan_vectors(self, loop: For, iterations: int, carried: list[str]) -> list[str]:
        head, after, before = self.ir.new_label("scan"), self.ir.new_label("endscan"), self.ir.label
        self.ir.br(head)
        with self.address_cse.inside():
            self.ir.start_block(head)
            base, base_line = self.ir.phi("i64", "0", before)
            phis = self.vector_phis(loop, carried, before)
            carried = self.scan_iteration(loop, base, [name for name, _ in phis])
            following = self.ir.next_index(base, loop.width)
            self.emit_poll(loop, following, loop.width)
            ends = zip([base_line, *(line for _, line in phis)], [following, *carried], strict=True)
            for line, register in ends:
                self.ir.add_incoming(line, register, self.ir.label)
            self.ir.cond_br(self.ir.assign(f"icmp slt i64 {following}, {iterations * loop.width}"), head, after)
        self.ir.start_block(after)
        return carried

    def scan_iteration(self, loop: For, base: str, carried: list[str]) -> list[str]:
        results = self.iteration(loop, base, carried)
        return [self.last_lane(c, r) for c, r in zip(loop.carries, results, strict=True)]

    def last_lane(self, carry: Carry, register: str) -> str:
        vector = llvm_type(carry.variable.type, self.lanes)
        last = ", ".join([f"i32 {self.lanes - 1}"] * self.lanes)
        return self.ir.assign(f"shufflevector {vector} {register}, {vector} poison, <{self.lanes} x i32> <{last}>")

    def scan(self, scan: Scan) -> None:
        """Combines each lane with the previous one, pairs with the previous pair, fours, ..., and finally all with the
        carry."""
        registers = [self.operand(value, self.lanes) for value in scan.inputs]
        neutral = [self.operand(_identity(c), self.lanes) for c in scan.carries]
        distance = 1
        while distance < self.lanes:
            moved = [
                self.shift_lanes(c, r, n, distance) for c, r, n in zip(scan.carries, registers, neutral, strict=True)
            ]
            registers = self.combine(scan.combine, moved, registers, self.lanes)
            distance *= 2
        carried = [self.names[carry.variable] for carry in scan.carries]
        for value, register in zip(
            scan.results, self.combine(scan.combine, carried, registers, self.lanes), strict=True
        ):
            self.names[value] = register

    def shift_lanes(self, carry: Carry, register: str, filling: str, distance: int) -> str:
        """Moves lanes up by a distance; the lanes that become free are taken from `filling`."""
        vector = llvm_type(carry.variable.type, self.lanes)
        chosen = ", ".join(f"i32 {self.lanes + n - distance if n >= distance else n}" for n in range(self.lanes))
        return self.ir.assign(f"shufflevector {vector} {filling}, {vector} {register}, <{self.lanes} x i32> <{chosen}>")

    def dynamic_vector_loop(self, loop: For, end: str) -> None:
        """Emits whole vectors up to an extent that is known only at run time, then the rest under a mask."""
        head, after, tail, done = [self.ir.new_label(p) for p in ("vector", "endvector", "tail", "endtail")]
        before = self.ir.label
        whole = self.ir.assign(f"and i64 {end}, {-loop.width}")
        self.ir.cond_br(self.ir.assign(f"icmp sgt i64 {whole}, 0"), head, after)
        with self.address_cse.inside():
            self.ir.start_block(head)
            base, line = self.ir.phi("i64", "0", before)
            self.iteration(loop, base, [])
            following = self.ir.next_index(base, loop.width)
            self.emit_poll(loop, following, loop.width)
            self.ir.add_incoming(line, following, self.ir.label)
            self.ir.cond_br(self.ir.assign(f"icmp slt i64 {following}, {whole}"), head, after)
        self.ir.start_block(after)
        self.ir.cond_br(self.ir.assign(f"icmp slt i64 {whole}, {end}"), tail, done)
        with self.address_cse.inside():
            self.ir.start_block(tail)
            vector, lanes = llvm_type(I64, self.lanes), ", ".join(f"i64 {lane}" for lane in range(self.lanes))
            left = self.splat(I64, self.ir.assign(f"sub i64 {end}, {whole}"))
            self.mask = self.ir.assign(f"icmp slt {vector} <{lanes}>, {left}")
            self.iteration(loop, whole, [])
            self.mask = None
            self.ir.br(done)
        self.ir.start_block(done)

    def vector_iterations(self, loop: For, end: int | str, state: list[list[str]]) -> list[list[str]]:
        """Emits iterations that fill all accumulators, at least one, up to a position."""
        head, after, before = self.ir.new_label("vector"), self.ir.new_label("endvector"), self.ir.label
        step = loop.width * loop.accumulators
        self.ir.br(head)
        with self.address_cse.inside():
            self.ir.start_block(head)
            base, base_line = self.ir.phi("i64", "0", before)
            phis = [self.vector_phis(loop, registers, before) for registers in state]
            results = [
                self.iteration(loop, base, [name for name, _ in current], number * loop.width)
                for number, current in enumerate(phis)
            ]
            following = self.ir.next_index(base, step)
            self.emit_poll(loop, following, step)
            self.ir.add_incoming(base_line, following, self.ir.label)
            for current, registers in zip(phis, results, strict=True):
                for (_, line), register in zip(current, registers, strict=True):
                    self.ir.add_incoming(line, register, self.ir.label)
            self.ir.cond_br(self.ir.assign(f"icmp slt i64 {following}, {end}"), head, after)
        self.ir.start_block(after)
        return results

    def vector_phis(self, loop: For, registers: list[str], before: str) -> list[tuple[str, int]]:
        """Emits a phi for each carry; returns their names and the lines to complete."""
        return [
            self.ir.phi(llvm_type(carry.variable.type, self.lanes), register, before)
            for carry, register in zip(loop.carries, registers, strict=True)
        ]

    def iteration(self, loop: For, base: str, registers: list[str], offset: int = 0) -> list[str]:
        """Emits the body for one vector of indices from `base + offset` on; returns the carries' next registers."""
        self.address_cse.start(loop.axis, base, offset)
        for carry, register in zip(loop.carries, registers, strict=True):
            self.names[carry.variable] = register
        self.block(loop.body)
        return [self.next_value(carry) for carry in loop.carries]

    def masked_iteration(self, loop: For, base: str, registers: list[str]) -> list[str]:
        """Emits an iteration in which the inactive lanes keep what they carry."""
        results = self.iteration(loop, base, registers)
        bits = f"{llvm_type(I1, self.lanes)} {self.mask}"
        kept: list[str] = []
        for carry, old, new in zip(loop.carries, registers, results, strict=True):
            type = llvm_type(carry.variable.type, self.lanes)
            kept.append(self.ir.assign(f"select {bits}, {type} {new}, {type} {old}"))
        return kept

    def reduce_lanes(self, loop: For, state: list[list[str]], lanes: int) -> None:
        """Combines the accumulators by `combine_halves`, then the halves of the vector, and finally the initial values
        with the result."""
        if not loop.carries:
            return
        combine = loop.combine
        assert combine is not None
        registers = combine_halves(state, lambda left, right: self.combine(combine, left, right, lanes))
        while lanes > 1:
            lanes //= 2
            low = [self.half_vector(c, r, lanes, 0) for c, r in zip(loop.carries, registers, strict=True)]
            high = [self.half_vector(c, r, lanes, lanes) for c, r in zip(loop.carries, registers, strict=True)]
            registers = self.combine(combine, low, high, lanes)
        initial = [self.scalar(c.initial) for c in loop.carries]
        for carry, register in zip(loop.carries, self.combine(combine, initial, registers, 1), strict=True):
            self.set_result(carry, register)

    def half_vector(self, carry: Carry, register: str, lanes: int, start: int) -> str:
        """Extracts `lanes` lanes from a vector of twice as many."""
        vector = llvm_type(carry.variable.type, lanes * 2)
        if lanes == 1:
            return self.ir.assign(f"extractelement {vector} {register}, i64 {start}")
        chosen = ", ".join(f"i32 {start + lane}" for lane in range(lanes))
        return self.ir.assign(f"shufflevector {vector} {register}, {vector} poison, <{lanes} x i32> <{chosen}>")

    def combine(self, combiner: Combiner, left: list[str], right: list[str], lanes: int) -> list[str]:
        """Emits a combiner for two sets of registers; returns its results."""
        for parameter, register in zip(combiner.parameters, [*left, *right], strict=True):
            self.names[parameter] = register
        before = self.lanes, self.varying
        self.lanes, self.varying = lanes, combiner_values(combiner) if lanes > 1 else frozenset()
        self.block(combiner.block)
        results = [self.operand(result, lanes) for result in combiner.results]
        self.lanes, self.varying = before
        return results


def _identity(carry: Carry) -> Value:
    assert carry.identity is not None
    return carry.identity
