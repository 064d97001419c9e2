"""Writes tuned plans into a module, as `kernel_plan` in the `backend_config` of its instructions.

A plan belongs to a kernel, which passes make of several instructions: it is written at the instruction whose value the
kernel stores. An instruction with a plan also stays out of other kernels and of some passes, so that a plan is written
only if the module then compiles to the same program as with a tuning file.

Responsible for the instructions, and for this comparison. Does not depend on how plans are found.
"""

from __future__ import annotations

from collections.abc import Collection

from xlapy import opcodes
from xlapy.codegen.extraction import kernel_fingerprint
from xlapy.codegen.plan import record_plan
from xlapy.codegen.tuning import NO_TUNED_PLANS, TunedKernel, plans_for
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.llvm.processor import instruction_set
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.text import PrintOptions, print_module
from xlapy.tools.tune.tuner import TunedProgram, compile_with_plans, form_of

_TEXT = PrintOptions(print_metadata=False, print_large_constants=False)


def module_with_plans(tuned: TunedProgram) -> tuple[Module, list[TunedKernel]]:
    """Returns a copy of the program's module with the plans that are kept, and the kernels whose plans cannot be
    written into it: these need a tuning file."""
    whole = _annotated(tuned.module, tuned.tuned, tuned.kernels)
    if _is_alike(whole, tuned.tuned):
        return whole, []
    written: list[TunedKernel] = []
    for kernel in tuned.kernels:
        candidates = [*written, kernel]
        expected = _compiled(tuned.module, candidates)
        if _is_alike(_annotated(tuned.module, expected, candidates), expected):
            written = candidates
    left = [kernel for kernel in tuned.kernels if kernel not in written]
    return _annotated(tuned.module, _compiled(tuned.module, written), written), left


def _compiled(module: Module, kernels: Collection[TunedKernel]) -> Compiled:
    return form_of(compile_with_plans(module, plans_for(kernels, instruction_set(), "the search")))


def _annotated(module: Module, compiled: Compiled, kernels: Collection[TunedKernel]) -> Module:
    """Returns a copy of a module with the plans at the instructions that the kernels of its compiled form store."""
    copy = edit.clone_module(module)
    by_name = {instruction.name: instruction for instruction in copy.instructions()}
    fingerprints = {kernel.fingerprint for kernel in kernels}
    for instruction in compiled.module.instructions():
        choice = compiled.record.plans.get(instruction.name)
        if choice is not None and choice.is_tuned and kernel_fingerprint(instruction) in fingerprints:
            original = by_name.get(_stored_name(instruction, compiled))
            if original is not None:
                record_plan(original, choice.plan)
    return copy


def _stored_name(instruction: Instruction, compiled: Compiled) -> str:
    """Returns the name before fusion of the instruction whose value a kernel stores."""
    if instruction.op is not opcodes.FUSION:
        return instruction.name
    root = instruction.computations[0].root_instruction
    return compiled.record.copies.get(root.name, root.name)


def _is_alike(annotated: Module, expected: Compiled) -> bool:
    """Whether a module with plans compiles to the same optimized module as without them but with a tuning file."""
    compiled = form_of(compile_with_plans(annotated, NO_TUNED_PLANS))
    return print_module(compiled.module, _TEXT) == print_module(expected.module, _TEXT)
