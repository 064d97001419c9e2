"""Loop IR to LLVM text: a function for each kernel.

    void @kernel(ptr %buffer0, ptr %buffer1, ..., ptr %table, i64 %begin, i64 %end)

computes the iterations from `begin` to `end` of the kernel's parallel loop; without one the two are not there. A kernel
that looks whether to go on is given the program's table of addresses, and ends early if it is not to. The
buffers of one kernel never overlap. Inside a VECTOR axis a value that follows the axis is a vector register, any other
a scalar; the last positions of an extent that is no multiple of the width are computed under a mask.

Owns: control flow, the masks of tails, the reduction of lanes. Must not know: HLO, the programs that call kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xlapy.cpu.llvm.memory import MemoryEmitter
from xlapy.cpu.llvm.operations import write_operation
from xlapy.cpu.llvm.safepoint_loops import LEAVE, Places, pauses, write_pause
from xlapy.cpu.llvm.text import Writer, llvm_type, suffix
from xlapy.loops import I1, I64, AxisKind, For, If, Kernel, Scan, Store, Transpose, Value, While
from xlapy.loops.ir import Block, Carry, Combiner, Statement, inner_blocks
from xlapy.loops.reduction_order import combine_halves


def write_kernel(kernel: Kernel, name: str, places: Places | None = None) -> tuple[str, set[str]]:
    """The text of the kernel's function, and the declarations that it needs. places: if it is to look."""
    emitter = Emitter(Writer())
    if places is not None:
        emitter.places, emitter.pauses = places, pauses(kernel)
    parameters = [
        f"ptr {'noalias ' if buffer.exclusive else ''}%{buffer_register(i)}" for i, buffer in enumerate(kernel.buffers)
    ]
    emitter.buffers = {buffer: f"%{buffer_register(i)}" for i, buffer in enumerate(kernel.buffers)}
    for number, buffer in enumerate(kernel.scratch):
        emitter.buffers[buffer] = f"%scratch{number}"
        emitter.writer.do(f"%scratch{number} = alloca [{buffer.size} x {llvm_type(buffer.type)}], align 64")
    if emitter.pauses:
        parameters.append("ptr %table")
    if kernel.parallel_loop is not None:
        parameters += ["i64 %begin", "i64 %end"]
    emitter.block(kernel.body)
    if emitter.pauses:
        emitter.writer.jump(LEAVE)
        emitter.writer.begin(LEAVE)
    if emitter.streams:
        emitter.writer.do("fence seq_cst")  # such stores are in no order with any others
    emitter.writer.do("ret void")
    head = f"define internal void @{name}({', '.join(parameters)}) #0 {{\nentry:\n"
    return head + "\n".join(emitter.writer.lines) + "\n}\n", emitter.writer.declarations


def buffer_register(number: int) -> str:
    return f"b{number}"


