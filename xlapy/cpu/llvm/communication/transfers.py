"""Emits messages between devices: queues in the memory that devices share.

A queue connects two devices. It starts with two words: the address of the first message and, if there has been one, of
the last message. They are followed by i32 words: the number of messages sent, the number of threads that sleep until it
changes, and the sender. The next cache line holds the last message that the receiver has finished, the number of
messages announced to the receiver, and the receiver (device number plus one; 0 if no device has claimed the end). A
message has the address of the next one, its number in the queue, starting from 1, whether it was taken, the thunk and
the device that sent it, and its arrays after a cache line. Only the sender appends to the list. Only the receiver takes
messages, in any order; it frees those before the first one that it has not taken yet.

Responsible for queues. Does not depend on which device sends to which, or on how devices wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy import opcodes
from xlapy.cpu.llvm.communication.device_tables import Row, table_text
from xlapy.cpu.llvm.communication.waits import SLICE
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import MESSAGE_HEADER_BYTES, MessageField, QueueField, round_to_cache_lines
from xlapy.cpu.program.thunks import TransferThunk
from xlapy.native import futex

Copy = Callable[[str, str, int], str]
"""Returns the instruction that copies a number of bytes to an address from another address."""

TRANSFER_DECLARATIONS = {
    "declare ptr @malloc(i64)",
    "declare void @free(ptr)",
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
}


def queue_table_text(thunk: TransferThunk) -> str:
    """Returns the constant table of the queues of each device, -1 for none."""
    return table_text(f"queues{thunk.number}", _rows(thunk))


def _rows(thunk: TransferThunk) -> list[list[int]]:
    width = max(1, max(map(len, thunk.queues)))
    return [[*queues, *[-1] * (width - len(queues))] for queues in thunk.queues]


def transfer_text(thunk: TransferThunk, program: NativeProgram, copy: Copy) -> str:
    """Returns the function `i32 @transfer<number>(ptr %table, ...)`, which receives the addresses of the thunk's
    arrays. It calls `TRANSFER_FUNCTIONS`."""
    ir, slices = IrBuilder(), [*thunk.operands, *thunk.results]
    row = Row(ir, program, f"queues{thunk.number}", _rows(thunk))
    if thunk.instruction.op is opcodes.SEND:
        _write_send(ir, row, thunk, copy)
    elif thunk.instruction.op is opcodes.RECV:
        _write_announcement(ir, row, thunk)
    else:
        _write_receipt(ir, row, thunk, copy)
    arguments = "".join(f", ptr %array{n}" for n in range(len(slices)))
    head = f"define internal i32 @transfer{thunk.number}(ptr %table{arguments}) noinline #0 {{"
    return "\n".join([head, "entry:", *ir.lines, "  ret i32 0", "failed:", "  ret i32 1", "}"])


def emit_transfer(ir: IrBuilder, thunk: TransferThunk, pointers: Sequence[str]) -> str:
    """Emits the call of a transfer's function; returns a register with the status."""
    return ir.assign(f"call i32 @transfer{thunk.number}(ptr %table{''.join(f', ptr {p}' for p in pointers)})")


def _queue(row: Row, position: int, absent: str) -> str:
    """Returns a register with the address of a queue of the device; jumps to `absent` if the device has none."""
    ir, place, present = row.ir, row.number(position), row.ir.new_label("present")
    ir.cond_br(ir.assign(f"icmp slt i64 {place}, 0"), absent, present)
    ir.start_block(present)
    return row.address(row.shared, place)


def _require(ir: IrBuilder, good: str) -> None:
    going = ir.new_label("good")
    ir.cond_br(good, going, "failed")
    ir.start_block(going)


def _claim(row: Row, thunk: TransferThunk, queue: str, end: QueueField) -> None:
    """Emits the check that no other device uses this end of the queue."""
    if thunk.claims_end:
        word = row.address(queue, str(int(end)))
        status = row.ir.assign(f"call i32 @claim(ptr %table, i64 {row.device}, i64 {thunk.number}, ptr {word})")
        _require(row.ir, row.ir.assign(f"icmp eq i32 {status}, 0"))


