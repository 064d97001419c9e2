"""The CPU compiler: the passes and stages from a module to machine code, as one visible list.

Owns: their order, the dump of each stage. Must not know: devices, arguments of users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.buffers import assign_buffers
from xlapy.cpu.fuse import Fuse, Unfuse
from xlapy.cpu.llvm.engine import Code, assembly, compile_text
from xlapy.cpu.llvm.pool import parallel_function
from xlapy.cpu.llvm.program import write_program
from xlapy.cpu.order_selections import OrderSelections
from xlapy.cpu.parts import cut
from xlapy.cpu.program import make_program, runs
from xlapy.cpu.split_reductions import SplitReductions
from xlapy.cpu.steps import KernelStep, NativeProgram, all_steps, print_program
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.loops import print_kernel
from xlapy.passes.expand.expand import Expand
from xlapy.passes.flatten_tuples import FlattenTuples
from xlapy.passes.fold_constants import FoldConstants
from xlapy.passes.hoist_loop_invariants import HoistLoopInvariants
from xlapy.passes.inline_calls import InlineCalls
from xlapy.passes.merge_common_subexpressions import MergeCommonSubexpressions
from xlapy.passes.normalize_layouts import NormalizeLayouts
from xlapy.passes.pass_ import Pass
from xlapy.passes.pipeline import Fixpoint, Pipeline
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.simplify import Simplify
from xlapy.passes.simplify_conditionals import SimplifyConditionals
from xlapy.passes.simplify_loops import SimplifyLoops

MOST_ROUNDS = 4
"""Of the simplifying passes: what is left then is not worth the time."""

MOST_SHARED = 64
"""Instructions of a computation that is called from several places and yet becomes a part of each."""


def passes(explain: Callable[[str], None] | None = None) -> list[Pass]:
    """What happens to a module before it becomes steps; `explain` is told the decisions of fusion."""
    return [
        Unfuse(),
        RemoveDeadCode(),
        Expand(runs=runs()),
        NormalizeLayouts(),
        InlineCalls(composites=True, shared=MOST_SHARED),
        FlattenTuples(),
        Fixpoint(limit=MOST_ROUNDS, passes=tuple(simplifications())),
        Expand(runs=runs()),
        OrderSelections(),
        SplitReductions(),
        Fuse(explain=explain),
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
class Compiled:
    """A program as machine code, with the forms it had on the way."""

    module: Module
    """The module after the passes."""
    program: NativeProgram
    code: Code
    llvm: str
    """LLVM's text, before its passes."""
    decisions: list[str] = field(default_factory=list[str])
    """What fusion decided, and why."""

    @property
    def entry(self) -> int:
        """The address of `void xlapy_run(ptr table)`."""
        return self.code.addresses["xlapy_run"]

    def stages(self) -> dict[str, str]:
        """Every form the program had, by the name of the file that it is dumped to."""
        return {
            "after_optimizations.txt": self.module.to_text(print_large_constants=True),
            "fusion.txt": "\n".join(self.decisions) + "\n",
            "steps.txt": print_program(self.program),
            "loops.txt": self.loops(),
            "ll": self.llvm,
            "s": assembly(self.llvm),
        }

    def loops(self) -> str:
        """The loop IR of every kernel."""
        kernels = dict.fromkeys(step.kernel for step in all_steps(self.program.steps) if isinstance(step, KernelStep))
        return "\n".join(print_kernel(kernel) for kernel in kernels)


def compile_module(module: Module, donated: Collection[int] = ()) -> Compiled:
    """Compiles a verified module, which stays as it is; `UnsupportedError` for what does not run on cpu.

    donated: the leaves of the parameters, by number, whose memory the program may overwrite.
    """
    optimised = edit.clone_module(module)
    decisions: list[str] = []
    Pipeline(passes(decisions.append)).run(optimised)
    program = make_program(optimised, donated)
    cut(program)
    assign_buffers(program)
    text = write_program(program, flush_denormals=_flushes_denormals())
    imports = {"xlapy_parallel": parallel_function()} if text.uses_threads else {}
    return Compiled(optimised, program, compile_text(text.text, ["xlapy_run"], imports), text.text, decisions)


def _flushes_denormals() -> bool:
    mode = flags.get("denormals")
    if mode not in ("flush", "keep"):
        raise InvalidArgumentError(f"flag --denormals is flush or keep, not {mode!r}")
    return mode == "flush"
