"""The thunks of a native program as LLVM text.

    i32 @xlapy_run(ptr %table)

runs the whole program; it returns 0, or 1 if a thunk failed, after which no other ran. The table holds the addresses of
the arena, the arguments, the results and the constants, in this order; every slice_ is one of them and an offset, or held
on the stack of its part's function. Behind them it has `i32 callback(i64 number)`, the host's function for callbacks,
which returns 0 or fails, and the address of what the devices of a run share: an i32 that is not 0 once the run is
cancelled.

Long lists of thunks are cut into functions, so that the time to compile them stays linear.

Owns: control flow between kernels, the way out of failures, calls of kernels on one thread or many. Must not know:
HLO, the insides of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xlapy.cpu.llvm import safepoints, target_calls
from xlapy.cpu.llvm.communication import waits
from xlapy.cpu.llvm.communication.feeds import NEXT_FED, feed_text
from xlapy.cpu.llvm.communication.rendezvous import MEET, rows_text, write_meeting
from xlapy.cpu.llvm.communication.transfers import DECLARATIONS as TRANSFER_DECLARATIONS
from xlapy.cpu.llvm.communication.transfers import TRANSFERS, transfer_text, write_transfer
from xlapy.cpu.llvm.communication.transfers import rows_text as rows_of_queues
from xlapy.cpu.llvm.counters import CLOCK_DECLARATIONS, NOTE, READ_CLOCK, increase, stamp, task_lines
from xlapy.cpu.llvm.kernels import write_kernel
from xlapy.cpu.llvm.library_calls import LIBRARY_DECLARATIONS, library_call_text, library_declaration
from xlapy.cpu.llvm.safepoint_loops import Places
from xlapy.cpu.llvm.shared_code import (
    CALL_BACK,
    FLUSH_DENORMALS,
    LOOK,
    MODE,
    RESET_MXCSR_FUNCTION,
    task_call,
    task_head,
    task_name,
)
from xlapy.cpu.llvm.shared_code import DECLARATIONS as SHARED_DECLARATIONS
from xlapy.cpu.llvm.text import Writer
from xlapy.cpu.llvm.unrolled import write_straight
from xlapy.cpu.program.buffer_assignment import ALIGNMENT
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.outlining import MAX_STACK_SLOT_BYTES
from xlapy.cpu.program.thunks import (
    CallbackThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    FeedThunk,
    KernelThunk,
    LibraryCallThunk,
    OutlinedThunk,
    Thunk,
    TransferThunk,
    WhileThunk,
)
from xlapy.loops import Kernel

PARALLEL_WORK = 1 << 16
"""Operations from which on a loop is worth more than one thread."""

PIECE = 64
"""Bytes of a small array that are copied at once."""


_CALL_BACK = f"""define internal i32 @call_back(ptr %table, i64 %number) noinline #0 {{{{
entry:
  %status = call i32 @{CALL_BACK}(ptr %table, i64 {{index}}, i64 %number)
  ret i32 %status
}}}}"""


@dataclass(slots=True)
class ProgramText:
    """A whole module: its text, and what it imports."""

    text: str
    imports: frozenset[str]
    """The functions of other modules and libraries that it calls."""
    functions: dict[KernelThunk, str]
    """The function of each kernel: its own, or that of the part in which it is written out."""


def write_program(program: NativeProgram, *, flush_denormals: bool) -> ProgramText:
    """The text of a program whose slices have their places."""
    writer = _ProgramWriter(program)
    if program.counters is not None:
        writer.declarations |= CLOCK_DECLARATIONS
        writer.functions.append(NOTE)
    writer.run_function(flush_denormals)
    functions = "\n".join(writer.functions)
    declarations = "\n".join(sorted(writer.declarations))
    attributes = 'attributes #0 = { nounwind "no-builtins" }'
    return ProgramText(f"{declarations}\n\n{functions}\n{attributes}\n", frozenset(writer.imports), writer.places)


@dataclass
class _Function:
    """A function under construction: its writer, and the base addresses that it has loaded."""

    writer: Writer = field(default_factory=Writer)
    bases: dict[int, str] = field(default_factory=dict[int, str])
    pointers: dict[BufferSlice, str] = field(default_factory=dict[BufferSlice, str])
    head: list[str] = field(default_factory=list[str])
    """What comes before all else."""
    fails: bool = False
    """Whether it may return 1."""
    unrolled: list[KernelThunk] = field(default_factory=list[KernelThunk])
    now: str = ""
    """The ticks when the last clock ended, if that was a moment ago."""
    turns: dict[ProfilingCounter, str] = field(default_factory=dict[ProfilingCounter, str])
    """Where turns of loops are counted."""
    loops: int = 0
    """Those around what is being written."""
    unwatched: int = 0
    """Operations since the last look."""


class _ProgramWriter:
    def __init__(self, program: NativeProgram) -> None:
        self.program = program
        self.places: dict[KernelThunk, str] = {}
        self.functions: list[str] = []
        self.declarations: set[str] = set()
        self.imports: set[str] = set()
        self._places_of_looks = Places(program.shared_index, program.poll_index)
        self._arguments_of_looks = f"i64 {program.shared_index}, i64 {program.poll_index}"
        self._kernels: dict[Kernel, str] = {}
        self._texts: dict[str, str] = {}
        """The name of each kernel by its text: kernels that do the same to other memory are one function."""
        self._looking: set[str] = set()
        """The kernels that look whether to go on."""
        self._tasks: set[str] = set()
        self._constants: dict[BufferSlice, str] = {}
        self._parts = 0
        self._failing: set[str] = set()
        self._calls_back = False
        self._changes_mode = False
        self._looks = False
        self._meets = False
        self._waits = False
        self._transfers = False
        self._feeds = False
        self._target_calls: set[str] = set()

    def run_function(self, flush_denormals: bool) -> None:
        thunks = self.program.thunks
        lone = thunks[0] if len(thunks) == 1 and self.program.counters is None else None
        function = self.function_of(lone if isinstance(lone, OutlinedThunk) else OutlinedThunk(thunks))
        before: list[str] = []
        after: list[str] = []
        if flush_denormals:
            self.declarations |= MODE
            before = [
                "  %old = alloca i32",
                "  %new = alloca i32",
                "  call void @llvm.x86.sse.stmxcsr(ptr %old)",
                "  %mode = load i32, ptr %old",
                f"  %flush = or i32 %mode, {FLUSH_DENORMALS}",
                "  store i32 %flush, ptr %new",
                "  call void @llvm.x86.sse.ldmxcsr(ptr %new)",
            ]
            after = ["  call void @llvm.x86.sse.ldmxcsr(ptr %old)"]
        if self._looks:
            before += safepoints.begin_looking(self.program)
            self.declarations |= safepoints.DECLARATIONS
        self.define(function, "xlapy_run", before, after)

    def part(self, part: OutlinedThunk) -> str:
        """A function that runs the thunks of a part; returns its name."""
        function = self.function_of(part)
        name = f"part{self._parts}"
        self._parts += 1
        if function.fails:
            self._failing.add(name)
        self.define(function, name, [], [], "internal ")
        return name

    def function_of(self, part: OutlinedThunk) -> _Function:
        """A function that runs the thunks of a part."""
        function = _Function()
        for slice_ in dict.fromkeys([*part.loaded, *part.stored]):
            self.hold(function, slice_)
        for slice_ in part.loaded:
            if slice_.storage is StorageClass.CONSTANT:
                continue
            function.head.append(
                "  " + self.copy_of(function.pointers[slice_], self.memory(function, slice_), slice_.size)
            )
        self.thunks(function, part.thunks)
        for slice_ in part.stored:
            function.writer.do(self.copy_of(self.memory(function, slice_), function.pointers[slice_], slice_.size))
        return function

    def define(
        self, function: _Function, name: str, before: Sequence[str], after: Sequence[str], linkage: str = ""
    ) -> None:
        """Adds a function to the module; before, after: what else it does when it begins, and when it ends."""
        self.places.update(dict.fromkeys(function.unrolled, name))
        failed = ["failed:", *after, "  ret i32 1"] if function.fails else []
        lines = [*before, *function.head, *function.writer.lines, *after, "  ret i32 0", *failed]
        self.functions.append("\n".join([f"define {linkage}i32 @{name}(ptr %table) #0 {{", "entry:", *lines, "}"]))
        self.declarations |= function.writer.declarations

    def thunks(self, function: _Function, thunks: list[Thunk]) -> None:
        clocks = self.program.counters
        if clocks is None:
            for thunk in thunks:
                self.thunk(function, thunk)
            return
        begin = ""
        for thunk in thunks:
            if thunk in clocks.starts and clocks.starts[thunk].is_timed:
                begin = function.now or function.writer.let(READ_CLOCK)
            self.thunk(function, thunk)
            if thunk in clocks.ends:
                self.end_clock(function, clocks.ends[thunk], begin)

    def end_clock(self, function: _Function, clock: ProfilingCounter, begin: str) -> None:
        """Counts what a clock has measured; the next one begins where it ends."""
        if not clock.is_timed:
            increase(function.writer, function.turns[clock], "1")
            return
        table = self.base(function, self.program.counters_index)
        function.now = stamp(function.writer, clock, table, begin, notes=self.notes_events)

    def begin_turns(self, function: _Function, thunk: WhileThunk) -> ProfilingCounter | None:
        """A count of a loop's turns on the stack, and so in a register, if that is all that is counted of its body."""
        clocks = self.program.counters
        clock = clocks.starts.get(thunk.body[0]) if clocks is not None and thunk.body else None
        if clock is None or clock.is_timed:
            return None
        place = function.turns[clock] = function.writer.name("n")
        function.head.append(f"  {place} = alloca i64")
        function.writer.do(f"store i64 0, ptr {place}")
        return clock

    def end_turns(self, function: _Function, clock: ProfilingCounter) -> None:
        writer, table = function.writer, self.base(function, self.program.counters_index)
        figure = writer.let(f"getelementptr inbounds i8, ptr {table}, i64 {clock.offset + 8}")
        increase(writer, figure, writer.let(f"load i64, ptr {function.turns[clock]}"))

    @property
    def notes_events(self) -> bool:
        return self.program.counters is not None and self.program.counters.records_events

    def call_part(self, function: _Function, part: OutlinedThunk) -> None:
        function.now = ""
        name = self.part(part)
        status = function.writer.let(f"call i32 @{name}(ptr %table)")
        if name in self._failing:
            self.require(function, status)

    def require(self, function: _Function, status: str) -> None:
        """Goes on if a status is 0, else leaves the function."""
        writer, good = function.writer, function.writer.new_label("good")
        function.fails = True
        writer.branch(writer.let(f"icmp eq i32 {status}, 0"), good, "failed")
        writer.begin(good)

    def thunk(self, function: _Function, thunk: Thunk) -> None:
        if isinstance(thunk, KernelThunk):
            self.kernel(function, thunk)
        elif isinstance(thunk, CopyThunk):
            self.copy(function, thunk)
        elif isinstance(thunk, WhileThunk):
            self.loop(function, thunk)
        elif isinstance(thunk, OutlinedThunk):
            self.call_part(function, thunk)
        elif isinstance(thunk, LibraryCallThunk):
            self.library_call(function, thunk)
        elif isinstance(thunk, CollectiveThunk):
            self.require(function, self.meeting(function, thunk))
        elif isinstance(thunk, TransferThunk):
            self.require(function, self.transfer(function, thunk))
        elif isinstance(thunk, FeedThunk):
            self.require(function, self.feed(function, thunk))
        elif isinstance(thunk, CallbackThunk):
            call = (
                self.call_back(function, thunk.number)
                if thunk.calling_convention is None
                else self.target(function, thunk)
            )
            self.require(function, call)
        else:
            self.branches(function, thunk)
        self.look_behind(function, thunk)

    # -- memory

    def pointer(self, function: _Function, slice_: BufferSlice) -> str:
        """A register with the slice_'s address, for a thunk: read at the moment, so that few are held at a time.

        What is read again and again in loops is read once, at the head of the function.
        """
        if slice_ in function.pointers:
            return function.pointers[slice_]
        if slice_.storage is StorageClass.STACK:
            self.hold(function, slice_)
            return function.pointers[slice_]
        if function.loops and slice_.storage is not StorageClass.SHARED:
            function.pointers[slice_] = self.memory(function, slice_)
            return function.pointers[slice_]
        if slice_.storage is StorageClass.TEMPORARY:
            base = self.base(function, self.program.table_index(slice_))
            return function.writer.let(f"getelementptr inbounds i8, ptr {base}, i64 {slice_.offset}")
        place = function.writer.let(f"getelementptr inbounds ptr, ptr %table, i64 {self.program.table_index(slice_)}")
        return function.writer.let(f"load ptr, ptr {place}")

    def hold(self, function: _Function, slice_: BufferSlice) -> None:
        """Memory for a slice_ on the function's stack; a constant is its own text."""
        if slice_.storage is StorageClass.CONSTANT:
            function.pointers[slice_] = self.constant(slice_)
            return
        name = function.pointers[slice_] = function.writer.name("h")
        function.head.append(f"  {name} = alloca [{slice_.size} x i8], align {ALIGNMENT}")

    def constant(self, slice_: BufferSlice) -> str:
        """A constant of the module with the slice_'s elements: LLVM computes with them."""
        found = self._constants.get(slice_)
        if found is None:
            assert slice_.data is not None
            found = self._constants[slice_] = f"@constant{slice_.number}"
            data = "".join(f"\\{byte:02X}" for byte in slice_.data.tobytes())
            text = f'private unnamed_addr constant [{slice_.size} x i8] c"{data}", align {ALIGNMENT}'
            self.functions.append(f"{found} = {text}")
        return found

    def memory(self, function: _Function, slice_: BufferSlice) -> str:
        """A register with the address that a slice_ has by the table, made at the head of the function."""
        base = self.base(function, self.program.table_index(slice_))
        if slice_.storage is not StorageClass.TEMPORARY or not slice_.offset:
            return base
        name = function.writer.name("s")
        function.head.append(f"  {name} = getelementptr inbounds i8, ptr {base}, i64 {slice_.offset}")
        return name

    def base(self, function: _Function, index: int) -> str:
        found = function.bases.get(index)
        if found is None:
            address, found = function.writer.name("e"), function.writer.name("m")
            function.head.append(f"  {address} = getelementptr inbounds ptr, ptr %table, i64 {index}")
            function.head.append(f"  {found} = load ptr, ptr {address}")
            function.bases[index] = found
        return found

    def copy(self, function: _Function, thunk: CopyThunk) -> None:
        if not thunk.source.size:
            return
        target, source = self.pointer(function, thunk.target), self.pointer(function, thunk.source)
        if thunk.source.storage is StorageClass.SHARED:
            self.copy_or_clear(function, target, source, thunk.source.size)
            return
        if thunk.source.size > MAX_STACK_SLOT_BYTES:
            function.writer.do(self.copy_of(target, source, thunk.source.size))
            return
        for offset, type in _pieces(thunk.source):
            begin = function.writer.let(f"getelementptr inbounds i8, ptr {source}, i64 {offset}")
            piece = function.writer.let(f"load {type}, ptr {begin}, align 1")
            end = function.writer.let(f"getelementptr inbounds i8, ptr {target}, i64 {offset}")
            function.writer.do(f"store {type} {piece}, ptr {end}, align 1")

    def copy_or_clear(self, function: _Function, target: str, source: str, size: int) -> None:
        """Zeros where the source is null."""
        writer = function.writer
        absent, present, after = [writer.new_label(p) for p in ("absent", "present", "copied")]
        writer.branch(writer.let(f"icmp eq ptr {source}, null"), absent, present)
        writer.begin(absent)
        self.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        writer.do(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")
        writer.jump(after)
        writer.begin(present)
        writer.do(self.copy_of(target, source, size))
        writer.jump(after)
        writer.begin(after)

    def copy_of(self, target: str, source: str, size: int) -> str:
        self.declarations.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        return f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"

    # -- the host

    def call_back(self, function: _Function, number: int) -> str:
        """The status of a callback, which runs in the host's own mode of floating-point numbers."""
        self.need_callbacks()
        return function.writer.let(f"call i32 @call_back(ptr %table, i64 {number})")

    def need_callbacks(self) -> None:
        if not self._calls_back:
            self._calls_back = True
            self.share(CALL_BACK)
            self.functions.append(_CALL_BACK.format(index=self.program.callback_index))

    def share(self, function: str) -> None:
        """The program calls a function of the whole process."""
        self.imports.add(function)
        self.declarations.add(SHARED_DECLARATIONS[function])

    def need_plain_mode(self) -> None:
        if not self._changes_mode:
            self._changes_mode = True
            self.functions.append(RESET_MXCSR_FUNCTION)
            self.declarations |= MODE

    def target(self, function: _Function, thunk: CallbackThunk) -> str:
        """The status of the call of a target."""
        self.need_callbacks()
        self.need_plain_mode()
        name = target_calls.function_name(thunk)
        if name not in self._target_calls:
            self._target_calls.add(name)
            self.functions.append(target_calls.function_text(thunk))
            self.declarations |= target_calls.DECLARATIONS
        operands, results = ([self.pointer(function, s) for s in slices] for slices in (thunk.operands, thunk.results))
        return target_calls.write_call(
            function.writer, thunk, self.program.call_blocks_index + thunk.number, operands, results
        )

    def meeting(self, function: _Function, thunk: CollectiveThunk) -> str:
        """The status of a meeting."""
        self.need_waits()
        if not self._meets:
            self._meets = True
            self.functions.append(MEET)
        self.functions.append(rows_text(thunk))
        operands = [(slice_, self.pointer(function, slice_)) for slice_ in thunk.operands]
        return write_meeting(function.writer, thunk, self.program, self.copy_of, operands)

    def transfer(self, function: _Function, thunk: TransferThunk) -> str:
        """The status of a transfer between devices."""
        self.need_transfers()
        self.functions += [rows_of_queues(thunk), transfer_text(thunk, self.program, self.copy_of)]
        pointers = [self.pointer(function, slice_) for slice_ in (*thunk.operands, *thunk.results)]
        return write_transfer(function.writer, thunk, pointers)

    def feed(self, function: _Function, thunk: FeedThunk) -> str:
        """The status of an infeed or outfeed."""
        self.need_transfers()
        if not self._feeds:
            self._feeds = True
            self.functions.append(NEXT_FED)
        self.functions.append(feed_text(thunk, self.program, self.copy_of))
        arrays = "".join(f", ptr {self.pointer(function, slice_)}" for slice_ in (*thunk.operands, *thunk.results))
        return function.writer.let(f"call i32 @feed{thunk.number}(ptr %table{arrays})")

    def need_transfers(self) -> None:
        if not self._transfers:
            self._transfers = True
            self.need_waits()
            self.functions.append(TRANSFERS)
            self.declarations |= TRANSFER_DECLARATIONS

    def need_waits(self) -> None:
        if not self._waits:
            self._waits = True
            self.need_callbacks()
            self.functions.append(waits.await_text())
            self.declarations |= waits.DECLARATIONS

    # -- the way out of long runs

    def look(self, function: _Function) -> None:
        """Leaves the function if the run is to end early."""
        self._looks = True
        self.share(LOOK)
        self.require(function, function.writer.let(f"call i32 @{LOOK}(ptr %table, {self._arguments_of_looks})"))
        function.unwatched = 0

    def look_in_loop(self, function: _Function, thunk: WhileThunk) -> None:
        """Looks every so many iterations."""
        every = safepoints.period(thunk)
        if every == 1:
            self.look(function)
            return
        writer = function.writer
        counter, due, after = writer.name("n"), writer.new_label("due"), writer.new_label("go")
        function.head += [f"  {counter} = alloca i32", f"  store i32 0, ptr {counter}"]
        writer.branch(safepoints.write_due(writer, counter, every), due, after)
        writer.begin(due)
        self.look(function)
        writer.jump(after)
        writer.begin(after)

    def look_behind(self, function: _Function, thunk: Thunk) -> None:
        """Looks if it is long since the function did."""
        function.unwatched += 0 if isinstance(thunk, WhileThunk | OutlinedThunk) else safepoints.duration(thunk)
        if function.unwatched >= safepoints.LOOK:
            self.look(function)

    # -- kernels

    def kernel(self, function: _Function, thunk: KernelThunk) -> None:
        loop = thunk.kernel.parallel_loop
        pointers = [self.pointer(function, slice_) for slice_ in thunk.slices]
        if thunk.unrolled:
            write_straight(thunk.kernel, function.writer, function.head, pointers)
            function.unrolled.append(thunk)
            return
        name = self.places[thunk] = self.kernel_name(thunk.kernel)
        if name in self._looking:
            pointers.append("%table")
        extent = loop.extent if loop is not None and isinstance(loop.extent, int) else 1
        if loop is None or extent < 2 or extent * thunk.work < PARALLEL_WORK:
            arguments = [f"ptr {pointer}" for pointer in pointers]
            if loop is not None:
                arguments += ["i64 0", f"i64 {extent}"]
            function.writer.do(f"call void @{name}({', '.join(arguments)})")
        else:
            self.parallel(function, thunk, [f"@{name}", *pointers], extent)
        if name in self._looking:
            self.look(function)

    def parallel(self, function: _Function, thunk: KernelThunk, pointers: list[str], extent: int) -> None:
        """Pieces of about the least work that is worth a thread, never by the number of threads.

        pointers: the kernel and its buffers.
        """
        grain = max(1, min(extent // 16 or 1, PARALLEL_WORK // thunk.work))
        self.run_parallel(function, thunk, self.kernel_task(len(pointers) - 1), pointers, (extent, grain))

    def run_parallel(
        self,
        function: _Function,
        thunk: KernelThunk | LibraryCallThunk,
        task: str,
        pointers: list[str],
        pieces: tuple[int, int],
    ) -> None:
        """A task on so many iterations, in pieces of so many, on all threads."""
        self.imports.add("xlapy_parallel")
        self.declarations.add("declare void @xlapy_parallel(ptr, ptr, i64, i64, ptr, i64, i64)")
        if self.program.counters is not None:
            table = self.base(function, self.program.counters_index)
            clock = self.program.counters.starts[thunk]
            figures = function.writer.let(f"getelementptr inbounds i8, ptr {table}, i64 {clock.offset}")
            pointers = [*pointers, figures, table]
        block = self.block_of(function, pointers)
        extent, grain = pieces
        looks_between = extent * thunk.work > safepoints.LONG
        table = "ptr %table" if looks_between else "ptr null"
        numbers = f"i64 {extent}, i64 {grain}, {table}, {self._arguments_of_looks}"
        function.writer.do(f"call void @xlapy_parallel(ptr @{task}, ptr {block}, {numbers})")
        if looks_between:
            self.look(function)

    def block_of(self, function: _Function, pointers: list[str]) -> str:
        """A register with the address of a table of addresses."""
        block = function.writer.name("a")
        function.head.append(f"  {block} = alloca [{len(pointers)} x ptr]")
        for number, pointer in enumerate(pointers):
            place = function.writer.let(f"getelementptr inbounds ptr, ptr {block}, i64 {number}")
            function.writer.do(f"store ptr {pointer}, ptr {place}")
        return block

    def library_call(self, function: _Function, thunk: LibraryCallThunk) -> None:
        """Calls of a library's function, on one thread or many."""
        text = library_call_text(thunk)
        name = self._texts.get(text)
        if name is None:
            name = self._texts[text] = f"library{len(self._texts)}"
            self.functions.append(text.replace("@library(", f"@{name}(", 1))
            self.declarations |= LIBRARY_DECLARATIONS | {library_declaration(thunk)}
            self.imports.add(thunk.symbol)
        pointers = [self.pointer(function, slice_) for slice_ in thunk.slices]
        if thunk.grain >= thunk.batch:
            block = self.block_of(function, pointers)
            function.writer.do(f"call void @{name}(ptr {block}, i64 0, i64 {thunk.batch})")
            return
        self.run_parallel(function, thunk, self.library_task(name, len(pointers)), pointers, (thunk.batch, thunk.grain))

    def kernel_name(self, kernel: Kernel) -> str:
        """The function of a kernel."""
        found = self._kernels.get(kernel)
        if found is None:
            text, declarations = write_kernel(kernel, "kernel", self._places_of_looks)
            found = self._texts.get(text)
            if found is None:
                found = self._texts[text] = f"kernel{len(self._texts)}"
                if SHARED_DECLARATIONS[LOOK] in declarations:
                    self._looking.add(found)
                    self.share(LOOK)
                self.functions.append(f"; {kernel.name}\n{text.replace('@kernel(', f'@{found}(', 1)}")
                self.declarations |= declarations
            self._kernels[kernel] = found
        return found

    def kernel_task(self, buffers: int) -> str:
        """A function that takes a kernel and so many buffers from a block of addresses: one for all such kernels."""
        name = task_name(buffers)
        if name in self._tasks:
            return name
        self._tasks.add(name)
        if self.program.counters is None:
            self.imports.add(name)
            self.declarations.add(f"declare void @{name}(ptr, i64, i64)")
            return name
        head = f"define internal void @{name}(ptr %block, i64 %begin, i64 %end) #0 {{"
        body = task_lines(task_call(buffers), buffers + 1, notes=self.notes_events)
        self.functions.append("\n".join([head, "entry:", *task_head(buffers), *body, "  ret void", "}"]))
        return name

    def library_task(self, name: str, slices: int) -> str:
        """A function for pieces of a batch: the calls themselves, timed if the program is instrumented."""
        if self.program.counters is None:
            return name
        found = f"task_{name}"
        if found not in self._tasks:
            self._tasks.add(found)
            call = f"call void @{name}(ptr %block, i64 %begin, i64 %end)"
            head = f"define internal void @{found}(ptr %block, i64 %begin, i64 %end) #0 {{"
            lines = task_lines(call, slices, notes=self.notes_events)
            self.functions.append("\n".join([head, "entry:", *lines, "  ret void", "}"]))
        return found

    # -- control flow

    def loop(self, function: _Function, thunk: WhileThunk) -> None:
        writer = function.writer
        head, body, after = [writer.new_label(p) for p in ("while", "do", "done")]
        function.loops += 1
        decides = self.pointer(function, thunk.predicate)
        counted = self.begin_turns(function, thunk)
        writer.jump(head)
        writer.begin(head)
        function.now = ""
        self.look_in_loop(function, thunk)
        self.thunks(function, thunk.condition)
        value = writer.let(f"load i8, ptr {decides}")
        writer.branch(writer.let(f"icmp ne i8 {value}, 0"), body, after)
        writer.begin(body)
        self.thunks(function, thunk.body)
        writer.jump(head)
        writer.begin(after)
        function.loops -= 1
        if counted is not None:
            self.end_turns(function, counted)

    def branches(self, function: _Function, thunk: ConditionalThunk) -> None:
        writer = function.writer
        labels = [writer.new_label("branch") for _ in thunk.branches]
        after = writer.new_label("joined")
        address = self.pointer(function, thunk.index)
        if thunk.index.shape.element_type.byte_size == 1:  # PRED: true takes branch 0
            value = writer.let(f"load i8, ptr {address}")
            writer.branch(writer.let(f"icmp ne i8 {value}, 0"), labels[0], labels[-1])
        else:
            value = writer.let(f"load i32, ptr {address}")
            cases = " ".join(f"i32 {n}, label %{label}" for n, label in enumerate(labels[:-1]))
            writer.do(f"switch i32 {value}, label %{labels[-1]} [ {cases} ]")
        for label, thunks in zip(labels, thunk.branches, strict=True):
            writer.begin(label)
            function.now = ""
            self.thunks(function, thunks)
            writer.jump(after)
        writer.begin(after)


def _pieces(slice_: BufferSlice) -> Iterator[tuple[int, str]]:
    """The vectors in which a small array is copied: their offsets and types.

    LLVM holds in registers what it sees loaded or stored as values; what is only moved by its bytes stays on the stack.
    """
    t = slice_.shape.element_type
    width = t.byte_size // (2 if t.is_complex else 1)
    for offset in range(0, slice_.size, PIECE):
        count = min(PIECE, slice_.size - offset) // width
        yield offset, f"i{8 * width}" if count == 1 else f"<{count} x i{8 * width}>"
