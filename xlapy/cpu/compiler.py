"""The CPU compiler: the list of passes and stages that turn a module into machine code.

Responsible for their order and for the dump of each stage. Does not depend on devices or on arguments of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from xlapy import opcodes
from xlapy.analysis.cost.duration import is_long_running
from xlapy.analysis.fingerprint import module_fingerprint
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.logging import logger
from xlapy.codegen.emitters.attention.gradient_strategy import reason_against_gradient
from xlapy.codegen.emitters.attention.strategy import has_attention_kernel
from xlapy.codegen.emitters.convolution.factors import group_size
from xlapy.codegen.emitters.elementwise_loops import (
    is_table,
    reason_against_elementwise_loop,
    reason_of_instructions,
)
from xlapy.codegen.emitters.matmul.ragged_problem import has_ragged_problem
from xlapy.codegen.emitters.select_and_scatter.strategies import gathers_sources
from xlapy.codegen.fusion.attention import FuseAttention
from xlapy.codegen.fusion.attention_gradients import FuseAttentionGradients
from xlapy.codegen.fusion.decisions import Decision, Explain, decisions_text
from xlapy.codegen.fusion.elementwise_loops import FuseElementwiseLoops
from xlapy.codegen.fusion.fuse_instructions import Fuse, Unfuse
from xlapy.codegen.fusion.pooling_gradients import FusePoolingGradients
from xlapy.codegen.plan import demanded_plan
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import Choice
from xlapy.codegen.tuning import TunedPlans
from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.lapack.use_lapack import UseLapack
from xlapy.cpu.llvm.jit import Code, listings
from xlapy.cpu.llvm.parallel.compilation import parallel_compilation
from xlapy.cpu.llvm.program import emit_program
from xlapy.cpu.program import (  # noqa: F401 - importing these modules registers their thunk rules
    control_flow_thunks,
    custom_calls,
    fft_thunks,
    host_callbacks,
    instruction_thunks,
)
from xlapy.cpu.program.bounds_checks import add_bounds_checks, place_bounds_record
from xlapy.cpu.program.buffer_assignment import assign_buffers, print_buffers
from xlapy.cpu.program.builder import build_program
from xlapy.cpu.program.builder import native_opcodes as native_opcodes
from xlapy.cpu.program.communication import (  # noqa: F401 - importing these modules registers their thunk rules
    asynchronous_calls,
    collective_thunks,
    feeds,
    transfer_queues,
)
from xlapy.cpu.program.communication.asynchronous_calls import is_overlapping
from xlapy.cpu.program.concurrency import run_concurrently
from xlapy.cpu.program.memory_report import program_bytes
from xlapy.cpu.program.nan_checks import add_value_check
from xlapy.cpu.program.native_program import NativeProgram, print_program
from xlapy.cpu.program.outlining import outline_functions
from xlapy.cpu.program.profiling_counters import place_counters
from xlapy.cpu.program.thunks import Thunk, walk_thunks
from xlapy.cpu.program.verification.buffer_verifier import verify_buffers
from xlapy.cpu.program_size import check_applied_computations
from xlapy.cpu.serialization.runtime_symbols import resolve_symbol
from xlapy.cpu.target import host_target
from xlapy.cpu.transforms.align_reductions import AlignReductions
from xlapy.cpu.transforms.canonicalize_argmax import CanonicalizeArgmax
from xlapy.cpu.transforms.canonicalize_convolutions import CanonicalizeConvolutions
from xlapy.cpu.transforms.decompose_fft import DecomposeFft
from xlapy.cpu.transforms.fold_transpose_into_dot import FoldTransposeIntoDot
from xlapy.cpu.transforms.gather_sorted_operands import GatherSortedOperands
from xlapy.cpu.transforms.hoist_sliced_dots import HoistSlicedDots
from xlapy.cpu.transforms.loop_batching.batch_iterations import BatchIterations
from xlapy.cpu.transforms.order_side_effects import OrderSideEffects
from xlapy.cpu.transforms.overlap_exchanges import OverlapExchanges
from xlapy.cpu.transforms.pad_convolution_features import PadConvolutionFeatures
from xlapy.cpu.transforms.pad_rolled_arrays import PadRolledArrays
from xlapy.cpu.transforms.prepare_ragged_dots import PrepareRaggedDots
from xlapy.cpu.transforms.rematerialization.fit_memory import fit_memory
from xlapy.cpu.transforms.rematerialize_splats import RematerializeSplats
from xlapy.cpu.transforms.schedule_for_memory import ScheduleForMemory
from xlapy.cpu.transforms.sort_top_k import SortTopK
from xlapy.cpu.transforms.split_dots import SplitDots
from xlapy.cpu.transforms.split_reductions import SplitReductions
from xlapy.cpu.transforms.transpose_loop_weights import TransposeLoopWeights
from xlapy.cpu.tuned_plans import tuned_plans
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction, describe_instruction
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
from xlapy.passes.remove_identity_calls import RemoveIdentityCalls
from xlapy.passes.remove_trivial_collectives import RemoveTrivialCollectives
from xlapy.passes.resolve_dynamic_dimensions import ResolveDynamicDimensions
from xlapy.passes.simplify import Simplify

MAX_SIMPLIFICATION_ROUNDS = 4
"""The largest number of times that the simplification passes run; later rounds gain too little for their time."""

MAX_INLINED_SHARED_INSTRUCTIONS = 64
"""The largest computation that is inlined at each of several call sites, whatever their number."""

MAX_INLINED_COPIES = 2048
"""The largest number of instructions that the copies of a larger computation may have at all of its call sites. What
the calls have in common is merged after that, and what they compute in a loop can be computed before it."""


def passes(
    explain: Explain | None = None,
    copied: Callable[[Instruction, Instruction], None] | None = None,
    devices: tuple[int, int] = (0, 0),
    donated: Collection[int] = (),
    *,
    overlaps: bool = False,
) -> list[Pass]:
    """Returns the passes that optimize a module before it is lowered to thunks.

    explain: is called with each decision of fusion. copied: is called with each instruction that becomes part of a
    fusion, and its copy there. devices: numbers of replicas and of partitions, or zeros if they are unknown. donated:
    the numbers of the arguments whose memory the program may overwrite. overlaps: whether other instructions run
    between the starts and the dones of exchanges between devices, which is faster if they are in different processes.
    """
    return [
        OrderSideEffects(),
        UseLapack(),
        Unfuse(),
        RemoveDeadCode(),
        SortTopK(),
        Expand(
            runs=(native_opcodes() - {opcodes.RAGGED_ALL_TO_ALL, opcodes.ASYNC_DONE}) | frozenset(DYNAMIC_EXPANSIONS),
            keeps=is_overlapping if overlaps else None,
        ),
        ResolveDynamicDimensions(interpret=True),
        DecomposeFft(),
        Expand(runs=native_opcodes()),
        NormalizeLayouts(),
        RemoveIdentityCalls(),
        RemoveTrivialCollectives(*devices),
        InlineCalls(
            composites=True,
            max_shared_size=MAX_INLINED_SHARED_INSTRUCTIONS,
            max_copied_size=MAX_INLINED_COPIES,
        ),
        FlattenTuples(),
        CanonicalizeConvolutions(),
        PadConvolutionFeatures(lambda convolution: group_size(host_target(), convolution)),
        GatherSortedOperands(),
        Fixpoint(
            limit=MAX_SIMPLIFICATION_ROUNDS,
            passes=(
                *simplifications(),
                BatchIterations(lambda loop: not reason_of_instructions(loop, may_have_tables=True)),
            ),
        ),
        PadRolledArrays(),
        PrepareRaggedDots(has_ragged_problem),
        Expand(runs=native_opcodes()),
        FoldTransposeIntoDot(),
        HoistSlicedDots(),
        TransposeLoopWeights(),
        AlignReductions(),
        CanonicalizeArgmax(),
        SplitDots(),
        SplitReductions(),
        FusePoolingGradients(lambda fusion: gathers_sources(region_of(fusion, host_target())), explain),
        FuseAttentionGradients(lambda fusion: reason_against_gradient(region_of(fusion, host_target())), explain),
        FuseElementwiseLoops(
            partial(reason_of_instructions, may_have_tables=True),
            is_table,
            lambda fusion: reason_against_elementwise_loop(region_of(fusion, host_target())),
            explain,
        ),
        Fuse(explain=explain, on_copy=copied, overlaps=overlaps),
        FuseAttention(lambda fusion: has_attention_kernel(region_of(fusion, host_target())), explain),
        RematerializeSplats(),
        RemoveDeadCode(),
        ScheduleForMemory(frozenset(donated)),
        *([OverlapExchanges()] if overlaps else []),
    ]


def simplifications() -> list[Pass]:
    """Returns the passes that run repeatedly until nothing changes, because each may enable another."""
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
class CompilationRecord:
    """What happened during a compilation: the time of each step, fusion decisions and, for a dump, intermediate
    modules."""

    keeps_modules: bool
    trace: CompileTrace = field(default_factory=CompileTrace)
    decisions: list[Decision] = field(default_factory=list[Decision])
    """The decisions of fusion, with their reasons."""
    copies: dict[str, str] = field(default_factory=dict[str, str])
    """For each instruction in a fusion, the name that it had before fusion."""
    plans: dict[str, Choice] = field(default_factory=dict[str, Choice])
    """The plan of each instruction that kernels compute, by its name, and what became of the other strategies."""
    modules: dict[str, str] = field(default_factory=dict[str, str])
    """The modules after passes that changed something, by the name of the dump file."""

    def note_copy(self, instruction: Instruction, copy: Instruction) -> None:
        """Records that a fusion contains a copy of an instruction."""
        self.copies[copy.name] = instruction.name

    def note(self, event: PassEvent) -> None:
        """Records a run of a pass that has just finished."""
        changed = "yes" if event.changed else "no"
        self.trace.add(
            event.pass_.name, "pass", event.seconds, changed=changed, instructions=event.module.instruction_count
        )
        if event.changed and self.keeps_modules:
            name = f"pass_{event.number:03}.after_{event.pass_.name}.txt"
            self.modules[name] = event.module.to_text(print_large_constants=True)


@dataclass(slots=True)
class Compiled:
    """A compiled program with its intermediate forms."""

    module: Module
    """The module after optimization."""
    program: NativeProgram
    code: Code
    llvm: str
    """The LLVM IR before LLVM's passes."""
    functions: Mapping[Thunk, str]
    """The LLVM function that contains the code of each kernel."""
    record: CompilationRecord
    cache_key: str | None = None
    """The key of the program in the compile cache, if it is there."""

    @property
    def entry(self) -> int:
        """The address of `i32 xlapy_run(ptr table)`, which returns 0 on success and 1 after a failure."""
        return self.code.addresses["xlapy_run"]

    def stages(self) -> dict[str, str]:
        """Returns every intermediate form of the program, by the name of its dump file."""
        optimized, assembly = listings(self.llvm)
        return {
            **self.record.modules,
            "after_optimizations.txt": self.module.to_text(print_large_constants=True),
            "fusion.txt": decisions_text(self.record.decisions),
            "thunks.txt": print_program(self.program),
            "buffers.txt": print_buffers(self.program),
            "plans.txt": self.plans(),
            "loops.txt": self.loops(),
            "ll": self.llvm,
            "optimized.ll": optimized,
            "s": assembly,
            "trace.json": self.record.trace.to_json(),
        }

    def plans(self) -> str:
        """Returns the plan of every instruction that kernels compute, and why other strategies were not chosen."""
        return "".join(
            f"{name}\n" + "".join(f"  {line}\n" for line in choice.lines())
            for name, choice in self.record.plans.items()
        )

    def loops(self) -> str:
        """Returns the loop IR of every kernel as text."""
        kernels = dict.fromkeys(
            kernel for thunk in walk_thunks(self.program.thunks) if (kernel := thunk.own_kernel) is not None
        )
        return "\n".join(print_kernel(kernel) for kernel in kernels)


