"""Emits infeeds and outfeeds.

A feed of a device is a message queue like those between devices (`queues`); the host is at one end. For an outfeed, the
host takes the messages; for an infeed, it creates them (`infeeds`). A device calls the host instead if the host has not
joined the feed.

Responsible for the code of feeds. Does not depend on the host's side or on how devices wait.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.llvm.communication.infeeds import FAILED, TAKE, finish_infeed, infeed_array, next_infeed
from xlapy.cpu.llvm.communication.queues import is_joined, new_message, post
from xlapy.cpu.llvm.communication.transfers import Copy
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import QUEUE_BYTES, message_places
from xlapy.cpu.program.thunks import FeedThunk
from xlapy.native.llvm import function_text


def feed_text(thunk: FeedThunk, program: NativeProgram, copy: Copy) -> str:
    """Returns the function `i32 @feed<number>(ptr %table, ...)`, which receives the addresses of the thunk's arrays. It
    calls the functions of `feed_functions`."""
    ir = IrBuilder()
    shared = ir.assign(f"load ptr, ptr {_entry(ir, program.shared_index)}")
    device = ir.assign(f"load i64, ptr {_entry(ir, program.device_index)}")
    offset = ir.assign(f"add i64 {ir.assign(f'mul i64 {device}, {QUEUE_BYTES}')}, {thunk.queue_offset}")
    queue = ir.assign(f"getelementptr inbounds i8, ptr {shared}, i64 {offset}")
    if thunk.instruction.op is opcodes.INFEED:
        _write_infeed(ir, thunk, copy, f"ptr {shared}, i64 {device}, i64 {thunk.number}, ptr {queue}", queue)
    else:
        _write_outfeed(ir, thunk, copy, device, queue)
    arguments = "".join(f", ptr %array{n}" for n in range(len(thunk.operands) + len(thunk.results)))
    head = f"define internal i32 @feed{thunk.number}(ptr %table{arguments}) noinline #0 {{"
    ask = ["ask:", f"  %answer = call i32 @host_callback(ptr %table, i64 {thunk.number})", "  ret i32 %answer"]
    return "\n".join([head, "entry:", *ir.lines, "  ret i32 0", *ask, "failed:", "  ret i32 1", "}"])


def _entry(ir: IrBuilder, index: int) -> str:
    return ir.assign(f"getelementptr inbounds ptr, ptr %table, i64 {index}")


def _write_infeed(ir: IrBuilder, thunk: FeedThunk, copy: Copy, where: str, queue: str) -> None:
    status = ir.assign(f"call i32 @{next_infeed.name}(ptr %table, {where}, i64 {thunk.shape_number})")
    ir.emit(f"switch i32 {status}, label %ask [ i32 {TAKE}, label %take i32 {FAILED}, label %failed ]")
    ir.start_block("take")
    for number, slice_ in enumerate(thunk.results):
        if slice_.size:
            source = ir.assign(f"call ptr @{infeed_array.name}(ptr {queue}, i64 {number})")
            ir.emit(copy(f"%array{number}", source, slice_.size))
    ir.emit(f"call void @{finish_infeed.name}(ptr {queue})")


def _write_outfeed(ir: IrBuilder, thunk: FeedThunk, copy: Copy, device: str, queue: str) -> None:
    ir.cond_br(ir.assign(f"call i1 @{is_joined.name}(ptr {queue})"), "give", "ask")
    ir.start_block("give")
    places = message_places([slice_.size for slice_ in thunk.operands])
    call = f"call ptr @{new_message.name}(ptr %table, i64 {device}, i64 {thunk.number}, i64 {places[-1]})"
    message = ir.assign(call)
    ir.cond_br(ir.assign(f"icmp eq ptr {message}, null"), "failed", "fill")
    ir.start_block("fill")
    for number, (slice_, place) in enumerate(zip(thunk.operands, places, strict=False)):
        if slice_.size:
            target = ir.assign(f"getelementptr inbounds i8, ptr {message}, i64 {place}")
            ir.emit(copy(target, f"%array{number}", slice_.size))
    ir.emit(f"call void @{post.name}(ptr {queue}, ptr {message})")


def feed_functions() -> str:
    """The LLVM text of the functions that feeds call, besides those of transfers."""
    functions = (next_infeed, infeed_array, finish_infeed, is_joined)
    return "\n\n".join("\n".join(function_text(one.built(), attributes="#0")) for one in functions)
