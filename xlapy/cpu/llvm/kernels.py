"""Loop IR to LLVM text: a function for each kernel.

    void @kernel(ptr %buffer0, ptr %buffer1, ..., i64 %begin, i64 %end)

computes the iterations from `begin` to `end` of the kernel's parallel loop; without one the two are not there. The
buffers of one kernel never overlap. Inside a VECTOR axis a value that follows the axis is a vector register, any other
a scalar; the last positions of an extent that is no multiple of the width are computed under a mask.

Owns: control flow, memory accesses, masks, the reduction of lanes. Must not know: HLO, the programs that call kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlapy.cpu.llvm.engine import vector_bytes
from xlapy.cpu.llvm.neighbours import interleaved, picked
from xlapy.cpu.llvm.operations import write_operation
from xlapy.cpu.llvm.positions import Positions
from xlapy.cpu.llvm.text import Writer, literal, llvm_type, suffix
from xlapy.cpu.llvm.transposes import transpose_name, write_transpose
from xlapy.loops import (
    I1,
    I32,
    I64,
    Affine,
    AxisKind,
    Buffer,
    For,
    If,
    Kernel,
    Place,
    ScalarType,
    Scan,
    Store,
    Transpose,
    Value,
    While,
)
from xlapy.loops.ir import Block, Carry, Region, Statement, inner_blocks


def write_kernel(kernel: Kernel, name: str) -> tuple[str, set[str]]:
    """The text of the kernel's function, and the declarations that it needs."""
    emitter = Emitter(Writer())
    parameters = [
        f"ptr {'noalias ' if buffer.exclusive else ''}%{buffer_register(i)}" for i, buffer in enumerate(kernel.buffers)
    ]
    emitter.buffers = {buffer: f"%{buffer_register(i)}" for i, buffer in enumerate(kernel.buffers)}
    for number, buffer in enumerate(kernel.scratch):
        emitter.buffers[buffer] = f"%scratch{number}"
        emitter.writer.do(f"%scratch{number} = alloca [{buffer.size} x {llvm_type(buffer.type)}], align 64")
    if kernel.parallel_loop is not None:
        parameters += ["i64 %begin", "i64 %end"]
    emitter.block(kernel.body)
    if emitter.streams:
        emitter.writer.do("fence seq_cst")  # such stores are in no order with any others
    emitter.writer.do("ret void")
    head = f"define internal void @{name}({', '.join(parameters)}) #0 {{\nentry:\n"
    return head + "\n".join(emitter.writer.lines) + "\n}\n", emitter.writer.declarations


def buffer_register(number: int) -> str:
    return f"b{number}"


