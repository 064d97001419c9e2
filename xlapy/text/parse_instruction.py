"""Reads one instruction: `ROOT %name = f32[2]{0} add(%a, %b), metadata={...}`.

Owns: the head, the operands (names, with shapes, nested instructions, `%t#0` for tuple elements), the making of the
instruction. Must not know: any particular op; the asynchronous forms are `parse_async`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from xlapy.base.cursor import BLANK
from xlapy.base.element_types import ALL_TYPES, OPAQUE_TYPE, TOKEN
from xlapy.base.errors import ParseError, ShapeError, UnsupportedError
from xlapy.base.hlo_cursor import NAME
from xlapy.base.literal import Literal
from xlapy.base.shape import SHAPE_PATTERN, Shape, shape_from_token
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.names import TYPE_NAMES, sanitize
from xlapy.opcodes.attributes.codecs import LITERAL, Attributes
from xlapy.opcodes.control import ASYNC_START
from xlapy.opcodes.registry import REGISTRY, CalledComputationSlot, OpDef, lookup
from xlapy.opcodes.requirements import agrees
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes
from xlapy.text.annotations import annotate
from xlapy.text.parse_async import ASYNC_OPS, read_async, set_thread, share_annotations, split_async
from xlapy.text.parse_attributes import AttributeReader, Parsed, ReadBody, plan_of
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
    """Reads the instructions of one module into scopes."""

    def __init__(self, state: ParserState, read_body: ReadBody) -> None:
        self.state = state
        self.reader = state.reader
        self.attributes = AttributeReader(state, read_body)

    def read(self, scope: Scope) -> None:
        """Reads one instruction with its name on the left."""
        reader = self.reader
        head = _HEAD.match(reader.text, reader.position)
        shape = None
        if head is not None and head[3] is not None:
            try:
                shape = shape_from_token(head[3])
            except (ParseError, ShapeError):
                head = None
        if head is None:
            self._read_slowly(scope)
            return
        reader.position = head.end()
        instruction = self._right_side(scope, head[2], head.start(2), shape, head[4], head.start(4))
        self._finish(scope, instruction, head[2], head.start(2), head[1] is not None, head.start(1))

    def _read_slowly(self, scope: Scope) -> None:
        """The same, step by step: for rare spellings, and for errors that say what is wrong where."""
        reader = self.reader
        root_at = reader.skip()
        is_root = reader.match(_ROOT) is not None
        name_at = reader.skip()
        name = reader.name("an instruction")
        reader.expect("=")
        instruction = self.read_right_side(scope, name, name_at)
        self._finish(scope, instruction, name, name_at, is_root, root_at)

    def read_right_side(self, scope: Scope, name: str, name_at: int, nested: bool = False) -> Instruction:
        """`f32[2] add(x, y), key=value`; a nested instruction takes no attributes."""
        reader = self.reader
        shape = None
        if reader.match(_SHAPE_AHEAD):
            shape = reader.shape()
        op_at = reader.skip()
        opcode = reader.match(_OPCODE)
        if opcode is None:
            what = "an operation such as add(" if shape is not None else "a shape or an operation"
            reader.fail(f"expected {what}, found {reader.describe_next()}")
        return self._right_side(scope, name, name_at, shape, opcode[1], op_at, nested)

    def _finish(
        self, scope: Scope, instruction: Instruction, name: str, name_at: int, is_root: bool, root_at: int
    ) -> None:
        if name in scope.names:
            self.reader.fail_at(name_at, f"instruction {name!r} is defined twice in this computation")
        if (name.startswith("__") or name in TYPE_NAMES) and sanitize(name) != name:
            self.reader.fail_at(name_at, f"{name!r} cannot name an instruction; rename it to {sanitize(name)!r}")
        scope.names[name] = instruction
        self.state.given_names.append(name)
        if is_root:
            if scope.root is not None:
                self.reader.fail_at(root_at, f"the computation has two roots, the other is {scope.root.name!r}")
            scope.root = instruction

    def _right_side(
        self, scope: Scope, name: str, name_at: int, shape: Shape | None, opcode: str, op_at: int, nested: bool = False
    ) -> Instruction:
        """Behind `opcode(`: operands, attributes, and the making of the instruction."""
        op = REGISTRY.get(opcode)
        if op is None:
            return self._unknown(scope, name, shape, opcode, op_at, nested)
        parsed = Parsed()
        operands: tuple[Instruction, ...] = ()
        if op.parenthesized_attribute is None:
            operands = self.read_operands(scope)
        else:
            self._read_parenthesized(op, shape, parsed, op_at)
        slots = op.computation_slots_for([operand.shape for operand in operands])
        if not nested:
            self.attributes.read(scope, op, slots, parsed)
        return self.make(scope, name, op, shape, operands, slots, parsed, op_at)

    def _unknown(
        self, scope: Scope, name: str, shape: Shape | None, opcode: str, op_at: int, nested: bool
    ) -> Instruction:
        sugar = split_async(opcode)
        if sugar is None:
            try:
                lookup(opcode)
            except UnsupportedError as error:
                self.reader.fail_at(op_at, str(error))
        assert sugar is not None
        return read_async(self, scope, name, shape, sugar, op_at, nested)

    def _read_parenthesized(self, op: OpDef, shape: Shape | None, parsed: Parsed, op_at: int) -> None:
        """`parameter(0)`, `constant({1, 2})`: the attribute that stands where operands would."""
        field = plan_of(op).parenthesized
        assert field is not None
        if shape is None:
            self.reader.fail_at(op_at, f"the shape of a {op.name} cannot be inferred; write it in front")
        if op.canonicalize_shape is not None:
            shape = op.canonicalize_shape(shape, ())
        value: Any = self.reader.literal(shape) if field.codec is LITERAL else field.codec.read(self.reader)
        if isinstance(value, Literal) and value.shape != shape and value.shape.compatible(shape):
            value = value.with_shape(shape)
        parsed.values[field.name] = value
        self.reader.expect(")")

    def make(
        self,
        scope: Scope,
        name: str,
        op: OpDef,
        shape: Shape | None,
        operands: Sequence[Instruction],
        slots: Sequence[CalledComputationSlot],
        parsed: Parsed,
        op_at: int,
    ) -> Instruction:
        """Makes the instruction from its parts and links it to the computation."""
        attributes = self.attributes.make(op, parsed.values, op_at)
        if slots:
            self.attributes.require_computations(op, slots, parsed, op_at)
        if not op.arity.accepts(len(operands)):
            self.reader.fail_at(op_at, f"{op.name} takes {op.arity}, given {len(operands)}")
        called = parsed.computations if parsed.called else ()
        if shape is None:
            shape = self._infer(op, operands, attributes, called, op_at)
        elif op.canonicalize_shape is not None:
            shape = op.canonicalize_shape(shape, [operand.shape for operand in operands])
        if op.canonicalize_attributes is not None:
            attributes = self._normalize(op, attributes, operands, shape, op_at)
        instruction = Instruction(op, shape, operands, attributes, called, name)
        edit.link(scope.computation, instruction)
        if op is ASYNC_START:
            set_thread(instruction.computations[0], instruction.async_execution_thread)
        if parsed.notes:
            annotate(instruction, parsed.notes)
            if op in ASYNC_OPS:
                share_annotations(instruction, parsed.notes)
        if op is GET_TUPLE_ELEMENT and not instruction.original_value:
            _inherit_original_value(instruction)
        for before in parsed.before:
            edit.add_control_edge(before, instruction)
        return instruction

    def _infer(
        self, op: OpDef, operands: Sequence[Instruction], attributes: Attributes, called: Sequence[Any], op_at: int
    ) -> Shape:
        try:
            programs = [computation.program_shape for computation in called]
            return op.result_shape([operand.shape for operand in operands], attributes, programs)
        except ValueError as error:
            self.reader.fail_at(op_at, f"{op.name}: the shape cannot be inferred yet ({error}); declare it")
        except ShapeError as error:
            self.reader.fail_at(op_at, str(error))

    def _normalize(
        self, op: OpDef, attributes: Attributes, operands: Sequence[Instruction], shape: Shape, op_at: int
    ) -> Attributes:
        assert op.canonicalize_attributes is not None
        try:
            normal: Attributes = op.canonicalize_attributes(attributes, [operand.shape for operand in operands], shape)
            return normal
        except ShapeError as error:
            self.reader.fail_at(op_at, f"{op.name}: {error}")

    # -- operands

    def read_operands(self, scope: Scope) -> tuple[Instruction, ...]:
        """Operands up to and with the closing parenthesis."""
        reader = self.reader
        match = _NAMES.match(reader.text, reader.position)
        if match is None:
            return self._read_operands_slowly(scope)
        listed = match[1]
        if not listed:
            reader.position = match.end()
            return ()
        names = scope.names
        try:
            found = tuple([names[name] for name in listed.replace("%", "").split(", ")])
        except KeyError:
            return self._read_operands_slowly(scope)
        reader.position = match.end()
        return found

    def _read_operands_slowly(self, scope: Scope) -> tuple[Instruction, ...]:
        reader = self.reader
        found: list[Instruction] = []
        if reader.accept(")"):
            return ()
        while True:
            found.append(self._operand(scope))
            if reader.accept(")"):
                return tuple(found)
            reader.expect(",")

    def _operand(self, scope: Scope) -> Instruction:
        """A name, a shape and a name, or an instruction written in place."""
        reader = self.reader
        start = reader.skip()
        match = reader.match(_OPERAND)
        if match is not None:
            try:
                shape = shape_from_token(match[1]) if match[1] else None
            except (ParseError, ShapeError):
                reader.position = start
                shape = reader.shape()
            return self._named(scope, match[2], match.start(2), shape)
        shape = reader.shape() if reader.match(_SHAPE_AHEAD) else None
        if shape is not None:
            match = reader.match(_OPERAND)
            if match is not None and match[1] is None:
                return self._named(scope, match[2], match.start(2), shape)
            if scope.is_lone and reader.match(_ENDS_OPERAND):
                return self._missing(scope, "", shape)
        if reader.match(_OPCODE) is None:
            self._fail_operand(scope)
        reader.position = start
        self.state.enter()
        nested = self.read_right_side(scope, "", start, nested=True)
        self.state.leave()
        nested.name = self.state.anonymous_name(nested.op.name)
        scope.names[nested.name] = nested
        return nested

    def _fail_operand(self, scope: Scope) -> NoReturn:
        reader = self.reader
        match = reader.match(_LOOSE_NAME)
        if match is not None and match[1] in scope.names:
            reader.fail(f"expected ',' or ')' after operand {match[1]!r}, found {reader.describe_next()}")
        reader.fail_at(reader.position if match is None else match.start(), "expected the name of an operand")

    def _named(self, scope: Scope, name: str, position: int, shape: Shape | None) -> Instruction:
        indexed = self.reader.peek("#")
        found = scope.names.get(name)
        if found is None:
            if not scope.is_lone or shape is None:
                self._undefined(scope, name, position)
            found = self._missing(scope, name, shape)
        while indexed and self.reader.peek("#"):
            name, found = self._tuple_element(scope, name, found)
        if shape is not None and shape is not found.shape and not agrees(shape, found.shape):
            self.reader.fail_at(
                position,
                f"operand {name!r} is declared {shape.to_text()} here, but its shape is {found.shape.to_text()}",
            )
        return found

    def _undefined(self, scope: Scope, name: str, position: int) -> NoReturn:
        message = f"instruction {name!r} is not defined before this place"
        if scope.is_lone:
            message += "; give it a shape to make it a parameter"
        elif len(scope.names) < 10_000:
            near = difflib.get_close_matches(name[:100], scope.names, n=1)
            message += f"; did you mean {near[0]!r}?" if near else ""
        self.reader.fail_at(position, message)

    def _missing(self, scope: Scope, name: str, shape: Shape) -> Instruction:
        """The parameter that an undefined operand of a lone instruction stands for."""
        number = len(scope.computation.parameters)
        chosen = name or f"_{number}"
        parameter = Instruction(PARAMETER, shape, (), ParameterAttributes.make(number=number), name=chosen)
        edit.link(scope.computation, parameter)
        scope.names[chosen] = parameter
        return parameter

    def _tuple_element(self, scope: Scope, name: str, whole: Instruction) -> tuple[str, Instruction]:
        """`%t#1`: element 1 of the tuple `t`, by a get-tuple-element that is made once."""
        match = self.reader.match(_INDEX)
        if match is None:
            self.reader.fail("expected the number of a tuple element after #")
        parts = whole.shape.tuple_shapes
        index = int(match[1]) if len(match[1]) < 10 else len(parts)
        if index >= len(parts):
            self.reader.fail_at(
                match.start(), f"{name!r} of shape {whole.shape.to_text(layout=False)} has no element {match[1]}"
            )
        name = f"{name}#{index}"
        found = scope.names.get(name)
        if found is None:
            element = GetTupleElementAttributes.make(index=index)
            found = Instruction(GET_TUPLE_ELEMENT, parts[index], (whole,), element, name=sanitize(name))
            edit.link(scope.computation, found)
            scope.names[name] = found
        return name, found


def _inherit_original_value(element: Instruction) -> None:
    """An element of a tuple that was put together in sight is what was put there, as XLA has it."""
    (whole,) = element.operands
    if whole.op is TUPLE and 0 <= element.index < len(whole.operands):
        element.original_value = whole.operands[element.index].original_value
