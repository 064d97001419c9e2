"""The CPU compiler: the passes and stages from a module to machine code, as one visible list.

Owns: their order, the dump of each stage. Must not know: devices, arguments of users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.emitters.sort.top_k import SortTopK
from xlapy.codegen.fusion.decisions import Decision, Explain, decisions_text
from xlapy.codegen.fusion.fuse_instructions import Fuse, Unfuse
from xlapy.cpu.compile_trace import Trace
from xlapy.cpu.lapack.use_lapack import UseLapack
from xlapy.cpu.llvm.jit import Code, compile_text, listings
from xlapy.cpu.llvm.program import write_program
from xlapy.cpu.program import (  # noqa: F401 - their rules enter the table when the modules are imported
    collective_thunks,
    custom_calls,
    feeds,
    fft_thunks,
    host_callbacks,
    transfer_queues,
)
from xlapy.cpu.program.buffer_assignment import assign_buffers, print_buffers
from xlapy.cpu.program.builder import build_program
from xlapy.cpu.program.builder import runs as runs
from xlapy.cpu.program.outlining import cut
from xlapy.cpu.program.profiling_counters import place_counters
from xlapy.cpu.program.thunks import KernelThunk, NativeProgram, print_program, walk_thunks
from xlapy.cpu.serialization.runtime_symbols import import_address
from xlapy.cpu.transforms.canonicalize_argmax import CanonicalizeArgmax
from xlapy.cpu.transforms.fold_transpose_into_dot import FoldTransposeIntoDot
from xlapy.cpu.transforms.rematerialize_splats import RematerializeSplats
from xlapy.cpu.transforms.side_effect_order import OrderSideEffects
from xlapy.cpu.transforms.split_reductions import SplitReductions
from xlapy.cpu.transforms.split_transforms import DecomposeFft
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.loops import print_kernel
from xlapy.passes.control_flow.hoist_loop_invariants import HoistLoopInvariants
from xlapy.passes.control_flow.inline_calls import InlineCalls
from xlapy.passes.control_flow.simplify_conditionals import SimplifyConditionals
from xlapy.passes.control_flow.simplify_loops import SimplifyLoops
from xlapy.passes.expand.dynamic import DYNAMIC_EXPANSIONS
from xlapy.passes.expand.expand import Expand
from xlapy.passes.flatten_tuples import FlattenTuples
from xlapy.passes.fold_constants import FoldConstants
from xlapy.passes.layouts.normalize_layouts import NormalizeLayouts
from xlapy.passes.merge_common_subexpressions import MergeCommonSubexpressions
from xlapy.passes.pass_ import Pass
from xlapy.passes.pipeline import Fixpoint, PassEvent, Pipeline
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.resolve_dynamic_dimensions import ResolveDynamicDimensions
from xlapy.passes.simplify import Simplify

MOST_ROUNDS = 4
"""Of the simplifying passes: what is left then is not worth the time."""

MOST_SHARED = 64
"""Instructions of a computation that is called from several places and yet becomes a part of each."""


def passes(
    explain: Explain | None = None, copied: Callable[[Instruction, Instruction], None] | None = None
) -> list[Pass]:
    """What happens to a module before it becomes thunks.

    explain: told the decisions of fusion. copied: told each instruction that a fusion computes, and its copy inside.
    """
    return [
        RemoveDeadCode(),
        UseLapack(),
        OrderSideEffects(),
        Unfuse(),
        RemoveDeadCode(),
        SortTopK(),
        Expand(runs=runs() | frozenset(DYNAMIC_EXPANSIONS)),
        ResolveDynamicDimensions(interpret=True),
        DecomposeFft(),
        Expand(runs=runs()),
        NormalizeLayouts(),
        InlineCalls(composites=True, shared=MOST_SHARED),
        FlattenTuples(),
        Fixpoint(limit=MOST_ROUNDS, passes=tuple(simplifications())),
        Expand(runs=runs()),
        FoldTransposeIntoDot(),
        CanonicalizeArgmax(),
        SplitReductions(),
        Fuse(explain=explain, on_copy=copied),
        RematerializeSplats(),
        RemoveDeadCode(),
    ]


def simplifications() -> list[Pass]:
    """What runs until nothing changes: each may open the way for another."""
    return [
        Simplify(),
        FoldConstants(),
        SimplifyConditionals(),
        SimplifyLoops(),
        HoistLoopInvariants(),
        MergeCommonSubexpressions(),
        RemoveDeadCode(),
    ]


@dataclass(slots=True)
class Record:
    """What happened on the way: the time that each part took and, for a dump, the module behind each pass."""

    keeps_modules: bool
    trace: Trace = field(default_factory=Trace)
    decisions: list[Decision] = field(default_factory=list[Decision])
    """What fusion decided, and why."""
    copies: dict[str, str] = field(default_factory=dict[str, str])
    """The name of each instruction in a fusion, and the name that it had when this was decided."""
    modules: dict[str, str] = field(default_factory=dict[str, str])
    """By the name of the file."""

    def note_copy(self, instruction: Instruction, copy: Instruction) -> None:
        """A fusion computes an instruction."""
        self.copies[copy.name] = instruction.name

    def note(self, event: PassEvent) -> None:
        """A run of a pass, just over."""
        changed = "yes" if event.changed else "no"
        self.trace.add(
            event.pass_.name, "pass", event.seconds, changed=changed, instructions=event.module.instruction_count
        )
        if event.changed and self.keeps_modules:
            name = f"pass_{event.number:03}.after_{event.pass_.name}.txt"
            self.modules[name] = event.module.to_text(print_large_constants=True)


@dataclass(slots=True)
class Compiled:
    """A program as machine code, with the forms it had on the way."""

    module: Module
    """The module after the passes."""
    program: NativeProgram
    code: Code
    llvm: str
    """LLVM's text, before its passes."""
    functions: Mapping[KernelThunk, str]
    """The function of that text that holds the code of each kernel."""
    record: Record

    @property
    def entry(self) -> int:
        """The address of `i32 xlapy_run(ptr table)`, which returns 0 or, after a failure, 1."""
        return self.code.addresses["xlapy_run"]

    def stages(self) -> dict[str, str]:
        """Every form the program had, by the name of the file that it is dumped to."""
        optimised, assembly = listings(self.llvm)
        return {
            **self.record.modules,
            "after_optimizations.txt": self.module.to_text(print_large_constants=True),
            "fusion.txt": decisions_text(self.record.decisions),
            "thunks.txt": print_program(self.program),
            "buffers.txt": print_buffers(self.program),
            "loops.txt": self.loops(),
            "ll": self.llvm,
            "optimized.ll": optimised,
            "s": assembly,
            "trace.json": self.record.trace.to_json(),
        }

    def loops(self) -> str:
        """The loop IR of every kernel."""
        kernels = dict.fromkeys(
            thunk.kernel for thunk in walk_thunks(self.program.thunks) if isinstance(thunk, KernelThunk)
        )
        return "\n".join(print_kernel(kernel) for kernel in kernels)