class Emitter:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.buffers: dict[object, str] = {}
        self.names: dict[Value, str] = {}
        self.positions = Positions(self.writer, self.names)
        self.axis: Value | None = None
        self.lanes = 1
        self.mask: str | None = None
        self.tail: int | None = None
        """How many lanes the mask leaves, where that is known."""
        self.varying: frozenset[Value] = frozenset()
        self.streams = False
        """Whether it stores past the caches."""
        self.neighbours: dict[tuple[Buffer, Affine], list[str]] = {}
        """Contiguous vectors, loaded in this block or around it, that hold elements some places apart."""

    # -- operands

    def lanes_of(self, value: Value) -> int:
        return self.lanes if value in self.varying else 1

    def scalar(self, value: Value) -> str:
        return literal(value.type, value.attribute) if value.op == "const" else self.names[value]

    def operand(self, value: Value, lanes: int) -> str:
        """The register of a value, in as many lanes as asked for."""
        if value.op == "const":
            return literal(value.type, value.attribute, lanes)
        if value is self.axis:
            return self.lanes_from(Affine.of(value))
        if lanes == 1 or value in self.varying:
            return self.names[value]
        return self.splat(value.type, self.names[value])

    def splat(self, type: ScalarType, scalar: str) -> str:
        vector = llvm_type(type, self.lanes)
        found = self.positions.shared((vector, scalar))
        if found is not None:
            return found
        first = self.writer.let(f"insertelement {vector} poison, {llvm_type(type)} {scalar}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        register = self.writer.let(f"shufflevector {vector} {first}, {vector} poison, {mask}")
        return self.positions.share((vector, scalar), register)

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

    def position(self, position: Affine, lanes: int = 1) -> str:
        """An affine position in a register."""
        return self.positions.integer(position) if lanes == 1 else self.lanes_from(position)

    def divided(self, value: Value, lanes: int) -> str:
        """A position divided by a number, or what is left; in lanes of 32 bits if it fits, as wider ones take long."""
        dividend, divisor = value.attribute
        bounds = dividend.bounds()
        short = lanes > 1 and bounds is not None and bounds[0] >= 0 and bounds[1] < _MOST_SHORT
        type, left = (I32, self.lanes_from(dividend, I32)) if short else (I64, self.position(dividend, lanes))
        vector, by = llvm_type(type, lanes), literal(type, divisor, lanes)
        key = (vector, left, divisor)
        result = self.positions.shared(key)
        if result is None:
            result = self.positions.share(key, self.writer.let(f"udiv {vector} {left}, {by}"))
        if value.op == "mod":
            result = self.writer.let(f"sub {vector} {left}, {self.writer.let(f'mul {vector} {result}, {by}')}")
        return self.writer.let(f"zext {vector} {result} to {llvm_type(I64, lanes)}") if short else result

    def lanes_from(self, position: Affine, type: ScalarType = I64) -> str:
        """A position in each lane: what is the same for all of them, and how far apart they are."""
        if not position.terms:
            return literal(type, position.constant, self.lanes)
        key = ("lanes", position, type, self.positions.integer(self.in_all_lanes(position)))
        found = self.positions.shared(key)
        if found is not None:
            return found
        first, apart = key[-1], self.lanes_apart(position, type)
        if type is not I64 and not first.isdigit():
            first = self.writer.let(f"trunc i64 {first} to {type.name}")
        total = self.splat(type, first)
        if apart:
            total = self.writer.let(f"add {llvm_type(type, self.lanes)} {total}, {apart}")
        return self.positions.share(key, total)

    def in_all_lanes(self, position: Affine) -> Affine:
        """The position of the first lane, of terms that differ by more than the axis left out."""
        kept = tuple((v, c) for v, c in position.terms if v is self.axis or v not in self.varying)
        return Affine(kept, position.constant)

    def lanes_apart(self, position: Affine, type: ScalarType = I64) -> str:
        """How far each lane is from `in_all_lanes`; an empty string if no lane is."""
        vector, total = llvm_type(type, self.lanes), ""
        for value, factor in position.terms:
            if value is self.axis:
                part = f"<{', '.join(f'{type.name} {lane * factor}' for lane in range(self.lanes))}>"
            elif value in self.varying:
                part = self.names[value]
                if type is not I64:
                    part = self.writer.let(f"trunc {llvm_type(I64, self.lanes)} {part} to {vector}")
                if factor != 1:
                    part = self.writer.let(f"mul {vector} {part}, {literal(type, factor, self.lanes)}")
            else:
                continue
            total = self.writer.let(f"add {vector} {total}, {part}") if total else part
        return total

    # -- memory

    def address(self, place: Place, further: int = 0) -> str:
        """The address of an element, of lane 0 in a vector, or so many elements further."""
        return self.positions.address(self.buffers[place.buffer], place.buffer.type, place.offset + further)

    def stride(self, place: Place) -> int | None:
        """How far apart the lanes' elements are; None if that is not the same for all."""
        for value, _ in place.offset.terms:
            if value in self.varying and value is not self.axis:
                return None
        return 0 if self.axis is None else place.offset.coefficient(self.axis)

    def lane_mask(self, mask: Value | None) -> str | None:
        """The lanes that count: those of the tail and of the statement's own mask."""
        if mask is None:
            return self.mask
        own = self.operand(mask, self.lanes)
        return own if self.mask is None else self.writer.let(f"and {llvm_type(I1, self.lanes)} {own}, {self.mask}")

    def load(self, value: Value) -> str:
        place, masked = value.attribute
        mask = value.args[-2] if masked else None
        if value not in self.varying:
            return self.load_scalar(value, place, mask)
        stride, lanes = self.stride(place), self.lane_mask(mask)
        vector = llvm_type(value.type, self.lanes)
        otherwise = self.operand(value.args[-1], self.lanes) if masked else "poison"
        if stride == 0:
            return self.gather(value.type, place, lanes, otherwise)
        if stride == 1:
            address = self.address(place)
            if lanes is None:
                return self.writer.let(f"load {vector}, ptr {address}, align {value.type.byte_size}")
            return self.masked_load(value.type, address, lanes, otherwise)
        if lanes is None and stride is not None and 1 < stride <= _MOST_APART:
            return self.load_apart(value.type, place, stride)
        if stride == -1 and lanes is None:
            address = self.address(place, 1 - self.lanes)
            return self.backwards(
                vector, self.writer.let(f"load {vector}, ptr {address}, align {value.type.byte_size}")
            )
        return self.gather(value.type, place, lanes, otherwise)

    def load_apart(self, type: ScalarType, place: Place, stride: int) -> str:
        """Elements some places apart, out of as many vectors of neighbours."""
        offset, size = place.offset, place.buffer.size
        if size % stride or any(factor % stride for _, factor in offset.terms):
            # the last vector ends with the last of the elements: nothing behind it need be there
            offsets = [*range(0, (stride - 1) * self.lanes, self.lanes), (self.lanes - 1) * (stride - 1)]
            vectors = self.load_neighbours(type, place.buffer, offset, offsets)
            return picked(self.writer, type, vectors, range(0, stride * self.lanes, stride), offsets)
        # memory is whole groups of `stride` elements: other loads take other elements of the same ones
        rest = offset.constant % stride
        first, offsets = offset - rest, list(range(0, stride * self.lanes, self.lanes))
        key = (place.buffer, first)
        known = self.neighbours.get(key)
        if known is None:
            known = self.load_neighbours(type, place.buffer, first, offsets)
            if not place.buffer.written:
                self.neighbours[key] = known
        return picked(self.writer, type, known, range(rest, rest + stride * self.lanes, stride), offsets)

    def load_neighbours(self, type: ScalarType, buffer: Buffer, start: Affine, offsets: Sequence[int]) -> list[str]:
        """Contiguous vectors that begin so many places behind where lane 0 is."""
        place, vector = Place(buffer, start), llvm_type(type, self.lanes)
        addresses = [self.address(place, offset) for offset in offsets]
        return [self.writer.let(f"load {vector}, ptr {address}, align {type.byte_size}") for address in addresses]

    def backwards(self, vector: str, register: str) -> str:
        lanes = ", ".join(f"i32 {lane}" for lane in reversed(range(self.lanes)))
        return self.writer.let(f"shufflevector {vector} {register}, {vector} poison, <{self.lanes} x i32> <{lanes}>")

    def load_scalar(self, value: Value, place: Place, mask: Value | None) -> str:
        type, address = llvm_type(value.type), self.address(place)
        if mask is None:
            return self.writer.let(f"load {type}, ptr {address}")
        taken, after = self.writer.new_label("load"), self.writer.new_label("loaded")
        before = self.writer.label
        otherwise = self.scalar(value.args[-1])
        self.writer.branch(self.scalar(mask), taken, after)
        self.writer.begin(taken)
        loaded = self.writer.let(f"load {type}, ptr {address}")
        self.writer.jump(after)
        self.writer.begin(after)
        return self.writer.let(f"phi {type} [ {otherwise}, %{before} ], [ {loaded}, %{taken} ]")

    def masked_load(self, type: ScalarType, address: str, mask: str, otherwise: str) -> str:
        vector = llvm_type(type, self.lanes)
        name = f"llvm.masked.load.{suffix(type, self.lanes)}.p0"
        arguments = [(f"ptr align {type.byte_size}", address), (llvm_type(I1, self.lanes), mask), (vector, otherwise)]
        return self.intrinsic(vector, name, arguments)

    def gather(self, type: ScalarType, place: Place, mask: str | None, otherwise: str) -> str:
        pointers = self.addresses(place)
        vector, bits = llvm_type(type, self.lanes), llvm_type(I1, self.lanes)
        chosen = literal(I1, 1, self.lanes) if mask is None else mask
        name = f"llvm.masked.gather.{suffix(type, self.lanes)}.v{self.lanes}p0"
        arguments = [(f"<{self.lanes} x ptr> align {type.byte_size}", pointers), (bits, chosen), (vector, otherwise)]
        return self.intrinsic(vector, name, arguments)

    def addresses(self, place: Place) -> str:
        apart = self.lanes_apart(place.offset) or literal(I64, 0, self.lanes)
        base = self.address(Place(place.buffer, self.in_all_lanes(place.offset)))
        type, positions = llvm_type(place.buffer.type), llvm_type(I64, self.lanes)
        return self.writer.let(f"getelementptr {type}, ptr {base}, {positions} {apart}")

    def store(self, store: Store) -> None:
        place, type = store.place, store.place.buffer.type
        varying = any(v in self.varying for v, _ in place.offset.terms) or store.value in self.varying
        if self.lanes == 1 or not (varying or (store.mask is not None and store.mask in self.varying)):
            self.store_scalar(store)
            return
        vector = llvm_type(type, self.lanes)
        value, mask = self.operand(store.value, self.lanes), self.lane_mask(store.mask)
        if self.stride(place) == 1:
            address = self.address(place)
            if mask is None:
                self.whole_store(place, f"{vector} {value}, ptr {address}")
                return
            name = f"llvm.masked.store.{suffix(type, self.lanes)}.p0"
            pointer = (f"ptr align {type.byte_size}", address)
        elif self.stride(place) == -1 and mask is None:
            address = self.address(place, 1 - self.lanes)
            self.writer.do(f"store {vector} {self.backwards(vector, value)}, ptr {address}, align {type.byte_size}")
            return
        else:
            mask = literal(I1, 1, self.lanes) if mask is None else mask
            name = f"llvm.masked.scatter.{suffix(type, self.lanes)}.v{self.lanes}p0"
            pointer = (f"<{self.lanes} x ptr> align {type.byte_size}", self.addresses(place))
        self.intrinsic("void", name, [(vector, value), pointer, (llvm_type(I1, self.lanes), mask)])

    def stored_together(self, block: Block) -> dict[Store, list[Store]]:
        """The stores of elements some places apart that, all of them together, fill memory: each with all of them."""
        found: dict[Store, list[Store]] = {}
        if self.lanes == 1 or self.mask is not None:
            return found
        for stores in _runs_of_stores(block):
            by_buffer: dict[Buffer, list[Store]] = {}
            for store in stores:
                by_buffer.setdefault(store.place.buffer, []).append(store)
            for group in by_buffer.values():
                for together in self.filling(group):
                    found.update(dict.fromkeys(together, together))
        return found

    def filling(self, stores: list[Store]) -> list[list[Store]]:
        """Stores to one buffer as groups of some that follow each other and fill memory; none if any do not."""
        stride = self.stride(stores[0].place) or 0
        groups = [stores[n : n + stride] for n in range(0, len(stores), max(stride, 1))]
        return groups if 1 < stride <= _MOST_APART and all(map(self.fills, groups)) else []

    def fills(self, stores: Sequence[Store]) -> bool:
        """Whether stores, as many as their elements are places apart, write neighbours, none of them twice."""
        places = sorted(store.place.offset.constant for store in stores)
        alike = all(s.place.offset.terms == stores[0].place.offset.terms and s.mask is None for s in stores)
        stride = self.stride(stores[0].place)
        return alike and len(stores) == stride and places == list(range(places[0], places[0] + stride))

    def store_together(self, stores: Sequence[Store]) -> None:
        """Elements that lie between each other, in contiguous vectors."""
        ordered = sorted(stores, key=lambda store: store.place.offset.constant)
        place, type = ordered[0].place, ordered[0].value.type
        registers = [self.operand(store.value, self.lanes) for store in ordered]
        vector = llvm_type(type, self.lanes)
        for number, register in enumerate(interleaved(self.writer, type, registers, self.lanes)):
            self.whole_store(place, f"{vector} {register}, ptr {self.address(place, number * self.lanes)}")

    def whole_store(self, place: Place, store: str) -> None:
        """Past the caches only where the vector is a whole line of them."""
        size = place.buffer.type.byte_size
        if place.buffer.streamed and size * self.lanes == 64:
            self.writer.declarations.add("!0 = !{i32 1}")
            self.streams = True
            self.writer.do(f"store {store}, align 64, !nontemporal !0")
        else:
            self.writer.do(f"store {store}, align {size}")

    def store_scalar(self, store: Store) -> None:
        after, address = "", self.address(store.place)
        if store.mask is not None:
            taken, after = self.writer.new_label("store"), self.writer.new_label("stored")
            self.writer.branch(self.scalar(store.mask), taken, after)
            self.writer.begin(taken)
        self.writer.do(f"store {llvm_type(store.place.buffer.type)} {self.scalar(store.value)}, ptr {address}")
        if after:
            self.writer.jump(after)
            self.writer.begin(after)

    def transpose(self, statement: Transpose) -> None:
        """A call of the function for elements of this size, which all kernels share."""
        bits, parts = statement.source.buffer.type.bits, statement.parts
        text, declarations = write_transpose(bits, parts, vector_bytes())
        self.writer.declarations |= {text, *declarations}
        source, target = self.address(statement.source), self.address(statement.target)
        rows, columns = (str(n) if isinstance(n, int) else self.scalar(n) for n in (statement.rows, statement.columns))
        given = f"ptr {source}, i64 {statement.source_pitch}, ptr {target}, i64 {statement.target_pitch}"
        self.writer.do(f"call void @{transpose_name(bits, parts)}({given}, i64 {rows}, i64 {columns})")

    def intrinsic(self, result: str, name: str, arguments: list[tuple[str, str]]) -> str:
        """A call of an intrinsic whose arguments' types carry attributes, which its declaration has not."""
        types = ", ".join(type.split(" align ")[0] for type, _ in arguments)
        self.writer.declarations.add(f"declare {result} @{name}({types})")
        given = ", ".join(f"{type} {value}" for type, value in arguments)
        if result == "void":
            self.writer.do(f"call void @{name}({given})")
            return ""
        return self.writer.let(f"call {result} @{name}({given})")

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
            lines = self.begin_carries(loop.carries, initial, before)
            self.statements(loop.test)
            self.writer.branch(self.scalar(loop.condition), body, after)
            with self.positions.inside(loop.body):
                self.writer.begin(body)
                self.statements(loop.body)
                for line, carry in zip(lines, loop.carries, strict=True):
                    self.writer.close_phi(line, self.next_of(carry), self.writer.label)
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
        assert loop.combine is not None
        while len(state) > 1:
            half = (len(state) + 1) // 2
            pairs = zip(state[:half], state[half:], strict=False)
            state = [self.combined(loop.combine, a, b, lanes) for a, b in pairs] + state[len(state) - half : half]
        registers = state[0]
        while lanes > 1:
            lanes //= 2
            low = [self.part(c, r, lanes, 0) for c, r in zip(loop.carries, registers, strict=True)]
            high = [self.part(c, r, lanes, lanes) for c, r in zip(loop.carries, registers, strict=True)]
            registers = self.combined(loop.combine, low, high, lanes)
        initial = [self.scalar(c.initial) for c in loop.carries]
        for carry, register in zip(loop.carries, self.combined(loop.combine, initial, registers, 1), strict=True):
            self.set_result(carry, register)

    def part(self, carry: Carry, register: str, lanes: int, start: int) -> str:
        """`lanes` lanes of a vector of twice as many."""
        vector = llvm_type(carry.variable.type, lanes * 2)
        if lanes == 1:
            return self.writer.let(f"extractelement {vector} {register}, i64 {start}")
        chosen = ", ".join(f"i32 {start + lane}" for lane in range(lanes))
        return self.writer.let(f"shufflevector {vector} {register}, {vector} poison, <{lanes} x i32> <{chosen}>")

    def combined(self, region: Region, left: list[str], right: list[str], lanes: int) -> list[str]:
        """The region's results on two sets of registers."""
        for parameter, register in zip(region.parameters, [*left, *right], strict=True):
            self.names[parameter] = register
        before = self.lanes, self.varying
        self.lanes, self.varying = lanes, _region_values(region) if lanes > 1 else frozenset()
        self.block(region.block)
        results = [self.operand(result, lanes) for result in region.results]
        self.lanes, self.varying = before
        return results


_MOST_SHORT = 1 << 31
"""Positions below it are divided in lanes of 32 bits."""

_MOST_APART = 16
"""How far apart elements may lie that are loaded and stored with their neighbours rather than one by one."""


def _runs_of_stores(block: Block) -> Iterator[list[Store]]:
    """Stores between which nothing reads memory or is repeated."""
    run: list[Store] = []
    for statement in block.statements:
        if isinstance(statement, Store):
            run.append(statement)
        elif not isinstance(statement, Value) or statement.op == "load":
            yield run
            run = []
    yield run


def _identity(carry: Carry) -> Value:
    assert carry.identity is not None
    return carry.identity


def _tail_mask(width: int, tail: int) -> str:
    return f"<{', '.join('i1 true' if lane < tail else 'i1 false' for lane in range(width))}>"


def _region_values(region: Region) -> frozenset[Value]:
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
