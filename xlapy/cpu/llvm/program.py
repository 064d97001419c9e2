"""Emits a native program as LLVM text.

    i32 @xlapy_run(ptr %table)

runs the whole program. It returns 0, or 1 if a thunk failed, after which no other thunk has run. The address table is
described in `xlapy.cpu.program.native_program`; every slice is an entry of it plus an offset, or a stack slot of a
function.

Responsible for control flow between kernels, for the failure path and for profiling counters. Does not depend on HLO or
on the loops inside kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy.cpu.llvm import safepoints
from xlapy.cpu.llvm.instrumentation import bounds
from xlapy.cpu.llvm.instrumentation.counters import (
    COUNTER_DECLARATIONS,
    READ_CLOCK,
    counter_functions,
    emit_add,
    emit_counter_update,
)
from xlapy.cpu.llvm.pool import AWAIT_TASK, FINISH_TASK, PARALLEL
from xlapy.cpu.llvm.program_kernels import KernelCallEmitter
from xlapy.cpu.llvm.program_memory import FunctionState
from xlapy.cpu.llvm.shared_code import FLUSH_DENORMALS_BITS, MXCSR_DECLARATIONS, declared_functions
from xlapy.cpu.program.buffer_slices import StorageClass
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import ConcurrentThunk, ConditionalThunk, OutlinedThunk, Thunk, WhileThunk

MAX_UNOPTIMIZED_CALLS = 8
"""An entry function that only calls at most this many kernels is not optimized: that saves up to a millisecond of
compile time, and the function runs once per launch, without loops."""


@dataclass(slots=True)
class ProgramText:
    """The LLVM module of a program."""

    text: str
    last_part: str
    """The part of it that was not handed out before: all, or the end of a large program."""
    imports: frozenset[str]
    """The functions of other modules and libraries that it calls."""
    functions: dict[Thunk, str]
    """The function of each kernel: its own, or the one into which it is unrolled."""


def emit_program(
    program: NativeProgram, *, flush_denormals: bool, on_part: Callable[[str], None] | None = None
) -> ProgramText:
    """Returns the LLVM module of a program with assigned buffers.

    on_part: is called with each part but the last of a large program as soon as it is emitted.
    """
    emitter = _ProgramEmitter(program, on_part)
    if program.counters is not None:
        emitter.declarations |= COUNTER_DECLARATIONS
        emitter.functions.append(counter_functions())
    emitter.entry_function(flush_denormals)
    imports = frozenset(emitter.imports | declared_functions(emitter.declarations))
    parts = emitter.functions
    return ProgramText(parts.whole(), parts.last_part(), imports, emitter.kernel_functions)


class _ProgramEmitter(KernelCallEmitter):
    """The methods that emit functions, thunk sequences, loops and branches."""

    def __init__(self, program: NativeProgram, on_part: Callable[[str], None] | None) -> None:
        super().__init__(program, on_part)
        self._outlined_count = 0
        self._failing_functions: set[str] = set()

    # -- functions

    def entry_function(self, flush_denormals: bool) -> None:
        """Emits `xlapy_run`, which runs the program in its floating-point mode."""
        thunks = self.program.thunks
        single = thunks[0].function if len(thunks) == 1 and self.program.counters is None else None
        outlined = single or OutlinedThunk(thunks)
        function = self.function_body(outlined)
        before: list[str] = []
        after: list[str] = []
        if flush_denormals:
            self.declarations |= MXCSR_DECLARATIONS
            before = [
                "  %old = alloca i32",
                "  %new = alloca i32",
                "  call void @llvm.x86.sse.stmxcsr(ptr %old)",
                "  %mode = load i32, ptr %old",
                f"  %flush = or i32 %mode, {FLUSH_DENORMALS_BITS}",
                "  store i32 %flush, ptr %new",
                "  call void @llvm.x86.sse.ldmxcsr(ptr %new)",
            ]
            after = ["  call void @llvm.x86.sse.ldmxcsr(ptr %old)"]
        if self.program.bounds_checks is not None:
            self.need_host_callbacks()
            self.functions.append(bounds.bounds_functions(self.program.bounds_checks))
            before += bounds.clear_record(self.program.bounds_checks)
        if self.has_polls:
            before += safepoints.reset_poll_state(self.program)
            self.declarations |= safepoints.DECLARATIONS
        calls = [thunk for thunk in outlined.thunks if thunk.own_kernel is not None and not thunk.is_inline]
        only_calls = len(calls) == len(outlined.thunks) <= MAX_UNOPTIMIZED_CALLS
        attributes = "#1" if only_calls else "#0"
        self.define(function, "xlapy_run", before, after, attributes=attributes)

    def outlined_function(self, outlined: OutlinedThunk) -> str:
        """Emits the function of an outlined sequence of thunks; returns its name."""
        function = self.function_body(outlined)
        name = f"outlined{self._outlined_count}"
        self._outlined_count += 1
        if function.can_fail:
            self._failing_functions.add(name)
        self.define(function, name, [], [], "internal ")
        return name

    def function_body(self, outlined: OutlinedThunk) -> FunctionState:
        """Emits the thunks of a function, with the loads and stores of its stack slots."""
        function = FunctionState(vectors=frozenset(outlined.vectors))
        for slice_ in dict.fromkeys([*outlined.loaded, *outlined.stored]):
            self.add_stack_slot(function, slice_)
        for slice_ in outlined.loaded:
            if slice_.storage is not StorageClass.CONSTANT:
                source = self.prologue_address(function, slice_)
                function.prologue.append("  " + self.memmove(function.pointers[slice_], source, slice_.size))
        self.thunk_sequence(function, outlined.thunks)
        for slice_ in outlined.stored:
            target = self.prologue_address(function, slice_)
            function.ir.emit(self.memmove(target, function.pointers[slice_], slice_.size))
        return function

    def define(
        self,
        function: FunctionState,
        name: str,
        before: Sequence[str],
        after: Sequence[str],
        linkage: str = "",
        attributes: str = "#0",
    ) -> None:
        """Adds a function to the module. before, after: further instructions at its start and at its end."""
        self.kernel_functions.update(dict.fromkeys(function.unrolled, name))
        failed = ["failed:", *after, "  ret i32 1"] if function.can_fail else []
        lines = [*before, *function.prologue, *function.ir.lines, *after, "  ret i32 0", *failed]
        self.functions.append(
            "\n".join([f"define {linkage}i32 @{name}(ptr %table) {attributes} {{", "entry:", *lines, "}"])
        )
        self.declarations |= function.ir.declarations

    def call_outlined(self, function: FunctionState, outlined: OutlinedThunk) -> None:
        function.last_ticks = ""
        name = self.outlined_function(outlined)
        status = function.ir.assign(f"call i32 @{name}(ptr %table)")
        if name in self._failing_functions:
            self.require_success(function, status)

    # -- thunks

    def thunk_sequence(self, function: FunctionState, thunks: list[Thunk]) -> None:
        counters = self.program.counters
        if counters is None:
            for thunk in thunks:
                self.thunk(function, thunk)
            return
        start = ""
        for thunk in thunks:
            if thunk in counters.starts and counters.starts[thunk].is_timed:
                start = function.last_ticks or function.ir.assign(READ_CLOCK)
            self.thunk(function, thunk)
            if thunk in counters.ends:
                self.end_counter(function, counters.ends[thunk], start)

    def thunk(self, function: FunctionState, thunk: Thunk) -> None:
        thunk.emit(self, function)
        self.poll_after(function, thunk)

    # -- concurrent tasks

    def concurrent_tasks(self, function: FunctionState, thunk: ConcurrentThunk) -> None:
        """Runs tasks on the thread pool. An instrumented program runs them one after the other, because the time of a
        thunk is measured while no other runs."""
        if self.program.counters is not None:
            for task in thunk.tasks:
                self.call_outlined(function, task)
            return
        ir, count = function.ir, len(thunk.tasks)
        name, can_fail = self._tasks_function(thunk)
        block = ir.fresh_name("a")
        function.prologue.append(f"  {block} = alloca [{count + 4} x i32], align 8")
        ir.emit(f"store ptr %table, ptr {block}")
        state = ir.assign(f"getelementptr inbounds i8, ptr {block}, i64 8")
        self.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        ir.emit(f"call void @llvm.memset.p0.i64(ptr {state}, i8 0, i64 {4 * (count + 1)}, i1 false)")
        self.import_parallel()
        ir.emit(f"call void @{PARALLEL}(ptr @{name}, ptr {block}, i64 {count}, i64 0, ptr null, i64 0, i64 0)")
        if can_fail:
            self.require_success(function, ir.assign(f"load i32, ptr {state}"))

    def _tasks_function(self, thunk: ConcurrentThunk) -> tuple[str, bool]:
        """Emits the function that runs the tasks `begin` to `end`; returns its name, and whether tasks can fail.

        Its block has the address table, a word that is not 0 after a task failed, and for each task a word that is 1
        once it has run. Tasks are handed out in their order, so those that a task waits for have been started.
        """
        name, can_fail = f"tasks{self._outlined_count}", False
        self.imports |= {AWAIT_TASK, FINISH_TASK}
        self.declarations |= {f"declare void @{AWAIT_TASK}(ptr)", f"declare void @{FINISH_TASK}(ptr, ptr, i32)"}
        statuses = ", ".join(f"[ %s{number}, %t{number} ]" for number in range(len(thunk.tasks)))
        cases = " ".join(f"i64 {number}, label %t{number}" for number in range(1, len(thunk.tasks)))
        lines = [
            f"define internal void @{name}(ptr %block, i64 %begin, i64 %end) #0 {{",
            "entry:",
            "  %table = load ptr, ptr %block",
            "  %state = getelementptr inbounds i8, ptr %block, i64 8",
            "  br label %next",
            "next:",
            "  %number = phi i64 [ %begin, %entry ], [ %following, %done ]",
            f"  switch i64 %number, label %t0 [ {cases} ]",
        ]
        for number, (task, waits) in enumerate(zip(thunk.tasks, thunk.waits, strict=True)):
            lines.append(f"t{number}:")
            for other in waits:
                lines.append(f"  %w{number}.{other} = getelementptr inbounds i32, ptr %state, i64 {other + 1}")
                lines.append(f"  call void @{AWAIT_TASK}(ptr %w{number}.{other})")
            called = self.outlined_function(task)
            lines.append(f"  %s{number} = call i32 @{called}(ptr %table)")
            can_fail |= called in self._failing_functions
            lines.append("  br label %done")
        lines += [
            "done:",
            f"  %status = phi i32 {statuses}",
            "  %own = getelementptr inbounds i32, ptr %state, i64 %number",
            "  %flag = getelementptr inbounds i32, ptr %own, i64 1",
            f"  call void @{FINISH_TASK}(ptr %state, ptr %flag, i32 %status)",
            "  %following = add i64 %number, 1",
            "  %more = icmp ult i64 %following, %end",
            "  br i1 %more, label %next, label %leave",
            "leave:",
            "  ret void",
            "}",
        ]
        self.functions.append("\n".join(lines))
        return name, can_fail

    # -- control flow

    def while_loop(self, function: FunctionState, thunk: WhileThunk) -> None:
        ir = function.ir
        head, body, after = [ir.new_label(p) for p in ("while", "do", "done")]
        function.loop_depth += 1
        predicate = self.address(function, thunk.predicate)
        counter = self.start_iteration_count(function, thunk)
        ir.br(head)
        ir.start_block(head)
        function.last_ticks = ""
        self.poll_in_loop(function, thunk)
        self.thunk_sequence(function, thunk.condition)
        value = ir.assign(f"load i8, ptr {predicate}")
        ir.cond_br(ir.assign(f"icmp ne i8 {value}, 0"), body, after)
        ir.start_block(body)
        self.thunk_sequence(function, thunk.body)
        ir.br(head)
        ir.start_block(after)
        function.loop_depth -= 1
        if counter is not None:
            self.end_iteration_count(function, counter)

    def conditional(self, function: FunctionState, thunk: ConditionalThunk) -> None:
        ir = function.ir
        labels = [ir.new_label("branch") for _ in thunk.branches]
        after = ir.new_label("joined")
        address = self.address(function, thunk.index)
        if thunk.index.shape.element_type.byte_size == 1:  # PRED: true selects branch 0
            value = ir.assign(f"load i8, ptr {address}")
            ir.cond_br(ir.assign(f"icmp ne i8 {value}, 0"), labels[0], labels[-1])
        else:
            value = ir.assign(f"load i32, ptr {address}")
            cases = " ".join(f"i32 {n}, label %{label}" for n, label in enumerate(labels[:-1]))
            ir.emit(f"switch i32 {value}, label %{labels[-1]} [ {cases} ]")
        for label, thunks in zip(labels, thunk.branches, strict=True):
            ir.start_block(label)
            function.last_ticks = ""
            self.thunk_sequence(function, thunks)
            ir.br(after)
        ir.start_block(after)

    # -- profiling counters

    def end_counter(self, function: FunctionState, counter: ProfilingCounter, start: str) -> None:
        """Adds what a counter has measured to the table. The next counter starts at the same clock reading."""
        if not counter.is_timed:
            emit_add(function.ir, function.iteration_counts[counter], "1")
            return
        table = self.table_entry(function, self.program.counters_index)
        function.last_ticks = emit_counter_update(
            function.ir, counter, table, start, records_events=self.records_events
        )

    def start_iteration_count(self, function: FunctionState, thunk: WhileThunk) -> ProfilingCounter | None:
        """Starts a count of iterations on the stack, and so in a register, if the loop body is not timed."""
        counters = self.program.counters
        counter = counters.starts.get(thunk.body[0]) if counters is not None and thunk.body else None
        if counter is None or counter.is_timed:
            return None
        place = function.iteration_counts[counter] = function.ir.fresh_name("n")
        function.prologue.append(f"  {place} = alloca i64")
        function.ir.emit(f"store i64 0, ptr {place}")
        return counter

    def end_iteration_count(self, function: FunctionState, counter: ProfilingCounter) -> None:
        ir, table = function.ir, self.table_entry(function, self.program.counters_index)
        word = ir.assign(f"getelementptr inbounds i8, ptr {table}, i64 {counter.offset + 8}")
        emit_add(ir, word, ir.assign(f"load i64, ptr {function.iteration_counts[counter]}"))
