"""Emits calls of kernels and of library functions, on one thread or on the thread pool.

Responsible for the functions of kernels and for the division of parallel loops into chunks. Does not depend on the
loops inside kernels or on control flow between them.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.analysis.cost.reference_machine import MIN_PARALLEL_CYCLES
from xlapy.cpu.llvm import safepoints
from xlapy.cpu.llvm.instrumentation.bounds import LEAVE_KERNEL, LEAVE_PROGRAM, KernelBounds
from xlapy.cpu.llvm.instrumentation.counters import timed_task_lines
from xlapy.cpu.llvm.kernels import emit_kernel
from xlapy.cpu.llvm.library_calls import LIBRARY_DECLARATIONS, library_call_text, library_declaration
from xlapy.cpu.llvm.pool import PARALLEL
from xlapy.cpu.llvm.program_calls import CallEmitter
from xlapy.cpu.llvm.program_memory import FunctionState
from xlapy.cpu.llvm.safepoint_loops import PollEntries, may_poll
from xlapy.cpu.llvm.shared_code import DECLARATIONS as SHARED_DECLARATIONS
from xlapy.cpu.llvm.shared_code import POLL, task_call, task_name, task_prologue
from xlapy.cpu.llvm.unrolled import emit_unrolled_kernel
from xlapy.cpu.program.buffer_slices import StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, LibraryCallThunk, Thunk
from xlapy.loops import Kernel

COPY_GRAIN_BYTES = 1 << 18
"""The bytes of one chunk of a copy: few enough that two threads share a copy of a megabyte evenly, and enough that each
chunk reads memory at its full rate."""

_COPY_TASK = """define internal void @copy_task(ptr %block, i64 %begin, i64 %end) #0 {{
entry:
  %target.at = getelementptr inbounds ptr, ptr %block, i64 0
  %source.at = getelementptr inbounds ptr, ptr %block, i64 1
  %target = load ptr, ptr %target.at
  %source = load ptr, ptr %source.at
  %to.chunk = getelementptr inbounds i8, ptr %target, i64 %begin
  %from.chunk = getelementptr inbounds i8, ptr %source, i64 %begin
  %size = sub i64 %end, %begin
{copy}
  ret void
}}"""
"""The function that copies a range of the bytes of an array."""


class KernelCallEmitter(CallEmitter):
    """The methods that emit kernels and their calls."""

    def __init__(self, program: NativeProgram, on_part: Callable[[str], None] | None = None) -> None:
        super().__init__(program, on_part)
        self.kernel_functions: dict[Thunk, str] = {}
        """The function that contains the code of each kernel."""
        self._poll_entries = PollEntries(program.shared_index, program.poll_index)
        self._kernels: dict[Kernel, str] = {}
        self._names_by_text: dict[str, str] = {}
        """The name of each kernel by its text: kernels that do the same on other memory are one function."""
        self._polling_kernels: set[str] = set()
        self._tasks: set[str] = set()

    @property
    def records_events(self) -> bool:
        return self.program.counters is not None and self.program.counters.records_events

    def kernel(self, function: FunctionState, thunk: KernelThunk) -> None:
        pointers = [self.address(function, slice_) for slice_ in thunk.slices]
        checks = self.program.bounds_checks
        if thunk.unrolled:
            bounds = KernelBounds.of(checks, thunk, LEAVE_PROGRAM)
            function.can_fail |= bounds is not None
            vectors = {b for b, s in zip(thunk.kernel.buffers, thunk.slices, strict=True) if s in function.vectors}
            emit_unrolled_kernel(thunk.kernel, function.ir, function.prologue, pointers, vectors, bounds)
            function.unrolled.append(thunk)
            return
        name = self.kernel_functions[thunk] = self._kernel_name(thunk)
        if name in self._polling_kernels or checks is not None:
            pointers.append("%table")
        extent = thunk.iterations
        if extent < 2 or thunk.cost < MIN_PARALLEL_CYCLES:
            arguments = [f"ptr {pointer}" for pointer in pointers]
            if thunk.kernel.parallel_loop is not None:
                arguments += ["i64 0", f"i64 {extent}"]
            function.ir.emit(f"call void @{name}({', '.join(arguments)})")
        else:
            # The size of chunks never depends on the number of threads.
            grain = max(1, min(extent // 16, MIN_PARALLEL_CYCLES * extent // thunk.cost))
            task = self._kernel_task(len(pointers))
            self._run_in_parallel(function, thunk, task, [f"@{name}", *pointers], (extent, grain))
        if checks is not None:
            self.require_success(function, function.ir.assign("call i32 @bounds_status(ptr %table)"))
        if name in self._polling_kernels:
            self.poll(function)

    def library_call(self, function: FunctionState, thunk: LibraryCallThunk) -> None:
        """Emits the calls of a library function for all elements of a batch."""
        text = library_call_text(thunk)
        name = self._names_by_text.get(text)
        if name is None:
            name = self._names_by_text[text] = f"library{len(self._names_by_text)}"
            self.functions.append(text.replace("@library(", f"@{name}(", 1))
            self.declarations |= LIBRARY_DECLARATIONS | {library_declaration(thunk)}
            self.imports.add(thunk.symbol)
        pointers = [self.address(function, slice_) for slice_ in thunk.slices]
        if thunk.grain >= thunk.batch:
            block = self._argument_block(function, pointers)
            function.ir.emit(f"call void @{name}(ptr {block}, i64 0, i64 {thunk.batch})")
            return
        task = self._library_task(name, len(pointers))
        self._run_in_parallel(function, thunk, task, pointers, (thunk.batch, thunk.grain))

    def copy(self, function: FunctionState, thunk: CopyThunk) -> None:
        """Copies an array, a large one on all threads."""
        size = thunk.source.size
        if thunk.cost < MIN_PARALLEL_CYCLES or thunk.source.storage is StorageClass.SHARED:
            super().copy(function, thunk)
            return
        pointers = [self.address(function, slice_) for slice_ in (thunk.target, thunk.source)]
        self._run_in_parallel(function, thunk, self._copy_task(), pointers, (size, COPY_GRAIN_BYTES))

    # -- parallel loops

    def _run_in_parallel(
        self,
        function: FunctionState,
        thunk: KernelThunk | LibraryCallThunk | CopyThunk,
        task: str,
        pointers: list[str],
        extent_and_grain: tuple[int, int],
    ) -> None:
        """Runs a task on all threads. pointers: the contents of its argument block; grain: the iterations per chunk."""
        self.import_parallel()
        if self.program.counters is not None:
            table = self.table_entry(function, self.program.counters_index)
            counter = self.program.counters.starts[thunk]
            words = function.ir.assign(f"getelementptr inbounds i8, ptr {table}, i64 {counter.offset}")
            pointers = [*pointers, words, table]
        block = self._argument_block(function, pointers)
        extent, grain = extent_and_grain
        polls_between_chunks = thunk.cost > safepoints.MIN_POLLED_PARALLEL_CYCLES
        table = "ptr %table" if polls_between_chunks else "ptr null"
        arguments = f"i64 {extent}, i64 {grain}, {table}, {self._poll_arguments}"
        function.ir.emit(f"call void @{PARALLEL}(ptr @{task}, ptr {block}, {arguments})")
        if polls_between_chunks:
            self.poll(function)

    def import_parallel(self) -> None:
        self.imports.add(PARALLEL)
        self.declarations.add(f"declare void @{PARALLEL}(ptr, ptr, i64, i64, ptr, i64, i64)")

    def _argument_block(self, function: FunctionState, pointers: list[str]) -> str:
        """Returns a register with the address of an array of pointers on the stack."""
        block = function.ir.fresh_name("a")
        function.prologue.append(f"  {block} = alloca [{len(pointers)} x ptr]")
        for number, pointer in enumerate(pointers):
            entry = function.ir.assign(f"getelementptr inbounds ptr, ptr {block}, i64 {number}")
            function.ir.emit(f"store ptr {pointer}, ptr {entry}")
        return block

    # -- functions

    def _kernel_name(self, thunk: KernelThunk) -> str:
        """Returns the function of a kernel, which is emitted at its first use, or at each use if its accesses are
        checked."""
        kernel, checks = thunk.kernel, self.program.bounds_checks
        found = self._kernels.get(kernel) if checks is None else None
        if found is None:
            for buffer, slice_ in zip(kernel.buffers, thunk.slices, strict=True):
                # what a kernel overwrites is in a cache when it is written
                buffer.nontemporal &= thunk.slices.count(slice_) == 1
            bounds = KernelBounds.of(checks, thunk, LEAVE_KERNEL)
            entries = self._poll_entries if may_poll(kernel, thunk.cost) else None
            text, declarations = emit_kernel(kernel, "kernel", entries, bounds)
            found = self._names_by_text.get(text)
            if found is None:
                found = self._names_by_text[text] = f"kernel{len(self._names_by_text)}"
                if SHARED_DECLARATIONS[POLL] in declarations:
                    self._polling_kernels.add(found)
                    self.import_shared(POLL)
                self.functions.append(f"; {kernel.name}\n{text.replace('@kernel(', f'@{found}(', 1)}")
                self.declarations |= declarations
            self._kernels[kernel] = found
        return found

    def _kernel_task(self, buffers: int) -> str:
        """Returns the function that loads a kernel and its buffers from an argument block and calls the kernel."""
        name = task_name(buffers)
        if name in self._tasks:
            return name
        self._tasks.add(name)
        if self.program.counters is None:
            self.imports.add(name)
            self.declarations.add(f"declare void @{name}(ptr, i64, i64)")
            return name
        head = f"define internal void @{name}(ptr %block, i64 %begin, i64 %end) #0 {{"
        body = timed_task_lines(task_call(buffers), buffers + 1, records_events=self.records_events)
        self.functions.append("\n".join([head, "entry:", *task_prologue(buffers), *body, "  ret void", "}"]))
        return name

    def _copy_task(self) -> str:
        """Returns the function for chunks of a copy, timed in instrumented programs."""
        name = "copy_task"
        if name not in self._tasks:
            self._tasks.add(name)
            copy = self.memmove("%to.chunk", "%from.chunk", "%size")
            lines = [f"  {copy}"]
            if self.program.counters is not None:
                lines = timed_task_lines(copy, 2, records_events=self.records_events)
            self.functions.append(_COPY_TASK.format(copy="\n".join(lines)))
        return name

    def _library_task(self, name: str, slices: int) -> str:
        """Returns the function for chunks of a batch: the library calls themselves, timed in instrumented programs."""
        if self.program.counters is None:
            return name
        found = f"task_{name}"
        if found not in self._tasks:
            self._tasks.add(found)
            call = f"call void @{name}(ptr %block, i64 %begin, i64 %end)"
            head = f"define internal void @{found}(ptr %block, i64 %begin, i64 %end) #0 {{"
            lines = timed_task_lines(call, slices, records_events=self.records_events)
            self.functions.append("\n".join([head, "entry:", *lines, "  ret void", "}"]))
        return found
