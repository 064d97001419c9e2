"""Compiles LLVM text to machine code in this process, through llvmlite.

Responsible for LLVM's target machine, optimization passes, and the JIT. Does not depend on HLO or loop IR.
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
from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm.llvm_lock import check_usable
from xlapy.cpu.llvm.processor import Processor, initialize, target_processor

_OPTIMIZATION_LEVEL = 2


def llvm_version() -> str:
    """Returns the versions of LLVM and llvmlite, such as "22.1.0, llvmlite 0.50.0"."""
    return f"{'.'.join(map(str, llvm.llvm_version_info))}, llvmlite {llvmlite.__version__}"


def _machine(level: int = _OPTIMIZATION_LEVEL) -> Any:
    return _machine_of(target_processor(), level)


@SingleFlight
def _machine_of(processor: Processor, level: int) -> Any:
    initialize()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=processor.name,
        features=processor.feature_text(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


class _Linker:
    """Links object files. LLVM keeps nine kilobytes of each file until the JIT that linked it is freed, and the JIT
    lives as long as any of its code. Each JIT therefore links only some files."""

    MAX_FILES = 64
    """The number of object files that one JIT links."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._numbers = itertools.count()
        self._jit: Any = None

    def link(self, builder: Any) -> Any:
        with self._lock:
            number = next(self._numbers)
            if number % self.MAX_FILES == 0:
                self._jit = llvm.create_lljit_compiler(_machine(), use_jit_link=True)
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
    image: bytes
    """The object file."""
    imports: Mapping[str, Symbol] = field(default_factory=dict[str, Symbol])
    """The functions of other modules that the code calls."""

    def symbol(self, name: str) -> Symbol:
        """Returns a function of this code, for other code to import."""
        return Symbol(self.addresses[name], self)

    @property
    def size(self) -> int:
        """The size of the object file in bytes."""
        return len(self.image)


def compile_text(
    text: str, exports: list[str], imports: Mapping[str, Symbol], trace: CompileTrace | None = None
) -> Code:
    """Compiles a module.

    exports: the functions whose addresses are returned. imports: the functions of other modules that it calls.
    """
    check_usable()
    trace, machine = trace or CompileTrace(), _machine()
    with trace.span("parse", "LLVM"):
        module = llvm.parse_assembly(text)
    with trace.span("optimize", "LLVM"):
        _optimize(module)
    with trace.span("generate code", "LLVM"):
        image = machine.emit_object(module)
    with trace.span("link", "LLVM"):
        return link_object(image, exports, imports)


def compile_unoptimized(text: str, exports: list[str], imports: Mapping[str, Symbol]) -> Code:
    """Compiles a module without optimization, in a ninth of the time, for functions that no pass would make faster."""
    check_usable()
    return link_object(_machine(0).emit_object(llvm.parse_assembly(text)), exports, imports)


def link_object(image: bytes, exports: Sequence[str], imports: Mapping[str, Symbol]) -> Code:
    """Links an object file that was compiled for this machine; raises LLVM's `RuntimeError` for invalid files."""
    check_usable()
    builder = llvm.JITLibraryBuilder().add_object_img(image)
    for name, symbol in imports.items():
        builder = builder.import_symbol(name, symbol.address)
    for name in exports:
        builder = builder.export_symbol(name)
    tracker = _linker.link(builder.add_current_process())
    return Code(tracker, {name: tracker[name] for name in exports}, image, dict(imports))


def listings(text: str) -> tuple[str, str]:
    """Returns a module's text after LLVM's passes, and the host's assembly, as `compile_text` produces them."""
    check_usable()
    machine = _machine()
    module = llvm.parse_assembly(text)
    _optimize(module)
    return str(module), str(machine.emit_assembly(module))


class _Passes:
    """A few light passes. Vectorization and loop order are decided already, so LLVM only cleans up."""

    def __init__(self, processor: Processor) -> None:
        self.builder = llvm.create_pass_builder(
            _machine_of(processor, _OPTIMIZATION_LEVEL), llvm.create_pipeline_tuning_options(speed_level=1)
        )
        self.manager = llvm.create_new_function_pass_manager()
        self.manager.add_sroa_pass()  # promotes stack slots to registers
        self.manager.add_instruction_combine_pass()
        self.manager.add_simplify_cfg_pass()
        self.manager.add_loop_strength_reduce_pass()


@SingleFlight
def _idle_passes(processor: Processor) -> list[_Passes]:
    """Returns the passes that no thread uses. They are kept, because LLVM does not free their memory. Threads do not
    own them: a thread of native code is a new thread to Python each time it compiles."""
    return []


def _optimize(module: Any) -> None:
    processor = target_processor()
    idle = _idle_passes(processor)
    try:
        passes = idle.pop()
    except IndexError:
        passes = _Passes(processor)
    for function in module.functions:
        if not function.is_declaration:
            passes.manager.run(function, passes.builder)
    idle.append(passes)
