"""Emits bounds checks of memory accesses, for the flag `check_bounds`.

    void @out_of_bounds(ptr %table, i64 %access, i64 %element)

stores an access that is out of bounds in the record, unless another thread has stored one, and

    i32 @bounds_status(ptr %table)

returns 0, or reports the stored access to the host and returns 1.

Responsible for this code. Does not depend on how kernels compute indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type
from xlapy.cpu.program.bounds_records import BoundsChecks, CheckedAccess
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.thunks import KernelThunk
from xlapy.loops import I1, I64, Buffer
from xlapy.native.function import Function, native
from xlapy.native.ir import RELAXED
from xlapy.native.llvm import function_text
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Bool, Word

LEAVE_KERNEL = ("ret void",)
LEAVE_PROGRAM = ("call i32 @bounds_status(ptr %table)", "br label %failed")
"""What follows an access out of bounds in a kernel that is a function, and in one that is unrolled in the program."""


@dataclass(slots=True)
class KernelBounds:
    """Emits the checks of one kernel. slices: the memory of its buffers. leave: the instructions after a report."""

    checks: BoundsChecks
    thunk: KernelThunk
    leave: Sequence[str]
    slices: Mapping[Buffer, BufferSlice]

    @staticmethod
    def of(checks: BoundsChecks | None, thunk: KernelThunk, leave: Sequence[str]) -> KernelBounds | None:
        """Returns the checks of a kernel, or None if accesses are not checked."""
        if checks is None:
            return None
        return KernelBounds(checks, thunk, leave, dict(zip(thunk.kernel.buffers, thunk.slices, strict=True)))

    def check(self, ir: IrBuilder, verb: str, buffer: Buffer, element: str, count: int | str) -> None:
        """Emits the check of `count` consecutive elements from an index on. verb: `loads` or `stores`."""
        access = self._access(verb, buffer)
        if isinstance(count, int):
            good = ir.assign(f"icmp ule i64 {element}, {access.size - count}") if access.size >= count else "false"
        else:
            below = ir.assign(f"icmp ule i64 {element}, {access.size}")
            left = ir.assign(f"sub i64 {access.size}, {element}")
            good = ir.assign(f"and i1 {below}, {ir.assign(f'icmp ule i64 {count}, {left}')}")
        self._require(ir, good, access, element)

    def check_lanes(
        self, ir: IrBuilder, verb: str, buffer: Buffer, elements: str, lanes: int, mask: str | None
    ) -> None:
        """Emits the check of one element per lane. mask: the active lanes; the indices of others may be poison."""
        access = self._access(verb, buffer)
        vector, bits = llvm_type(I64, lanes), llvm_type(I1, lanes)
        outside = ir.assign(f"icmp uge {vector} {elements}, {literal(I64, access.size, lanes)}")
        if mask is not None:
            outside = ir.assign(f"select {bits} {mask}, {bits} {outside}, {bits} zeroinitializer")
        some = ir.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", [(bits, outside)])
        good = ir.assign(f"xor i1 {some}, true")
        chosen = ir.assign(f"select {bits} {outside}, {vector} {elements}, {vector} zeroinitializer")
        farthest = ir.call("i64", f"llvm.vector.reduce.umax.v{lanes}i64", [(vector, chosen)])
        self._require(ir, good, access, farthest)

    def _access(self, verb: str, buffer: Buffer) -> CheckedAccess:
        thunk = self.thunk
        return CheckedAccess(thunk.op_name, thunk.kernel.name, verb, buffer, self.slices.get(buffer))

    def _require(self, ir: IrBuilder, good: str, access: CheckedAccess, element: str) -> None:
        outside, inside = ir.new_label("outside"), ir.new_label("inside")
        ir.cond_br(good, inside, outside)
        ir.start_block(outside)
        ir.emit(f"call void @out_of_bounds(ptr %table, i64 {self.checks.number(access)}, i64 {element})")
        for line in self.leave:
            ir.emit(line)
        ir.start_block(inside)


class BoundsRecord(Record):
    """access: the number of the first access that was out of bounds, or 0. element: its index, written by the thread
    that stored the access; the program reads it after all threads of the kernel have finished."""

    access: Atomic[Word]
    element: Owned[Word]


@native
def store_access(f: Function, record: BoundsRecord, access: Word, element: Word) -> None:
    """Stores an access, unless another thread has stored one."""
    _, is_first = record.access.compare_exchange(0, access, RELAXED, RELAXED)
    with f.when(is_first):
        record.element = element


@native
def has_access(f: Function, record: BoundsRecord) -> Bool:
    """Whether an access was stored."""
    return record.access.load(RELAXED) != 0


@native
def clear_access(f: Function, record: BoundsRecord) -> None:
    """Empties the record. No other thread uses it."""
    record.access.store(0, RELAXED)


def clear_record(checks: BoundsChecks) -> list[str]:
    """Returns the instructions at the start of a program that mark the record as empty."""
    return [
        "  %bounds.arena = load ptr, ptr %table",
        f"  %bounds.record = getelementptr i8, ptr %bounds.arena, i64 {checks.record.offset}",
        f"  call void @{clear_access.name}(ptr %bounds.record)",
    ]


def bounds_functions(checks: BoundsChecks) -> str:
    """Returns the functions, which call `host_callback`."""
    offset = checks.record.offset
    functions = [function_text(one.built(), attributes="#0") for one in (store_access, has_access, clear_access)]
    text = f"""define internal void @out_of_bounds(ptr %table, i64 %access, i64 %element) noinline #0 {{
  %arena = load ptr, ptr %table
  %record = getelementptr i8, ptr %arena, i64 {offset}
  call void @{store_access.name}(ptr %record, i64 %access, i64 %element)
  ret void
}}
define internal i32 @bounds_status(ptr %table) noinline #0 {{
entry:
  %arena = load ptr, ptr %table
  %record = getelementptr i8, ptr %arena, i64 {offset}
  %is.bad = call i1 @{has_access.name}(ptr %record)
  br i1 %is.bad, label %bad, label %good
good:
  ret i32 0
bad:
  %status = call i32 @host_callback(ptr %table, i64 {checks.thunk.number})
  ret i32 1
}}"""
    return "\n".join([*("\n".join(lines) for lines in functions), text])
