"""The CPU compiler: the passes and stages from a module to machine code, as one visible list.

Owns: their order, the dump of each stage. Must not know: devices, arguments of users.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlapy.base import flags
from xlapy.cpu.buffers import assign_buffers
from xlapy.cpu.fuse import Fuse, Unfuse
from xlapy.cpu.llvm.engine import Code, compile_text
from xlapy.cpu.llvm.pool import parallel_function
from xlapy.cpu.llvm.program import write_program
from xlapy.cpu.program import make_program, runs
from xlapy.cpu.steps import KernelStep, NativeProgram, all_steps
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.loops import print_kernel
from xlapy.passes.expand.expand import Expand
from xlapy.passes.merge_common_subexpressions import MergeCommonSubexpressions
from xlapy.passes.pass_ import Pass
from xlapy.passes.pipeline import Pipeline
from xlapy.passes.remove_dead_code import RemoveDeadCode


def passes() -> list[Pass]:
    """What happens to a module before it becomes steps."""
    return [Unfuse(), RemoveDeadCode(), Expand(runs=runs()), MergeCommonSubexpressions(), Fuse(), RemoveDeadCode()]


@dataclass(slots=True)
class Compiled:
    """A program as machine code, with the forms it had on the way."""

    module: Module
    """The module after the passes."""
    program: NativeProgram
    code: Code
    llvm: str
    stages: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def entry(self) -> int:
        """The address of `void xlapy_run(ptr table)`."""
        return self.code.addresses["xlapy_run"]

    def loops(self) -> str:
        """The loop IR of every kernel."""
        kernels = dict.fromkeys(step.kernel for step in all_steps(self.program.steps) if isinstance(step, KernelStep))
        return "\n".join(print_kernel(kernel) for kernel in kernels)


def compile_module(module: Module) -> Compiled:
    """Compiles a verified module, which stays as it is; `UnsupportedError` for what does not run on cpu."""
    optimised = edit.clone_module(module)
    Pipeline(passes()).run(optimised)
    program = make_program(optimised)
    assign_buffers(program)
    text = write_program(program, flush_denormals=flags.get("denormals") == "flush")
    imports = {"xlapy_parallel": parallel_function()} if text.uses_threads else {}
    return Compiled(optimised, program, compile_text(text.text, ["xlapy_run"], imports), text.text)
