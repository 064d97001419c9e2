"""Emits direct calls of native custom-call targets, by a call frame of XLA's typed interface or by a C signature.

A call reads everything that it needs from a call block, whose address is in the address table: the code to call, and
where to store the addresses of arrays. If a block is not ready, the host is called first. The status that the target
returns is stored in the block.

Responsible for this code. Does not depend on which targets exist or on what the addresses in a block refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import sizeof

from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.shared_records import CallBlockField
from xlapy.cpu.program.thunks import CallbackThunk
from xlapy.custom_calls.ffi.structures import Buffer, CallFrame

_FRAMES = 4

StoreAddresses = Callable[[str, Sequence[BufferSlice], Sequence[int]], None]
"""Emits the stores of the addresses of slices, each at an offset in bytes from an address."""

DECLARATIONS = {"declare i64 @llvm.vector.reduce.or.v8i64(<8 x i64>)"}


def emit_target_call(ir: IrBuilder, thunk: CallbackThunk, block_index: int, store_addresses: StoreAddresses) -> str:
    """Emits the stores of the arrays' addresses and the call; returns a register with the status."""
    assert thunk.calling_convention is not None
    place = ir.assign(f"getelementptr inbounds ptr, ptr %table, i64 {block_index}")
    block = ir.assign(f"load ptr, ptr {place}")
    given = [
        (CallBlockField.OPERANDS, thunk.calling_convention.operand_positions, thunk.operands),
        (CallBlockField.RESULTS, thunk.calling_convention.result_positions, thunk.results),
    ]
    stride, first = (sizeof(Buffer), Buffer.data.offset) if thunk.calling_convention.api_version == _FRAMES else (8, 0)
    for where, places, slices in given:
        if not places:
            continue
        base = ir.assign(f"load ptr, ptr {_at(ir, block, where)}")
        store_addresses(base, slices, [number * stride + first for number in places])
    return ir.assign(f"call i32 @{function_name(thunk)}(ptr %table, ptr {block}, i64 {thunk.number})")


def _at(ir: IrBuilder, base: str, offset: int) -> str:
    return ir.assign(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")


def function_name(thunk: CallbackThunk) -> str:
    """Returns the name of the function that calls targets with the thunk's calling convention."""
    assert thunk.calling_convention is not None
    return f"call_target{thunk.calling_convention.api_version}{'s' if thunk.calling_convention.returns_array else ''}"


def function_text(thunk: CallbackThunk) -> str:
    """Returns that function. It calls `host_callback` and `reset_mxcsr`."""
    assert thunk.calling_convention is not None
    version = thunk.calling_convention.api_version
    call = (
        _FRAME_CALL
        if version == _FRAMES
        else _conventional_call(version, single=thunk.calling_convention.returns_array)
    )
    return _TEXT.format(
        name=function_name(thunk), call=call, ready=int(CallBlockField.READY), failure=int(CallBlockField.FAILURE)
    )


def _conventional_call(version: int, *, single: bool) -> str:
    arguments = ["ptr %out", "ptr %in"]
    if version == 3:
        arguments += ["ptr %opaque", "i64 %length"]
    if version > 1:
        arguments.append("ptr %status")
    return _CONVENTIONAL_CALL.format(
        arguments=", ".join(arguments),
        out="load ptr, ptr %results" if single else "getelementptr i8, ptr %results, i64 0",
        **{field.name.lower(): int(field) for field in CallBlockField},
    )


_TEXT = """define internal i32 @{name}(ptr %table, ptr %block, i64 %number) noinline #0 {{
entry:
  %old = alloca i32
  %ready.at = getelementptr inbounds i8, ptr %block, i64 {ready}
  %ready = load i64, ptr %ready.at
  %is.ready = icmp ne i64 %ready, 0
  br i1 %is.ready, label %go, label %ask
ask:
  %asked = call i32 @host_callback(ptr %table, i64 %number)
  %refused = icmp ne i32 %asked, 0
  %left = load i64, ptr %ready.at
  %all.done = icmp eq i64 %left, 0
  %over = or i1 %refused, %all.done
  br i1 %over, label %end, label %go
end:
  ret i32 %asked
go:
  %code = load ptr, ptr %block
  call void @reset_mxcsr(ptr %old)
{call}
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  br i1 %failed, label %fail, label %good
good:
  ret i32 0
fail:
  %failure.at = getelementptr inbounds i8, ptr %block, i64 {failure}
  store i64 %failure, ptr %failure.at
  ret i32 1
}}"""

_CONVENTIONAL_CALL = """  %in.at = getelementptr inbounds i8, ptr %block, i64 {operands}
  %in = load ptr, ptr %in.at
  %results.at = getelementptr inbounds i8, ptr %block, i64 {results}
  %results = load ptr, ptr %results.at
  %out = {out}
  %opaque.at = getelementptr inbounds i8, ptr %block, i64 {opaque}
  %opaque = load ptr, ptr %opaque.at
  %length.at = getelementptr inbounds i8, ptr %block, i64 {length}
  %length = load i64, ptr %length.at
  %status = getelementptr inbounds i8, ptr %block, i64 {status}
  store <8 x i64> zeroinitializer, ptr %status, align 64
  call void %code({arguments})
  %written = load <8 x i64>, ptr %status, align 64
  %failure = call i64 @llvm.vector.reduce.or.v8i64(<8 x i64> %written)
  %failed = icmp ne i64 %failure, 0"""

_FRAME_CALL = f"""  %frame.at = getelementptr inbounds i8, ptr %block, i64 {int(CallBlockField.ARGUMENT)}
  %frame = load ptr, ptr %frame.at
  %future.at = getelementptr inbounds i8, ptr %frame, i64 {CallFrame.future.offset}
  store ptr null, ptr %future.at
  %error = call ptr %code(ptr %frame)
  %number.of.error = ptrtoint ptr %error to i64
  %has.error = icmp ne ptr %error, null
  %future = load ptr, ptr %future.at
  %goes.on = icmp ne ptr %future, null
  %none = xor i1 %has.error, true
  %to.await = and i1 %none, %goes.on
  br i1 %to.await, label %await, label %returned
await:
  %await.at = getelementptr inbounds i8, ptr %block, i64 {int(CallBlockField.AWAIT)}
  %awaiting = load ptr, ptr %await.at
  %awaited = call i64 %awaiting(i64 %number)
  br label %returned
returned:
  %failure = phi i64 [ %number.of.error, %go ], [ %awaited, %await ]
  %failed = icmp ne i64 %failure, 0"""
