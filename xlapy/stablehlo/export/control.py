"""Export rules of control flow: loops, branches, calls, fusions, barriers, tokens and asynchronous instructions.

Bodies of loops and branches become regions, called computations become functions, and fusions are inlined.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.control import CallAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.annotations import COMPOSITE_PREFIX
from xlapy.stablehlo.export.core.attributes import integer32
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import types_of
from xlapy.stablehlo.export.core.value_tree import ValueTree, unflatten
from xlapy.stablehlo.text import parse_attribute


@RULES.rule(opcodes.WHILE)
def while_(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    regions = [builder.region(instruction.computation(role)) for role in ("condition", "body")]
    return builder.emit_for("stablehlo.while", instruction, regions=regions)


@RULES.rule(opcodes.CONDITIONAL)
def conditional(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a conditional. The branches' operands are captured by the regions, which take no arguments."""
    selector, *operands = instruction.operands
    regions = [
        builder.branch_region(computation, builder.values[operand])
        for computation, operand in zip(instruction.computations, operands, strict=True)
    ]
    name = "stablehlo.if" if selector.shape.element_type is PRED else "stablehlo.case"
    return builder.emit_for(name, instruction, regions=regions, operands=[builder.value(selector)])


@RULES.rule(opcodes.CALL)
def call(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a call of a function, or a composite if the call implements one."""
    function = builder.context.function_name(instruction.to_apply)
    if not instruction.attributes_as(CallAttributes).is_composite:
        return builder.emit_for("func.call", instruction, {"callee": ir.SymbolReference(function)})
    frontend_attributes = instruction.frontend_attributes or {}
    attributes = {
        "name": frontend_attributes.get(f"{COMPOSITE_PREFIX}name", ""),
        "decomposition": ir.SymbolReference(function),
        "version": integer32(int(frontend_attributes.get(f"{COMPOSITE_PREFIX}version", "0"))),
    }
    given = frontend_attributes.get(f"{COMPOSITE_PREFIX}attributes")
    if given:
        attributes["composite_attributes"] = parse_attribute(given)
    return builder.emit_for("stablehlo.composite", instruction, attributes)


@RULES.rule(opcodes.FUSION)
def fusion(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.inline(instruction.computations[0], [builder.values[operand] for operand in instruction.operands])


@RULES.rule(opcodes.OPT_BARRIER)
def opt_barrier(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.optimization_barrier", instruction)


@RULES.rule(opcodes.AFTER_ALL)
def after_all(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    name = "stablehlo.after_all" if instruction.operands else "stablehlo.create_token"
    return builder.emit_for(name, instruction)


@RULES.rule(opcodes.ADD_DEPENDENCY)
def add_dependency(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a dependency as an optimization barrier on the value and the token."""
    operands = builder.operands(instruction)
    types = [*types_of(instruction.shape), ir.TokenType()]
    results = builder.emit("stablehlo.optimization_barrier", operands, types)
    return unflatten(instruction.shape, results)


@RULES.rule(opcodes.DOMAIN)
def domain(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.values[instruction.operands[0]]


@RULES.rule(opcodes.ASYNC_START)
def async_start(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Inlines an asynchronous computation where it starts."""
    operands = [builder.values[operand] for operand in instruction.operands]
    return builder.inline(instruction.computations[0], operands)


@RULES.rule(opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE)
def async_done(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.values[instruction.operands[0]]
