"""LLVM's passes and code generator: from LLVM text to an object file.

A generator shares no data with another one, so that threads generate code at once, and a module with which LLVM exceeds
its limits does no harm to those that other threads compile. Generators are used again, because LLVM does not free the
memory of passes.

Responsible for optimization and code generation. Does not depend on linking or on what programs do.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm.bounded.escape import Escape, GuardedCalls, LimitExceededError, Limits
from xlapy.cpu.llvm.processor import Processor, initialize

OPTIMIZED, UNOPTIMIZED = 1, 0
"""LLVM's levels of code generation. Level 2 would also schedule instructions after register allocation, which takes a
tenth of the time and gains nothing on processors that reorder them."""


def target_machine(processor: Processor, level: int) -> Any:
    """Returns a new target machine of LLVM."""
    initialize()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=processor.name,
        features=processor.feature_text(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


class StageLimitExceededError(Exception):
    """LLVM has exceeded a limit. stage: what it was doing."""

    def __init__(self, limit: str, stage: str) -> None:
        super().__init__(f"LLVM exceeded {limit} in {stage}")


class Generator:
    """Generates code for a processor and at a level. One thread at a time uses it."""

    def __init__(self, processor: Processor, level: int) -> None:
        self._lock = fork_safe_lock()  # forks wait for the end of a call
        self._context = llvm.create_context()
        self._machine = target_machine(processor, level)
        self._is_optimizing = level == OPTIMIZED
        if self._is_optimizing:
            options = llvm.create_pipeline_tuning_options(speed_level=1)
            self._builder = llvm.create_pass_builder(self._machine, options)
            self._passes = {combines: _function_passes(combines=combines) for combines in (False, True)}

    def object_file(self, text: str, trace: CompileTrace, escape: Escape | None, limits: Limits) -> bytes:
        """Returns the object file of a module; LLVM's `RuntimeError` for malformed text, `StageLimitExceededError` if
        LLVM exceeds its limits, after which the generator must not be used again. escape: None for no limits."""
        with trace.span("parse", "LLVM"):
            module = llvm.parse_assembly(text, self._context)
        if escape is None:
            with trace.span("optimize", "LLVM"):
                self._optimize(module, text)
            with trace.span("generate code", "LLVM"):
                return bytes(self._machine.emit_object(module))
        with escape.limited(limits, self._lock) as calls:
            try:
                return self._limited_object_file(module, text, trace, calls)
            except StageLimitExceededError:
                _abandoned.append((module, self))
                raise

    def _limited_object_file(self, module: Any, text: str, trace: CompileTrace, calls: GuardedCalls) -> bytes:
        functions = self._optimized_functions(text)
        with trace.span("optimize", "LLVM"), _stage("the optimization of "):
            if functions:
                calls.run_passes(module, functions, self._builder)
        with trace.span("generate code", "LLVM"), _stage("code generation"):
            return self._emit(module, calls)

    def _emit(self, module: Any, calls: GuardedCalls) -> bytes:
        """As `emit_object` of the target machine."""
        error = ctypes.c_char_p()
        made = calls.emit(self._machine, module, ctypes.addressof(error))
        if not made:
            raise RuntimeError((error.value or b"LLVM generates no code").decode())
        library, memory = llvm.ffi.lib, ctypes.cast(made, llvm.ffi.LLVMMemoryBufferRef)
        try:
            return ctypes.string_at(library.LLVMPY_GetBufferStart(memory), library.LLVMPY_GetBufferSize(memory))
        finally:
            library.LLVMPY_DisposeMemoryBuffer(memory)

    def listings(self, text: str) -> tuple[str, str]:
        """Returns a module's text after the passes, and its assembly."""
        module = llvm.parse_assembly(text, self._context)
        self._optimize(module, text)
        return str(module), str(self._machine.emit_assembly(module))

    def _optimized_functions(self, text: str) -> list[tuple[str, Any]]:
        """Returns the names of the functions that are optimized, with their passes. LLVM would print a line for each
        pass on one with `optnone`."""
        if not self._is_optimizing:
            return []
        groups = dict(_ATTRIBUTE_GROUP.findall(text))
        found: list[tuple[str, Any]] = []
        for piece in text.split("\n}"):
            head = _HEAD.search(piece)
            if head is None:
                continue
            attributes = head[2] + "".join(groups.get(group, "") for group in _GROUP.findall(head[2]))
            if "optnone" not in attributes:
                combines = _is_combined(piece[head.start() :])
                found.append((head[1], self._passes[combines]))
        return found

    def _optimize(self, module: Any, text: str) -> None:
        for name, passes in self._optimized_functions(text):
            passes.run(module.get_function(name), self._builder)


_HEAD = re.compile(r"^define [^@]*@([\w.]+)\((.*)\{$", re.MULTILINE)
_ATTRIBUTE_GROUP = re.compile(r"^attributes (#\d+) = (.*)$", re.MULTILINE)
_GROUP = re.compile(r"#\d+")


def _is_combined(function: str) -> bool:
    return _COMBINED.search(function) is not None and function.count("= phi <") < MIN_TILE_CARRIES


_COMBINED = re.compile(r"@llvm\.(?:masked|[su](?:min|max))\.|getelementptr[^\n]*, <")
"""Where combining instructions makes code faster: accesses under masks, in vectors of addresses, or at positions that
are clamped. The pass takes up to a tenth of LLVM's time, and changes hardly an instruction of other functions, whose
run time stays the same (22 rows of `benchmarks.cpu`, 39 of `benchmarks.products`)."""

MIN_TILE_CARRIES = 8
"""The number of vectors carried by loops from which on a function computes register tiles. Its instructions are not
combined: of the loops of a convolution, that changes 2 instructions of 297, and takes a seventh of LLVM's time."""


def _function_passes(*, combines: bool) -> Any:
    """Returns a few light passes. Vectorization and loop order are decided already, so LLVM only cleans up."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()  # promotes stack slots to registers
    if combines:
        passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


_abandoned: list[Any] = []
"""Modules that LLVM did not finish, with their generators. They are half changed, and cannot be freed."""


@contextmanager
def _stage(stage: str) -> Iterator[None]:
    try:
        yield
    except LimitExceededError as error:
        raise StageLimitExceededError(error.limit, stage + error.function) from error


_free: dict[tuple[Processor, int], list[Generator]] = {}
"""Generators that no thread uses, by processor and level."""


@contextmanager
def generator(processor: Processor, level: int) -> Iterator[Generator]:
    """A generator for one module. There are as many as threads have ever generated code at once."""
    free = _free.setdefault((processor, level), [])
    try:
        found = free.pop()
    except IndexError:
        found = Generator(processor, level)
    is_usable = True
    try:
        yield found
    except StageLimitExceededError:
        is_usable = False
        raise
    finally:
        if is_usable:
            free.append(found)
