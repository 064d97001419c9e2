"""Compiles LLVM text to machine code in this process, through llvmlite.

Responsible for linking, and for what is done about modules with which LLVM exceeds its limits. Does not
depend on HLO or loop IR.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.logging import logger
from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm.bounded.escape import GUARDED_CALL, ON_TICK, RUN_PASSES, Escape, Limits
from xlapy.cpu.llvm.bounded.escape import text as escape_text
from xlapy.cpu.llvm.bounded.fallback import endless_function
from xlapy.cpu.llvm.bounded.fallback import objects as simpler_objects
from xlapy.cpu.llvm.bounded.generator import (
    OPTIMIZED,
    UNOPTIMIZED,
    StageLimitExceededError,
    generator,
    target_machine,
)
from xlapy.cpu.llvm.bounded.lock import check_usable
from xlapy.cpu.llvm.conversions.runtime_functions import (
    CONVERSIONS,
    called_runtime_functions,
    conversion_functions,
    mathematical_function,
)
from xlapy.cpu.llvm.processor import Processor, target_processor


def llvm_version() -> str:
    """Returns the versions of LLVM and llvmlite, such as "22.1.0, llvmlite 0.50.0"."""
    return f"{'.'.join(map(str, llvm.llvm_version_info))}, llvmlite {llvmlite.__version__}"


@SingleFlight
def _linking_machine(processor: Processor) -> Any:
    return target_machine(processor, OPTIMIZED)


class _Linker:
    """Links object files. LLVM keeps nine kilobytes of each file until the JIT that linked it is freed, and the JIT
    lives as long as any of its code. Each JIT therefore links only some files."""

    MAX_FILES = 64
    """The number of object files that one JIT links, unless one program has more."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._numbers = itertools.count()
        self._files = 0
        self._jit: Any = None

    def link(self, builder: Any, files: int) -> Any:
        with self._lock:
            number = next(self._numbers)
            self._files += files
            if self._jit is None or self._files > self.MAX_FILES:
                self._files = files
                self._jit = llvm.create_lljit_compiler(_linking_machine(target_processor()), use_jit_link=True)
            jit = self._jit
        return builder.link(jit, f"xlapy{number}")


_linker = _Linker()


class Symbol(NamedTuple):
    """A function that machine code may call: its address, and the object that keeps the function alive."""

    address: int
    owner: object


@dataclass(frozen=True, slots=True)
class Code:
    """The machine code of one module, with the addresses of its functions.

    The code, and the functions that it imports, live as long as this object. Whoever may run the code refers to it.
    """

    tracker: Any
    addresses: Mapping[str, int]
    images: tuple[bytes, ...]
    """The object files."""
    imports: Mapping[str, Symbol] = field(default_factory=dict[str, Symbol])
    """The functions of other modules that the code calls."""

    def symbol(self, name: str) -> Symbol:
        """Returns a function of this code, for other code to import."""
        return Symbol(self.addresses[name], self)

    @property
    def size(self) -> int:
        """The size of the object files in bytes."""
        return sum(map(len, self.images))


def compile_text(
    text: str,
    exports: list[str],
    imports: Mapping[str, Symbol],
    trace: CompileTrace | None = None,
    name: str = "a module",
) -> Code:
    """Compiles a module, within the limits that the flags `compile_timeout` and `compile_memory` set.

    exports: the functions whose addresses are returned. imports: the functions of other modules that it calls. name:
    the module in messages. If LLVM exceeds its limits, the code has a simpler form, which is logged; `UnsupportedError`
    if LLVM exceeds them with every form.
    """
    trace, processor, limits = trace or CompileTrace(), target_processor(), Limits.of(text)
    try:
        image = object_file(text, trace, processor, limits)
    except StageLimitExceededError as error:
        return compile_simpler(text, text, exports, imports, name, error)
    with trace.span("link", "LLVM"):
        return link_objects([image], exports, imports)


def object_file(text: str, trace: CompileTrace, processor: Processor, limits: Limits, level: int = OPTIMIZED) -> bytes:
    """Returns the object file of a module; `StageLimitExceededError` if LLVM exceeds its limits."""
    check_usable()
    escape = _escape()
    with generator(processor, level) as one:
        return one.object_file(text, trace, escape, limits)


@SingleFlight
def _escape() -> Escape | None:
    """What leaves calls of LLVM that exceed their limits; None if that is not possible on this machine."""
    text = escape_text()
    if text is None:
        return None
    with generator(target_processor(), UNOPTIMIZED) as one:
        image = one.object_file(text, CompileTrace(), None, Limits.of(text))
    code = link_objects([image], [GUARDED_CALL, ON_TICK, RUN_PASSES], {})
    call, on_tick, run_passes = (code.addresses[name] for name in (GUARDED_CALL, ON_TICK, RUN_PASSES))
    return Escape(call, on_tick, run_passes, owner=code)


def compile_simpler(
    text: str,
    part: str,
    exports: Sequence[str],
    imports: Mapping[str, Symbol],
    name: str,
    error: StageLimitExceededError,
) -> Code:
    """Compiles a module in a simpler form, because LLVM exceeded its limits with a part of it.

    part: the module with the functions of that part, or the whole. error: what LLVM exceeded. Raises `UnsupportedError`
    if LLVM exceeds its limits with every form.
    """
    processor, limits = target_processor(), Limits.of(text)
    function = endless_function(part, processor, limits)
    problem = f"{name}: {error}" + (f" of its function {function}" if function else "")
    for form, image in simpler_objects(text, processor, limits):
        try:
            code = link_objects([image], exports, imports)
        except RuntimeError:  # it calls a function for what the processor lacks
            continue
        logger.warning("%s; its code is generated %s, and may be slower", problem, form)
        return code
    raise UnsupportedError(
        codes.CODE_GENERATION_LIMITS,
        f"{problem}, and with simpler forms of code (flags --compile_timeout, --compile_memory)",
    )


def compile_unoptimized(text: str, exports: list[str], imports: Mapping[str, Symbol]) -> Code:
    """Compiles a module without optimization, in a ninth of the time, for functions that no pass would make faster."""
    image = object_file(text, CompileTrace(), target_processor(), Limits.of(text), UNOPTIMIZED)
    return link_objects([image], exports, imports)


def link_objects(images: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, Symbol]) -> Code:
    """Links object files that were compiled for this machine, and that may call each other's functions; raises LLVM's
    `RuntimeError` for invalid files."""
    check_usable()
    builder = llvm.JITLibraryBuilder()
    for image in images:
        builder = builder.add_object_img(image)
    called = {name for image in images for name in called_runtime_functions(image)} - set(exports)
    imports = {**imports, **{name: _runtime_function(name) for name in sorted(called)}}
    for name, symbol in imports.items():
        builder = builder.import_symbol(name, symbol.address)
    for name in exports:
        builder = builder.export_symbol(name)
    tracker = _linker.link(builder.add_current_process(), len(images))
    return Code(tracker, {name: tracker[name] for name in exports}, tuple(images), dict(imports))


def _runtime_function(name: str) -> Symbol:
    if name in CONVERSIONS:
        return _conversions().symbol(name)
    return Symbol(mathematical_function(name), None)


@SingleFlight
def _conversions() -> Code:
    return compile_unoptimized(conversion_functions(), list(CONVERSIONS), {})


def listings(text: str) -> tuple[str, str]:
    """Returns a module's text after LLVM's passes, and the host's assembly, as `compile_text` produces them."""
    check_usable()
    with generator(target_processor(), OPTIMIZED) as one:
        return one.listings(text)