class Instrument(Enum):
    """What an instrumented program measures in each run."""

    COUNTS = "counts"
    """The time and the number of executions of each thunk."""
    EVENTS = "events"
    """Additionally, the time and the thread of each execution."""


def compile_module(
    module: Module,
    donated: Collection[int] = (),
    replica_count: int = 1,
    partition_count: int = 1,
    instrument: Instrument | None = None,
    *,
    optimized: bool = False,
    checks_values: bool = False,
    tuned: TunedPlans | None = None,
    memory_limit: int | str | None = None,
    spans_processes: bool = False,
) -> Compiled:
    """Compiles a verified module, which stays unchanged; raises `UnsupportedError` for what cpu does not support.

    donated: the numbers of the leaves of the parameters whose memory the program may overwrite. instrument: what the
    program measures. optimized: whether the module has been optimized already, so that no passes run. checks_values:
    whether the host checks the value of every instruction for NaN or infinities. tuned: the plans of kernels for which
    the module demands none; None: those of the flag `tuning_file`. memory_limit: the memory that the program may need,
    as `flags.memory_limit` reads it; values are computed again to meet it. spans_processes: whether other processes may
    run some of the devices.
    """
    check_applied_computations(module)
    limit = 0 if optimized or checks_values else flags.memory_limit(memory_limit)
    record = CompilationRecord(keeps_modules=bool(flags.get("dump_to")))
    trace = record.trace
    devices, plans = (replica_count, partition_count), tuned_plans() if tuned is None else tuned
    pipeline: list[Pass] = []
    if not optimized:
        overlaps = spans_processes and not checks_values  # a pending collective has no value that could be checked
        pipeline = passes(record.decisions.append, record.note_copy, devices, donated, overlaps=overlaps)
    with trace.span(f"compile {module.name}", "compiler"):
        with trace.span("copy of the module", "stage"):
            copy = edit.clone_module(module)
        with trace.span("passes", "stage"):
            Pipeline(pipeline, on_pass=record.note).run(copy)

        plans_of: dict[NativeProgram, dict[str, Choice]] = {}

        def lower(optimized_module: Module) -> NativeProgram:
            choices: dict[str, Choice] = {}
            lowered = _lower(
                optimized_module,
                donated,
                devices,
                instrument,
                trace,
                choices,
                checks_values=checks_values,
                tuned=plans,
                spans_processes=spans_processes,
            )
            plans_of[lowered] = choices
            return lowered

        program = lower(copy)
        if limit and program_bytes(program) > limit:
            with trace.span("rematerialization", "stage"):
                copy, program = fit_memory(copy, program, limit, frozenset(donated), lower)
        program.fingerprint = module_fingerprint(module) if spans_processes else 0
        record.plans = plans_of[program]  # not those of attempts to need less memory
        _log_callbacks(program)
        _check_plans(module, record)
        if program.values is not None:
            with trace.span("verification of buffers", "stage"):
                verify_buffers(program)
        with parallel_compilation(trace, module.name) as parts:
            with trace.span("LLVM text", "stage"):
                text = emit_program(program, flush_denormals=_flushes_denormals(), on_part=parts.add)
            with trace.span("machine code", "stage"):
                imports = {name: resolve_symbol(name) for name in sorted(text.imports)}
                code = parts.finish(text.last_part, text.text, ["xlapy_run"], imports)
    return Compiled(copy, program, code, text.text, text.functions, record)


