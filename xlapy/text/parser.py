"""Reads HLO text into a `Module`.

Owns: modules with and without header, computations, nested computations, a lone instruction, the choice of the entry.
Must not know: how instructions are spelled (`parse_instruction`), what ops mean, verification.
Source: the grammar that XLA's printer writes and its parser accepts.
"""

from __future__ import annotations

import re

from xlapy.base.cursor import BLANK
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
from xlapy.opcodes.requirements import agrees
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

LONE_NAME = "_"
"""Name of the module, the computation and the instruction made from a lone instruction without a name."""


def parse_hlo(text: str, verify: bool = True, filename: str | None = None) -> Module:
    """The module that HLO text spells: a whole module, computations without the `HloModule` line, or one instruction.

    Shapes stay as they are declared; missing ones are inferred where the op allows it. Names are made unique in the
    module. With `verify` the module is checked by `xlapy.hlo.verify` afterwards. `filename` is shown in errors.

    Raises `ParseError` (line, column, the line, a caret) for malformed text, `VerificationError` for a module that
    breaks a rule.
    """
    try:
        module = _ModuleReader(text).read()
    except ParseError as error:
        if filename is None or error.filename is not None:
            raise
        raise ParseError.at(text, error.offset, error.message, filename) from None
    if verify:
        verify_module(module)
    return module


class _ModuleReader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self.reader = HloCursor(text)
        self.state = ParserState(self.reader)
        self.instructions = InstructionReader(self.state, self._nested_body)
        self.module = Module(LONE_NAME)

    def read(self) -> Module:
        try:
            return self._read()
        except ShapeError as error:  # of a value that its own class refuses: the cursor stands behind it
            self.reader.fail(str(error))

    def _read(self) -> Module:
        start = self.reader.skip()
        if _HEADER.match(self.reader.text, start):
            read_header(self.reader, self.module, _normalize)
            self._read_computations()
        elif _BARE_MODULE.match(self.reader.text, start):
            self._read_computations()
            self.module.name = f"module_{self.module.entry_computation.name}"
        else:
            self._read_lone_instruction()
        return self.module

    # -- modules

    def _read_computations(self) -> None:
        tables = read_stack_frames(self.reader)
        entry: Computation | None = None
        while True:
            entry_at = self.reader.skip()
            is_entry = self.reader.match(_ENTRY) is not None
            computation = self._read_computation()
            if is_entry and entry is not None:
                self.reader.fail_at(entry_at, f"the module has two ENTRY computations, the other is {entry.name!r}")
            entry = computation if is_entry else entry
            if self.reader.at_end():
                break
        self._check_undefined()
        self._adopt(self.state.computations, entry or self.state.computations[-1])
        attach_stack_frames(self.module, tables)
        config = self.module.config
        if config.entry_computation_layout is None:
            config.entry_computation_layout = _signature(self.module.entry_computation)

    def _check_undefined(self) -> None:
        for name, position in self.state.undefined.items():
            self.reader.fail_at(position, f"computation {name!r} is not defined")

    def _adopt(self, computations: list[Computation], entry: Computation) -> None:
        for computation in computations:
            computation.name = sanitize(computation.name)
            edit.adopt(self.module, computation, entry=computation is entry)

    def _read_computation(self) -> Computation:
        """`name (x: f32[2]) -> f32[2] { ... }, execution_thread="..."`; the signature may be missing."""
        reader = self.reader
        name_at = reader.skip()
        name = reader.name("a computation")
        result_at, result = 0, None
        if reader.peek("("):
            result_at, result = self._read_signature()
        computation = self.state.define(name, name_at)
        self._read_body(computation)
        root = computation.root_instruction
        if result is not None and not agrees(result, root.shape):
            reader.fail_at(
                result_at,
                f"computation {name!r} is declared to return {result.to_text(layout=False)}, but its root {root.name} "
                f"has shape {root.shape.to_text(layout=False)}",
            )
        if reader.match(_THREAD):
            computation.execution_thread = reader.string()
        elif reader.peek(","):
            reader.fail('expected execution_thread="..." or a computation')
        return computation

    def _read_signature(self) -> tuple[int, Shape]:
        """`(x: f32[2], y: s32[]) -> f32[2]`; parameters are told by the instructions, only the result counts."""
        reader = self.reader
        for _ in entries(reader, "(", ")"):
            if reader.match(_PARAMETER_NAME) is None:
                reader.fail(f"expected the name of a parameter, found {reader.describe_next()}")
            reader.shape()
        reader.expect("->")
        result_at = reader.skip()
        return result_at, reader.shape()

    def _nested_body(self) -> Computation:
        """A computation written in place of its name: `to_apply={ ... }`."""
        self.state.enter()
        computation = Computation("_")
        self._read_body(computation)
        self.state.leave()
        return computation

    def _read_body(self, computation: Computation) -> None:
        """`{ instruction ... }`; the last instruction is the root if none is marked."""
        reader = self.reader
        opened_at = reader.skip()
        reader.expect("{")
        scope = Scope(computation)
        read = self.instructions.read
        text = reader.text
        while True:
            read(scope)
            position = reader.skip()
            if text.startswith("}", position):
                break
            if position >= len(text):
                reader.fail_at(opened_at, f"computation {computation.name!r} has no closing brace")
        reader.position += 1
        edit.set_root(computation, scope.root or computation.last_instruction)
        self.state.computations.append(computation)

    # -- a lone instruction

    def _read_lone_instruction(self) -> None:
        """`f32[] add(f32[] x, f32[] y)` with or without a name: operands become parameters."""
        reader = self.reader
        scope = Scope(Computation(LONE_NAME), is_lone=True)
        if _LHS.match(reader.text, reader.position):
            self.instructions.read(scope)
        else:
            self.instructions.read_right_side(scope, LONE_NAME, reader.position)
        if not reader.at_end():
            reader.fail("expected the end of the text after a single instruction; a module begins with HloModule")
        self._check_undefined()
        edit.set_root(scope.computation, scope.computation.last_instruction)
        self._adopt([scope.computation, *self.state.computations], scope.computation)
        attach_stack_frames(self.module, None)
        config = self.module.config
        signature = _signature(scope.computation)
        config.entry_computation_layout = ProgramShape(
            [shape.with_default_order() for shape in signature.parameters], signature.result.with_default_order()
        )
        config.is_scheduled = True


def _normalize(text: str) -> str:
    """The text of a module inside a table, printed anew."""
    return print_module(parse_hlo(text, verify=False), PrintOptions(indent_amount=2))


def _signature(entry: Computation) -> ProgramShape:
    return ProgramShape([p.shape for p in entry.parameters], entry.root_instruction.shape)
