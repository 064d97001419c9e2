"""Emits the addresses of buffer slices and copies between them; base of the program emitter.

Responsible for the text of the LLVM module under construction and for how a function finds memory. Does not depend on
what thunks compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xlapy.analysis.memory.graph import ALIGNMENT
from xlapy.cpu.llvm.parallel.parts import ModuleParts
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.llvm.unrolled import MAX_SCALAR_ELEMENTS
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.outlining import MAX_STACK_SLOT_BYTES
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk

_ATTRIBUTES = """attributes #0 = { nounwind "no-builtins" }
attributes #1 = { noinline nounwind optnone "no-builtins" }"""
"""The attributes of functions that LLVM optimizes, and of others."""

_MAX_COPY_VECTOR_BYTES = 64
"""The size of the vectors in which small arrays are copied."""

MAX_UNROLLED_STORES = 64
"""The largest number of addresses that are stored one by one."""

_STORE_ADDRESSES = """define internal void @store_addresses(ptr %table, ptr %base, ptr %rows, i64 %count) noinline #0 {
entry:
  br label %store
store:
  %number = phi i64 [ 0, %entry ], [ %next, %store ]
  %row = getelementptr inbounds [3 x i64], ptr %rows, i64 %number
  %index = load i64, ptr %row
  %skipped.at = getelementptr inbounds i8, ptr %row, i64 8
  %skipped = load i64, ptr %skipped.at
  %offset.at = getelementptr inbounds i8, ptr %row, i64 16
  %offset = load i64, ptr %offset.at
  %entry.at = getelementptr inbounds ptr, ptr %table, i64 %index
  %start = load ptr, ptr %entry.at
  %address = getelementptr inbounds i8, ptr %start, i64 %skipped
  %place = getelementptr inbounds i8, ptr %base, i64 %offset
  store ptr %address, ptr %place
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %store, label %done
done:
  ret void
}"""
"""Stores the addresses of slices. A row of its table has the entry of the address table, the offset in the memory at
that address, and the offset from `base`."""


@dataclass
class FunctionState:
    """An LLVM function under construction."""

    ir: IrBuilder = field(default_factory=IrBuilder)
    vectors: frozenset[BufferSlice] = frozenset()
    """The stack slots that are one value each."""
    bases: dict[int, str] = field(default_factory=dict[int, str])
    """The registers with entries of the address table."""
    pointers: dict[BufferSlice, str] = field(default_factory=dict[BufferSlice, str])
    """The registers with addresses of slices that are computed once."""
    prologue: list[str] = field(default_factory=list[str])
    """The instructions at the start of the function."""
    can_fail: bool = False
    """Whether the function may return 1."""
    unrolled: list[KernelThunk] = field(default_factory=list[KernelThunk])
    """The kernels that are emitted inline."""
    last_ticks: str = ""
    """The register with the clock at the end of the last counter, if no thunk has run since; else empty."""
    iteration_counts: dict[ProfilingCounter, str] = field(default_factory=dict[ProfilingCounter, str])
    """The stack slots in which the iterations of loops are counted."""
    loop_depth: int = 0
    """The number of loops around the current position."""
    cycles_since_poll: int = 0


