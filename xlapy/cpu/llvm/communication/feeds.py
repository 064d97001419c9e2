"""Emits infeeds and outfeeds.

A feed of a device is a message queue like those between devices (`transfers`); the host is at one end. For an outfeed,
the host takes the messages. For an infeed, it creates them; such a message holds the address of the next one, the
number of the shape, and the addresses of arrays that the host keeps. A word says whether the host has joined the feed.
While a device takes a message, it marks itself busy, so that the host may leave at any time and knows which messages
were taken.

Responsible for the device's side of both feeds. Does not depend on the host's side or on how devices wait.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.llvm.communication.transfers import Copy, message_places
from xlapy.cpu.llvm.communication.waits import SLICE
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import (
    HOST_WAIT_OFFSET,
    INFEED_MESSAGE_HEADER_BYTES,
    QUEUE_BYTES,
    FeedField,
    QueueField,
)
from xlapy.cpu.program.thunks import FeedThunk


def feed_text(thunk: FeedThunk, program: NativeProgram, copy: Copy) -> str:
    """Returns the function `i32 @feed<number>(ptr %table, ...)`, which receives the addresses of the thunk's arrays."""
    ir = IrBuilder()
    shared = ir.assign(f"load ptr, ptr {_entry(ir, program.shared_index)}")
    device = ir.assign(f"load i64, ptr {_entry(ir, program.device_index)}")
    offset = ir.assign(f"add i64 {ir.assign(f'mul i64 {device}, {QUEUE_BYTES}')}, {thunk.queue_offset}")
    feed = ir.assign(f"getelementptr inbounds i8, ptr {shared}, i64 {offset}")
    if thunk.instruction.op is opcodes.INFEED:
        _write_infeed(ir, thunk, copy, f"ptr {shared}, i64 {device}, i64 {thunk.number}, ptr {feed}", feed)
    else:
        _write_outfeed(ir, thunk, copy, device, feed)
    arguments = "".join(f", ptr %array{n}" for n in range(len(thunk.operands) + len(thunk.results)))
    head = f"define internal i32 @feed{thunk.number}(ptr %table{arguments}) noinline #0 {{"
    ask = ["ask:", f"  %answer = call i32 @host_callback(ptr %table, i64 {thunk.number})", "  ret i32 %answer"]
    return "\n".join([head, "entry:", *ir.lines, "  ret i32 0", *ask, "failed:", "  ret i32 1", "}"])


def _entry(ir: IrBuilder, index: int) -> str:
    return ir.assign(f"getelementptr inbounds ptr, ptr %table, i64 {index}")


def _write_infeed(ir: IrBuilder, thunk: FeedThunk, copy: Copy, where: str, feed: str) -> None:
    found = ir.assign(f"call i64 @next_infeed_message(ptr %table, {where}, i64 {thunk.shape_number})")
    ir.emit(f"switch i64 {found}, label %take [ i64 0, label %ask i64 1, label %failed ]")
    ir.start_block("take")
    message = ir.assign(f"inttoptr i64 {found} to ptr")
    for number, slice_ in enumerate(thunk.results):
        if slice_.size:
            place = ir.assign(
                f"getelementptr inbounds i8, ptr {message}, i64 {INFEED_MESSAGE_HEADER_BYTES + 8 * number}"
            )
            ir.emit(copy(f"%array{number}", ir.assign(f"load ptr, ptr {place}"), slice_.size))
    ir.emit(f"call void @finish_infeed(ptr {feed}, ptr {message})")


def _write_outfeed(ir: IrBuilder, thunk: FeedThunk, copy: Copy, device: str, feed: str) -> None:
    joined = ir.assign(f"getelementptr inbounds i8, ptr {feed}, i64 {FeedField.JOINED}")
    word = ir.assign(f"load atomic i32, ptr {joined} acquire, align 4")
    ir.cond_br(ir.assign(f"icmp eq i32 {word}, 0"), "ask", "give")
    ir.start_block("give")
    places = message_places(thunk.operands)
    call = f"call ptr @new_message(ptr %table, i64 {device}, i64 {thunk.number}, i64 {places[-1]})"
    message = ir.assign(call)
    ir.cond_br(ir.assign(f"icmp eq ptr {message}, null"), "failed", "fill")
    ir.start_block("fill")
    for number, (slice_, place) in enumerate(zip(thunk.operands, places, strict=False)):
        if slice_.size:
            target = ir.assign(f"getelementptr inbounds i8, ptr {message}, i64 {place}")
            ir.emit(copy(target, f"%array{number}", slice_.size))
    ir.emit(f"call void @post(ptr {feed}, ptr {message})")


INFEED_FUNCTIONS = f"""\
define internal i64 @next_infeed_message(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %feed,
  i64 %kind) #0 {{
entry:
  %joined.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.JOINED}
  %sent.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.SENT}
  %asleep.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.ASLEEP}
  %done.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.DONE}
  %taken.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.TAKEN}
  %busy.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.BUSY}
  %waiting = add i64 %number, {HOST_WAIT_OFFSET}
  br label %retry
retry:
  store atomic i32 1, ptr %busy.at seq_cst, align 4
  %joined = load atomic i32, ptr %joined.at seq_cst, align 4
  %alone = icmp eq i32 %joined, 0
  br i1 %alone, label %leave, label %count
count:
  %taken = load i32, ptr %taken.at
  %sent = load atomic i32, ptr %sent.at acquire, align 4
  %none = icmp eq i32 %sent, %taken
  br i1 %none, label %wait, label %find
wait:
  store atomic i32 0, ptr %busy.at release, align 4
  %aim = zext i32 %taken to i64
  %status = call i32 @await_change(ptr %table, ptr %shared, i64 %device, i64 %waiting, ptr %sent.at, i32 %sent,
    i64 %aim, ptr %asleep.at, i64 {SLICE})
  %came = icmp eq i32 %status, 0
  br i1 %came, label %retry, label %fail
fail:
  ret i64 1
find:
  %done = load ptr, ptr %done.at
  %untouched = icmp eq ptr %done, null
  %before = select i1 %untouched, ptr %feed, ptr %done
  %message = load atomic ptr, ptr %before acquire, align 8
  %missing = icmp eq ptr %message, null
  br i1 %missing, label %leave, label %check
check:
  %kind.at = getelementptr inbounds i64, ptr %message, i64 1
  %its = load i64, ptr %kind.at
  %fits = icmp eq i64 %its, %kind
  br i1 %fits, label %found, label %leave
found:
  %address = ptrtoint ptr %message to i64
  ret i64 %address
leave:
  store atomic i32 0, ptr %busy.at release, align 4
  ret i64 0
}}

define internal void @finish_infeed(ptr %feed, ptr %message) #0 {{
entry:
  %done.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.DONE}
  %taken.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.TAKEN}
  %busy.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.BUSY}
  store ptr %message, ptr %done.at
  %taken = load i32, ptr %taken.at
  %more = add i32 %taken, 1
  store atomic i32 %more, ptr %taken.at release, align 4
  store atomic i32 0, ptr %busy.at release, align 4
  ret void
}}"""
"""The functions `next_infeed_message` and `finish_infeed`, which call `await`.

The first returns the address of the next message, 0 if the host must be called, or 1 if the run has ended. While the
device waits, `await` calls the host with the number of the thunk plus `HOST_WAIT_OFFSET`.
"""
