"""Reads one instruction: `ROOT %name = f32[2]{0} add(%a, %b), metadata={...}`.

Responsible for the left-hand side, the operands (names with and without shapes, nested instructions, `%t#0` for tuple
elements) and for making the instruction. Does not depend on any particular op; `parse_async` reads the short
asynchronous forms.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from xlapy.base.cursor import BLANK
from xlapy.base.element_types import ALL_TYPES, OPAQUE_TYPE, TOKEN
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError, ShapeError, UnsupportedError
from xlapy.base.hlo_cursor import NAME
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape, parse_shape
from xlapy.base.shape_syntax import SHAPE_PATTERN
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.names import TYPE_NAMES, sanitize
from xlapy.opcodes.attributes.codecs import LITERAL, Attributes
from xlapy.opcodes.control import ASYNC_START, AsyncStartAttributes
from xlapy.opcodes.registry import REGISTRY, CalledComputationSlot, OpDef, lookup
from xlapy.opcodes.requirements import compatible_ignoring_dynamic
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes
from xlapy.text.annotations import set_annotations
from xlapy.text.async_forms import ASYNC_OPS, set_execution_thread, share_annotations, split_async_opcode
from xlapy.text.parse_async import read_async
from xlapy.text.parse_attributes import AttributeReader, ParsedAttributes, ReadBody, attribute_table_of
from xlapy.text.state import ParserState, Scope

_TUPLE = r"\((?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+\)"
_HEAD = re.compile(
    rf"{BLANK}(ROOT\s++)?+%?({NAME})\s*+=\s*+(?:((?:{SHAPE_PATTERN})|{_TUPLE})\s*+)?+(?!b\()([a-z][a-z0-9\-_]*+)\(",
    re.ASCII,
)
_NAMES = re.compile(r"([%\w.\-, \n\t\r]*+)\)", re.ASCII)
_OPERAND = re.compile(rf"(?:({SHAPE_PATTERN})\s*+)?+%?({NAME})(?=\s*[,)#/])", re.ASCII)
_OPCODE = re.compile(r"([a-z][a-z0-9\-_]*+)\s*\(", re.ASCII)
_ROOT = re.compile(r"ROOT\b(?!\s*=)")
_LHS = re.compile(rf"%?({NAME})\s*=\s*", re.ASCII)
_LOOSE_NAME = re.compile(rf"%?({NAME})", re.ASCII)
_INDEX = re.compile(r"#\s*(\d+)")
_TYPES = "|".join(sorted((t.text for t in ALL_TYPES if t.is_array or t in (TOKEN, OPAQUE_TYPE)), key=len, reverse=True))
_SHAPE_AHEAD = re.compile(rf"(?=\(|b\s*\(|(?:{_TYPES})\s*\[)")
_ENDS_OPERAND = re.compile(r"(?=[,)])")


class InstructionReader:
    """Reads the instructions of one module. `read_body` reads a computation written in place of its name."""

    def __init__(self, state: ParserState, read_body: ReadBody) -> None:
        self.state = state
        self.cursor = state.cursor
        self.attributes = AttributeReader(state, read_body)

    def read(self, scope: Scope) -> None:
        """Reads one instruction with its name on the left-hand side into the scope."""
        cursor = self.cursor
        head = _HEAD.match(cursor.text, cursor.position)
        shape = None
        if head is not None and head[3] is not None:
            try:
                shape = parse_shape(head[3])
            except (ParseError, ShapeError):
                head = None
        if head is None:
            self._read_step_by_step(scope)
            return
        cursor.position = head.end()
        instruction = self._read_after_opcode(scope, head[2], head.start(2), shape, head[4], head.start(4))
        self._register(scope, instruction, head[2], head.start(2), head[1] is not None, head.start(1))

    def _read_step_by_step(self, scope: Scope) -> None:
        """Reads like `read`, but token by token: for text that `_HEAD` does not match, and for precise errors."""
        cursor = self.cursor
        root_position = cursor.skip()
        is_root = cursor.match(_ROOT) is not None
        name_position = cursor.skip()
        name = cursor.name("an instruction")
        cursor.expect("=")
        instruction = self.read_right_side(scope, name, name_position)
        self._register(scope, instruction, name, name_position, is_root, root_position)

    def read_right_side(self, scope: Scope, name: str, name_position: int, nested: bool = False) -> Instruction:
        """Reads `f32[2] add(x, y), key=value`. A nested instruction has no attributes."""
        cursor = self.cursor
        shape = None
        if cursor.match(_SHAPE_AHEAD):
            shape = cursor.shape()
        opcode_position = cursor.skip()
        opcode = cursor.match(_OPCODE)
        if opcode is None:
            what = "an operation such as add(" if shape is not None else "a shape or an operation"
            cursor.fail(text_codes.TOKEN, f"expected {what}, found {cursor.describe_next()}")
        return self._read_after_opcode(scope, name, name_position, shape, opcode[1], opcode_position, nested)

    def _register(
        self, scope: Scope, instruction: Instruction, name: str, name_position: int, is_root: bool, root_position: int
    ) -> None:
        """Enters the instruction in the scope under its name, and as root if it is marked ROOT."""
        if name in scope.names:
            self.cursor.fail_at(
                name_position, module_codes.UNIQUE_NAMES, f"instruction {name!r} is defined twice in this computation"
            )
        if (name.startswith("__") or name in TYPE_NAMES) and sanitize(name) != name:
            self.cursor.fail_at(
                name_position,
                text_codes.INSTRUCTION_NAME,
                f"{name!r} cannot name an instruction; rename it to {sanitize(name)!r}",
            )
        scope.names[name] = instruction
        self.state.given_names.append(name)
        if is_root:
            if scope.root is not None:
                self.cursor.fail_at(
                    root_position,
                    text_codes.ONE_MARK,
                    f"the computation has two roots; the other one is {scope.root.name!r}",
                )
            scope.root = instruction

    def _read_after_opcode(
        self,
        scope: Scope,
        name: str,
        name_position: int,
        shape: Shape | None,
        opcode: str,
        opcode_position: int,
        nested: bool = False,
    ) -> Instruction:
        """Reads operands and attributes after `opcode(` and makes the instruction."""
        op = REGISTRY.get(opcode)
        if op is None:
            return self._read_async_form(scope, name, shape, opcode, opcode_position, nested)
        parsed = ParsedAttributes()
        operands: tuple[Instruction, ...] = ()
        if op.parenthesized_attribute is None:
            operands = self.read_operands(scope)
        else:
            self._read_parenthesized(op, shape, parsed, opcode_position)
        slots = op.computation_slots_for([operand.shape for operand in operands])
        if not nested:
            self.attributes.read(scope, op, slots, parsed)
        return self.make(scope, name, op, shape, operands, slots, parsed, opcode_position)

    def _read_async_form(
        self, scope: Scope, name: str, shape: Shape | None, opcode: str, opcode_position: int, nested: bool
    ) -> Instruction:
        """Reads a short asynchronous form such as `add-start`. Raises ParseError if the opcode is none."""
        ops = split_async_opcode(opcode)
        if ops is None:
            try:
                lookup(opcode)
            except UnsupportedError as error:
                self.cursor.fail_at(opcode_position, error.code, error.message)
        assert ops is not None
        return read_async(self, scope, name, shape, ops, opcode_position, nested)

    def _read_parenthesized(
        self, op: OpDef, shape: Shape | None, parsed: ParsedAttributes, opcode_position: int
    ) -> None:
        """Reads the attribute in place of operands: the number in `parameter(0)`, the literal in `constant({1, 2})`."""
        field = attribute_table_of(op).parenthesized
        assert field is not None
        if shape is None:
            self.cursor.fail_at(
                opcode_position,
                operand_codes.INFERRED_SHAPE,
                f"the shape of a {op.name} cannot be inferred; write it before the opcode",
            )
        if op.canonicalize_shape is not None:
            shape = op.canonicalize_shape(shape, ())
        value: Any = self.cursor.literal(shape) if field.codec is LITERAL else field.codec.read(self.cursor)
        if isinstance(value, Literal) and value.shape != shape and value.shape.compatible(shape):
            value = value.with_shape(shape)
        parsed.values[field.name] = value
        self.cursor.expect(")")

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
        """Makes the instruction, adds it to the computation of the scope, and sets annotations and control edges."""
        attributes = self.attributes.make(op, parsed.values, opcode_position)
        if slots:
            self.attributes.require_computations(op, slots, parsed, opcode_position)
        if not op.arity.accepts(len(operands)):
            self.cursor.fail_at(
                opcode_position, operand_codes.OPERAND_COUNT, f"{op.name} takes {op.arity}, given {len(operands)}"
            )
        called = parsed.computations if parsed.called else ()
        if shape is None:
            shape = self._infer_shape(op, operands, attributes, called, opcode_position)
        elif op.canonicalize_shape is not None:
            shape = op.canonicalize_shape(shape, [operand.shape for operand in operands])
        if op.canonicalize_attributes is not None:
            attributes = self._canonicalize_attributes(op, attributes, operands, shape, opcode_position)
        instruction = Instruction(op, shape, operands, attributes, called, name)
        edit.append_with_name(scope.computation, instruction)
        if op is ASYNC_START:
            set_execution_thread(
                instruction.computations[0], instruction.attributes_as(AsyncStartAttributes).async_execution_thread
            )
        if parsed.annotations:
            set_annotations(instruction, parsed.annotations)
            if op in ASYNC_OPS:
                share_annotations(instruction, parsed.annotations)
        if op is GET_TUPLE_ELEMENT and not instruction.original_value:
            _inherit_original_value(instruction)
        for predecessor in parsed.control_predecessors:
            edit.add_control_edge(predecessor, instruction)
        return instruction

    def _infer_shape(
        self,
        op: OpDef,
        operands: Sequence[Instruction],
        attributes: Attributes,
        called: Sequence[Any],
        opcode_position: int,
    ) -> Shape:
        try:
            programs = [computation.program_shape for computation in called]
            return op.result_shape([operand.shape for operand in operands], attributes, programs)
        except ValueError as error:
            self.cursor.fail_at(
                opcode_position,
                operand_codes.INFERRED_SHAPE,
                f"{op.name}: the shape cannot be inferred yet ({error}); declare it",
            )
        except ShapeError as error:
            self.cursor.fail_at(opcode_position, error.code, error.message)

    def _canonicalize_attributes(
        self, op: OpDef, attributes: Attributes, operands: Sequence[Instruction], shape: Shape, opcode_position: int
    ) -> Attributes:
        assert op.canonicalize_attributes is not None
        try:
            canonical: Attributes = op.canonicalize_attributes(
                attributes, [operand.shape for operand in operands], shape
            )
            return canonical
        except ShapeError as error:
            self.cursor.fail_at(opcode_position, error.code, f"{op.name}: {error.message}")

    # -- operands

    def read_operands(self, scope: Scope) -> tuple[Instruction, ...]:
        """Reads the operands and the closing parenthesis."""
        cursor = self.cursor
        match = _NAMES.match(cursor.text, cursor.position)
        if match is None:
            return self._read_operands_one_by_one(scope)
        listed = match[1]
        if not listed:
            cursor.position = match.end()
            return ()
        names = scope.names
        try:
            found = tuple([names[name] for name in listed.replace("%", "").split(", ")])
        except KeyError:
            return self._read_operands_one_by_one(scope)
        cursor.position = match.end()
        return found

    def _read_operands_one_by_one(self, scope: Scope) -> tuple[Instruction, ...]:
        cursor = self.cursor
        found: list[Instruction] = []
        if cursor.accept(")"):
            return ()
        while True:
            found.append(self._read_operand(scope))
            if cursor.accept(")"):
                return tuple(found)
            cursor.expect(",")

    def _read_operand(self, scope: Scope) -> Instruction:
        """Reads an operand: a name, a shape and a name, or an instruction written in place."""
        cursor = self.cursor
        start = cursor.skip()
        match = cursor.match(_OPERAND)
        if match is not None:
            try:
                shape = parse_shape(match[1]) if match[1] else None
            except (ParseError, ShapeError):
                cursor.position = start
                shape = cursor.shape()
            return self._resolve_operand(scope, match[2], match.start(2), shape)
        shape = cursor.shape() if cursor.match(_SHAPE_AHEAD) else None
        if shape is not None:
            match = cursor.match(_OPERAND)
            if match is not None and match[1] is None:
                return self._resolve_operand(scope, match[2], match.start(2), shape)
            if scope.is_single_instruction and cursor.match(_ENDS_OPERAND):
                return self._add_parameter(scope, "", shape)
        if cursor.match(_OPCODE) is None:
            self._fail_operand(scope)
        cursor.position = start
        self.state.enter_nested()
        nested = self.read_right_side(scope, "", start, nested=True)
        self.state.leave_nested()
        nested.name = self.state.anonymous_name(nested.op.name)
        scope.names[nested.name] = nested
        return nested

    def _fail_operand(self, scope: Scope) -> NoReturn:
        cursor = self.cursor
        match = cursor.match(_LOOSE_NAME)
        if match is not None and match[1] in scope.names:
            cursor.fail(
                text_codes.TOKEN, f"expected ',' or ')' after operand {match[1]!r}, found {cursor.describe_next()}"
            )
        cursor.fail_at(
            cursor.position if match is None else match.start(), text_codes.TOKEN, "expected the name of an operand"
        )

    def _resolve_operand(self, scope: Scope, name: str, position: int, shape: Shape | None) -> Instruction:
        """The instruction that an operand names, after checking its declared shape and reading `#0` suffixes."""
        indexed = self.cursor.peek("#")
        found = scope.names.get(name)
        if found is None:
            if not scope.is_single_instruction or shape is None:
                self._fail_undefined(scope, name, position)
            found = self._add_parameter(scope, name, shape)
        while indexed and self.cursor.peek("#"):
            name, found = self._tuple_element(scope, name, found)
        if shape is not None and shape is not found.shape and not compatible_ignoring_dynamic(shape, found.shape):
            self.cursor.fail_at(
                position,
                text_codes.REDECLARED_SHAPE,
                f"operand {name!r} is declared {shape.to_text()} here, but its shape is {found.shape.to_text()}",
            )
        return found

    def _fail_undefined(self, scope: Scope, name: str, position: int) -> NoReturn:
        message = f"instruction {name!r} is not defined before this place"
        if scope.is_single_instruction:
            message += "; give it a shape to make it a parameter"
        elif len(scope.names) < 10_000:
            near = difflib.get_close_matches(name[:100], scope.names, n=1)
            message += f"; did you mean {near[0]!r}?" if near else ""
        self.cursor.fail_at(position, text_codes.UNDEFINED_NAME, message)

    def _add_parameter(self, scope: Scope, name: str, shape: Shape) -> Instruction:
        """Adds a parameter for an undefined operand of a text that is a single instruction."""
        number = len(scope.computation.parameters)
        chosen = name or f"_{number}"
        parameter = Instruction(PARAMETER, shape, (), ParameterAttributes.make(number=number), name=chosen)
        edit.append_with_name(scope.computation, parameter)
        scope.names[chosen] = parameter
        return parameter

    def _tuple_element(self, scope: Scope, name: str, whole: Instruction) -> tuple[str, Instruction]:
        """Reads `#1` after `%t`: returns `t#1` and its get-tuple-element, which is made once."""
        match = self.cursor.match(_INDEX)
        if match is None:
            self.cursor.fail(text_codes.TOKEN, "expected the number of a tuple element after #")
        parts = whole.shape.tuple_shapes
        index = int(match[1]) if len(match[1]) < 10 else len(parts)
        if index >= len(parts):
            self.cursor.fail_at(
                match.start(),
                value_codes.TUPLE_INDEX,
                f"{name!r} of shape {whole.shape.to_text(layout=False)} has no element {match[1]}",
            )
        name = f"{name}#{index}"
        found = scope.names.get(name)
        if found is None:
            element = GetTupleElementAttributes.make(index=index)
            found = Instruction(GET_TUPLE_ELEMENT, parts[index], (whole,), element, name=sanitize(name))
            edit.append_with_name(scope.computation, found)
            scope.names[name] = found
        return name, found


def _inherit_original_value(element: Instruction) -> None:
    """Copies the origin of an operand of `tuple` to the get-tuple-element that takes it out again, as XLA does."""
    (whole,) = element.operands
    if whole.op is TUPLE and 0 <= element.tuple_index < len(whole.operands):
        element.original_value = whole.operands[element.tuple_index].original_value