class ProgramMemoryEmitter:
    """The text of the LLVM module, and the methods that compute addresses and copy memory."""

    def __init__(self, program: NativeProgram, on_part: Callable[[str], None] | None = None) -> None:
        self.program = program
        self.declarations: set[str] = set()
        self.functions = ModuleParts(self.declarations, _ATTRIBUTES, on_part)
        """The definitions of functions and constants."""
        self.imports: set[str] = set()
        """The functions of other modules and libraries that the module calls."""
        self._address_tables = 0
        self._constants: dict[BufferSlice, str] = {}

    # -- addresses

    def address(self, function: FunctionState, slice_: BufferSlice) -> str:
        """Returns a register with the address of a slice.

        Outside of loops the address is loaded where it is used, so that few registers are live at a time. In loops it
        is loaded once, at the start of the function.
        """
        if slice_ in function.pointers:
            return function.pointers[slice_]
        if slice_.storage is StorageClass.STACK:
            self.add_stack_slot(function, slice_)
            return function.pointers[slice_]
        if function.loop_depth and slice_.storage is not StorageClass.SHARED:
            function.pointers[slice_] = self.prologue_address(function, slice_)
            return function.pointers[slice_]
        index = self.program.table_index(slice_)
        if slice_.storage is StorageClass.TEMPORARY:
            base = self.table_entry(function, index)
            return function.ir.assign(f"getelementptr inbounds i8, ptr {base}, i64 {slice_.offset}")
        entry = function.ir.assign(f"getelementptr inbounds ptr, ptr %table, i64 {index}")
        return function.ir.assign(f"load ptr, ptr {entry}")

    def add_stack_slot(self, function: FunctionState, slice_: BufferSlice) -> None:
        """Allocates a slice on the stack of the function. A constant becomes a constant of the module instead."""
        if slice_.storage is StorageClass.CONSTANT:
            function.pointers[slice_] = self.module_constant(slice_)
            return
        name = function.pointers[slice_] = function.ir.fresh_name("h")
        function.prologue.append(f"  {name} = alloca [{slice_.size} x i8], align {ALIGNMENT}")

    def module_constant(self, slice_: BufferSlice) -> str:
        """Returns the name of a module constant with the elements of a slice, which LLVM can fold."""
        found = self._constants.get(slice_)
        if found is None:
            assert slice_.data is not None
            found = self._constants[slice_] = f"@constant{slice_.number}"
            data = "".join(f"\\{byte:02X}" for byte in slice_.data.tobytes())
            text = f'private unnamed_addr constant [{slice_.size} x i8] c"{data}", align {ALIGNMENT}'
            self.functions.append(f"{found} = {text}")
        return found

    def prologue_address(self, function: FunctionState, slice_: BufferSlice) -> str:
        """Returns a register with the address of a slice in the program's memory, computed in the prologue."""
        base = self.table_entry(function, self.program.table_index(slice_))
        if slice_.storage is not StorageClass.TEMPORARY or not slice_.offset:
            return base
        name = function.ir.fresh_name("s")
        function.prologue.append(f"  {name} = getelementptr inbounds i8, ptr {base}, i64 {slice_.offset}")
        return name

    def table_entry(self, function: FunctionState, index: int) -> str:
        """Returns a register with an entry of the address table, loaded in the prologue."""
        found = function.bases.get(index)
        if found is None:
            entry, found = function.ir.fresh_name("e"), function.ir.fresh_name("m")
            function.prologue.append(f"  {entry} = getelementptr inbounds ptr, ptr %table, i64 {index}")
            function.prologue.append(f"  {found} = load ptr, ptr {entry}")
            function.bases[index] = found
        return found

    def store_addresses(
        self, function: FunctionState, base: str, slices: Sequence[BufferSlice], offsets: Sequence[int]
    ) -> None:
        """Emits the stores of the addresses of slices, each at an offset in bytes from `base`.

        Few are stored one by one, each next to the computation of its address, so that few are live at a time. Many are
        stored by a loop over a table, because LLVM's time grows faster than the length of a basic block.
        """
        rows: list[str] = []
        for slice_, offset in zip(slices, offsets, strict=True):
            if len(slices) <= MAX_UNROLLED_STORES or slice_.storage is StorageClass.STACK:
                place = function.ir.assign(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
                function.ir.emit(f"store ptr {self.address(function, slice_)}, ptr {place}")
                continue
            skipped = slice_.offset if slice_.storage is StorageClass.TEMPORARY else 0
            rows += [f"i64 {number}" for number in (self.program.table_index(slice_), skipped, offset)]
        if rows:
            if not self._address_tables:
                self.functions.append(_STORE_ADDRESSES)
            name = f"@addresses{self._address_tables}"
            self._address_tables += 1
            self.functions.append(f"{name} = private unnamed_addr constant [{len(rows)} x i64] [{', '.join(rows)}]")
            count = len(rows) // 3
            function.ir.emit(f"call void @store_addresses(ptr %table, ptr {base}, ptr {name}, i64 {count})")

    # -- copies

    def copy(self, function: FunctionState, thunk: CopyThunk) -> None:
        if not thunk.source.size:
            return
        target, source = self.address(function, thunk.target), self.address(function, thunk.source)
        if thunk.source.storage is StorageClass.SHARED:
            self.copy_or_clear(function, target, source, thunk.source.size)
            return
        if thunk.source.size > MAX_STACK_SLOT_BYTES:
            function.ir.emit(self.memmove(target, source, thunk.source.size))
            return
        for offset, type in _copy_vectors(thunk.source):
            from_ = function.ir.assign(f"getelementptr inbounds i8, ptr {source}, i64 {offset}")
            value = function.ir.assign(f"load {type}, ptr {from_}, align 1")
            to = function.ir.assign(f"getelementptr inbounds i8, ptr {target}, i64 {offset}")
            function.ir.emit(f"store {type} {value}, ptr {to}, align 1")

    def copy_or_clear(self, function: FunctionState, target: str, source: str, size: int) -> None:
        """Copies memory, or fills the target with zeros if the source is null."""
        ir = function.ir
        absent, present, after = [ir.new_label(p) for p in ("absent", "present", "copied")]
        ir.cond_br(ir.assign(f"icmp eq ptr {source}, null"), absent, present)
        ir.start_block(absent)
        self.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        ir.emit(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")
        ir.br(after)
        ir.start_block(present)
        ir.emit(self.memmove(target, source, size))
        ir.br(after)
        ir.start_block(after)

    def memmove(self, target: str, source: str, size: int | str) -> str:
        """Returns the instruction that copies a number of bytes, a constant or a register."""
        self.declarations.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        return f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"


def _copy_vectors(slice_: BufferSlice) -> Iterator[tuple[int, str]]:
    """Yields the offsets and types of the vectors, or of the numbers, in which a small array is copied.

    LLVM promotes to registers only stack slots that are loaded and stored as values; memmove would keep them in memory.
    """
    t = slice_.shape.element_type
    width = t.byte_size // (2 if t.is_complex else 1)
    if slice_.size <= width * MAX_SCALAR_ELEMENTS:
        yield from ((offset, f"i{8 * width}") for offset in range(0, slice_.size, width))
        return
    for offset in range(0, slice_.size, _MAX_COPY_VECTOR_BYTES):
        count = min(_MAX_COPY_VECTOR_BYTES, slice_.size - offset) // width
        yield offset, f"i{8 * width}" if count == 1 else f"<{count} x i{8 * width}>"
