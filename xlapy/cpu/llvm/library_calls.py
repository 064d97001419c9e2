"""Emits calls of library functions: one LLVM function per `LibraryCallThunk`.

    void @library(ptr %block, i64 %begin, i64 %end)

makes the calls from `begin` to `end` of a batch. The block holds the addresses of the thunk's slices. `begin` is the
first call of a task, and determines the task's workspace.

Responsible for this code. Does not depend on what the library functions do.
"""

from __future__ import annotations

from xlapy.base.float_formats import DOUBLE, SINGLE
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.thunks import LibraryArray, LibraryCallThunk, LibraryScratch

LIBRARY_DECLARATIONS = frozenset({"declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"})

_NOT_FINITE = -4
"""The value of the last argument if the function is not called because an array is not finite."""

_EXPONENT = {4: ("i32", SINGLE.infinity_code), 8: ("i64", DOUBLE.infinity_code)}
"""By the width of a float in bytes: the integer type of that width, and the exponent bits, which are all 1 in
infinities and NaN."""


def library_declaration(thunk: LibraryCallThunk) -> str:
    types = ["ptr"] * len(thunk.arguments) + ["i64"] * thunk.character_arguments
    return f"declare void @{thunk.symbol}({', '.join(types)})"


def library_call_text(thunk: LibraryCallThunk) -> str:
    """Returns the function of a thunk under the name `library`."""
    ir = IrBuilder()
    slices = [_loaded(ir, number) for number in range(len(thunk.slices))]
    task = ir.assign(f"udiv i64 %begin, {thunk.grain}")
    offset = ir.assign(f"mul i64 {task}, {thunk.scratch_size}")
    scratch = ir.assign(f"getelementptr inbounds i8, ptr {slices[-1]}, i64 {offset}")
    known = [_constant(ir, a) if isinstance(a, bytes) else a for a in thunk.arguments]
    ir.br("call")
    ir.start_block("call")
    ir.emit("%number = phi i64 [ %begin, %entry ], [ %following, %called ]")
    for array in thunk.zero_initialized:
        place = _place(ir, slices, array)
        ir.emit(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {array.size}, i1 false)")
    pointers = [a if isinstance(a, str) else _pointer(ir, slices, scratch, a) for a in known]
    if thunk.must_be_finite is not None:
        _unless_finite(ir, thunk, _place(ir, slices, thunk.must_be_finite), pointers[-1])
    given = [f"ptr {pointer}" for pointer in pointers] + ["i64 1"] * thunk.character_arguments
    ir.emit(f"call void @{thunk.symbol}({', '.join(given)})")
    ir.br("called")
    ir.start_block("called")
    ir.emit("%following = add i64 %number, 1")
    ir.cond_br(ir.assign("icmp slt i64 %following, %end"), "call", "done")
    ir.start_block("done")
    ir.emit("ret void")
    head = "define internal void @library(ptr %block, i64 %begin, i64 %end) #0 {\nentry:\n"
    return head + "\n".join(ir.lines) + "\n}\n"


def _loaded(ir: IrBuilder, number: int) -> str:
    place = ir.assign(f"getelementptr inbounds ptr, ptr %block, i64 {number}")
    return ir.assign(f"load ptr, ptr {place}")


def _constant(ir: IrBuilder, value: bytes) -> str:
    """Returns the address of a copy of some bytes on the stack: Fortran functions may require writable arguments."""
    bits = 8 * len(value)
    place = ir.assign(f"alloca i{bits}, align 16")
    ir.emit(f"store i{bits} {int.from_bytes(value, 'little')}, ptr {place}")
    return place


def _place(ir: IrBuilder, slices: list[str], array: LibraryArray) -> str:
    offset = ir.assign(f"mul i64 %number, {array.size}")
    if array.offset:
        offset = ir.assign(f"add i64 {offset}, {array.offset}")
    return ir.assign(f"getelementptr inbounds i8, ptr {slices[array.slice_index]}, i64 {offset}")


def _pointer(ir: IrBuilder, slices: list[str], scratch: str, argument: LibraryArray | LibraryScratch | None) -> str:
    if argument is None:
        return "null"
    if isinstance(argument, LibraryArray):
        return _place(ir, slices, argument)
    return ir.assign(f"getelementptr inbounds i8, ptr {scratch}, i64 {argument.offset}")


def _unless_finite(ir: IrBuilder, thunk: LibraryCallThunk, array: str, last: str) -> None:
    """Emits a check of an array: skips the call if one of its floats has an exponent of all ones."""
    assert thunk.must_be_finite is not None
    type, exponent = _EXPONENT[thunk.element_bytes]
    ir.br("check")
    ir.start_block("check")
    ir.emit("%place = phi i64 [ 0, %call ], [ %next, %finite ]")
    ir.cond_br(ir.assign(f"icmp slt i64 %place, {thunk.must_be_finite.size // thunk.element_bytes}"), "read", "compute")
    ir.start_block("read")
    address = ir.assign(f"getelementptr inbounds {type}, ptr {array}, i64 %place")
    bits = ir.assign(f"and {type} {ir.assign(f'load {type}, ptr {address}')}, {exponent}")
    ir.cond_br(ir.assign(f"icmp eq {type} {bits}, {exponent}"), "refuse", "finite")
    ir.start_block("finite")
    ir.emit("%next = add i64 %place, 1")
    ir.br("check")
    ir.start_block("refuse")
    ir.emit(f"store i32 {_NOT_FINITE}, ptr {last}")
    ir.br("called")
    ir.start_block("compute")
