"""Emits the calls of a program to the outside: host callbacks, custom calls, communication and safepoint polls.

Responsible for the helper functions that these calls need in the module, each of which is emitted once. Does not depend
on kernels or control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.cpu.llvm import safepoints, target_calls
from xlapy.cpu.llvm.communication import waits
from xlapy.cpu.llvm.communication.feeds import feed_functions, feed_text
from xlapy.cpu.llvm.communication.process_rendezvous import cancellation_text, process_rendezvous_text
from xlapy.cpu.llvm.communication.process_transfers import process_transfer_functions
from xlapy.cpu.llvm.communication.rendezvous import emit_rendezvous, participant_table_text, rendezvous_text
from xlapy.cpu.llvm.communication.transfers import (
    TRANSFER_DECLARATIONS,
    emit_transfer,
    queue_table_text,
    transfer_functions,
    transfer_text,
)
from xlapy.cpu.llvm.program_memory import FunctionState, ProgramMemoryEmitter
from xlapy.cpu.llvm.shared_code import DECLARATIONS as SHARED_DECLARATIONS
from xlapy.cpu.llvm.shared_code import HOST_CALLBACK, MXCSR_DECLARATIONS, POLL, RESET_MXCSR_FUNCTION
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import (
    CallbackThunk,
    CollectiveThunk,
    FeedThunk,
    Thunk,
    TransferThunk,
    WhileThunk,
)

_HOST_CALLBACK_FUNCTION = f"""define internal i32 @host_callback(ptr %table, i64 %number) noinline #0 {{{{
entry:
  %status = call i32 @{HOST_CALLBACK}(ptr %table, i64 {{index}}, i64 %number)
  ret i32 %status
}}}}"""


class CallEmitter(ProgramMemoryEmitter):
    """The methods that emit calls. Most return a register with the status of the call, 0 for success."""

    def __init__(self, program: NativeProgram, on_part: Callable[[str], None] | None = None) -> None:
        super().__init__(program, on_part)
        self.has_polls = False
        self._poll_arguments = f"i64 {program.shared_index}, i64 {program.poll_index}"
        self._emitted: set[str] = set()
        """The helper functions that the module contains already."""

    def require_success(self, function: FunctionState, status: str) -> None:
        """Continues if a status is 0, and leaves the function otherwise."""
        ir, good = function.ir, function.ir.new_label("good")
        function.can_fail = True
        ir.cond_br(ir.assign(f"icmp eq i32 {status}, 0"), good, "failed")
        ir.start_block(good)

    def _is_first_use(self, helper: str) -> bool:
        """Returns whether a helper has not been emitted yet, and notes that it is emitted now."""
        is_first = helper not in self._emitted
        self._emitted.add(helper)
        return is_first

    def import_shared(self, function: str) -> None:
        """Declares a function that all programs of the process share."""
        self.imports.add(function)
        self.declarations.add(SHARED_DECLARATIONS[function])

    # -- the host and custom calls

    def host_callback(self, function: FunctionState, number: int) -> str:
        """Emits a host callback, which runs in the default floating-point mode."""
        self.need_host_callbacks()
        return function.ir.assign(f"call i32 @host_callback(ptr %table, i64 {number})")

    def need_host_callbacks(self) -> None:
        if self._is_first_use("host callbacks"):
            self.import_shared(HOST_CALLBACK)
            self.functions.append(_HOST_CALLBACK_FUNCTION.format(index=self.program.callback_index))

    def custom_call(self, function: FunctionState, thunk: CallbackThunk) -> str:
        """Emits the call of a custom-call target."""
        self.need_host_callbacks()
        if self._is_first_use("floating-point mode"):
            self.functions.append(RESET_MXCSR_FUNCTION)
            self.declarations |= MXCSR_DECLARATIONS
        if self._is_first_use(target_calls.function_name(thunk)):
            self.functions.append(target_calls.function_text(thunk))
            self.declarations |= target_calls.DECLARATIONS
        index = self.program.call_blocks_index + thunk.number

        def store_addresses(base: str, slices: Sequence[BufferSlice], offsets: Sequence[int]) -> None:
            self.store_addresses(function, base, slices, offsets)

        return target_calls.emit_target_call(function.ir, thunk, index, store_addresses)

    # -- communication

    def rendezvous(self, function: FunctionState, thunk: CollectiveThunk) -> str:
        self._need_waits()
        if self._is_first_use("rendezvous"):
            self.functions.append(rendezvous_text(self.program.spans_processes))
            if self.program.spans_processes:
                self._need_cancellation()
                self.functions.append(process_rendezvous_text())
        self.functions.append(participant_table_text(thunk))
        operands = [(slice_, self.address(function, slice_)) for slice_ in thunk.operands]
        return emit_rendezvous(function.ir, thunk, self.program, self.memmove, operands)

    def transfer(self, function: FunctionState, thunk: TransferThunk) -> str:
        self._need_transfers()
        self.functions.append(queue_table_text(thunk))
        self.functions.append(transfer_text(thunk, self.program, self.memmove))
        pointers = [self.address(function, slice_) for slice_ in (*thunk.operands, *thunk.results)]
        return emit_transfer(function.ir, thunk, pointers)

    def feed(self, function: FunctionState, thunk: FeedThunk) -> str:
        """Emits an infeed or outfeed."""
        self._need_transfers()
        if self._is_first_use("feeds"):
            self.functions.append(feed_functions())
        self.functions.append(feed_text(thunk, self.program, self.memmove))
        arrays = "".join(f", ptr {self.address(function, slice_)}" for slice_ in (*thunk.operands, *thunk.results))
        return function.ir.assign(f"call i32 @feed{thunk.number}(ptr %table{arrays})")

    def _need_cancellation(self) -> None:
        if self._is_first_use("cancellation"):
            self.functions.append(cancellation_text())

    def _need_transfers(self) -> None:
        if self._is_first_use("transfers"):
            self._need_waits()
            self.functions.append(transfer_functions())
            self.declarations |= TRANSFER_DECLARATIONS
            if self.program.spans_processes:
                self._need_cancellation()
                self.functions.append(process_transfer_functions())

    def _need_waits(self) -> None:
        if self._is_first_use("waits"):
            self.need_host_callbacks()
            self.functions.append(waits.await_text())
            self.declarations |= waits.DECLARATIONS

    # -- safepoint polls

    def poll(self, function: FunctionState) -> None:
        """Polls, and leaves the function if the run should stop."""
        self.has_polls = True
        self.import_shared(POLL)
        self.require_success(function, function.ir.assign(f"call i32 @{POLL}(ptr %table, {self._poll_arguments})"))
        function.cycles_since_poll = 0

    def poll_in_loop(self, function: FunctionState, thunk: WhileThunk) -> None:
        """Polls once in a number of iterations."""
        period = safepoints.poll_period(thunk)
        if period == 1:
            self.poll(function)
            return
        ir = function.ir
        counter, due, after = ir.fresh_name("n"), ir.new_label("due"), ir.new_label("go")
        function.prologue += [f"  {counter} = alloca i32", f"  store i32 0, ptr {counter}"]
        ir.cond_br(safepoints.emit_is_poll_due(ir, counter, period), due, after)
        ir.start_block(due)
        self.poll(function)
        ir.br(after)
        ir.start_block(after)

    def poll_after(self, function: FunctionState, thunk: Thunk) -> None:
        """Polls after a thunk if much time has passed since the last poll of the function."""
        function.cycles_since_poll += 0 if thunk.polls_itself else thunk.cost
        if function.cycles_since_poll >= safepoints.POLL_INTERVAL:
            self.poll(function)