def _log_callbacks(program: NativeProgram) -> None:
    """Logs which instructions the host computes in every run, and why."""
    found = [thunk for thunk in program.host_calling_thunks if thunk.callback_reason]
    if found:
        shown = "; ".join(f"{one.op_name} ({one.instruction.op.name}): {one.callback_reason}" for one in found[:8])
        more = f"; and {len(found) - 8} more" if len(found) > 8 else ""
        logger.info("%s calls the host for %d instructions: %s%s", program.name, len(found), shown, more)


def _lower(
    module: Module,
    donated: Collection[int],
    devices: tuple[int, int],
    instrument: Instrument | None,
    trace: CompileTrace,
    plans: dict[str, Choice],
    *,
    checks_values: bool,
    tuned: TunedPlans,
    spans_processes: bool,
) -> NativeProgram:
    """Returns the native program of an optimized module, with assigned buffers.

    plans: gets the plan of each instruction that a kernel computes, by its name.
    """

    def note(instruction: Instruction, choice: Choice) -> None:
        plans[instruction.name] = choice

    checks_bounds = bool(flags.get("check_bounds"))
    with trace.span("thunks and kernels", "stage"):
        program = build_program(
            module,
            donated,
            *devices,
            after_instruction=add_value_check if checks_values else None,
            records_values=bool(flags.get("verify_buffers")),
            on_plan=note,
            tuned=tuned,
            spans_processes=spans_processes,
        )
        program.is_long_running = is_long_running(module, rates=host_target().rates)
        if not checks_bounds:
            run_concurrently(program)
        outline_functions(program)
        if checks_bounds:
            add_bounds_checks(program, module.entry_computation.root_instruction)
        if instrument is not None:
            program.counters = place_counters(program, records_events=instrument is Instrument.EVENTS)
    with trace.span("buffers", "stage"):
        assign_buffers(program)
        if program.bounds_checks is not None:
            place_bounds_record(program)
    return program