class Instrument(Enum):
    """What an instrumented program notes of each run."""

    COUNTS = "counts"
    """How long each thunk takes, and how often it runs."""
    EVENTS = "events"
    """When, and on which thread, too."""


def compile_module(
    module: Module,
    donated: Collection[int] = (),
    replica_count: int = 1,
    partition_count: int = 1,
    instrument: Instrument | None = None,
    *,
    optimised: bool = False,
    watched: bool = False,
) -> Compiled:
    """Compiles a verified module, which stays as it is; `UnsupportedError` for what does not run on cpu.

    donated: the leaves of the parameters, by number, whose memory the program may overwrite. optimised: the module has
    the passes behind it, and becomes thunks as it is. watched: the host looks at the value of every instruction.
    """
    record = Record(keeps_modules=bool(flags.get("dump_to")))
    trace = record.trace
    chosen = [] if optimised else passes(record.decisions.append, record.note_copy)
    with trace.span(f"compile {module.name}", "compiler"):
        with trace.span("copy of the module", "stage"):
            copy = edit.clone_module(module)
        with trace.span("passes", "stage"):
            Pipeline(chosen, on_pass=record.note).run(copy)
        with trace.span("thunks and kernels", "stage"):
            program = build_program(copy, donated, replica_count, partition_count, watched=watched)
            cut(program)
            if instrument is not None:
                program.clocks = place_counters(program, has_events=instrument is Instrument.EVENTS)
        with trace.span("buffers", "stage"):
            assign_buffers(program)
        with trace.span("LLVM text", "stage"):
            text = write_program(program, flush_denormals=_flushes_denormals())
        with trace.span("machine code", "stage"):
            imports = {name: import_address(name) for name in sorted(text.imports)}
            code = compile_text(text.text, ["xlapy_run"], imports, trace)
    return Compiled(copy, program, code, text.text, text.functions, record)


def _flushes_denormals() -> bool:
    mode = flags.get("denormals")
    if mode not in ("flush", "keep"):
        raise InvalidArgumentError(f"flag --denormals is flush or keep, not {mode!r}")
    return mode == "flush"
