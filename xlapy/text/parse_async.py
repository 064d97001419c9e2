"""Reads the short asynchronous forms: `add-start(x, y)`, `add-update(s)`, `add-done(u)` of any op.

Responsible for wrapping the op in a computation that an `async-start` calls, and for changing the signature of that
computation to the shapes that later instructions of the chain declare.

Worked example: `s = ((f32[2]), f32[2], s32[]) negate-start(x)` makes a computation `async_wrapped` holding
`async_param = f32[2] parameter(0)` and `ROOT negate = f32[2] negate(async_param)`, and `s = ... async-start(x),
calls=async_wrapped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xlapy.base.element_types import F32
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import asynchronous as async_codes
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.control import CALL, FUSION, AsyncStartAttributes
from xlapy.opcodes.registry import AsyncRole, CalledComputationSlot, OpDef
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.text.annotations import set_annotations
from xlapy.text.async_forms import ASYNC_OPS, set_execution_thread, share_annotations, wrapped_computation
from xlapy.text.parse_attributes import AttributeReader, ParsedAttributes
from xlapy.text.state import ParserState, Scope


class Parser(Protocol):
    """The methods of `parse_instruction.InstructionReader` that reading a short form needs."""

    cursor: HloCursor
    state: ParserState
    attributes: AttributeReader

    def read_operands(self, scope: Scope) -> tuple[Instruction, ...]:
        """Reads the operands and the closing parenthesis."""
        ...

    def make(
        self,
        scope: Scope,
        name: str,
        op: OpDef,
        shape: Shape | None,
        operands: Sequence[Instruction],
        slots: Sequence[CalledComputationSlot],
        parsed: ParsedAttributes,
        opcode_position: int,
    ) -> Instruction:
        """Makes an instruction and adds it to the computation of the scope."""
        ...


def read_async(
    parser: Parser,
    scope: Scope,
    name: str,
    shape: Shape | None,
    ops: tuple[OpDef, OpDef],
    opcode_position: int,
    nested: bool,
) -> Instruction:
    """Reads the rest of an instruction after `add-start(`, `add-update(` or `add-done(`.

    ops: the wrapped op and the async op, here (add, async-start). A nested instruction has no attributes.
    """
    wrapped, op = ops
    if shape is None:
        parser.cursor.fail_at(
            opcode_position,
            operand_codes.INFERRED_SHAPE,
            f"the shape of a {op.name} cannot be inferred; write it before the opcode",
        )
    if wrapped.parenthesized_attribute is not None or wrapped in ASYNC_OPS:
        parser.cursor.fail_at(opcode_position, async_codes.ASYNC_OPERATION, f"{wrapped.name} has no asynchronous form")
    if op.async_role is not AsyncRole.DONE and not _is_async_state(shape):
        parser.cursor.fail_at(
            opcode_position,
            async_codes.ASYNC_SHAPE,
            f"the shape of {op.name} must be ((operands...), result, context...), given {shape.to_text(layout=False)}",
        )
    operands = parser.read_operands(scope)
    if op.async_role is AsyncRole.START:
        return _read_start(parser, scope, name, shape, ops, operands, opcode_position, nested)
    return _read_update_or_done(parser, scope, name, shape, ops, operands, opcode_position, nested)


def _is_async_state(shape: Shape) -> bool:
    """Whether the shape is that of an async-start: ((operands...), result, context...)."""
    return shape.is_tuple and len(shape.tuple_shapes) >= 2 and shape.tuple_shapes[0].is_tuple


def _read_start(
    parser: Parser,
    scope: Scope,
    name: str,
    shape: Shape,
    ops: tuple[OpDef, OpDef],
    operands: Sequence[Instruction],
    opcode_position: int,
    nested: bool,
) -> Instruction:
    wrapped, op = ops
    inner = Scope(Computation("async_wrapped"))
    parameters = _add_parameters(inner.computation, wrapped, shape.tuple_shapes[0].tuple_shapes)
    slots = wrapped.computation_slots_for([parameter.shape for parameter in parameters])
    parsed = ParsedAttributes()
    if not nested:
        parser.attributes.read(scope, wrapped, slots, parsed, wrapper=op)
    # Control edges and annotations belong to the async-start, not to the wrapped instruction.
    predecessors, parsed.control_predecessors = parsed.control_predecessors, []
    annotations, parsed.annotations = parsed.annotations, {}
    root = parser.make(inner, wrapped.name, wrapped, shape.tuple_shapes[1], parameters, slots, parsed, opcode_position)
    edit.set_root(inner.computation, root)
    if wrapped in (CALL, FUSION) and root.computations[0].root is not None:
        called = root.computations[0].program_shape
        _set_signature(inner.computation, called.parameters, called.result)
    parser.state.computations.append(inner.computation)
    attributes = parser.attributes.make(op, parsed.wrapper_values, opcode_position)
    start = Instruction(op, shape, operands, attributes, (inner.computation,), name)
    set_execution_thread(inner.computation, start.attributes_as(AsyncStartAttributes).async_execution_thread)
    return _add(scope, start, annotations, predecessors)


def _add_parameters(computation: Computation, wrapped: OpDef, shapes: Sequence[Shape]) -> list[Instruction]:
    """Adds one parameter per shape, and placeholders for operands whose shapes a later async-update declares."""
    missing = max(wrapped.arity.minimum - len(shapes), 0)
    found: list[Instruction] = []
    for number, shape in enumerate([*shapes, *[Shape.array(F32, (1,))] * missing]):
        instruction = Instruction(PARAMETER, shape, (), ParameterAttributes.make(number=number), name="async_param")
        edit.append_with_name(computation, instruction)
        found.append(instruction)
    return found


def _add(
    scope: Scope, instruction: Instruction, annotations: dict[str, object], predecessors: Sequence[Instruction]
) -> Instruction:
    """Adds the instruction to the computation of the scope, with its annotations and control edges."""
    edit.append_with_name(scope.computation, instruction)
    set_annotations(instruction, annotations)
    share_annotations(instruction, annotations)
    for predecessor in predecessors:
        edit.add_control_edge(predecessor, instruction)
    return instruction


def _read_update_or_done(
    parser: Parser,
    scope: Scope,
    name: str,
    shape: Shape,
    ops: tuple[OpDef, OpDef],
    operands: Sequence[Instruction],
    opcode_position: int,
    nested: bool,
) -> Instruction:
    wrapped, op = ops
    if not op.arity.accepts(len(operands)):
        parser.cursor.fail_at(
            opcode_position, operand_codes.OPERAND_COUNT, f"{op.name} takes {op.arity}, given {len(operands)}"
        )
    computation = wrapped_computation(operands[0])
    if computation is None or operands[0].op.async_role is AsyncRole.DONE or computation.root is None:
        parser.cursor.fail_at(
            opcode_position,
            async_codes.ASYNC_OPERAND,
            f"operand 0 of {op.name} must be an async-start or async-update, given {operands[0].name!r}",
        )
    root = computation.root
    if root.op is not wrapped:
        parser.cursor.fail_at(
            opcode_position,
            async_codes.ASYNC_OPERATION,
            f"the chain of {operands[0].name!r} runs {root.op.name}, not {wrapped.name}",
        )
    parsed = ParsedAttributes()
    if not nested:
        parser.attributes.read(scope, op, (), parsed)
    follower = Instruction(op, shape, operands, parser.attributes.make(op, parsed.values, opcode_position), (), name)
    state = operands[0].shape if op.async_role is AsyncRole.DONE else shape
    if _is_async_state(state):
        _set_signature(
            computation, state.tuple_shapes[0].tuple_shapes, shape if state is not shape else shape.tuple_shapes[1]
        )
    return _add(scope, follower, parsed.annotations, parsed.control_predecessors)


def _set_signature(computation: Computation, parameters: Sequence[Shape], result: Shape) -> None:
    """Changes the parameters and the result of a wrapped computation to the shapes that the chain declares."""
    for number, shape in enumerate(parameters):
        if number < len(computation.parameters):
            if not computation.parameters[number].shape.compatible(shape):
                edit.set_shape(computation.parameters[number], shape)
            continue
        root = computation.root_instruction
        added = Instruction(PARAMETER, shape, (), ParameterAttributes.make(number=number), name="async_param")
        edit.append_with_name(computation, added)
        edit.set_operands(root, (*root.operands, added))
    if not computation.root_instruction.shape.compatible(result):
        edit.set_shape(computation.root_instruction, result)