class Emitter(MemoryEmitter):
    places: Places | None = None
    pauses: Mapping[For | While, int] = MappingProxyType({})
    """The loops that look whether to go on."""

    # -- statements

    def block(self, block: Block) -> None:
        with self.positions.code(block):
            self.statements(block)

    def statements(self, block: Block) -> None:
        before = dict(self.neighbours)
        together = self.stored_together(block)
        for statement in block.statements:
            if not isinstance(statement, Store) or statement not in together:
                self.statement(statement)
            elif statement is together[statement][-1]:
                self.store_together(together[statement])
        self.neighbours = before

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Value):
            self.names[statement] = self.value(statement)
        elif isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, Transpose):
            self.transpose(statement)
        elif isinstance(statement, If):
            self.branch(statement)
        elif isinstance(statement, While):
            self.repeat(statement)
        elif isinstance(statement, Scan):
            self.scan(statement)
        elif statement.kind is AxisKind.PARALLEL:
            self.counted(statement, "%begin", "%end", always=False)
        elif statement.kind is AxisKind.VECTOR and statement.width > 1:
            self.vector_loop(statement)
        elif statement.kind is AxisKind.UNROLL or statement.extent == 1:
            self.unrolled(statement)
        else:
            extent = statement.extent
            end = str(extent) if isinstance(extent, int) else self.scalar(extent)
            self.counted(statement, "0", end, always=isinstance(extent, int))

    def value(self, value: Value) -> str:
        if value.op == "load":
            return self.load(value)
        if value.op == "any":
            return self.any_lane(value.args[0])
        lanes = self.lanes_of(value)
        if value.op == "affine":
            return self.position(value.attribute, lanes)
        if value.op in ("div", "mod") and value.attribute is not None:
            return self.divided(value, lanes)
        return write_operation(self.writer, value, [self.operand(arg, lanes) for arg in value.args], lanes)

    def any_lane(self, condition: Value) -> str:
        """One bit for all lanes that count. Lanes outside the mask may hold poison, which must not reach a branch."""
        if condition not in self.varying:
            return self.scalar(condition)
        type = llvm_type(I1, self.lanes)
        lanes = self.writer.let(f"freeze {type} {self.names[condition]}")
        if self.mask is not None:
            lanes = self.writer.let(f"and {type} {lanes}, {self.mask}")
        return self.writer.call("i1", f"llvm.vector.reduce.or.{suffix(I1, self.lanes)}", [(type, lanes)])

    # -- branches and loops

    def branch(self, statement: If) -> None:
        assert statement.condition not in self.varying, "a branch cannot differ between the lanes of a vector"
        taken, after = self.writer.new_label("then"), self.writer.new_label("endif")
        self.writer.branch(self.scalar(statement.condition), taken, after)
        with self.positions.inside(statement.then):
            self.writer.begin(taken)
            self.statements(statement.then)
            self.writer.jump(after)
        self.writer.begin(after)

    def repeat(self, loop: While) -> None:
        assert loop.condition is not None
        head, body, after = [self.writer.new_label(p) for p in ("while", "do", "endwhile")]
        initial = [self.operand(c.initial, self.lanes_of(c.variable)) for c in loop.carries]
        before = self.writer.label
        self.writer.jump(head)
        with self.positions.inside(loop.test):
            self.writer.begin(head)
            turn, turn_line = self.writer.phi("i64", "0", before) if loop in self.pauses else ("", -1)
            lines = self.begin_carries(loop.carries, initial, before)
            self.statements(loop.test)
            self.writer.branch(self.scalar(loop.condition), body, after)
            with self.positions.inside(loop.body):
                self.writer.begin(body)
                self.statements(loop.body)
                nexts = [self.next_of(carry) for carry in loop.carries]
                if loop in self.pauses:
                    following = self.writer.let(f"add nsw i64 {turn}, 1")
                    self.pause(loop, following)
                    self.writer.close_phi(turn_line, following, self.writer.label)
                for line, register in zip(lines, nexts, strict=True):
                    self.writer.close_phi(line, register, self.writer.label)
                self.writer.jump(head)
        self.writer.begin(after)
        for carry in loop.carries:
            self.set_result(carry, self.names[carry.variable])

    def begin_carries(self, carries: Sequence[Carry], initial: Sequence[str], before: str) -> list[int]:
        lines: list[int] = []
        for carry, start in zip(carries, initial, strict=True):
            type = llvm_type(carry.variable.type, self.lanes_of(carry.variable))
            self.names[carry.variable], line = self.writer.phi(type, start, before)
            lines.append(line)
        return lines

    def pause(self, loop: For | While, counter: str, step: int = 1) -> None:
        """At the end of a round: leaves the kernel, if the loop looks and the program is to end."""
        if loop in self.pauses:
            assert self.places is not None
            write_pause(self.writer, self.places, counter, step, self.pauses[loop])

    def next_of(self, carry: Carry) -> str:
        assert carry.next is not None
        return self.operand(carry.next, self.lanes_of(carry.variable))

    def set_result(self, carry: Carry, register: str) -> None:
        if carry.result is not None:
            self.names[carry.result] = register

    def counted(self, loop: For, begin: str, end: str, *, always: bool) -> None:
        """One iteration at a time; `always`: at least one."""
        head, after = self.writer.new_label("loop"), self.writer.new_label("endloop")
        initial = [self.operand(c.initial, self.lanes_of(c.variable)) for c in loop.carries]
        before = self.writer.label
        if always:
            self.writer.jump(head)
        else:
            self.writer.branch(self.writer.let(f"icmp slt i64 {begin}, {end}"), head, after)
        with self.positions.inside(loop.body):
            self.writer.begin(head)
            self.names[loop.axis], line = self.writer.phi("i64", begin, before)
            lines = self.begin_carries(loop.carries, initial, before)
            self.statements(loop.body)
            following = self.writer.let(f"add nsw i64 {self.names[loop.axis]}, 1")
            nexts = [self.next_of(carry) for carry in loop.carries]
            self.pause(loop, following)
            last = self.writer.label
            for at, register in zip([line, *lines], [following, *nexts], strict=True):
                self.writer.close_phi(at, register, last)
            self.writer.branch(self.writer.let(f"icmp slt i64 {following}, {end}"), head, after)
        self.writer.begin(after)
        for carry, start, register in zip(loop.carries, initial, nexts, strict=True):
            self.set_result(carry, register if always else self._either(carry, start, before, register, last))

    def _either(self, carry: Carry, start: str, before: str, register: str, last: str) -> str:
        type = llvm_type(carry.variable.type, self.lanes_of(carry.variable))
        return self.writer.let(f"phi {type} [ {start}, %{before} ], [ {register}, %{last} ]")

    def unrolled(self, loop: For) -> None:
        assert isinstance(loop.extent, int)
        for carry in loop.carries:
            self.names[carry.variable] = self.operand(carry.initial, self.lanes_of(carry.variable))
        for position in range(loop.extent):
            self.at_position(loop, position)
            self.block(loop.body)
            for carry, register in zip(loop.carries, [self.next_of(c) for c in loop.carries], strict=True):
                self.names[carry.variable] = register
        for carry in loop.carries:
            self.set_result(carry, self.names[carry.variable])

    def at_position(self, loop: For, position: int) -> None:
        """Begins an iteration whose position is a number."""
        self.names[loop.axis] = str(position)

    # -- vector axes

    def vector_loop(self, loop: For) -> None:
        """Whole vectors in a loop, `accumulators` of them at a time, then those left, the last under a mask."""
        assert self.axis is None, "vector axes do not nest"
        extent = loop.extent
        end = None if isinstance(extent, int) else self.scalar(extent)
        self.axis, self.lanes, self.varying = loop.axis, loop.width, _varying(loop)
        if any(isinstance(s, Scan) for s in loop.body.statements):
            self.running_loop(loop)
            self.axis, self.lanes, self.varying = None, 1, frozenset()
            return
        if not isinstance(extent, int):
            assert end is not None and not loop.carries, "the extent of a vector axis with carries is known"
            self.vectors_up_to(loop, end)
            self.axis, self.lanes, self.varying = None, 1, frozenset()
            return
        vectors, tail = divmod(extent, loop.width)
        rounds, left = divmod(vectors, loop.accumulators)
        if rounds == 1 and not left and not loop.carries:  # a single vector needs no loop
            rounds, left = 0, loop.accumulators
        state = [[self.operand(_identity(c), self.lanes) for c in loop.carries] for _ in range(loop.accumulators)]
        if rounds:
            state = self.vector_rounds(loop, rounds, state)
        done = rounds * loop.accumulators * loop.width
        for number in range(left):
            state[number] = self.iteration(loop, str(done + number * loop.width), state[number])
        if tail:
            self.mask, self.tail = _tail_mask(loop.width, tail), tail
            which = left if left < loop.accumulators else 0
            state[which] = self.masked_iteration(loop, str(done + left * loop.width), state[which])
            self.mask = self.tail = None
        self.axis, lanes, self.lanes, self.varying = None, self.lanes, 1, frozenset()
        self.reduce_lanes(loop, state, lanes)

    def running_loop(self, loop: For) -> None:
        """One vector after the other, each with the last lane of the one before in all lanes of its carries."""
        assert isinstance(loop.extent, int), "the extent of a scan is known"
        rounds, tail = divmod(loop.extent, loop.width)
        carried = [self.splat(c.initial.type, self.scalar(c.initial)) for c in loop.carries]
        if rounds:
            carried = self.running_rounds(loop, rounds, carried)
        if tail:
            self.mask, self.tail = _tail_mask(loop.width, tail), tail
            self.iteration(loop, str(rounds * loop.width), carried)
            self.mask = self.tail = None

    def running_rounds(self, loop: For, rounds: int, carried: list[str]) -> list[str]:
        head, after, before = self.writer.new_label("scan"), self.writer.new_label("endscan"), self.writer.label
        self.writer.jump(head)
        with self.positions.inside():
            self.writer.begin(head)
            base, base_line = self.writer.phi("i64", "0", before)
            phis = self.vector_phis(loop, carried, before)
            carried = self.running_iteration(loop, base, [name for name, _ in phis])
            following = self.writer.let(f"add nsw i64 {base}, {loop.width}")
            self.pause(loop, following, loop.width)
            ends = zip([base_line, *(line for _, line in phis)], [following, *carried], strict=True)
            for line, register in ends:
                self.writer.close_phi(line, register, self.writer.label)
            self.writer.branch(self.writer.let(f"icmp slt i64 {following}, {rounds * loop.width}"), head, after)
        self.writer.begin(after)
        return carried

    def running_iteration(self, loop: For, base: str, carried: list[str]) -> list[str]:
        results = self.iteration(loop, base, carried)
        return [self.last_lane(c, r) for c, r in zip(loop.carries, results, strict=True)]

    def last_lane(self, carry: Carry, register: str) -> str:
        vector = llvm_type(carry.variable.type, self.lanes)
        last = ", ".join([f"i32 {self.lanes - 1}"] * self.lanes)
        return self.writer.let(f"shufflevector {vector} {register}, {vector} poison, <{self.lanes} x i32> <{last}>")

    def scan(self, scan: Scan) -> None:
        """Each lane with the one before it, pairs with the pair before them, fours, ..., then all with the carry."""
        registers = [self.operand(value, self.lanes) for value in scan.inputs]
        neutral = [self.operand(_identity(c), self.lanes) for c in scan.carries]
        distance = 1
        while distance < self.lanes:
            moved = [self.moved_up(c, r, n, distance) for c, r, n in zip(scan.carries, registers, neutral, strict=True)]
            registers = self.combined(scan.combine, moved, registers, self.lanes)
            distance *= 2
        carried = [self.names[carry.variable] for carry in scan.carries]
        for value, register in zip(
            scan.results, self.combined(scan.combine, carried, registers, self.lanes), strict=True
        ):
            self.names[value] = register

    def moved_up(self, carry: Carry, register: str, filling: str, distance: int) -> str:
        """The lanes moved up by a distance; the filling in those that become free."""
        vector = llvm_type(carry.variable.type, self.lanes)
        chosen = ", ".join(f"i32 {self.lanes + n - distance if n >= distance else n}" for n in range(self.lanes))
        return self.writer.let(
            f"shufflevector {vector} {filling}, {vector} {register}, <{self.lanes} x i32> <{chosen}>"
        )

    def vectors_up_to(self, loop: For, end: str) -> None:
        """Whole vectors up to an extent known at run time, then the rest under a mask."""
        head, after, tail, done = [self.writer.new_label(p) for p in ("vector", "endvector", "tail", "endtail")]
        before = self.writer.label
        whole = self.writer.let(f"and i64 {end}, {-loop.width}")
        self.writer.branch(self.writer.let(f"icmp sgt i64 {whole}, 0"), head, after)
        with self.positions.inside():
            self.writer.begin(head)
            base, line = self.writer.phi("i64", "0", before)
            self.iteration(loop, base, [])
            following = self.writer.let(f"add nsw i64 {base}, {loop.width}")
            self.pause(loop, following, loop.width)
            self.writer.close_phi(line, following, self.writer.label)
            self.writer.branch(self.writer.let(f"icmp slt i64 {following}, {whole}"), head, after)
        self.writer.begin(after)
        self.writer.branch(self.writer.let(f"icmp slt i64 {whole}, {end}"), tail, done)
        with self.positions.inside():
            self.writer.begin(tail)
            vector, lanes = llvm_type(I64, self.lanes), ", ".join(f"i64 {lane}" for lane in range(self.lanes))
            left = self.splat(I64, self.writer.let(f"sub i64 {end}, {whole}"))
            self.mask = self.writer.let(f"icmp slt {vector} <{lanes}>, {left}")
            self.iteration(loop, whole, [])
            self.mask = None
            self.writer.jump(done)
        self.writer.begin(done)

    def vector_rounds(self, loop: For, rounds: int, state: list[list[str]]) -> list[list[str]]:
        head, after, before = self.writer.new_label("vector"), self.writer.new_label("endvector"), self.writer.label
        step = loop.width * loop.accumulators
        self.writer.jump(head)
        with self.positions.inside():
            self.writer.begin(head)
            base, base_line = self.writer.phi("i64", "0", before)
            phis = [self.vector_phis(loop, registers, before) for registers in state]
            results = [
                self.iteration(loop, base, [name for name, _ in current], number * loop.width)
                for number, current in enumerate(phis)
            ]
            following = self.writer.let(f"add nsw i64 {base}, {step}")
            self.pause(loop, following, step)
            self.writer.close_phi(base_line, following, self.writer.label)
            for current, registers in zip(phis, results, strict=True):
                for (_, line), register in zip(current, registers, strict=True):
                    self.writer.close_phi(line, register, self.writer.label)
            self.writer.branch(self.writer.let(f"icmp slt i64 {following}, {rounds * step}"), head, after)
        self.writer.begin(after)
        return results

    def vector_phis(self, loop: For, registers: list[str], before: str) -> list[tuple[str, int]]:
        """A phi for each carry, with the line to close it."""
        return [
            self.writer.phi(llvm_type(carry.variable.type, self.lanes), register, before)
            for carry, register in zip(loop.carries, registers, strict=True)
        ]

    def iteration(self, loop: For, base: str, registers: list[str], offset: int = 0) -> list[str]:
        """The body for one vector of positions from `base + offset` on; returns the carries' next registers."""
        self.positions.start(loop.axis, base, offset)
        for carry, register in zip(loop.carries, registers, strict=True):
            self.names[carry.variable] = register
        self.block(loop.body)
        return [self.next_of(carry) for carry in loop.carries]

    def masked_iteration(self, loop: For, base: str, registers: list[str]) -> list[str]:
        """As `iteration`, but the lanes outside the mask keep what they carry."""
        results = self.iteration(loop, base, registers)
        bits = f"{llvm_type(I1, self.lanes)} {self.mask}"
        kept: list[str] = []
        for carry, old, new in zip(loop.carries, registers, results, strict=True):
            type = llvm_type(carry.variable.type, self.lanes)
            kept.append(self.writer.let(f"select {bits}, {type} {new}, {type} {old}"))
        return kept

    def reduce_lanes(self, loop: For, state: list[list[str]], lanes: int) -> None:
        """Accumulators two by two, then the halves of the vector, then the initial values before all that."""
        if not loop.carries:
            return
        combine = loop.combine
        assert combine is not None
        registers = combine_halves(state, lambda left, right: self.combined(combine, left, right, lanes))
        while lanes > 1:
            lanes //= 2
            low = [self.part(c, r, lanes, 0) for c, r in zip(loop.carries, registers, strict=True)]
            high = [self.part(c, r, lanes, lanes) for c, r in zip(loop.carries, registers, strict=True)]
            registers = self.combined(combine, low, high, lanes)
        initial = [self.scalar(c.initial) for c in loop.carries]
        for carry, register in zip(loop.carries, self.combined(combine, initial, registers, 1), strict=True):
            self.set_result(carry, register)

    def part(self, carry: Carry, register: str, lanes: int, start: int) -> str:
        """`lanes` lanes of a vector of twice as many."""
        vector = llvm_type(carry.variable.type, lanes * 2)
        if lanes == 1:
            return self.writer.let(f"extractelement {vector} {register}, i64 {start}")
        chosen = ", ".join(f"i32 {start + lane}" for lane in range(lanes))
        return self.writer.let(f"shufflevector {vector} {register}, {vector} poison, <{lanes} x i32> <{chosen}>")

    def combined(self, region: Combiner, left: list[str], right: list[str], lanes: int) -> list[str]:
        """The region's results on two sets of registers."""
        for parameter, register in zip(region.parameters, [*left, *right], strict=True):
            self.names[parameter] = register
        before = self.lanes, self.varying
        self.lanes, self.varying = lanes, _combiner_values(region) if lanes > 1 else frozenset()
        self.block(region.block)
        results = [self.operand(result, lanes) for result in region.results]
        self.lanes, self.varying = before
        return results


