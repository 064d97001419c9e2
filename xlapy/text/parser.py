"""Reads HLO text into a `Module`.

Responsible for modules with and without header, computations, nested computations, a text of a single instruction, and
the choice of the entry computation. Does not depend on the text of instructions (`parse_instruction`), the meaning of
ops, or verification. Source: the grammar that XLA's printer prints and its parser accepts.
"""

from __future__ import annotations

import re

from xlapy.base.arguments.checking import eager_arguments
from xlapy.base.cursor import BLANK, check_characters
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import ParseError, ShapeError
from xlapy.base.hlo_cursor import NAME, HloCursor
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.hlo.names import sanitize
from xlapy.hlo.verify import verify as verify_module
from xlapy.opcodes.attributes.codecs import entries
from xlapy.opcodes.requirements import compatible_ignoring_dynamic
from xlapy.text.options import PrintOptions
from xlapy.text.parse_header import attach_stack_frames, read_header, read_stack_frames
from xlapy.text.parse_instruction import InstructionReader
from xlapy.text.printer import print_module
from xlapy.text.state import ParserState, Scope

_HEADER = re.compile(r"HloModule\b")
_BARE_MODULE = re.compile(rf"ENTRY\b|%?{NAME}{BLANK}[{{(]", re.ASCII)
_ENTRY = re.compile(r"ENTRY\b(?!\s*[{(])")
_LHS = re.compile(rf"(?:ROOT\s+)?%?{NAME}\s*=", re.ASCII)
_THREAD = re.compile(rf",{BLANK}execution_thread{BLANK}={BLANK}")
_PARAMETER_NAME = re.compile(rf"%?{NAME}\s*:?", re.ASCII)

SINGLE_INSTRUCTION_NAME = "_"
"""Name of the module, the computation and the instruction of a text that is a single instruction without a name."""


@eager_arguments
def parse_hlo(text: str, verify: bool = True, filename: str | None = None) -> Module:
    """Parses HLO text: a whole module, computations without the `HloModule` line, or a single instruction.

    Declared shapes are kept; missing ones are inferred where the op allows it. Names are made unique in the module.
    With `verify`, `xlapy.hlo.verify` checks the module afterwards. `filename` is shown in errors.

    Raises `ParseError` (line, column, the line, a caret) for malformed text, `VerificationError` for a module that
    breaks a rule.

    >>> xla.parse_hlo("HloModule m  ENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] negate(x) }")
    <Module m: 1 computations, 2 instructions>
    >>> xla.parse_hlo("HloModule m  ENTRY e { x = f32[3] parameter(0)  ROOT y = f32[2] negate(x) }")
    Traceback (most recent call last):
    xlapy.base.errors.VerificationError: ...y (negate): negate of (f32[3]) has shape f32[3], declared f32[2]...
    """
    check_characters(text, filename)
    try:
        module = _ModuleReader(text).read()
    except ParseError as error:
        if filename is None or error.filename is not None:
            raise
        raise ParseError.at(text, error.offset, error.code, error.message, filename) from None
    if verify:
        verify_module(module)
    return module


