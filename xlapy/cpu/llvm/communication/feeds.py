"""Infeeds and outfeeds in LLVM text.

A feed of a device is a queue as between devices (`transfers`), of which the host has one end. For an outfeed it takes
the messages. For an infeed it makes them, of the next one's address, the number of the shape, and the addresses of
arrays that it keeps itself. It has joined the feed if a word says so. While a device takes a message it says that it is
busy: so the host may leave at any time, and knows what was taken.

Owns: these two. Must not know: the host's end, how one waits.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.llvm.communication.transfers import Copy, message_places
from xlapy.cpu.llvm.text import Writer
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
    """`i32 @feed<number>(ptr %table, ...)`, which takes where the arrays of the thunk lie; needs the texts it calls."""
    writer = Writer()
    shared = writer.let(f"load ptr, ptr {_entry(writer, program.shared_index)}")
    device = writer.let(f"load i64, ptr {_entry(writer, program.device_index)}")
    behind = writer.let(f"add i64 {writer.let(f'mul i64 {device}, {QUEUE_BYTES}')}, {thunk.queue_offset}")
    feed = writer.let(f"getelementptr inbounds i8, ptr {shared}, i64 {behind}")
    if thunk.instruction.op is opcodes.INFEED:
        _write_infeed(writer, thunk, copy, f"ptr {shared}, i64 {device}, i64 {thunk.number}, ptr {feed}", feed)
    else:
        _write_outfeed(writer, thunk, copy, device, feed)
    arguments = "".join(f", ptr %array{n}" for n in range(len(thunk.operands) + len(thunk.results)))
    head = f"define internal i32 @feed{thunk.number}(ptr %table{arguments}) noinline #0 {{"
    ask = ["ask:", f"  %answer = call i32 @call_back(ptr %table, i64 {thunk.number})", "  ret i32 %answer"]
    return "\n".join([head, "entry:", *writer.lines, "  ret i32 0", *ask, "failed:", "  ret i32 1", "}"])


def _entry(writer: Writer, index: int) -> str:
    return writer.let(f"getelementptr inbounds ptr, ptr %table, i64 {index}")


def _write_infeed(writer: Writer, thunk: FeedThunk, copy: Copy, where: str, feed: str) -> None:
    found = writer.let(f"call i64 @next_fed(ptr %table, {where}, i64 {thunk.shape_number})")
    writer.do(f"switch i64 {found}, label %take [ i64 0, label %ask i64 1, label %failed ]")
    writer.begin("take")
    message = writer.let(f"inttoptr i64 {found} to ptr")
    for number, slice_ in enumerate(thunk.results):
        if slice_.size:
            place = writer.let(
                f"getelementptr inbounds i8, ptr {message}, i64 {INFEED_MESSAGE_HEADER_BYTES + 8 * number}"
            )
            writer.do(copy(f"%array{number}", writer.let(f"load ptr, ptr {place}"), slice_.size))
    writer.do(f"call void @fed(ptr {feed}, ptr {message})")


def _write_outfeed(writer: Writer, thunk: FeedThunk, copy: Copy, device: str, feed: str) -> None:
    joined = writer.let(f"getelementptr inbounds i8, ptr {feed}, i64 {FeedField.JOINED}")
    word = writer.let(f"load atomic i32, ptr {joined} acquire, align 4")
    writer.branch(writer.let(f"icmp eq i32 {word}, 0"), "ask", "give")
    writer.begin("give")
    places = message_places(thunk.operands)
    call = f"call ptr @new_message(ptr %table, i64 {device}, i64 {thunk.number}, i64 {places[-1]})"
    message = writer.let(call)
    writer.branch(writer.let(f"icmp eq ptr {message}, null"), "failed", "fill")
    writer.begin("fill")
    for number, (slice_, place) in enumerate(zip(thunk.operands, places, strict=False)):
        if slice_.size:
            target = writer.let(f"getelementptr inbounds i8, ptr {message}, i64 {place}")
            writer.do(copy(target, f"%array{number}", slice_.size))
    writer.do(f"call void @post(ptr {feed}, ptr {message})")


NEXT_FED = f"""define internal i64 @next_fed(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %feed,
  i64 %kind) #0 {{
entry:
  %joined.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.JOINED}
  %sent.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.SENT}
  %asleep.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.ASLEEP}
  %done.at = getelementptr inbounds i8, ptr %feed, i64 {QueueField.DONE}
  %taken.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.TAKEN}
  %busy.at = getelementptr inbounds i8, ptr %feed, i64 {FeedField.BUSY}
  %waiting = add i64 %number, {HOST_WAIT_OFFSET}
  br label %look
look:
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
  %status = call i32 @await(ptr %table, ptr %shared, i64 %device, i64 %waiting, ptr %sent.at, i32 %sent, i64 %aim,
    ptr %asleep.at, ptr @slice)
  %came = icmp eq i32 %status, 0
  br i1 %came, label %look, label %fail
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

define internal void @fed(ptr %feed, ptr %message) #0 {{
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
"""The address of the next message for an infeed, 0 if the host is to be asked, 1 if the run has ended; and its end.
While the device waits, `await` calls the host with another number. Needs `await`."""
