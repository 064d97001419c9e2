"""Reads the attributes after an instruction's operands: `, dimensions={1}, to_apply=%add, metadata={...}`.

Responsible for what each key means (a field of the op, a called computation, an annotation), for duplicates and for
missing attributes. Does not depend on any particular op: the OpDef declares everything.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from xlapy.base.cursor import BLANK
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import ShapeError, code_and_message
from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import AttributeCodec, Attributes, Field, entries
from xlapy.opcodes.registry import CalledComputationSlot, OpDef
from xlapy.text.annotations import (
    read_backend_config,
    read_frontend_attributes,
    read_metadata,
    read_original_value,
    read_result_accuracy,
    read_sharding,
    read_statistics,
)
from xlapy.text.state import ParserState, Scope

ReadBody = Callable[[], Computation]
"""Reads a computation that is written in braces in place of its name."""

_ATTRIBUTE = re.compile(rf"{BLANK},{BLANK}([A-Za-z_][\w\-]*+){BLANK}={BLANK}", re.ASCII)
_VALUE = re.compile(r'(?:\{[^{}"/]*+\}|[\w.\-+>?]++)(?=[,\s}]|\Z)', re.ASCII)
_MAX_CACHED_VALUES = 1 << 12
_MAX_CACHED_CHARACTERS = 200
_VALUES: dict[tuple[AttributeCodec[Any], str], Any] = {}
_MISSING = object()

ANNOTATIONS: dict[str, tuple[str, Callable[[HloCursor], Any]]] = {
    "metadata": ("metadata", read_metadata),
    "backend_config": ("backend_config", read_backend_config),
    "sharding": ("sharding", read_sharding),
    "frontend_attributes": ("frontend_attributes", read_frontend_attributes),
    "origin": ("original_value", read_original_value),
    "statistics": ("statistics", read_statistics),
    "result_accuracy": ("result_accuracy", read_result_accuracy),
}
"""Key of an annotation -> the field of the instruction that holds it, and the function that reads its value."""

_CONTROL_PREDECESSORS = "control-predecessors"


class AttributeTable:
    """The attributes that one op can have, by their keys.

    fields: the attributes after the operands. parenthesized: the attribute in place of operands (the number of a
    parameter, the literal of a constant). required: the fields without default. ignored: keys that are read and
    dropped. default: the attributes if the text gives none, or None if it must give some.
    """

    __slots__ = ("default", "fields", "ignored", "parenthesized", "required")

    def __init__(self, op: OpDef) -> None:
        by_key = op.attributes.by_key
        parenthesized = next((f for f in op.attributes.fields if f.name == op.parenthesized_attribute), None)
        self.parenthesized: Field | None = parenthesized
        self.fields: dict[str, Field] = {key: f for key, f in by_key.items() if f is not parenthesized}
        self.required = [f for f in self.fields.values() if f.required and f.key in by_key]
        self.ignored = op.ignored_attributes
        self.default: Attributes | None = None if self.required or parenthesized else op.attributes.make()


_TABLES: dict[OpDef, AttributeTable] = {}


def attribute_table_of(op: OpDef) -> AttributeTable:
    """The attribute table of an op, from a cache."""
    table = _TABLES.get(op)
    if table is None:
        table = _TABLES[op] = AttributeTable(op)
    return table


class ParsedAttributes:
    """The attributes of one instruction as they were read.

    values: by field name. wrapper_values: those of the async-start around the op, by field name. called: computations
    by the number of their slot. annotations: by the field of the instruction.
    """

    __slots__ = ("annotations", "called", "control_predecessors", "values", "wrapper_values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.wrapper_values: dict[str, Any] = {}
        self.called: dict[int, list[Computation]] = {}
        self.annotations: dict[str, Any] = {}
        self.control_predecessors: list[Instruction] = []

    @property
    def computations(self) -> list[Computation]:
        """All called computations in the order of their slots."""
        return [computation for number in sorted(self.called) for computation in self.called[number]]


class AttributeReader:
    """Reads the attribute lists of one module."""

    def __init__(self, state: ParserState, read_body: ReadBody) -> None:
        self.state = state
        self.cursor = state.cursor
        self.read_body = read_body

    def read(
        self,
        scope: Scope,
        op: OpDef,
        slots: Sequence[CalledComputationSlot],
        parsed: ParsedAttributes,
        wrapper: OpDef | None = None,
    ) -> None:
        """Reads `(, key=value)*` into `parsed`.

        wrapper: the async-start around the op in a short form; its fields go to `parsed.wrapper_values`.
        """
        cursor = self.cursor
        fields = attribute_table_of(op).fields
        seen: set[str] = set()
        match = _ATTRIBUTE.match(cursor.text, cursor.position)
        while match is not None:
            cursor.position = match.end()
            key = match[1]
            if key in seen:
                cursor.fail_at(match.start(1), codes.REPEATED_KEY, f"attribute {key!r} is given twice")
            seen.add(key)
            field = fields.get(key)
            if field is not None:
                if field.name in parsed.values:
                    cursor.fail_at(
                        match.start(1),
                        codes.REPEATED_KEY,
                        f"attribute {key!r} repeats {field.key!r} under another name",
                    )
                parsed.values[field.name] = read_value(cursor, field.codec)
            else:
                self._read_other_key(scope, op, slots, parsed, wrapper, match)
            match = _ATTRIBUTE.match(cursor.text, cursor.position)
        if cursor.peek(","):
            cursor.position += 1
            cursor.fail(codes.TOKEN, f"expected an attribute such as dimensions={{0}}, found {cursor.describe_next()}")

    def _read_other_key(
        self,
        scope: Scope,
        op: OpDef,
        slots: Sequence[CalledComputationSlot],
        parsed: ParsedAttributes,
        wrapper: OpDef | None,
        match: re.Match[str],
    ) -> None:
        """Reads the value of a key that is not a field of the op."""
        key = match[1]
        if key in ANNOTATIONS:
            field_name, read = ANNOTATIONS[key]
            parsed.annotations[field_name] = read(self.cursor)
            return
        for number, slot in enumerate(slots):
            if key == slot.key or key in slot.aliases:
                self._read_called(parsed, number, slot, match)
                return
        if key == _CONTROL_PREDECESSORS:
            parsed.control_predecessors = self._read_instruction_names(scope)
        elif key in op.ignored_attributes:
            op.ignored_attributes[key].read(self.cursor)
        elif wrapper is not None and key in attribute_table_of(wrapper).fields:
            field = attribute_table_of(wrapper).fields[key]
            parsed.wrapper_values[field.name] = read_value(self.cursor, field.codec)
        else:
            self._fail_unknown(op, slots, match)

    def _fail_unknown(self, op: OpDef, slots: Sequence[CalledComputationSlot], match: re.Match[str]) -> NoReturn:
        known = [*attribute_table_of(op).fields, *(slot.key for slot in slots), *ANNOTATIONS, _CONTROL_PREDECESSORS]
        near = difflib.get_close_matches(match[1][:100], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
        self.cursor.fail_at(match.start(1), codes.UNKNOWN_KEY, f"{op.name} has no attribute {match[1]!r}; {hint}")

    def _read_called(
        self, parsed: ParsedAttributes, number: int, slot: CalledComputationSlot, match: re.Match[str]
    ) -> None:
        if number in parsed.called:
            self.cursor.fail_at(
                match.start(1), codes.REPEATED_KEY, f"attribute {match[1]!r} repeats {slot.key!r} under another name"
            )
        braced = slot.variadic and match[1] == slot.key
        parsed.called[number] = self._read_computations() if braced else [self._read_computation()]

    def _read_computations(self) -> list[Computation]:
        return [self._read_computation() for _ in entries(self.cursor)]

    def _read_computation(self) -> Computation:
        if self.cursor.peek("{"):
            return self.read_body()
        start = self.cursor.skip()
        return self.state.reference_computation(self.cursor.name("a computation"), start)

    def _read_instruction_names(self, scope: Scope) -> list[Instruction]:
        found: list[Instruction] = []
        for _ in entries(self.cursor):
            start = self.cursor.skip()
            name = self.cursor.name("an instruction")
            if name not in scope.names:
                self.cursor.fail_at(
                    start, codes.UNDEFINED_NAME, f"instruction {name!r} is not defined before this place"
                )
            found.append(scope.names[name])
        return found

    def make(self, op: OpDef, values: dict[str, Any], position: int) -> Attributes:
        """Makes the attributes of an op. Raises ParseError if a required one is missing or a value is not allowed."""
        table = attribute_table_of(op)
        if not values and table.default is not None:
            return table.default
        for field in table.required:
            if field.name not in values:
                self.cursor.fail_at(
                    position, codes.MISSING_KEY, f"{op.name} needs the attribute {field.key!r}, which is missing"
                )
        try:
            return op.attributes.make(**values)
        except (ShapeError, ValueError) as error:
            code, message = code_and_message(error, codes.TOKEN)
            self.cursor.fail_at(position, code, f"{op.name}: {message}")

    def require_computations(
        self, op: OpDef, slots: Sequence[CalledComputationSlot], parsed: ParsedAttributes, position: int
    ) -> None:
        """Raises ParseError if a called computation that the op needs is missing."""
        for number, slot in enumerate(slots):
            if not slot.optional and number not in parsed.called:
                self.cursor.fail_at(
                    position, codes.MISSING_KEY, f"{op.name} needs the attribute {slot.key!r}, which is missing"
                )


def read_value(cursor: HloCursor, codec: AttributeCodec[Any]) -> Any:
    """Reads a value with its codec. A short text is read once and then taken from a cache."""
    match = _VALUE.match(cursor.text, cursor.position)
    if match is None:
        return codec.read(cursor)
    key = (codec, match[0])
    found = _VALUES.get(key, _MISSING)
    if found is not _MISSING:
        cursor.position = match.end()
        return found
    found = codec.read(cursor)
    if cursor.position == match.end() and len(match[0]) < _MAX_CACHED_CHARACTERS:
        if len(_VALUES) >= _MAX_CACHED_VALUES:
            _VALUES.clear()
        _VALUES[key] = found
    return found
