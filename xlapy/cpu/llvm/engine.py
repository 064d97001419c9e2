"""LLVM text to machine code in this process, through llvmlite.

Owns: the target machine of the host, optimisation passes, the JIT. Must not know: HLO, loop IR.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from xlapy.base.records import dataclass
from xlapy.cpu.trace import Trace

_LEVEL = 2
_numbers = itertools.count()

_LEFT_OUT = ("-disable-lsr", "-disable-post-ra")
"""Steps of the code generator that cost a third of its time and win nothing here: addresses in loops are tidied before
it (`_optimise`), and processors of this kind order instructions by themselves."""


@functools.cache
def _initialized() -> None:
    for option in _LEFT_OUT:
        llvm.set_option("xlapy", option)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def host_features() -> Mapping[str, bool]:
    """The host CPU's features, by LLVM's names."""
    _initialized()
    return dict(llvm.get_host_cpu_features())


@functools.cache
def host_name() -> str:
    """The host CPU, by LLVM's name."""
    _initialized()
    return str(llvm.get_host_cpu_name())


def llvm_version() -> str:
    """Of LLVM and of llvmlite: "22.1.0, llvmlite 0.50.0"."""
    return f"{'.'.join(map(str, llvm.llvm_version_info))}, llvmlite {llvmlite.__version__}"


@functools.cache
def vector_bytes() -> int:
    """The width of the host's widest vector registers: 64 with AVX-512, 32 with AVX2, else 16."""
    features = host_features()
    if features.get("avx512f") and features.get("avx512vl"):
        return 64
    return 32 if features.get("avx2") else 16


@functools.cache
def _machine(level: int = _LEVEL) -> Any:
    _initialized()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@functools.cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(_machine(), use_jit_link=True)


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of one module: addresses of its functions; it lives as long as this object."""

    tracker: Any
    addresses: Mapping[str, int]
    image: bytes
    """The object file."""
    imports: tuple[str, ...] = ()
    """The functions of other modules that it calls."""

    @property
    def size(self) -> int:
        """Bytes of the object file."""
        return len(self.image)


def compile_text(text: str, exports: list[str], imports: Mapping[str, int], trace: Trace | None = None) -> Code:
    """Compiles a module: `exports` are the functions whose addresses are wanted, `imports` where foreign ones are."""
    trace, machine = trace or Trace(), _machine()
    with trace.span("parse", "LLVM"):
        module = llvm.parse_assembly(text)
    with trace.span("optimise", "LLVM"):
        _optimise(module, machine)
    with trace.span("generate code", "LLVM"):
        image = machine.emit_object(module)
    with trace.span("link", "LLVM"):
        return link_object(image, exports, imports)


def compile_plainly(text: str, exports: list[str], imports: Mapping[str, int]) -> Code:
    """The same in a ninth of the time, for functions that only move words about: no pass makes them faster."""
    return link_object(_machine(0).emit_object(llvm.parse_assembly(text)), exports, imports)


def link_object(image: bytes, exports: Sequence[str], imports: Mapping[str, int]) -> Code:
    """Makes an object file that was made for this machine ready to run; `RuntimeError` of LLVM if it is none."""
    builder = llvm.JITLibraryBuilder().add_object_img(image)
    for name, address in imports.items():
        builder = builder.import_symbol(name, address)
    for name in exports:
        builder = builder.export_symbol(name)
    tracker = builder.add_current_process().link(_jit(), f"xlapy{next(_numbers)}")
    return Code(tracker, {name: tracker[name] for name in exports}, image, tuple(imports))


def listings(text: str) -> tuple[str, str]:
    """A module's text behind LLVM's passes, and the host's assembly, both as `compile_text` makes them."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    _optimise(module, machine)
    return str(module), str(machine.emit_assembly(module))


def _optimise(module: Any, machine: Any) -> None:
    """A few light passes: vectors and loops are chosen already, LLVM only tidies."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()  # what parts of a program hold goes from the stack to registers
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_strength_reduce_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
