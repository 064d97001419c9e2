"""Compiles the parts of a program on several processors, while the program is still being emitted.

LLVM works on parts at once because each thread has a generator of its own (`bounded.generator`). The code is the same
for any number of threads.

Responsible for the threads and for the link of the parts. Does not depend on what the parts contain.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm.bounded.escape import Limits
from xlapy.cpu.llvm.bounded.generator import StageLimitExceededError
from xlapy.cpu.llvm.jit import Code, Symbol, compile_simpler, compile_text, link_objects, object_file
from xlapy.cpu.llvm.pool import thread_count
from xlapy.cpu.llvm.processor import target_processor


class ParallelCompilation:
    """The object files of the parts of a module. trace: records the time of each step; name: the module in messages."""

    def __init__(self, trace: CompileTrace, name: str) -> None:
        self._trace, self._name, self._processor = trace, name, target_processor()
        self._pending: deque[tuple[int, str]] = deque()
        self._count = 0
        self._images: dict[int, bytes] = {}
        self._failures: list[tuple[str, BaseException]] = []
        self._threads: list[threading.Thread] = []

    def add(self, part: str) -> None:
        """Compiles a part in another thread, if there are processors for several."""
        self._pending.append((self._count, part))
        self._count += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < thread_count() > 1:
            thread = threading.Thread(target=self._compile_pending, name=f"compile {self._name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self, last: str, whole: str, exports: list[str], imports: Mapping[str, Symbol]) -> Code:
        """Compiles the last part, and links all. whole: the module with all parts, which is compiled in a simpler form
        if LLVM exceeds its limits with a part."""
        if not self._count:
            return compile_text(whole, exports, imports, self._trace, self._name)
        self.add(last)
        self._compile_pending()
        for thread in self._threads:
            thread.join()
        for part, error in self._failures:
            if isinstance(error, StageLimitExceededError):
                return compile_simpler(whole, part, exports, imports, self._name, error)
            raise error
        with self._trace.span("link", "LLVM"):
            return link_objects([self._images[number] for number in range(self._count)], exports, imports)

    def cancel(self) -> None:
        """Leaves out the parts that no thread has begun."""
        self._pending.clear()

    def _compile_pending(self) -> None:
        while True:
            try:
                number, part = self._pending.popleft()
            except IndexError:
                return
            try:
                self._images[number] = object_file(part, self._trace, self._processor, Limits.of(part))
            except BaseException as error:  # the thread that waits raises it
                self._failures.append((part, error))
                self.cancel()


@contextmanager
def parallel_compilation(trace: CompileTrace, name: str) -> Iterator[ParallelCompilation]:
    """A compilation whose remaining parts are left out if the body raises an exception."""
    compilation = ParallelCompilation(trace, name)
    try:
        yield compilation
    finally:
        compilation.cancel()
