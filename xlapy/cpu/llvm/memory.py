"""Emits operands, index values and memory accesses of loop IR.

Contiguous elements are loaded and stored as one vector. Elements with a small constant stride, forward or backward, are
shuffled out of contiguous vectors and back into them. All others are gathered and scattered.

Responsible for registers of values, addresses, accesses and their masks. Does not depend on control flow or HLO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlapy.cpu.llvm.addresses import AddressCse
from xlapy.cpu.llvm.instrumentation.bounds import KernelBounds
from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type, suffix
from xlapy.cpu.llvm.vectors.shuffles import deinterleave, interleave
from xlapy.loops import (
    I1,
    I32,
    I64,
    Affine,
    Buffer,
    Location,
    Prefetch,
    ScalarType,
    Store,
    Value,
)
from xlapy.loops.ir import Block

_MAX_I32_INDEX = 1 << 31
"""Indices below this value are divided in lanes of 32 bits."""

_MAX_SHUFFLE_STRIDE = 16
"""The largest stride, in elements and in either direction, for which accesses use contiguous vectors and shuffles
instead of gathers and scatters."""


class MemoryEmitter:
    """The state of a kernel emitter, and the methods that access memory."""

    def __init__(self, ir: IrBuilder) -> None:
        self.ir = ir
        self.buffers: dict[object, str] = {}
        self.names: dict[Value, str] = {}
        self.address_cse = AddressCse(self.ir, self.names)
        self.axis: Value | None = None
        self.lanes = 1
        self.mask: str | None = None
        self.tail: int | None = None
        """The number of lanes that the mask selects, if it is known."""
        self.varying: frozenset[Value] = frozenset()
        self.has_nontemporal_stores = False
        """Whether the kernel stores past the caches (nontemporal stores)."""
        self.bounds: KernelBounds | None = None
        """Checks every access, if they are checked."""
        self.contiguous_vectors: dict[tuple[Buffer, Affine], list[str]] = {}
        """The contiguous vectors, loaded in this block or around it, that contain elements with a stride."""

    # -- operands

    def lanes_of(self, value: Value) -> int:
        return self.lanes if value in self.varying else 1

    def scalar(self, value: Value) -> str:
        return literal(value.type, value.attribute) if value.op == "const" else self.names[value]

    def operand(self, value: Value, lanes: int) -> str:
        """Returns the register of a value with the given number of lanes."""
        if value.op == "const":
            return literal(value.type, value.attribute, lanes)
        if value is self.axis:
            return self.lane_indices(Affine.of(value))
        if lanes == 1 or value in self.varying:
            return self.names[value]
        return self.splat(value.type, self.names[value])

    def splat(self, type: ScalarType, scalar: str) -> str:
        vector = llvm_type(type, self.lanes)
        found = self.address_cse.shared((vector, scalar))
        if found is not None:
            return found
        first = self.ir.assign(f"insertelement {vector} poison, {llvm_type(type)} {scalar}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        register = self.ir.assign(f"shufflevector {vector} {first}, {vector} poison, {mask}")
        return self.address_cse.share((vector, scalar), register)

    # -- index values

    def index_value(self, position: Affine, lanes: int = 1) -> str:
        """Returns a register with an affine index."""
        return self.address_cse.integer(position) if lanes == 1 else self.lane_indices(position)

    def divided(self, value: Value, lanes: int) -> str:
        """Emits the quotient or remainder of an index, in lanes of 32 bits if it fits, because wider divisions are
        slow."""
        dividend, divisor = value.attribute
        bounds = dividend.bounds()
        short = lanes > 1 and bounds is not None and bounds[0] >= 0 and bounds[1] < _MAX_I32_INDEX
        type, left = (I32, self.lane_indices(dividend, I32)) if short else (I64, self.index_value(dividend, lanes))
        vector, by = llvm_type(type, lanes), literal(type, divisor, lanes)
        key = (vector, left, divisor)
        result = self.address_cse.shared(key)
        if result is None:
            result = self.address_cse.share(key, self.ir.assign(f"udiv {vector} {left}, {by}"))
        if value.op == "mod":
            result = self.ir.assign(f"sub {vector} {left}, {self.ir.assign(f'mul {vector} {result}, {by}')}")
        return self.ir.assign(f"zext {vector} {result} to {llvm_type(I64, lanes)}") if short else result

    def lane_indices(self, position: Affine, type: ScalarType = I64) -> str:
        """Returns a register with an index in each lane: the part that all lanes share plus the lane offsets."""
        if not position.terms:
            return literal(type, position.constant, self.lanes)
        key = ("lanes", position, type, self.address_cse.integer(self.uniform_part(position)))
        found = self.address_cse.shared(key)
        if found is not None:
            return found
        first, apart = key[-1], self.lane_offsets(position, type)
        if type is not I64 and not first.isdigit():
            first = self.ir.assign(f"trunc i64 {first} to {type.name}")
        total = self.splat(type, first)
        if apart:
            total = self.ir.assign(f"add {llvm_type(type, self.lanes)} {total}, {apart}")
        return self.address_cse.share(key, total)

    def uniform_part(self, position: Affine) -> Affine:
        """Returns the index of the first lane, without terms that vary between lanes for reasons other than the vector
        axis."""
        kept = tuple((v, c) for v, c in position.terms if v is self.axis or v not in self.varying)
        return Affine(kept, position.constant)

    def lane_offsets(self, position: Affine, type: ScalarType = I64) -> str:
        """Returns a register with the difference of each lane from `uniform_part`; an empty string if there is none."""
        vector, total = llvm_type(type, self.lanes), ""
        for value, factor in position.terms:
            if value is self.axis:
                part = f"<{', '.join(f'{type.name} {lane * factor}' for lane in range(self.lanes))}>"
            elif value in self.varying:
                part = self.names[value]
                if type is not I64:
                    part = self.ir.assign(f"trunc {llvm_type(I64, self.lanes)} {part} to {vector}")
                if factor != 1:
                    part = self.ir.assign(f"mul {vector} {part}, {literal(type, factor, self.lanes)}")
            else:
                continue
            total = self.ir.assign(f"add {vector} {total}, {part}") if total else part
        return total

    # -- memory

    def address(self, place: Location, elements: int = 0) -> str:
        """Returns the address of an element, of lane 0 in a vector, plus a number of elements."""
        return self.address_cse.address(self.buffers[place.buffer], place.buffer.type, place.offset + elements)

    def check(self, verb: str, place: Location, first: int = 0, count: int = 1) -> None:
        """Checks an access of consecutive elements, if accesses are checked. verb: `loads` or `stores`."""
        if self.bounds is not None:
            self.bounds.check(self.ir, verb, place.buffer, self.address_cse.integer(place.offset + first), count)

    def check_lanes(self, verb: str, place: Location, mask: str | None, count: int = 1) -> None:
        """Checks an access of `count` consecutive elements in each active lane, if accesses are checked."""
        if self.bounds is not None:
            for offset in dict.fromkeys((place.offset, place.offset + (count - 1))):
                self.bounds.check_lanes(self.ir, verb, place.buffer, self.lane_indices(offset), self.lanes, mask)

    def stride(self, place: Location, type: ScalarType | None = None) -> int | None:
        """Returns the distance between the elements of consecutive lanes; None if it is not constant.

        type: counts in elements of this type instead of the buffer's; None if the distance is not a multiple.
        """
        if type is not None and type is not place.buffer.type:
            stride, count = self.stride(place), type.byte_size // place.buffer.type.byte_size
            return None if stride is None or stride % count else stride // count
        for value, _ in place.offset.terms:
            if value in self.varying and value is not self.axis:
                return None
        return 0 if self.axis is None else place.offset.coefficient(self.axis)

    def lane_mask(self, mask: Value | None) -> str | None:
        """Returns the mask of active lanes: those of the tail and of the statement's own mask."""
        if mask is None:
            return self.mask
        own = self.operand(mask, self.lanes)
        return own if self.mask is None else self.ir.assign(f"and {llvm_type(I1, self.lanes)} {own}, {self.mask}")

    def load(self, value: Value) -> str:
        place, masked = value.attribute
        mask = value.args[-2] if masked else None
        if value not in self.varying:
            return self.load_scalar(value, place, mask)
        stride, lanes = self.stride(place, value.type), self.lane_mask(mask)
        vector, size = llvm_type(value.type, self.lanes), place.buffer.type.byte_size
        count = value.type.byte_size // size
        otherwise = self.operand(value.args[-1], self.lanes) if masked else "poison"
        if stride == 0:
            return self.gather(value.type, place, lanes, otherwise)
        if stride == 1:
            address = self.address(place)
            if lanes is None:
                self.check("loads", place, 0, self.lanes * count)
                return self.ir.assign(f"load {vector}, ptr {address}, align {size}")
            self.check_lanes("loads", place, lanes, count)
            return self.masked_load(value.type, address, lanes, otherwise, size)
        if count == 1 and lanes is None and stride is not None and 1 < abs(stride) <= _MAX_SHUFFLE_STRIDE:
            return self.load_strided(value.type, place, stride)
        if count == 1 and stride == -1 and lanes is None:
            address = self.address(place, 1 - self.lanes)
            self.check("loads", place, 1 - self.lanes, self.lanes)
            return self.reverse_lanes(
                vector, self.ir.assign(f"load {vector}, ptr {address}, align {value.type.byte_size}")
            )
        return self.gather(value.type, place, lanes, otherwise)

    def load_strided(self, type: ScalarType, place: Location, stride: int) -> str:
        """Loads elements with a constant stride: as many contiguous vectors, and shuffles."""
        offset, size, lanes = place.offset, place.buffer.size, range(self.lanes)
        if stride < 0:  # the last lane has the first element
            offset, stride, lanes = offset + (self.lanes - 1) * stride, -stride, range(self.lanes - 1, -1, -1)
        if size % stride or any(factor % stride for _, factor in offset.terms):
            # the last vector ends with the last element, so that nothing after it is read
            last = (self.lanes - 1) * (stride - 1)
            offsets = [*range(0, last, self.lanes), last]
            vectors = self.load_contiguous(type, place.buffer, offset, offsets)
            return deinterleave(self.ir, type, vectors, [lane * stride for lane in lanes], offsets)
        # the array consists of groups of `stride` elements: other loads use other elements of the same vectors
        rest = offset.constant % stride
        first, offsets = offset - rest, list(range(0, stride * self.lanes, self.lanes))
        key = (place.buffer, first)
        known = self.contiguous_vectors.get(key)
        if known is None:
            known = self.load_contiguous(type, place.buffer, first, offsets)
            if not place.buffer.written:
                self.contiguous_vectors[key] = known
        return deinterleave(self.ir, type, known, [rest + lane * stride for lane in lanes], offsets)

    def load_contiguous(self, type: ScalarType, buffer: Buffer, start: Affine, offsets: Sequence[int]) -> list[str]:
        """Loads contiguous vectors that start at the given offsets from lane 0."""
        place, vector = Location(buffer, start), llvm_type(type, self.lanes)
        addresses = [self.address(place, offset) for offset in offsets]
        for offset in offsets:
            self.check("loads", place, offset, self.lanes)
        return [self.ir.assign(f"load {vector}, ptr {address}, align {type.byte_size}") for address in addresses]

    def reverse_lanes(self, vector: str, register: str) -> str:
        lanes = ", ".join(f"i32 {lane}" for lane in reversed(range(self.lanes)))
        return self.ir.assign(f"shufflevector {vector} {register}, {vector} poison, <{self.lanes} x i32> <{lanes}>")

    def load_scalar(self, value: Value, place: Location, mask: Value | None) -> str:
        type, address = llvm_type(value.type), self.address(place)
        size = place.buffer.type.byte_size
        count = value.type.byte_size // size
        alignment = f", align {size}" if count > 1 else ""
        if mask is None:
            self.check("loads", place, 0, count)
            return self.ir.assign(f"load {type}, ptr {address}{alignment}")
        taken, after = self.ir.new_label("load"), self.ir.new_label("loaded")
        before = self.ir.label
        otherwise = self.scalar(value.args[-1])
        self.ir.cond_br(self.scalar(mask), taken, after)
        with self.address_cse.inside():
            self.ir.start_block(taken)
            self.check("loads", place, 0, count)
        loaded = self.ir.assign(f"load {type}, ptr {address}{alignment}")
        end = self.ir.label
        self.ir.br(after)
        self.ir.start_block(after)
        return self.ir.assign(f"phi {type} [ {otherwise}, %{before} ], [ {loaded}, %{end} ]")

    def masked_load(self, type: ScalarType, address: str, mask: str, otherwise: str, alignment: int) -> str:
        vector = llvm_type(type, self.lanes)
        name = f"llvm.masked.load.{suffix(type, self.lanes)}.p0"
        arguments = [(f"ptr align {alignment}", address), (llvm_type(I1, self.lanes), mask), (vector, otherwise)]
        return self.intrinsic(vector, name, arguments)

    def gather(self, type: ScalarType, place: Location, mask: str | None, otherwise: str) -> str:
        size = place.buffer.type.byte_size
        self.check_lanes("loads", place, mask, type.byte_size // size)
        pointers = self.lane_addresses(place)
        vector, bits = llvm_type(type, self.lanes), llvm_type(I1, self.lanes)
        chosen = literal(I1, 1, self.lanes) if mask is None else mask
        name = f"llvm.masked.gather.{suffix(type, self.lanes)}.v{self.lanes}p0"
        arguments = [(f"<{self.lanes} x ptr> align {size}", pointers), (bits, chosen), (vector, otherwise)]
        return self.intrinsic(vector, name, arguments)

    def lane_addresses(self, place: Location) -> str:
        kind = I32 if self.fits_32_bits(place.offset) else I64
        apart = self.lane_offsets(place.offset, kind) or literal(kind, 0, self.lanes)
        base = self.address(Location(place.buffer, self.uniform_part(place.offset)))
        type, positions = llvm_type(place.buffer.type), llvm_type(kind, self.lanes)
        return self.ir.assign(f"getelementptr {type}, ptr {base}, {positions} {apart}")

    def fits_32_bits(self, position: Affine) -> bool:
        """Whether 32 bits can hold the distances between lanes, so that one vector register holds all of them."""
        varying = tuple((v, c) for v, c in position.terms if v is not self.axis and v in self.varying)
        limits = Affine(varying).bounds()
        apart = self.lanes * abs(0 if self.axis is None else position.coefficient(self.axis))
        return limits is not None and max(abs(limits[0]), abs(limits[1])) + apart < 1 << 31

    def store(self, store: Store) -> None:
        place, type = store.location, store.location.buffer.type
        varying = any(v in self.varying for v, _ in place.offset.terms) or store.value in self.varying
        if self.lanes == 1 or not (varying or (store.mask is not None and store.mask in self.varying)):
            self.store_scalar(store)
            return
        vector = llvm_type(type, self.lanes)
        value, mask = self.operand(store.value, self.lanes), self.lane_mask(store.mask)
        if self.stride(place) == 1:
            address = self.address(place)
            if mask is None:
                self.store_vector(place, 0, f"{vector} {value}, ptr {address}")
                return
            # LLVM 22 stores too many bytes of a truncated number under a constant mask of one lane
            if store.mask is None and self.tail == 1:
                self.check("stores", place)
                first = self.ir.assign(f"extractelement {vector} {value}, i64 0")
                self.ir.emit(f"store {llvm_type(type)} {first}, ptr {address}, align {type.byte_size}")
                return
            if type.bits < 32 and (store.mask is not None or self.tail is None):
                mask = self.ir.assign(f"and {llvm_type(I1, self.lanes)} {mask}, {unknown_mask(self.ir, self.lanes)}")
            self.check_lanes("stores", place, mask)
            name = f"llvm.masked.store.{suffix(type, self.lanes)}.p0"
            pointer = (f"ptr align {type.byte_size}", address)
        elif self.stride(place) == -1 and mask is None:
            address = self.address(place, 1 - self.lanes)
            self.check("stores", place, 1 - self.lanes, self.lanes)
            self.ir.emit(f"store {vector} {self.reverse_lanes(vector, value)}, ptr {address}, align {type.byte_size}")
            return
        else:
            self.check_lanes("stores", place, mask)
            mask = literal(I1, 1, self.lanes) if mask is None else mask
            name = f"llvm.masked.scatter.{suffix(type, self.lanes)}.v{self.lanes}p0"
            pointer = (f"<{self.lanes} x ptr> align {type.byte_size}", self.lane_addresses(place))
        self.intrinsic("void", name, [(vector, value), pointer, (llvm_type(I1, self.lanes), mask)])

    def interleaved_stores(self, block: Block) -> dict[Store, list[Store]]:
        """Finds groups of strided stores that together fill contiguous memory; maps each store to its group."""
        found: dict[Store, list[Store]] = {}
        if self.lanes == 1 or self.mask is not None:
            return found
        for stores in _store_runs(block):
            by_buffer: dict[Buffer, list[Store]] = {}
            for store in stores:
                by_buffer.setdefault(store.location.buffer, []).append(store)
            for group in by_buffer.values():
                for together in self.interleaved_groups(group):
                    found.update(dict.fromkeys(together, together))
        return found

    def interleaved_groups(self, stores: list[Store]) -> list[list[Store]]:
        """Splits the stores to one buffer into groups that fill memory; returns nothing if that is not possible."""
        stride = abs(self.stride(stores[0].location) or 0)
        groups = [stores[n : n + stride] for n in range(0, len(stores), max(stride, 1))]
        return groups if 1 < stride <= _MAX_SHUFFLE_STRIDE and all(map(self.fills_memory, groups)) else []

    def fills_memory(self, stores: Sequence[Store]) -> bool:
        """Whether as many stores as their stride write to adjacent elements, each exactly once."""
        places = sorted(store.location.offset.constant for store in stores)
        alike = all(s.location.offset.terms == stores[0].location.offset.terms and s.mask is None for s in stores)
        is_group = len(stores) == abs(self.stride(stores[0].location) or 0)
        return alike and is_group and places == list(range(places[0], places[0] + len(stores)))

    def store_interleaved(self, stores: Sequence[Store]) -> None:
        """Stores interleaved elements as contiguous vectors."""
        ordered = sorted(stores, key=lambda store: store.location.offset.constant)
        place, type = ordered[0].location, ordered[0].value.type
        registers = [self.operand(store.value, self.lanes) for store in ordered]
        vector, stride = llvm_type(type, self.lanes), self.stride(place) or 0
        first = min(0, stride * (self.lanes - 1))
        for number, register in enumerate(interleave(self.ir, type, registers, self.lanes, reverse=stride < 0)):
            offset = first + number * self.lanes
            self.store_vector(place, offset, f"{vector} {register}, ptr {self.address(place, offset)}")

    def store_vector(self, place: Location, offset: int, store: str) -> None:
        """Stores a vector, past the caches if the buffer asks for it and the vector is a whole cache line.

        offset: the number of elements from the location to those that `store` names.
        """
        self.check("stores", place, offset, self.lanes)
        size = place.buffer.type.byte_size
        if place.buffer.nontemporal and size * self.lanes == 64:
            self.ir.declarations.add("!0 = !{i32 1}")
            self.has_nontemporal_stores = True
            self.ir.emit(f"store {store}, align 64, !nontemporal !0")
        else:
            self.ir.emit(f"store {store}, align {size}")

    def store_scalar(self, store: Store) -> None:
        after, address = "", self.address(store.location)
        if store.mask is not None:
            taken, after = self.ir.new_label("store"), self.ir.new_label("stored")
            self.ir.cond_br(self.scalar(store.mask), taken, after)
            with self.address_cse.inside():
                self.ir.start_block(taken)
                self.check("stores", store.location)
        else:
            self.check("stores", store.location)
        self.ir.emit(f"store {llvm_type(store.location.buffer.type)} {self.scalar(store.value)}, ptr {address}")
        if after:
            self.ir.br(after)
            self.ir.start_block(after)

    def prefetch(self, statement: Prefetch) -> None:
        self.ir.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        address = self.address(statement.location)
        writes, locality = (1, 3) if statement.for_write else (0, 2)
        self.ir.emit(f"call void @llvm.prefetch.p0(ptr {address}, i32 {writes}, i32 {locality}, i32 1)")

    def intrinsic(self, result: str, name: str, arguments: list[tuple[str, str]]) -> str:
        """Emits a call of an intrinsic. The types of its arguments may have attributes, which its declaration must not
        have."""
        types = ", ".join(type.split(" align ")[0] for type, _ in arguments)
        self.ir.declarations.add(f"declare {result} @{name}({types})")
        given = ", ".join(f"{type} {value}" for type, value in arguments)
        if result == "void":
            self.ir.emit(f"call void @{name}({given})")
            return ""
        return self.ir.assign(f"call {result} @{name}({given})")


def _store_runs(block: Block) -> Iterator[list[Store]]:
    """Yields runs of stores between which no statement reads memory or contains other statements."""
    run: list[Store] = []
    for statement in block.statements:
        if isinstance(statement, Store):
            run.append(statement)
        elif not isinstance(statement, Value) or statement.op == "load":
            yield run
            run = []
    yield run


def unknown_mask(ir: IrBuilder, lanes: int) -> str:
    """Emits conditions that are all true, which LLVM does not know; returns their register."""
    integer = "i32" if lanes <= 32 else "i64"
    bits = ir.assign(f'call {integer} asm "", "=r,0"({integer} -1)')
    if integer != f"i{lanes}":
        bits = ir.assign(f"trunc {integer} {bits} to i{lanes}")
    return ir.assign(f"bitcast i{lanes} {bits} to {llvm_type(I1, lanes)}")