def _identity(carry: Carry) -> Value:
    assert carry.identity is not None
    return carry.identity


def _tail_mask(width: int, tail: int) -> str:
    return f"<{', '.join('i1 true' if lane < tail else 'i1 false' for lane in range(width))}>"


def _combiner_values(region: Combiner) -> frozenset[Value]:
    return _followers(region.block, region.parameters)


def _varying(loop: For) -> frozenset[Value]:
    """The values in the body that differ between the lanes."""
    return _followers(loop.body, [loop.axis, *(carry.variable for carry in loop.carries)])


def _followers(block: Block, values: Sequence[Value]) -> frozenset[Value]:
    """The values, and those in the block that are computed from them."""
    found = set(values)
    size = 0
    while size != len(found):
        size = len(found)
        _spread(block, found)
    return frozenset(found)


def _spread(block: Block, found: set[Value]) -> None:
    for statement in block.statements:
        if isinstance(statement, Value):
            if statement.op != "any" and any(arg in found for arg in statement.args):
                found.add(statement)
        elif isinstance(statement, (For, While)):
            for inner in inner_blocks(statement):
                _spread(inner, found)
            for carry in statement.carries:
                if carry.initial in found or (carry.next is not None and carry.next in found):
                    found.update(v for v in (carry.variable, carry.result) if v is not None)
        elif isinstance(statement, If):
            _spread(statement.then, found)
        elif isinstance(statement, Scan):
            found.update(statement.results)
