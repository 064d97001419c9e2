"""The output of the CPU compiler for a module, split by instruction.

Responsible for assigning decisions, thunks and functions to instructions. Does not depend on how they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.fusion.decisions import Decision
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.llvm.jit import listings
from xlapy.cpu.program.thunks import walk_thunks
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.loops import print_kernel
from xlapy.runtime.backends.cpu import CpuBackend
from xlapy.runtime.engine.donation import donated_leaves

_LLVM_FUNCTION = re.compile(r"^define [^\n]*?@([\w.]+)\(.*?^\}$", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^([A-Za-z_][\w.]*):")


@dataclass(frozen=True, slots=True)
class KernelForm:
    """A thunk of the native program that runs a kernel."""

    title: str
    """The kernel's name, its buffers and its work."""
    loops: str
    """Its loop IR."""
    function: str
    """The name of the function that contains its code."""


@dataclass(frozen=True, slots=True)
class FunctionForm:
    """A function of the machine code: LLVM IR before and after optimization, and assembly."""

    llvm: str
    optimized: str
    assembly: str


@dataclass(frozen=True, slots=True)
class NativeForms:
    """An optimized module, and the output for each of its instructions."""

    module: Module
    decisions: dict[str, list[Decision]]
    """The fusion decisions about each instruction, by its name before fusion."""
    copies: dict[str, str]
    """For each instruction in a fusion, its name before fusion."""
    thunks: dict[str, list[str]]
    """The thunks of each instruction, one line each, by name."""
    kernels: dict[str, list[KernelForm]]
    """The thunks that run kernels, by name of the instruction."""
    functions: dict[str, FunctionForm]
    """The functions that contain kernels, by name."""
    plans: dict[str, list[str]]
    """For each instruction that kernels compute, by name: its plan, and what became of the other strategies."""

    def decisions_on(self, instruction: Instruction) -> list[Decision]:
        """Returns the decisions about an instruction of the module; for a fusion, the decisions about its results."""
        subjects = [instruction]
        if instruction.op is opcodes.FUSION:
            root = instruction.computations[0].root_instruction
            subjects = list(root.operands) if root.op is opcodes.TUPLE else [root]
        names = [self.copies.get(subject.name, subject.name) for subject in subjects]
        return list(dict.fromkeys(one for name in names for one in self.decisions.get(name, [])))


def native_forms(module: Module) -> NativeForms:
    """Compiles a verified module for cpu. Raises `UnsupportedError` for a module that does not run there."""
    return forms_of(compiled_for_cpu(module))


def compiled_for_cpu(module: Module) -> Compiled:
    """Compiles a verified module for cpu. Raises `UnsupportedError` for a module that does not run there."""
    config, donated = module.config, donated_leaves(module, ())
    return CpuBackend().compile_uncached(module, config.replica_count, config.num_partitions, donated)


def forms_of(compiled: Compiled) -> NativeForms:
    """Returns the compiler's output for each instruction of a compiled module."""
    thunks: dict[str, list[str]] = {}
    kernels: dict[str, list[KernelForm]] = {}
    for thunk in walk_thunks(compiled.program.thunks):
        if thunk.op_name:
            thunks.setdefault(thunk.op_name, []).append(thunk.title)
        if thunk.own_kernel is not None:
            form = KernelForm(thunk.title, print_kernel(thunk.own_kernel), compiled.functions[thunk])
            kernels.setdefault(thunk.op_name, []).append(form)
    record = compiled.record
    return NativeForms(
        compiled.module,
        _by_subject(record.decisions),
        record.copies,
        thunks,
        kernels,
        _functions(compiled),
        {name: choice.lines() for name, choice in record.plans.items()},
    )


def _functions(compiled: Compiled) -> dict[str, FunctionForm]:
    optimized, assembly = listings(compiled.llvm)
    before, after, machine = llvm_functions(compiled.llvm), llvm_functions(optimized), assembly_functions(assembly)
    return {
        name: FunctionForm(before[name], after.get(name, ""), machine.get(name, ""))
        for name in dict.fromkeys(compiled.functions.values())
    }


def llvm_functions(text: str) -> dict[str, str]:
    """Returns the function definitions in LLVM IR, by name."""
    return {match[1]: match[0] for match in _LLVM_FUNCTION.finditer(text)}


def assembly_functions(text: str) -> dict[str, str]:
    """Returns the functions of an assembly listing, by name: from the label to the end, without directives."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label is not None:
            current = found.setdefault(label[1], [])
        if line.startswith(".Lfunc_end"):
            current = None
        elif current is not None and not line.startswith("\t."):
            current.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def _by_subject(decisions: Iterable[Decision]) -> dict[str, list[Decision]]:
    found: dict[str, list[Decision]] = {}
    for decision in decisions:
        for subject in decision.subjects:
            found.setdefault(subject, []).append(decision)
    return found
