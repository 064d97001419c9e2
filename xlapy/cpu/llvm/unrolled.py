"""Emits unrolled kernels into the function that contains them: no loops, and indices are constants wherever possible.

An access of contiguous elements becomes one access of a vector of exactly that length; any other access becomes one per
lane, never a masked access or a gather. LLVM can then promote stack slots to registers.

Responsible for indices that are known at compile time. Does not decide which kernels are unrolled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xlapy.cpu.llvm.instrumentation.bounds import KernelBounds
from xlapy.cpu.llvm.kernels import Emitter
from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type
from xlapy.loops import I64, Affine, AxisKind, Buffer, For, Kernel, Location, ScalarType, Store, Value
from xlapy.loops.ir import Block, Statement

Lanes = tuple[int, ...]

MAX_SCALAR_ELEMENTS = 3
"""The largest array whose elements are numbers of their own. Programs with such arrays, as points in space, compute
their elements separately, too: moving them into vectors and back takes longer than the operations that vectors save."""


def emit_unrolled_kernel(
    kernel: Kernel,
    ir: IrBuilder,
    head: list[str],
    pointers: Sequence[str],
    vectors: Collection[Buffer] = (),
    bounds: KernelBounds | None = None,
) -> None:
    """Appends a kernel to a function. pointers: the addresses of its buffers; head: the prologue of the function;
    vectors: the buffers that are loaded and stored as a whole where the index of an element is not known; bounds:
    checks its accesses, if any."""
    emitter = _UnrolledEmitter(ir)
    emitter.vectors = frozenset(vectors)
    emitter.bounds = bounds
    emitter.buffers = dict(zip(kernel.buffers, pointers, strict=True))
    for buffer in kernel.scratch:
        emitter.buffers[buffer] = name = ir.fresh_name("x")
        head.append(f"  {name} = alloca [{buffer.size} x {llvm_type(buffer.type)}], align 64")
    emitter.block(kernel.body)


class _UnrolledEmitter(Emitter):
    def __init__(self, ir: IrBuilder) -> None:
        super().__init__(ir)
        self.known: dict[Value, Lanes] = {}
        """The values of integers that are known, for each lane."""
        self.vectors: frozenset[Buffer] = frozenset()
        """The buffers that are one value each."""

    # -- loops

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, For) and (statement.kind is not AxisKind.VECTOR or _is_scalar(statement)):
            self.unrolled_loop(statement)
        else:
            super().statement(statement)

    def set_axis(self, loop: For, position: int) -> None:
        self.known[loop.axis] = (position,)
        super().set_axis(loop, position)

    def vector_iterations(self, loop: For, end: int | str, state: list[list[str]]) -> list[list[str]]:
        assert isinstance(end, int), "the extents of unrolled loops are known"
        for vector in range(end // loop.width):
            number = vector % loop.accumulators
            state[number] = self.iteration(loop, str(vector * loop.width), state[number])
        return state

    def tail_lanes(self, loop: For, tail: int) -> int:
        """Returns the next power of two. LLVM 22 does not end on some programs with vectors of 64 bytes that repeat two
        or four elements; narrow vectors also need fewer instructions. A reduction combines vectors of one width."""
        return loop.width if loop.carries else max(2, 1 << (tail - 1).bit_length())

    def scan_vectors(self, loop: For, rounds: int, carried: list[str]) -> list[str]:
        for round in range(rounds):
            carried = self.scan_iteration(loop, str(round * loop.width), carried)
        return carried

    def iteration(self, loop: For, base: str, registers: list[str], offset: int = 0) -> list[str]:
        self.known[loop.axis] = tuple(range(int(base) + offset, int(base) + offset + self.lanes))
        return super().iteration(loop, base, registers, offset)

    # -- positions

    def value(self, value: Value) -> str:
        self.known.pop(value, None)
        lanes = self.lanes_of(value)
        found = self.known_index(value, lanes)
        if found is None:
            return super().value(value)
        self.known[value] = found
        return _numbers(found)

    def known_index(self, value: Value, lanes: int) -> Lanes | None:
        """Returns the values of an index in each lane, if they are known."""
        if value.op == "affine":
            return self.known_indices(value.attribute, lanes)
        if value.op not in ("div", "mod") or value.attribute is None:
            return None
        dividend, divisor = value.attribute
        found = self.known_indices(dividend, lanes)
        if found is None:
            return None
        return tuple(n // divisor if value.op == "div" else n % divisor for n in found)

    def known_indices(self, position: Affine, lanes: int) -> Lanes | None:
        total = [position.constant] * lanes
        for value, coefficient in position.terms:
            numbers = (value.attribute,) if value.op == "const" else self.known.get(value)
            if numbers is None:
                return None
            # a quotient that is equal in all lanes is known from the first one
            spread = numbers * lanes if len(numbers) == 1 else numbers[:lanes]
            total = [sum_ + coefficient * number for sum_, number in zip(total, spread, strict=True)]
        return tuple(total)

    def index_value(self, position: Affine, lanes: int = 1) -> str:
        found = self.known_indices(position, lanes)
        return super().index_value(position, lanes) if found is None else _numbers(found)

    # -- memory

    def active_lanes(self, mask: Value | None) -> int | None:
        """Returns the number of active lanes, which are the first ones; None if it is not known."""
        if mask is not None:
            return None
        return self.lanes if self.mask is None else self.tail

    def load(self, value: Value) -> str:
        place, masked = value.attribute
        if value.type is not place.buffer.type:  # several elements at once
            return super().load(value)
        active = self.active_lanes(value.args[-2] if masked else None)
        found = self.known_indices(place.offset, self.lanes) if value in self.varying else None
        if active is None or found is None:
            return super().load(value)
        positions, base = found[:active], self.buffers[place.buffer]
        self.check_positions("loads", place.buffer, positions)
        if _are_contiguous(positions):
            return self.load_contiguous_lanes(value.type, base, positions)
        vector, type = llvm_type(value.type, self.lanes), llvm_type(value.type)
        loaded: dict[int, str] = {}
        register = "poison"
        for lane, number in enumerate(positions + positions[:1] * (self.lanes - active)):
            if number not in loaded:
                loaded[number] = self.ir.assign(f"load {type}, ptr {self.element(value.type, base, number)}")
            element = f"{type} {loaded[number]}, i64 {lane}"
            register = self.ir.assign(f"insertelement {vector} {register}, {element}")
        return register

    def check_positions(self, verb: str, buffer: Buffer, positions: Lanes) -> None:
        """Checks accesses of elements whose numbers are known, if accesses are checked."""
        if self.bounds is None:
            return
        for number in (min(positions), max(positions)):
            self.bounds.check(self.ir, verb, buffer, str(number), 1)

    def load_contiguous_lanes(self, type: ScalarType, base: str, positions: Lanes) -> str:
        """Loads contiguous elements to the first lanes of a vector.

        The remaining lanes of integers are 1, because something may be divided by them. They do not repeat elements:
        LLVM 22 miscompiles conversions of vectors that continue with the first element, and does not end on some
        programs in which vectors of 64 bytes repeat two or four elements.
        """
        short_vector, align = llvm_type(type, len(positions)), f"align {type.byte_size}"
        loaded = self.ir.assign(f"load {short_vector}, ptr {self.element(type, base, positions[0])}, {align}")
        if len(positions) == self.lanes:
            return loaded
        if len(positions) == 1:
            return self.splat(type, loaded)
        count = len(positions)
        chosen = [f"i32 {min(lane, count)}" for lane in range(self.lanes)]
        mask = f"<{self.lanes} x i32> <{', '.join(chosen)}>"
        filling = literal(type, 1, count) if type.is_integer else "poison"
        return self.ir.assign(f"shufflevector {short_vector} {loaded}, {short_vector} {filling}, {mask}")

    def load_scalar(self, value: Value, place: Location, mask: Value | None) -> str:
        if mask is not None or not self.is_in_vector(value.type, place):
            return super().load_scalar(value, place, mask)
        vector, index = self.whole_vector(place.buffer), self.index_value(place.offset)
        return self.ir.assign(f"extractelement {llvm_type(value.type, place.buffer.size)} {vector}, i64 {index}")

    def store_scalar(self, store: Store) -> None:
        place, type = store.location, store.location.buffer.type
        if store.mask is not None or not self.is_in_vector(type, place):
            super().store_scalar(store)
            return
        vector, all_elements = self.whole_vector(place.buffer), llvm_type(type, place.buffer.size)
        element = f"{llvm_type(type)} {self.scalar(store.value)}, i64 {self.index_value(place.offset)}"
        changed = self.ir.assign(f"insertelement {all_elements} {vector}, {element}")
        self.ir.emit(f"store {all_elements} {changed}, ptr {self.buffers[place.buffer]}, align {type.byte_size}")

    def is_in_vector(self, type: ScalarType, place: Location) -> bool:
        """Whether an element has a computed index in a buffer that is one value."""
        is_whole = place.buffer in self.vectors and type is place.buffer.type and place.buffer.size > 1
        return is_whole and self.bounds is None and self.known_indices(place.offset, 1) is None

    def whole_vector(self, buffer: Buffer) -> str:
        vector = llvm_type(buffer.type, buffer.size)
        return self.ir.assign(f"load {vector}, ptr {self.buffers[buffer]}, align {buffer.type.byte_size}")

    def element(self, type: ScalarType, base: str, position: int) -> str:
        if not position:
            return base
        return self.ir.assign(f"getelementptr inbounds {llvm_type(type)}, ptr {base}, i64 {position}")

    def interleaved_stores(self, block: Block) -> dict[Store, list[Store]]:
        """Returns nothing: elements that are stored interleaved could not be loaded one by one from a register."""
        return {}

    def store(self, store: Store) -> None:
        place, type = store.location, store.location.buffer.type
        varying = any(v in self.varying for v, _ in place.offset.terms)
        active = self.active_lanes(store.mask)
        found = self.known_indices(place.offset, self.lanes) if self.lanes > 1 and varying else None
        if active is None or found is None:
            super().store(store)
            return
        value, base, positions = self.operand(store.value, self.lanes), self.buffers[place.buffer], found[:active]
        self.check_positions("stores", place.buffer, positions)
        if _are_contiguous(positions):
            self.store_contiguous_lanes(type, value, base, positions)
            return
        vector = llvm_type(type, self.lanes)
        for lane, number in enumerate(positions):
            element = self.ir.assign(f"extractelement {vector} {value}, i64 {lane}")
            self.ir.emit(f"store {llvm_type(type)} {element}, ptr {self.element(type, base, number)}")

    def store_contiguous_lanes(self, type: ScalarType, value: str, base: str, positions: Lanes) -> None:
        count, vector = len(positions), llvm_type(type, self.lanes)
        if count == 1:
            value = self.ir.assign(f"extractelement {vector} {value}, i64 0")
        elif count < self.lanes:
            chosen = ", ".join(f"i32 {lane}" for lane in range(count))
            value = self.ir.assign(f"shufflevector {vector} {value}, {vector} poison, <{count} x i32> <{chosen}>")
        address = self.element(type, base, positions[0])
        self.ir.emit(f"store {llvm_type(type, count)} {value}, ptr {address}, align {type.byte_size}")


def _is_scalar(loop: For) -> bool:
    """Whether a vector loop runs element by element."""
    is_short = isinstance(loop.extent, int) and loop.extent <= MAX_SCALAR_ELEMENTS
    return loop.width == 1 or (is_short and not loop.carries)


def _are_contiguous(positions: Lanes) -> bool:
    return positions == tuple(range(positions[0], positions[0] + len(positions)))


def _numbers(lanes: Lanes) -> str:
    if len(lanes) == 1:
        return literal(I64, lanes[0])
    return f"<{', '.join(f'i64 {number}' for number in lanes)}>"
