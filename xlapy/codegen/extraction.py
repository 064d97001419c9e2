"""Modules that consist of one kernel: an instruction of an optimized module whose operands are parameters.

Responsible for the copy, and for the fingerprint by which equal kernels of different modules are recognized. Does not
depend on plans.
"""

from __future__ import annotations

import hashlib

from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.text import PrintOptions, print_module

_TEXT = PrintOptions.canonical().replace(
    print_operand_names=True, is_in_nested_computation=True, print_original_value=False
)
"""Prints computations with numbers in place of names, so that the text follows from the structure."""


def kernel_module(instruction: Instruction) -> Module:
    """Returns a module whose entry applies an instruction to parameters.

    The copy has no annotations: no metadata, sharding, frontend attributes or backend configuration. An operand that
    the instruction reads several times is one parameter.
    """
    module = Module("kernel")
    entry = edit.add_computation(module, "entry", entry=True)
    operands: dict[Instruction, Instruction] = {}
    for number, operand in enumerate(dict.fromkeys(instruction.operands)):
        attributes = ParameterAttributes.make(number=number)
        operands[operand] = edit.create(entry, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="operand")
    copies: dict[Computation, Computation] = {}
    called = [_copy(computation, module, copies) for computation in instruction.computations]
    root = edit.create(
        entry,
        instruction.op,
        [operands[operand] for operand in instruction.operands],
        instruction.attributes,
        called,
        shape=instruction.shape,
        name=instruction.op.name,
    )
    root.result_accuracy = instruction.result_accuracy
    edit.set_root(entry, root)
    edit.reorder_computations(module, [c for c in module.computations if c is not entry] + [entry])
    module.config.entry_computation_layout = entry.program_shape
    return module


def _copy(computation: Computation, into: Module, copies: dict[Computation, Computation]) -> Computation:
    """Copies a computation and those that it calls, without annotations. copies: those that were copied before."""
    if computation not in copies:
        for instruction in post_order(computation):
            for called in instruction.computations:
                _copy(called, into, copies)
        copy = copies[computation] = edit.clone_computation(computation, into, copies)
        for instruction in copy:
            instruction.metadata = None
            instruction.sharding = None
            instruction.frontend_attributes = None
            instruction.backend_config = ""
            instruction.original_value = ""
    return copies[computation]


def kernel_fingerprint(instruction: Instruction) -> str:
    """Returns a digest of the structure of a kernel: its operations, attributes, shapes and types, but no names.

    Equal kernels of different modules have the same fingerprint, whatever their plans.
    """
    text = print_module(kernel_module(instruction), _TEXT)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
