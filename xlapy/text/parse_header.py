"""Reads what stands before the computations: the `HloModule` line and the tables of stack frames.

Owns: the attributes of a module, the tables, and giving instructions only the frames that they use.
Must not know: instructions' text.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable
from typing import Any, NoReturn

from xlapy.base.cursor import BLANK
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.module import (
    Alias,
    BufferDonor,
    FileLocation,
    Module,
    ModuleConfig,
    ShapeIndex,
    StackFrame,
    StackFrames,
)
from xlapy.opcodes.attributes.codecs import BOOL, BOOLS, INTEGERS, entries
from xlapy.text.annotations import read_frontend_attributes
from xlapy.text.recovery_table import Normalize, read_recovery_table

_HEADER = re.compile(r"HloModule\b")
_ATTRIBUTE = re.compile(rf",{BLANK}([A-Za-z_][\w\-]*+){BLANK}={BLANK}", re.ASCII)
_ALIAS_KIND = re.compile(r"(must|may)-alias\b")
_ROW = re.compile(r"\d+(?=\s*[\"'{])")
_ENTRY = re.compile(r",?\s*([a-z_]+)\s*=\s*(-?\d+)", re.ASCII)


def read_header(reader: HloCursor, module: Module, normalize: Normalize) -> None:
    """Reads `HloModule name, key=value, ...` into the module; `normalize` prints the programs of a table anew."""
    if reader.match(_HEADER) is None:
        reader.fail(f"expected HloModule, found {reader.describe_next()}")
    module.name = reader.name("the module")
    seen: set[str] = set()
    match = reader.match(_ATTRIBUTE)
    while match is not None:
        key = match[1]
        if key in seen:
            reader.fail_at(match.start(1), f"module attribute {key!r} is given twice")
        seen.add(key)
        if key == _RECOVERY:
            module.config.other = {**module.config.other, key: read_recovery_table(reader, normalize)}
        elif key in _ATTRIBUTES:
            _ATTRIBUTES[key](reader, module.config)
        else:
            _fail_unknown(reader, match)
        match = reader.match(_ATTRIBUTE)
    if reader.accept(","):
        reader.fail(f"expected an attribute of the module such as is_scheduled=true, found {reader.describe_next()}")


def _fail_unknown(reader: HloCursor, match: re.Match[str]) -> NoReturn:
    known = [*_ATTRIBUTES, _RECOVERY]
    near = difflib.get_close_matches(match[1][:100], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
    reader.fail_at(match.start(1), f"a module has no attribute {match[1]!r}; {hint}")


def _set(name: str, read: Callable[[HloCursor], Any]) -> Callable[[HloCursor, ModuleConfig], None]:
    def store(reader: HloCursor, config: ModuleConfig) -> None:
        setattr(config, name, read(reader))

    return store


def _pass_through(key: str) -> Callable[[HloCursor, ModuleConfig], None]:
    """Keeps the value as text: tables that only tools read."""

    def store(reader: HloCursor, config: ModuleConfig) -> None:
        config.other = {**config.other, key: reader.raw_braces()}

    return store


def _read_layout(reader: HloCursor) -> ProgramShape:
    """`{(f32[2]{0}, s32[])->f32[2]{0}}`"""
    reader.expect("{")
    parameters = [reader.shape() for _ in entries(reader, "(", ")")]
    reader.expect("->")
    result = reader.shape()
    reader.expect("}")
    return ProgramShape(parameters, result)


def _read_aliases(reader: HloCursor) -> tuple[Alias, ...]:
    """`{ {0}: (0, {}, may-alias), {1}: (2, {0}, must-alias) }`, kept in the order of the outputs."""
    found: dict[ShapeIndex, Alias] = {}
    reader.expect("{")
    while not reader.accept("}"):
        start = reader.skip()
        output = INTEGERS.read(reader)
        reader.expect(":")
        number, index = _read_leaf(reader)
        must = False
        if reader.accept(","):
            kind = reader.match(_ALIAS_KIND)
            if kind is None:
                reader.fail(f"expected may-alias or must-alias, found {reader.describe_next()}")
            must = kind[1] == "must"
        reader.expect(")")
        if output in found:
            reader.fail_at(start, f"input_output_alias names output {{{','.join(map(str, output))}}} twice")
        found[output] = Alias(output, number, index, must)
        if not reader.accept(",") and not reader.peek("}"):
            reader.fail(f"expected ',' or '}}', found {reader.describe_next()}")
    return tuple(found[output] for output in sorted(found))


def _read_leaf(reader: HloCursor) -> tuple[int, ShapeIndex]:
    """`(0, {1}` without the closing parenthesis."""
    reader.expect("(")
    number = reader.integer()
    reader.expect(",")
    return number, INTEGERS.read(reader)


def _read_donors(reader: HloCursor) -> tuple[BufferDonor, ...]:
    """`{ (0, {}), (1, {0}) }`, sorted."""
    found: set[tuple[int, ShapeIndex]] = set()
    reader.expect("{")
    while not reader.accept("}"):
        found.add(_read_leaf(reader))
        reader.expect(")")
        if not reader.accept(",") and not reader.peek("}"):
            reader.fail(f"expected ',' or '}}', found {reader.describe_next()}")
    return tuple(BufferDonor(*leaf) for leaf in sorted(found))


def _read_bools(reader: HloCursor) -> tuple[bool, ...]:
    """`true` or `{true,false}`"""
    return BOOLS.read(reader) if reader.peek("{") else (BOOL.read(reader),)


_RECOVERY = "origin_recovery_table"
_PARAMETER_SHARDING = "allow_spmd_sharding_propagation_to_parameters"
_OUTPUT_SHARDING = "allow_spmd_sharding_propagation_to_output"
_ATTRIBUTES: dict[str, Callable[[HloCursor, ModuleConfig], None]] = {
    "is_scheduled": _set("is_scheduled", BOOL.read),
    "replica_count": _set("replica_count", HloCursor.integer),
    "num_partitions": _set("num_partitions", HloCursor.integer),
    "input_output_alias": _set("input_output_alias", _read_aliases),
    "buffer_donor": _set("buffer_donors", _read_donors),
    "alias_passthrough_params": _set("alias_passthrough_params", BOOL.read),
    "entry_computation_layout": _set("entry_computation_layout", _read_layout),
    "frontend_attributes": _set("frontend_attributes", read_frontend_attributes),
    _PARAMETER_SHARDING: _set(_PARAMETER_SHARDING, _read_bools),
    _OUTPUT_SHARDING: _set(_OUTPUT_SHARDING, _read_bools),
    "debug_attributes": _pass_through("debug_attributes"),
}


# -- stack frames


def read_stack_frames(reader: HloCursor) -> StackFrames | None:
    """Reads the tables `FileNames`, `FunctionNames`, `FileLocations` and `StackFrames`, if they stand here."""
    if not reader.accept("FileNames"):
        return None
    tables = StackFrames()
    tables.file_names = _read_names(reader)
    reader.expect("FunctionNames")
    tables.function_names = _read_names(reader)
    reader.expect("FileLocations")
    while reader.match(_ROW):
        tables.file_locations.append(FileLocation(**_read_row(reader, FileLocation)))
    reader.expect("StackFrames")
    while reader.match(_ROW):
        row = _read_row(reader, StackFrame)
        tables.frames.append(StackFrame(row["file_location_id"], row["parent_frame_id"] - 1))
    return tables


def _read_names(reader: HloCursor) -> list[str]:
    names: list[str] = []
    while reader.match(_ROW):
        names.append(reader.string())
    return names


def _read_row(reader: HloCursor, row: type[Any]) -> dict[str, int]:
    """`{line=3 column=4 ...}`: every field of the row type once."""
    values: dict[str, int] = {}
    names = [f.name for f in dataclasses.fields(row)]
    reader.expect("{")
    while not reader.accept("}"):
        match = reader.match(_ENTRY)
        if match is None or match[1] not in names or match[1] in values or len(match[2]) > 11:
            reader.fail(f"expected each of {', '.join(names)} once, as 32-bit integers")
        values[match[1]] = int(match[2])
    if len(values) < len(names):
        reader.fail(f"the row lacks {', '.join(name for name in names if name not in values)}")
    return values


def attach_stack_frames(module: Module, tables: StackFrames | None) -> None:
    """Gives the module the frames that its instructions use, numbered in the order of their first use.

    An instruction whose frame is not in the tables loses its `stack_frame_id`, as in XLA.
    """
    interner = _Interner(tables or StackFrames())
    for instruction in module.instructions():
        metadata = instruction.metadata
        if metadata is not None and metadata.stack_frame_id:
            number = interner.frame(metadata.stack_frame_id)
            if number != metadata.stack_frame_id:
                instruction.metadata = dataclasses.replace(metadata, stack_frame_id=number)
    module.stack_frames = interner.used if interner.used.frames else None


class _Interner:
    """Copies frames from the tables that were read to the tables that are kept, each once."""

    def __init__(self, given: StackFrames) -> None:
        self.given = given
        self.used = StackFrames()
        self.numbers: dict[int, int] = {}
        self.rows: dict[Any, int] = {}

    def frame(self, number: int) -> int:
        """The new number of a frame; 0 if it or one of its callers does not exist."""
        path: list[int] = []
        while number and number not in self.numbers:
            if not 0 < number <= len(self.given.frames) or len(path) > len(self.given.frames):
                return 0
            path.append(number)
            number = self.given.frames[number - 1].parent_frame_id
        current = self.numbers.get(number, 0)
        for old in reversed(path):
            location = self._location(self.given.frames[old - 1].file_location_id)
            if location == 0:
                return 0
            current = self._row(self.used.frames, StackFrame(location, current))
            self.numbers[old] = current
        return current

    def _location(self, number: int) -> int:
        if not 0 < number <= len(self.given.file_locations):
            return 0
        old = self.given.file_locations[number - 1]
        files, functions = self.given.file_names, self.given.function_names
        if not (0 < old.file_name_id <= len(files) and 0 < old.function_name_id <= len(functions)):
            return 0
        file = self._row(self.used.file_names, files[old.file_name_id - 1])
        function = self._row(self.used.function_names, functions[old.function_name_id - 1])
        new = dataclasses.replace(old, file_name_id=file, function_name_id=function)
        return self._row(self.used.file_locations, new)

    def _row(self, table: list[Any], row: Any) -> int:
        key = (id(table), row)
        number = self.rows.get(key)
        if number is None:
            table.append(row)
            number = self.rows[key] = len(table)
        return number
