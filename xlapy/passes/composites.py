"""Outlines operations that StableHLO lacks: replaces them by calls of computations to which they expand.

If CHLO has the operation, the call is a composite that names it, and readers that know CHLO get the operation back.

Responsible for which operations are outlined and how. Does not depend on how StableHLO is written.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.builder.mathematics.decompositions import DECOMPOSITIONS, decomposition_of
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import CallAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sorting import TopKAttributes
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.expand.expand import Expand
from xlapy.passes.rewrite import Writer, replace_with_new
from xlapy.stablehlo.elementwise_operations import OPERATIONS, composite_name

_EXPANDED = (opcodes.TOPK, opcodes.RAGGED_DOT, opcodes.SCAN)


def with_composites(module: Module) -> Module:
    """Returns a copy in which such operations are calls, or the module itself if it has none.

    Operations on complex numbers are not outlined. Those that CHLO lacks too become composites when they are exported.
    """
    if not any(map(_is_outlined, module.instructions())):
        return module
    copy = edit.clone_module(module)
    made: dict[tuple[OpDef, Shape], Computation] = {}
    for instruction in [i for i in copy.instructions() if _is_outlined(i)]:
        if instruction.op in _EXPANDED:
            _outline(instruction, _copied(instruction, copy))
            continue
        key = instruction.op, instruction.operands[0].shape.without_layout()
        if key not in made:
            made[key] = _decomposition(*key, copy)
        _outline(instruction, made[key])
    Expand(ops=tuple(op.name for op in _EXPANDED)).run(copy)
    return copy


def _is_outlined(instruction: Instruction) -> bool:
    if instruction.op in _EXPANDED:
        return True
    is_in_chlo = instruction.op in DECOMPOSITIONS and instruction.op in OPERATIONS
    return is_in_chlo and instruction.shape.is_static and instruction.shape.element_type.is_floating


def _copied(instruction: Instruction, module: Module) -> Computation:
    """Adds a computation that consists of a copy of an instruction, which is expanded later."""
    inner = edit.add_computation(module, f"{instruction.op.name.replace('-', '_')}.impl")
    parameters = [_parameter(inner, number, operand) for number, operand in enumerate(instruction.operands)]
    edit.set_root(inner, edit.clone_instruction(instruction, inner, parameters))
    return inner


def _decomposition(op: OpDef, shape: Shape, module: Module) -> Computation:
    return edit.clone_computation(decomposition_of(op, shape, f"{composite_name(op)}.impl"), module)


def _outline(instruction: Instruction, inner: Computation) -> None:
    """Replaces an instruction by the call of a computation."""
    attributes = _composite(instruction)
    write = Writer(instruction)
    call = write.add(
        opcodes.CALL,
        *instruction.operands,
        attributes=CallAttributes.make(is_composite=bool(attributes)),
        computations=[inner],
        shape=instruction.shape,
    )
    replace_with_new(instruction, call)
    call.frontend_attributes = {**(call.frontend_attributes or {}), **attributes} or None


def _parameter(inner: Computation, number: int, operand: Instruction) -> Instruction:
    return edit.create(inner, opcodes.PARAMETER, (), ParameterAttributes.make(number=number), shape=operand.shape)


def _composite(instruction: Instruction) -> dict[str, str]:
    """Returns the frontend attributes of a composite; empty if CHLO does not have the operation."""
    if instruction.op in DECOMPOSITIONS:
        return {"composite.name": composite_name(instruction.op), "composite.version": "1"}
    if instruction.op is not opcodes.TOPK or not instruction.attributes_as(TopKAttributes).largest:
        return {}
    return {
        "composite.name": "chlo.top_k",
        "composite.attributes": f"{{k = {instruction.attributes_as(TopKAttributes).k} : i64}}",
        "composite.version": "1",
    }