def lower_optimized(
    module: Module, replica_count: int = 1, partition_count: int = 1
) -> tuple[NativeProgram, Mapping[str, Choice]]:
    """Returns the native program of an optimized module, without machine code, and the plan of each instruction that
    a kernel computes, by its name. The module stays unchanged; `UnsupportedError` for what cpu does not support."""
    plans: dict[str, Choice] = {}
    program = _lower(
        edit.clone_module(module),
        (),
        (replica_count, partition_count),
        None,
        CompileTrace(),
        plans,
        checks_values=False,
        tuned=tuned_plans(),
        spans_processes=False,
    )
    return program, plans


def _check_plans(module: Module, record: CompilationRecord) -> None:
    """Raises `InvalidArgumentError` if a plan that the module demands was not followed."""
    followed = {choice.demanded for choice in record.plans.values()}
    for instruction in module.instructions():
        plan = demanded_plan(instruction)
        if plan is not None and plan not in followed:
            raise InvalidArgumentError(
                codes.KERNEL_PLAN,
                f"{describe_instruction(instruction)}: the strategy {plan.strategy!r} of its kernel plan is "
                "impossible: after the passes, the instruction has no kernel of its own",
            )


def _flushes_denormals() -> bool:
    mode = flags.get("denormals")
    if mode not in ("flush", "keep"):
        raise InvalidArgumentError(command_codes.FLAG_CHOICE, f"flag --denormals is flush or keep, not {mode!r}")
    return mode == "flush"
