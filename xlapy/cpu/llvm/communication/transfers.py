"""Emits sends and receives between devices, through message queues (`queues`).

Responsible for the code of transfers. Does not depend on which device sends to which, on the protocol of queues, or on
how devices wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.cpu.llvm.communication.device_tables import Row, table_text
from xlapy.cpu.llvm.communication.process_transfers import (
    announce_over_processes,
    finish_over_processes,
    is_remote_queue,
    post_over_processes,
    receive_over_processes,
)
from xlapy.cpu.llvm.communication.queues import (
    announce_receipt,
    claim_end,
    claim_receiver,
    claim_sender,
    finish,
    new_message,
    post,
    receive,
)
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import message_places
from xlapy.cpu.program.thunks import TransferThunk
from xlapy.native.function import NativeFunction
from xlapy.native.llvm import function_text

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
    arrays. It calls the functions of `transfer_functions`."""
    ir, slices = IrBuilder(), [*thunk.operands, *thunk.results]
    row = Row(ir, program, f"queues{thunk.number}", _rows(thunk))
    processes = _processes(row, thunk, program) if program.spans_processes else ""
    if thunk.instruction.op is opcodes.SEND:
        _write_send(ir, row, thunk, copy, processes)
    elif thunk.instruction.op is opcodes.RECV:
        _write_announcement(ir, row, thunk, processes)
    else:
        _write_receipt(ir, row, thunk, copy, processes)
    arguments = "".join(f", ptr %array{n}" for n in range(len(slices)))
    head = f"define internal i32 @transfer{thunk.number}(ptr %table{arguments}) noinline #0 {{"
    return "\n".join([head, "entry:", *ir.lines, "  ret i32 0", "failed:", "  ret i32 1", "}"])


def emit_transfer(ir: IrBuilder, thunk: TransferThunk, pointers: Sequence[str]) -> str:
    """Emits the call of a transfer's function; returns a register with the status."""
    return ir.assign(f"call i32 @transfer{thunk.number}(ptr %table{''.join(f', ptr {p}' for p in pointers)})")


def _processes(row: Row, thunk: TransferThunk, program: NativeProgram) -> str:
    """Returns the arguments by which functions find the processes of queues: the process table, and the index of the
    device's transfer there."""
    table = row.ir.assign(f"load ptr, ptr {row.entry(program.processes_index)}")
    index = row.ir.assign(f"add i64 {row.device}, {thunk.number * program.replica_count * program.partition_count}")
    return f"ptr {table}, i64 {index}"


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


def _claim(row: Row, thunk: TransferThunk, queue: str, claim: NativeFunction[..., Any]) -> None:
    """Emits the check that no other device uses this end of the queue."""
    if thunk.claims_end:
        arguments = f"ptr %table, i64 {row.device}, i64 {thunk.number}, ptr {queue}"
        status = row.ir.assign(f"call i32 @{claim.name}({arguments})")
        _require(row.ir, row.ir.assign(f"icmp eq i32 {status}, 0"))


def _write_send(ir: IrBuilder, row: Row, thunk: TransferThunk, copy: Copy, processes: str) -> None:
    """processes: arguments of functions for several processes, or empty; also below."""
    places = message_places([slice_.size for slice_ in thunk.operands])
    for position in range(len(_rows(thunk)[0])):
        after = ir.new_label("after")
        queue = _queue(row, position, after)
        _claim(row, thunk, queue, claim_sender)
        call = f"call ptr @{new_message.name}(ptr %table, i64 {row.device}, i64 {thunk.number}, i64 {places[-1]})"
        message = ir.assign(call)
        _require(ir, ir.assign(f"icmp ne ptr {message}, null"))
        for number, (slice_, place) in enumerate(zip(thunk.operands, places, strict=False)):
            if slice_.size:
                ir.emit(copy(row.address(message, str(place)), f"%array{number}", slice_.size))
        if processes:
            given = f"ptr %table, ptr {row.shared}, i64 {thunk.number}, ptr {queue}, ptr {message}, {processes}"
            status = ir.assign(f"call i32 @{post_over_processes.name}({given}, i64 {position})")
            _require(ir, ir.assign(f"icmp eq i32 {status}, 0"))
        else:
            ir.emit(f"call void @{post.name}(ptr {queue}, ptr {message})")
        ir.br(after)
        ir.start_block(after)


def _write_announcement(ir: IrBuilder, row: Row, thunk: TransferThunk, processes: str) -> None:
    after = ir.new_label("after")
    ir.emit("store i32 0, ptr %array0")
    queue = _queue(row, 0, after)
    _claim(row, thunk, queue, claim_receiver)
    if processes:
        remote, local = ir.new_label("remote"), ir.new_label("local")
        ir.cond_br(ir.assign(f"call i1 @{is_remote_queue.name}({processes})"), remote, local)
        ir.start_block(remote)
        given = f"ptr %table, ptr {row.shared}, i64 {thunk.number}, ptr {queue}, {processes}"
        announced = ir.assign(f"call i32 @{announce_over_processes.name}({given})")
        ir.emit(f"store i32 {announced}, ptr %array0")
        _require(ir, ir.assign(f"icmp ne i32 {announced}, 0"))
        ir.br(after)
        ir.start_block(local)
    number = ir.assign(f"call i32 @{announce_receipt.name}(ptr {queue})")
    ir.emit(f"store i32 {number}, ptr %array0")
    ir.br(after)
    ir.start_block(after)


def _write_receipt(ir: IrBuilder, row: Row, thunk: TransferThunk, copy: Copy, processes: str) -> None:
    """Emits the receipt of the message whose number is in the first array; fills the results with zeros without a
    queue."""
    absent, after = ir.new_label("absent"), ir.new_label("after")
    wanted = ir.assign("load i32, ptr %array0")
    queue = _queue(row, 0, absent)
    function, last = (receive_over_processes.name, f", {processes}") if processes else (receive.name, "")
    call = f"call ptr @{function}(ptr %table, ptr {row.shared}, i64 {row.device}, i64 {thunk.number}, ptr {queue}"
    message = ir.assign(f"{call}, i32 {wanted}{last})")
    _require(ir, ir.assign(f"icmp ne ptr {message}, null"))
    results = [(n, slice_) for n, slice_ in enumerate(thunk.results, start=1) if slice_.size]
    for (number, slice_), place in zip(results, message_places([slice_.size for _, slice_ in results]), strict=False):
        ir.emit(copy(f"%array{number}", row.address(message, str(place)), slice_.size))
    if processes:
        given = f"ptr {row.shared}, ptr {queue}, ptr {message}, {processes}"
        ir.emit(f"call void @{finish_over_processes.name}({given})")
    else:
        ir.emit(f"call void @{finish.name}(ptr {queue}, ptr {message})")
    ir.br(after)
    ir.start_block(absent)
    for number, slice_ in results:
        ir.emit(f"call void @llvm.memset.p0.i64(ptr %array{number}, i8 0, i64 {slice_.size}, i1 false)")
    ir.br(after)
    ir.start_block(after)


def transfer_functions() -> str:
    """The LLVM text of the functions that transfers call. They call `await_change`, and call `host_callback` with the
    complement of the thunk's number if there is no memory for a message."""
    functions = (claim_end, claim_sender, claim_receiver, new_message, post, announce_receipt, receive, finish)
    return "\n\n".join("\n".join(function_text(one.built(), attributes="#0")) for one in functions)
