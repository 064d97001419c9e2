"""The short asynchronous forms: `add-start(x, y)`, `add-update(s)`, `add-done(u)` of any op.

Owns: wrapping the op in a computation that an `async-start` calls, and keeping that computation's signature true to
the chain. Must not know: any particular op beyond the three async ones, and that call and fusion call a computation.

Worked example: `s = ((f32[2]), f32[2], s32[]) negate-start(x)` makes a computation `async_wrapped` holding
`async_param = f32[2] parameter(0)` and `ROOT negate = f32[2] negate(async_param)`, and `s = ... async-start(x),
calls=async_wrapped`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xlapy.base.element_types import F32
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, ASYNC_UPDATE, CALL, FUSION
from xlapy.opcodes.registry import REGISTRY, AsyncRole, OpDef
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.text.annotations import annotate
from xlapy.text.parse_attributes import Parsed
from xlapy.text.state import Scope

if TYPE_CHECKING:
    from xlapy.text.parse_instruction import InstructionReader

_SUFFIXES = {"-start": ASYNC_START, "-update": ASYNC_UPDATE, "-done": ASYNC_DONE}
_NATIVE = frozenset(["all-gather", "all-reduce", "collective-permute", "copy", "recv", "send"])
ASYNC_OPS = frozenset(_SUFFIXES.values())
_SHARED = ("metadata", "original_value", "backend_config", "frontend_attributes", "statistics")
"""Annotations that XLA gives to the wrapped instruction too."""


def split_async(opcode: str) -> tuple[OpDef, OpDef] | None:
    """`add-start` -> (add, async-start); None if it is no asynchronous form of an op."""
    for suffix, op in _SUFFIXES.items():
        wrapped = opcode.removesuffix(suffix)
        if wrapped != opcode and wrapped in REGISTRY and wrapped not in _NATIVE:
            return REGISTRY[wrapped], op
    return None


def has_short_form(computation: Computation | None) -> bool:
    """Whether `add-start` can stand for an async-start of the computation: one instruction on its parameters in order.

    XLA also writes the short form of ops that it cannot read in that form again, and where the instruction takes the
    parameters in another order or not all of them, which the short form does not say; those keep the long one here.
    """
    root = computation.root if computation is not None else None
    if computation is None or root is None or root.op.name in _NATIVE:
        return False
    if root.op.parenthesized_attribute is not None or root.op in ASYNC_OPS:
        return False
    if not all(instruction is root or is_parameter(instruction) for instruction in computation):
        return False
    return root.operands == tuple(computation.parameters)


def wrapped_computation(instruction: Instruction) -> Computation | None:
    """The computation at the start of the chain that an async instruction is part of; None if the chain is broken."""
    while instruction.op.async_role in (AsyncRole.UPDATE, AsyncRole.DONE) and instruction.operands:
        instruction = instruction.operands[0]
    starts = instruction.op is ASYNC_START and len(instruction.computations) == 1
    return instruction.computations[0] if starts else None


def read_async(
    parser: InstructionReader,
    scope: Scope,
    name: str,
    shape: Shape | None,
    ops: tuple[OpDef, OpDef],
    op_at: int,
    nested: bool,
) -> Instruction:
    """Reads an instruction behind `add-start(`, `add-update(` or `add-done(`."""
    wrapped, op = ops
    if shape is None:
        parser.reader.fail_at(op_at, f"the shape of a {op.name} cannot be inferred; write it in front")
    if wrapped.parenthesized_attribute is not None or wrapped in ASYNC_OPS:
        parser.reader.fail_at(op_at, f"{wrapped.name} has no asynchronous form")
    if op.async_role is not AsyncRole.DONE and not _is_state(shape):
        parser.reader.fail_at(
            op_at,
            f"the shape of {op.name} must be ((operands...), result, context...), it is {shape.to_text(layout=False)}",
        )
    operands = parser.read_operands(scope)
    if op.async_role is AsyncRole.START:
        return _start(parser, scope, name, shape, ops, operands, op_at, nested)
    return _follow(parser, scope, name, shape, ops, operands, op_at, nested)


def _is_state(shape: Shape) -> bool:
    return shape.is_tuple and len(shape.tuple_shapes) >= 2 and shape.tuple_shapes[0].is_tuple


def _start(
    parser: InstructionReader,
    scope: Scope,
    name: str,
    shape: Shape,
    ops: tuple[OpDef, OpDef],
    operands: Sequence[Instruction],
    op_at: int,
    nested: bool,
) -> Instruction:
    wrapped, op = ops
    inner = Scope(Computation("async_wrapped"))
    parameters = _parameters(inner.computation, wrapped, shape.tuple_shapes[0].tuple_shapes)
    slots = wrapped.computation_slots_for([parameter.shape for parameter in parameters])
    parsed = Parsed()
    if not nested:
        parser.attributes.read(scope, wrapped, slots, parsed, wrapper=op)
    before, parsed.before = parsed.before, []
    notes, parsed.notes = parsed.notes, {}
    root = parser.make(inner, wrapped.name, wrapped, shape.tuple_shapes[1], parameters, slots, parsed, op_at)
    edit.set_root(inner.computation, root)
    if wrapped in (CALL, FUSION) and root.computations[0].root is not None:
        called = root.computations[0].program_shape
        _fit(inner.computation, called.parameters, called.result)
    parser.state.computations.append(inner.computation)
    attributes = parser.attributes.make(op, parsed.wrapper_values, op_at)
    start = Instruction(op, shape, operands, attributes, (inner.computation,), name)
    set_thread(inner.computation, start.async_execution_thread)
    return _link(scope, start, notes, before)


def _parameters(computation: Computation, wrapped: OpDef, shapes: Sequence[Shape]) -> list[Instruction]:
    """One parameter an operand; stand-ins for operands that a later async-update brings."""
    missing = max(wrapped.arity.minimum - len(shapes), 0)
    found: list[Instruction] = []
    for number, shape in enumerate([*shapes, *[Shape.array(F32, (1,))] * missing]):
        instruction = Instruction(PARAMETER, shape, (), ParameterAttributes.make(number=number), name="async_param")
        edit.link(computation, instruction)
        found.append(instruction)
    return found


def share_annotations(instruction: Instruction, notes: Mapping[str, object]) -> None:
    """Gives most annotations of an async instruction to the root of what its chain runs, as XLA does."""
    computation = wrapped_computation(instruction)
    if computation is not None and computation.root is not None:
        annotate(computation.root, {slot: value for slot, value in notes.items() if slot in _SHARED})


def set_thread(computation: Computation, thread: str) -> None:
    """Lets a computation and all that it calls run on a thread, as XLA does for what an async-start calls."""
    stack = [computation]
    seen: set[Computation] = set()
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            current.execution_thread = thread
            stack.extend(called for instruction in current for called in instruction.computations)


def _link(
    scope: Scope, instruction: Instruction, notes: dict[str, object], before: Sequence[Instruction]
) -> Instruction:
    edit.link(scope.computation, instruction)
    annotate(instruction, notes)
    share_annotations(instruction, notes)
    for predecessor in before:
        edit.add_control_edge(predecessor, instruction)
    return instruction


def _follow(
    parser: InstructionReader,
    scope: Scope,
    name: str,
    shape: Shape,
    ops: tuple[OpDef, OpDef],
    operands: Sequence[Instruction],
    op_at: int,
    nested: bool,
) -> Instruction:
    wrapped, op = ops
    if not op.arity.accepts(len(operands)):
        parser.reader.fail_at(op_at, f"{op.name} takes {op.arity}, given {len(operands)}")
    computation = wrapped_computation(operands[0])
    if computation is None or operands[0].op.async_role is AsyncRole.DONE or computation.root is None:
        parser.reader.fail_at(
            op_at, f"operand 0 of {op.name} must be an async-start or async-update, it is {operands[0].name!r}"
        )
    root = computation.root
    if root.op is not wrapped:
        parser.reader.fail_at(op_at, f"the chain of {operands[0].name!r} runs {root.op.name}, not {wrapped.name}")
    parsed = Parsed()
    if not nested:
        parser.attributes.read(scope, op, (), parsed)
    follower = Instruction(op, shape, operands, parser.attributes.make(op, parsed.values, op_at), (), name)
    state = operands[0].shape if op.async_role is AsyncRole.DONE else shape
    if _is_state(state):
        _fit(computation, state.tuple_shapes[0].tuple_shapes, shape if state is not shape else shape.tuple_shapes[1])
    return _link(scope, follower, parsed.notes, parsed.before)


def _fit(computation: Computation, parameters: Sequence[Shape], result: Shape) -> None:
    """Gives a wrapped computation the parameters and result that the chain declares."""
    for number, shape in enumerate(parameters):
        if number < len(computation.parameters):
            if not computation.parameters[number].shape.compatible(shape):
                edit.set_shape(computation.parameters[number], shape)
            continue
        root = computation.root_instruction
        added = Instruction(PARAMETER, shape, (), ParameterAttributes.make(number=number), name="async_param")
        edit.link(computation, added)
        edit.set_operands(root, (*root.operands, added))
    if not computation.root_instruction.shape.compatible(result):
        edit.set_shape(computation.root_instruction, result)
