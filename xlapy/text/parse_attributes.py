"""Reads the attributes behind an instruction's operands: `, dimensions={1}, to_apply=%add, metadata={...}`.

Owns: which key belongs to what (a field of the op, a called computation, an annotation), duplicates, what is required.
Must not know: any particular op; everything comes from the OpDef.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any

from xlapy.base.cursor import BLANK
from xlapy.base.errors import ShapeError
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

_ATTRIBUTE = re.compile(rf"{BLANK},{BLANK}([A-Za-z_][\w\-]*+){BLANK}={BLANK}", re.ASCII)
_VALUE = re.compile(r'(?:\{[^{}"/]*+\}|[\w.\-+>?]++)(?=[,\s}]|\Z)', re.ASCII)
_CACHE_LIMIT = 1 << 14
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
"""Annotations: key -> the slot of the instruction, and how the value is read."""

_CONTROL = "control-predecessors"


class Plan:
    """What the attributes of one op can be, tabulated once."""

    __slots__ = ("default", "fields", "ignored", "parenthesized", "required")

    def __init__(self, op: OpDef) -> None:
        by_key = op.attributes.by_key
        parenthesized = next((f for f in op.attributes.fields if f.name == op.parenthesized_attribute), None)
        self.parenthesized: Field | None = parenthesized
        self.fields: dict[str, Field] = {key: f for key, f in by_key.items() if f is not parenthesized}
        self.required = [f for f in self.fields.values() if f.required and f.key in by_key]
        self.ignored = op.ignored_attributes
        self.default: Attributes | None = None if self.required or parenthesized else op.attributes.make()


_PLANS: dict[OpDef, Plan] = {}


def plan_of(op: OpDef) -> Plan:
    plan = _PLANS.get(op)
    if plan is None:
        plan = _PLANS[op] = Plan(op)
    return plan


class Parsed:
    """The attributes of one instruction: field values, called computations by slot number, annotations by field."""

    __slots__ = ("before", "called", "notes", "values", "wrapper_values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.wrapper_values: dict[str, Any] = {}
        self.called: dict[int, list[Computation]] = {}
        self.notes: dict[str, Any] = {}
        self.before: list[Instruction] = []

    @property
    def computations(self) -> list[Computation]:
        return [computation for number in sorted(self.called) for computation in self.called[number]]


class AttributeReader:
    """Reads attribute lists of one module; `read_body` reads a computation written in place of a name."""

    def __init__(self, state: ParserState, read_body: ReadBody) -> None:
        self.state = state
        self.reader = state.reader
        self.read_body = read_body

    def read(
        self,
        scope: Scope,
        op: OpDef,
        slots: Sequence[CalledComputationSlot],
        parsed: Parsed,
        wrapper: OpDef | None = None,
    ) -> None:
        """Reads `(, key=value)*`; fields of `wrapper` (the async-start around the op) are kept apart."""
        reader = self.reader
        fields = plan_of(op).fields
        seen: set[str] = set()
        match = _ATTRIBUTE.match(reader.text, reader.position)
        while match is not None:
            reader.position = match.end()
            key = match[1]
            if key in seen:
                reader.fail_at(match.start(1), f"attribute {key!r} is given twice")
            seen.add(key)
            field = fields.get(key)
            if field is not None:
                if field.name in parsed.values:
                    reader.fail_at(match.start(1), f"attribute {key!r} repeats {field.key!r} under another name")
                parsed.values[field.name] = read_value(reader, field.codec)
            else:
                self._other(scope, op, slots, parsed, wrapper, match)
            match = _ATTRIBUTE.match(reader.text, reader.position)
        if reader.peek(","):
            reader.position += 1
            reader.fail(f"expected an attribute such as dimensions={{0}}, found {reader.describe_next()}")

    def _other(
        self,
        scope: Scope,
        op: OpDef,
        slots: Sequence[CalledComputationSlot],
        parsed: Parsed,
        wrapper: OpDef | None,
        match: re.Match[str],
    ) -> None:
        key = match[1]
        note = ANNOTATIONS.get(key)
        if note is not None:
            parsed.notes[note[0]] = note[1](self.reader)
            return
        for number, slot in enumerate(slots):
            if key == slot.key or key in slot.aliases:
                self._called(parsed, number, slot, match)
                return
        if key == _CONTROL:
            parsed.before = self._instructions(scope)
        elif key in op.ignored_attributes:
            op.ignored_attributes[key].read(self.reader)
        elif wrapper is not None and key in plan_of(wrapper).fields:
            field = plan_of(wrapper).fields[key]
            parsed.wrapper_values[field.name] = read_value(self.reader, field.codec)
        else:
            self._unknown(op, slots, match)

    def _unknown(self, op: OpDef, slots: Sequence[CalledComputationSlot], match: re.Match[str]) -> None:
        known = [*plan_of(op).fields, *(slot.key for slot in slots), *ANNOTATIONS, _CONTROL]
        near = difflib.get_close_matches(match[1][:100], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
        self.reader.fail_at(match.start(1), f"{op.name} has no attribute {match[1]!r}; {hint}")

    def _called(self, parsed: Parsed, number: int, slot: CalledComputationSlot, match: re.Match[str]) -> None:
        if number in parsed.called:
            self.reader.fail_at(match.start(1), f"attribute {match[1]!r} repeats {slot.key!r} under another name")
        braced = slot.variadic and match[1] == slot.key
        parsed.called[number] = self._computation_list() if braced else [self._computation()]

    def _computation_list(self) -> list[Computation]:
        return [self._computation() for _ in entries(self.reader)]

    def _computation(self) -> Computation:
        if self.reader.peek("{"):
            return self.read_body()
        start = self.reader.skip()
        return self.state.use(self.reader.name("a computation"), start)

    def _instructions(self, scope: Scope) -> list[Instruction]:
        found: list[Instruction] = []
        for _ in entries(self.reader):
            start = self.reader.skip()
            name = self.reader.name("an instruction")
            if name not in scope.names:
                self.reader.fail_at(start, f"instruction {name!r} is not defined before this place")
            found.append(scope.names[name])
        return found

    def make(self, op: OpDef, values: dict[str, Any], position: int) -> Attributes:
        """The attribute object of an op, after checking that nothing required is missing."""
        plan = plan_of(op)
        if not values and plan.default is not None:
            return plan.default
        for field in plan.required:
            if field.name not in values:
                self.reader.fail_at(position, f"{op.name} needs the attribute {field.key!r}, which is missing")
        try:
            return op.attributes.make(**values)
        except (ShapeError, ValueError) as error:
            self.reader.fail_at(position, f"{op.name}: {error}")

    def require_computations(
        self, op: OpDef, slots: Sequence[CalledComputationSlot], parsed: Parsed, position: int
    ) -> None:
        for number, slot in enumerate(slots):
            if not slot.optional and number not in parsed.called:
                self.reader.fail_at(position, f"{op.name} needs the attribute {slot.key!r}, which is missing")


def read_value(reader: HloCursor, codec: AttributeCodec[Any]) -> Any:
    """A value of a codec; short texts are read once and remembered."""
    match = _VALUE.match(reader.text, reader.position)
    if match is None:
        return codec.read(reader)
    key = (codec, match[0])
    found = _VALUES.get(key, _MISSING)
    if found is not _MISSING:
        reader.position = match.end()
        return found
    found = codec.read(reader)
    if reader.position == match.end() and len(match[0]) < 200:
        if len(_VALUES) >= _CACHE_LIMIT:
            _VALUES.clear()
        _VALUES[key] = found
    return found