def message_places(slices: Sequence[BufferSlice]) -> list[int]:
    """Returns the offsets of arrays in a message, and the size of the message."""
    places = [MESSAGE_HEADER_BYTES]
    for slice_ in slices:
        places.append(places[-1] + round_to_cache_lines(slice_.size))
    return places


def _write_send(ir: IrBuilder, row: Row, thunk: TransferThunk, copy: Copy) -> None:
    places = message_places(thunk.operands)
    for position in range(len(_rows(thunk)[0])):
        after = ir.new_label("after")
        queue = _queue(row, position, after)
        _claim(row, thunk, queue, QueueField.SENDER)
        call = f"call ptr @new_message(ptr %table, i64 {row.device}, i64 {thunk.number}, i64 {places[-1]})"
        message = ir.assign(call)
        _require(ir, ir.assign(f"icmp ne ptr {message}, null"))
        for number, (slice_, place) in enumerate(zip(thunk.operands, places, strict=False)):
            if slice_.size:
                ir.emit(copy(row.address(message, str(place)), f"%array{number}", slice_.size))
        ir.emit(f"call void @post(ptr {queue}, ptr {message})")
        ir.br(after)
        ir.start_block(after)


def _write_announcement(ir: IrBuilder, row: Row, thunk: TransferThunk) -> None:
    after = ir.new_label("after")
    ir.emit("store i32 0, ptr %array0")
    queue = _queue(row, 0, after)
    _claim(row, thunk, queue, QueueField.RECEIVER)
    place = row.address(queue, str(int(QueueField.ANNOUNCED)))
    number = ir.assign(f"add i32 {ir.assign(f'load i32, ptr {place}')}, 1")
    ir.emit(f"store i32 {number}, ptr {place}")
    ir.emit(f"store i32 {number}, ptr %array0")
    ir.br(after)
    ir.start_block(after)


def _write_receipt(ir: IrBuilder, row: Row, thunk: TransferThunk, copy: Copy) -> None:
    """Emits the receipt of the message whose number is in the first array; fills the results with zeros without a
    queue."""
    absent, after = ir.new_label("absent"), ir.new_label("after")
    wanted = ir.assign("load i32, ptr %array0")
    queue = _queue(row, 0, absent)
    call = f"call ptr @receive(ptr %table, ptr {row.shared}, i64 {row.device}, i64 {thunk.number}, ptr {queue}"
    message = ir.assign(f"{call}, i32 {wanted})")
    _require(ir, ir.assign(f"icmp ne ptr {message}, null"))
    results = [(n, slice_) for n, slice_ in enumerate(thunk.results, start=1) if slice_.size]
    for (number, slice_), place in zip(results, message_places([slice_ for _, slice_ in results]), strict=False):
        ir.emit(copy(f"%array{number}", row.address(message, str(place)), slice_.size))
    ir.emit(f"call void @finish(ptr {queue}, ptr {message})")
    ir.br(after)
    ir.start_block(absent)
    for number, slice_ in results:
        ir.emit(f"call void @llvm.memset.p0.i64(ptr %array{number}, i8 0, i64 {slice_.size}, i1 false)")
    ir.br(after)
    ir.start_block(after)