class _ModuleReader:
    """Reads one text into a module."""

    def __init__(self, text: str) -> None:
        self.cursor = HloCursor(text)
        self.state = ParserState(self.cursor)
        self.instructions = InstructionReader(self.state, self._nested_body)
        self.module = Module(SINGLE_INSTRUCTION_NAME)

    def read(self) -> Module:
        try:
            return self._read()
        except ShapeError as error:  # a class refused a value that was just read: the cursor is after it
            self.cursor.fail(error.code, error.message)

    def _read(self) -> Module:
        start = self.cursor.skip()
        if _HEADER.match(self.cursor.text, start):
            read_header(self.cursor, self.module, _reprint_module)
            self._read_computations()
        elif _BARE_MODULE.match(self.cursor.text, start):
            self._read_computations()
            self.module.name = f"module_{self.module.entry_computation.name}"
        else:
            self._read_single_instruction()
        return self.module

    # -- modules

    def _read_computations(self) -> None:
        tables = read_stack_frames(self.cursor)
        entry: Computation | None = None
        while True:
            entry_position = self.cursor.skip()
            is_entry = self.cursor.match(_ENTRY) is not None
            computation = self._read_computation()
            if is_entry and entry is not None:
                self.cursor.fail_at(
                    entry_position,
                    codes.ONE_MARK,
                    f"the module has two ENTRY computations; the other one is {entry.name!r}",
                )
            entry = computation if is_entry else entry
            if self.cursor.at_end():
                break
        self._check_undefined()
        self._adopt(self.state.computations, entry or self.state.computations[-1])
        attach_stack_frames(self.module, tables)
        config = self.module.config
        if config.entry_computation_layout is None:
            config.entry_computation_layout = _program_shape(self.module.entry_computation)

    def _check_undefined(self) -> None:
        for name, position in self.state.undefined_computations.items():
            self.cursor.fail_at(position, codes.UNDEFINED_NAME, f"computation {name!r} is not defined")

    def _adopt(self, computations: list[Computation], entry: Computation) -> None:
        for computation in computations:
            computation.name = sanitize(computation.name)
            edit.add_built_computation(self.module, computation, entry=computation is entry)

    def _read_computation(self) -> Computation:
        """Reads `name (x: f32[2]) -> f32[2] { ... }, execution_thread="..."`; the signature is optional."""
        cursor = self.cursor
        name_position = cursor.skip()
        name = cursor.name("a computation")
        result_position, result = 0, None
        if cursor.peek("("):
            result_position, result = self._read_program_shape()
        computation = self.state.define_computation(name, name_position)
        self._read_body(computation)
        root = computation.root_instruction
        if result is not None and not compatible_ignoring_dynamic(result, root.shape):
            cursor.fail_at(
                result_position,
                codes.REDECLARED_SHAPE,
                f"computation {name!r} is declared to return {result.to_text(layout=False)}, but its root {root.name} "
                f"has shape {root.shape.to_text(layout=False)}",
            )
        if cursor.match(_THREAD):
            computation.execution_thread = cursor.string()
        elif cursor.peek(","):
            cursor.fail(codes.TOKEN, 'expected execution_thread="..." or a computation')
        return computation

    def _read_program_shape(self) -> tuple[int, Shape]:
        """Reads `(x: f32[2], y: s32[]) -> f32[2]`; returns the position and the shape of the result.

        The parameters are dropped, because the instructions declare them again.
        """
        cursor = self.cursor
        for _ in entries(cursor, "(", ")"):
            if cursor.match(_PARAMETER_NAME) is None:
                cursor.fail(codes.TOKEN, f"expected the name of a parameter, found {cursor.describe_next()}")
            cursor.shape()
        cursor.expect("->")
        result_position = cursor.skip()
        return result_position, cursor.shape()

    def _nested_body(self) -> Computation:
        """Reads a computation written in place of its name: `to_apply={ ... }`."""
        self.state.enter_nested()
        computation = Computation("_")
        self._read_body(computation)
        self.state.leave_nested()
        return computation

    def _read_body(self, computation: Computation) -> None:
        """Reads `{ instruction ... }`; the last instruction is the root if none is marked ROOT."""
        cursor = self.cursor
        brace_position = cursor.skip()
        cursor.expect("{")
        scope = Scope(computation)
        read = self.instructions.read
        text = cursor.text
        while True:
            read(scope)
            position = cursor.skip()
            if text.startswith("}", position):
                break
            if position >= len(text):
                cursor.fail_at(
                    brace_position, codes.CLOSING_BRACKET, f"computation {computation.name!r} has no closing brace"
                )
        cursor.position += 1
        edit.set_root(computation, scope.root or computation.last_instruction)
        self.state.computations.append(computation)

    # -- a single instruction

    def _read_single_instruction(self) -> None:
        """Reads `f32[] add(f32[] x, f32[] y)`, with or without a name; its operands become parameters."""
        cursor = self.cursor
        scope = Scope(Computation(SINGLE_INSTRUCTION_NAME), is_single_instruction=True)
        if _LHS.match(cursor.text, cursor.position):
            self.instructions.read(scope)
        else:
            self.instructions.read_right_side(scope, SINGLE_INSTRUCTION_NAME, cursor.position)
        if not cursor.at_end():
            cursor.fail(
                codes.TOKEN, "expected the end of the text after a single instruction; a module begins with HloModule"
            )
        self._check_undefined()
        edit.set_root(scope.computation, scope.computation.last_instruction)
        self._adopt([scope.computation, *self.state.computations], scope.computation)
        attach_stack_frames(self.module, None)
        config = self.module.config
        signature = _program_shape(scope.computation)
        config.entry_computation_layout = ProgramShape(
            [shape.with_default_order() for shape in signature.parameters], signature.result.with_default_order()
        )
        config.is_scheduled = True


def _reprint_module(text: str) -> str:
    """Parses and prints the text of a module inside a recovery table."""
    return print_module(parse_hlo(text, verify=False), PrintOptions(indent_amount=2))


def _program_shape(entry: Computation) -> ProgramShape:
    return ProgramShape([p.shape for p in entry.parameters], entry.root_instruction.shape)
