"""Export rules: loops, branches, calls, fusions, barriers, tokens that follow from others.

Owns: what becomes a region, a function, or operations in place. Must not know: what is inside of computations.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.annotations import COMPOSITE
from xlapy.stablehlo.export.core.attributes import small
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope, structured
from xlapy.stablehlo.export.core.types import types_of
from xlapy.stablehlo.text import read_attribute


@RULES.rule(opcodes.WHILE)
def while_(scope: Scope, instruction: Instruction) -> Structure:
    regions = [scope.region(instruction.computation(role)) for role in ("condition", "body")]
    return scope.all("stablehlo.while", instruction, regions=regions)


@RULES.rule(opcodes.CONDITIONAL)
def conditional(scope: Scope, instruction: Instruction) -> Structure:
    """Branches see what is around them, so their operands are not handed on."""
    chooser, *operands = instruction.operands
    regions = [
        scope.branch(computation, scope.values[operand])
        for computation, operand in zip(instruction.computations, operands, strict=True)
    ]
    name = "stablehlo.if" if chooser.shape.element_type is PRED else "stablehlo.case"
    return scope.all(name, instruction, regions=regions, operands=[scope.value(chooser)])


@RULES.rule(opcodes.CALL)
def call(scope: Scope, instruction: Instruction) -> Structure:
    """A function; a composite with its name, attributes and version, if the call says that it is one."""
    function = scope.program.function(instruction.to_apply)
    if not instruction.is_composite:
        return scope.all("func.call", instruction, {"callee": ir.SymbolReference(function)})
    said = instruction.frontend_attributes or {}
    attributes = {
        "name": said.get(f"{COMPOSITE}name", ""),
        "decomposition": ir.SymbolReference(function),
        "version": small(int(said.get(f"{COMPOSITE}version", "0"))),
    }
    given = said.get(f"{COMPOSITE}attributes")
    if given:
        attributes["composite_attributes"] = read_attribute(given)
    return scope.all("stablehlo.composite", instruction, attributes)


@RULES.rule(opcodes.FUSION)
def fusion(scope: Scope, instruction: Instruction) -> Structure:
    return scope.in_place(instruction.computations[0], [scope.values[operand] for operand in instruction.operands])


@RULES.rule(opcodes.OPT_BARRIER)
def opt_barrier(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.optimization_barrier", instruction)


@RULES.rule(opcodes.AFTER_ALL)
def after_all(scope: Scope, instruction: Instruction) -> Structure:
    name = "stablehlo.after_all" if instruction.operands else "stablehlo.create_token"
    return scope.all(name, instruction)


@RULES.rule(opcodes.ADD_DEPENDENCY)
def add_dependency(scope: Scope, instruction: Instruction) -> Structure:
    """A barrier that the value and the token pass together."""
    operands = scope.operands(instruction)
    types = [*types_of(instruction.shape), ir.TokenType()]
    results = scope.emit("stablehlo.optimization_barrier", operands, types)
    return structured(instruction.shape, results)


@RULES.rule(opcodes.DOMAIN)
def domain(scope: Scope, instruction: Instruction) -> Structure:
    return scope.values[instruction.operands[0]]


@RULES.rule(opcodes.ASYNC_START)
def async_start(scope: Scope, instruction: Instruction) -> Structure:
    """What runs beside others runs here, at its start."""
    operands = [scope.values[operand] for operand in instruction.operands]
    return scope.in_place(instruction.computations[0], operands)


@RULES.rule(opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE)
def async_done(scope: Scope, instruction: Instruction) -> Structure:
    return scope.values[instruction.operands[0]]
