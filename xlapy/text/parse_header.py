"""Reads the text before the computations of a module: the `HloModule` line and the tables of stack frames.

Responsible for the attributes of a module, for the tables, and for dropping stack frames that no instruction uses.
Does not depend on the text of instructions.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable
from typing import Any, NoReturn

from xlapy.base.cursor import BLANK
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import modules as module_codes
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
from xlapy.text.recovery_table import ReprintModule, read_recovery_table

_HEADER = re.compile(r"HloModule\b")
_ATTRIBUTE = re.compile(rf",{BLANK}([A-Za-z_][\w\-]*+){BLANK}={BLANK}", re.ASCII)
_ALIAS_KIND = re.compile(r"(must|may)-alias\b")
_ROW = re.compile(r"\d+(?=\s*[\"'{])")
_ENTRY = re.compile(r",?\s*([a-z_]+)\s*=\s*(-?\d+)", re.ASCII)


def read_header(cursor: HloCursor, module: Module, reprint: ReprintModule) -> None:
    """Reads `HloModule name, key=value, ...` into the module; `reprint` reprints the modules in a recovery table."""
    if cursor.match(_HEADER) is None:
        cursor.fail(text_codes.TOKEN, f"expected HloModule, found {cursor.describe_next()}")
    module.name = cursor.name("the module")
    seen: set[str] = set()
    match = cursor.match(_ATTRIBUTE)
    while match is not None:
        key = match[1]
        if key in seen:
            cursor.fail_at(match.start(1), text_codes.REPEATED_KEY, f"module attribute {key!r} is given twice")
        seen.add(key)
        if key == _RECOVERY:
            module.config.other = {**module.config.other, key: read_recovery_table(cursor, reprint)}
        elif key in _ATTRIBUTES:
            _ATTRIBUTES[key](cursor, module.config)
        else:
            _fail_unknown(cursor, match)
        match = cursor.match(_ATTRIBUTE)
    if cursor.accept(","):
        cursor.fail(
            text_codes.TOKEN,
            f"expected an attribute of the module such as is_scheduled=true, found {cursor.describe_next()}",
        )


def _fail_unknown(cursor: HloCursor, match: re.Match[str]) -> NoReturn:
    known = [*_ATTRIBUTES, _RECOVERY]
    near = difflib.get_close_matches(match[1][:100], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
    cursor.fail_at(match.start(1), text_codes.UNKNOWN_KEY, f"a module has no attribute {match[1]!r}; {hint}")


def _set(name: str, read: Callable[[HloCursor], Any]) -> Callable[[HloCursor, ModuleConfig], None]:
    """A function that reads a value and stores it in the field `name` of the configuration."""

    def store(cursor: HloCursor, config: ModuleConfig) -> None:
        setattr(config, name, read(cursor))

    return store


def _pass_through(key: str) -> Callable[[HloCursor, ModuleConfig], None]:
    """A function that stores a braced value as text, unread; for tables that only tools use."""

    def store(cursor: HloCursor, config: ModuleConfig) -> None:
        config.other = {**config.other, key: cursor.raw_braces()}

    return store


def _read_layout(cursor: HloCursor) -> ProgramShape:
    """Reads `{(f32[2]{0}, s32[])->f32[2]{0}}`."""
    cursor.expect("{")
    parameters = [cursor.shape() for _ in entries(cursor, "(", ")")]
    cursor.expect("->")
    result = cursor.shape()
    cursor.expect("}")
    return ProgramShape(parameters, result)


def _read_aliases(cursor: HloCursor) -> tuple[Alias, ...]:
    """Reads `{ {0}: (0, {}, may-alias), {1}: (2, {0}, must-alias) }`; sorts the aliases by output."""
    found: dict[ShapeIndex, Alias] = {}
    cursor.expect("{")
    while not cursor.accept("}"):
        start = cursor.skip()
        output = INTEGERS.read(cursor)
        cursor.expect(":")
        number, index = _read_parameter_leaf(cursor)
        must = False
        if cursor.accept(","):
            kind = cursor.match(_ALIAS_KIND)
            if kind is None:
                cursor.fail(text_codes.TOKEN, f"expected may-alias or must-alias, found {cursor.describe_next()}")
            must = kind[1] == "must"
        cursor.expect(")")
        if output in found:
            cursor.fail_at(
                start,
                module_codes.ALIAS_ONCE,
                f"input_output_alias names output {{{','.join(map(str, output))}}} twice",
            )
        found[output] = Alias(output, number, index, must)
        if not cursor.accept(",") and not cursor.peek("}"):
            cursor.fail(text_codes.TOKEN, f"expected ',' or '}}', found {cursor.describe_next()}")
    return tuple(found[output] for output in sorted(found))


def _read_parameter_leaf(cursor: HloCursor) -> tuple[int, ShapeIndex]:
    """Reads `(0, {1}`, a parameter number and a tuple index, without the closing parenthesis."""
    cursor.expect("(")
    number = cursor.integer()
    cursor.expect(",")
    return number, INTEGERS.read(cursor)


def _read_donors(cursor: HloCursor) -> tuple[BufferDonor, ...]:
    """Reads `{ (0, {}), (1, {0}) }`; sorts the donors."""
    found: set[tuple[int, ShapeIndex]] = set()
    cursor.expect("{")
    while not cursor.accept("}"):
        found.add(_read_parameter_leaf(cursor))
        cursor.expect(")")
        if not cursor.accept(",") and not cursor.peek("}"):
            cursor.fail(text_codes.TOKEN, f"expected ',' or '}}', found {cursor.describe_next()}")
    return tuple(BufferDonor(*leaf) for leaf in sorted(found))


def _read_bools(cursor: HloCursor) -> tuple[bool, ...]:
    """Reads `true` or `{true,false}`."""
    return BOOLS.read(cursor) if cursor.peek("{") else (BOOL.read(cursor),)


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


def read_stack_frames(cursor: HloCursor) -> StackFrames | None:
    """Reads the tables `FileNames`, `FunctionNames`, `FileLocations`, `StackFrames`; None if they do not come next."""
    if not cursor.accept("FileNames"):
        return None
    tables = StackFrames()
    tables.file_names = _read_names(cursor)
    cursor.expect("FunctionNames")
    tables.function_names = _read_names(cursor)
    cursor.expect("FileLocations")
    while cursor.match(_ROW):
        tables.file_locations.append(FileLocation(**_read_row(cursor, FileLocation)))
    cursor.expect("StackFrames")
    while cursor.match(_ROW):
        row = _read_row(cursor, StackFrame)
        tables.frames.append(StackFrame(row["file_location_id"], row["parent_frame_id"] - 1))
    return tables


def _read_names(cursor: HloCursor) -> list[str]:
    """Reads the rows `1 "name"` of a table of names."""
    names: list[str] = []
    while cursor.match(_ROW):
        names.append(cursor.string())
    return names


def _read_row(cursor: HloCursor, row: type[Any]) -> dict[str, int]:
    """Reads `{line=3 column=4 ...}`, which gives every field of the row type once."""
    values: dict[str, int] = {}
    names = [f.name for f in dataclasses.fields(row)]
    cursor.expect("{")
    while not cursor.accept("}"):
        match = cursor.match(_ENTRY)
        if match is None or match[1] not in names or match[1] in values or len(match[2]) > 11:
            cursor.fail(text_codes.TOKEN, f"expected each of {', '.join(names)} once, as 32-bit integers")
        values[match[1]] = int(match[2])
    if len(values) < len(names):
        cursor.fail(text_codes.MISSING_KEY, f"the row lacks {', '.join(name for name in names if name not in values)}")
    return values


def attach_stack_frames(module: Module, tables: StackFrames | None) -> None:
    """Stores in the module the frames that its instructions use, numbered in the order of their first use.

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
    """Copies frames, with their callers and locations, from the tables `given` to the tables `used`, each row once."""

    def __init__(self, given: StackFrames) -> None:
        self.given = given
        self.used = StackFrames()
        self.new_numbers: dict[int, int] = {}
        """Number of a frame in `given` -> its number in `used`."""
        self.row_numbers: dict[Any, int] = {}
        """(table, row) -> the number of the row in the table, from 1."""

    def frame(self, number: int) -> int:
        """Copies a frame; returns its number in `used`, or 0 if it or one of its callers does not exist."""
        path: list[int] = []
        while number and number not in self.new_numbers:
            if not 0 < number <= len(self.given.frames) or len(path) > len(self.given.frames):
                return 0
            path.append(number)
            number = self.given.frames[number - 1].parent_frame_id
        current = self.new_numbers.get(number, 0)
        for old in reversed(path):
            location = self._location(self.given.frames[old - 1].file_location_id)
            if location == 0:
                return 0
            current = self._row(self.used.frames, StackFrame(location, current))
            self.new_numbers[old] = current
        return current

    def _location(self, number: int) -> int:
        """Copies a file location; returns its new number, or 0 if it does not exist."""
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
        """The number of a row of a table of `used`, which is added if it is new."""
        key = (id(table), row)
        number = self.row_numbers.get(key)
        if number is None:
            table.append(row)
            number = self.row_numbers[key] = len(table)
        return number