TRANSFER_FUNCTIONS = f"""define internal i32 @claim(ptr %table, i64 %device, i64 %number, ptr %word) #0 {{
entry:
  %wide = trunc i64 %device to i32
  %own = add i32 %wide, 1
  %owner = load atomic i32, ptr %word monotonic, align 4
  %known = icmp eq i32 %owner, %own
  br i1 %known, label %good, label %ask
ask:
  %answer = call i32 @host_callback(ptr %table, i64 %number)
  %refused = icmp ne i32 %answer, 0
  br i1 %refused, label %bad, label %note
note:
  store atomic i32 %own, ptr %word monotonic, align 4
  br label %good
good:
  ret i32 0
bad:
  ret i32 1
}}

define internal ptr @new_message(ptr %table, i64 %device, i64 %number, i64 %size) #0 {{
entry:
  %message = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %message, null
  br i1 %none, label %refuse, label %fill
refuse:
  %complaint = xor i64 %number, -1
  %answer = call i32 @host_callback(ptr %table, i64 %complaint)
  ret ptr null
fill:
  %thunk = getelementptr inbounds i8, ptr %message, i64 {MessageField.THUNK}
  %sender = getelementptr inbounds i8, ptr %message, i64 {MessageField.DEVICE}
  store i64 %number, ptr %thunk
  store i64 %device, ptr %sender
  ret ptr %message
}}

define internal void @post(ptr %queue, ptr %message) #0 {{
entry:
  %tail.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.LAST}
  %sent.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.SENT}
  %asleep.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.ASLEEP}
  %number.at = getelementptr inbounds i8, ptr %message, i64 {MessageField.NUMBER}
  %taken.at = getelementptr inbounds i8, ptr %message, i64 {MessageField.TAKEN}
  %tail = load ptr, ptr %tail.at
  %is.first = icmp eq ptr %tail, null
  %last = select i1 %is.first, ptr %queue, ptr %tail
  %sent = load atomic i32, ptr %sent.at monotonic, align 4
  %now = add i32 %sent, 1
  store ptr null, ptr %message
  store i32 %now, ptr %number.at
  store i32 0, ptr %taken.at
  store ptr %message, ptr %tail.at
  store atomic ptr %message, ptr %last release, align 8
  store atomic i32 %now, ptr %sent.at seq_cst, align 4
  %sleepers = load atomic i32, ptr %asleep.at seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %wake, label %end
wake:
  %woken = {futex.wake_text("%sent.at")}
  br label %end
end:
  ret void
}}

define internal ptr @receive(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %queue, i32 %wanted) #0 {{
entry:
  %sent.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.SENT}
  %asleep.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.ASLEEP}
  %done.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.DONE}
  %aim = zext i32 %wanted to i64
  br label %retry
retry:
  %sent = load atomic i32, ptr %sent.at acquire, align 4
  %ahead = sub i32 %sent, %wanted
  %is.there = icmp sge i32 %ahead, 0
  br i1 %is.there, label %walk, label %wait
wait:
  %status = call i32 @await_change(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %sent.at, i32 %sent, i64 %aim,
    ptr %asleep.at, i64 {SLICE})
  %came = icmp eq i32 %status, 0
  br i1 %came, label %retry, label %failed
walk:
  %done = load ptr, ptr %done.at
  %untouched = icmp eq ptr %done, null
  %begin = select i1 %untouched, ptr %queue, ptr %done
  br label %next
next:
  %before = phi ptr [ %begin, %walk ], [ %message, %check ]
  %message = load atomic ptr, ptr %before acquire, align 8
  %missing = icmp eq ptr %message, null
  br i1 %missing, label %failed, label %check
check:
  %number.at = getelementptr inbounds i8, ptr %message, i64 {MessageField.NUMBER}
  %found = load i32, ptr %number.at
  %is.it = icmp eq i32 %found, %wanted
  br i1 %is.it, label %end, label %next
end:
  ret ptr %message
failed:
  ret ptr null
}}

define internal void @finish(ptr %queue, ptr %message) #0 {{
entry:
  %taken.at = getelementptr inbounds i8, ptr %message, i64 {MessageField.TAKEN}
  store i32 1, ptr %taken.at
  %done.at = getelementptr inbounds i8, ptr %queue, i64 {QueueField.DONE}
  br label %next
next:
  %done = load ptr, ptr %done.at
  %untouched = icmp eq ptr %done, null
  %before = select i1 %untouched, ptr %queue, ptr %done
  %following = load atomic ptr, ptr %before acquire, align 8
  %none = icmp eq ptr %following, null
  br i1 %none, label %end, label %check
check:
  %is.taken.at = getelementptr inbounds i8, ptr %following, i64 {MessageField.TAKEN}
  %taken = load i32, ptr %is.taken.at
  %is.taken = icmp ne i32 %taken, 0
  br i1 %is.taken, label %advance, label %end
advance:
  store ptr %following, ptr %done.at
  call void @free(ptr %done)
  br label %next
end:
  ret void
}}"""
"""The functions that all transfers share. They call `await`, and call `host_callback` with the complement of the
thunk's number if there is no memory for a message."""
