"""The operations of a bytecode file.

Owns how operations, regions, blocks and values are numbered and nested. Must not know: what operations mean.
Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xlapy.base.errors import BytecodeError, UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import builtin, container, quant, shardy, stablehlo, vhlo
from xlapy.stablehlo.bytecode.container import MAGIC, Container, OperationName, read_container
from xlapy.stablehlo.bytecode.entries import Entries, EntryStream
from xlapy.stablehlo.bytecode.properties import read_properties
from xlapy.stablehlo.bytecode.stream import Stream
from xlapy.stablehlo.bytecode.upgrade import upgraded
from xlapy.stablehlo.text import parse_attribute, parse_type

__all__ = ["MAGIC", "read_bytecode"]

HAS_ATTRIBUTES = 1
HAS_RESULTS = 2
HAS_OPERANDS = 4
HAS_SUCCESSORS = 8
HAS_REGIONS = 16
HAS_USE_LISTS = 32
HAS_PROPERTIES = 64


def read_bytecode(data: bytes) -> ir.Operation:
    """The `builtin.module` of a portable artifact of StableHLO, of VHLO's versions 0.9 to 1.20, or of StableHLO itself.

    `BytecodeError` for bytes that are no bytecode or damaged, `UnsupportedError` for what has no place in StableHLO.
    """
    return _Reader(read_container(bytes(data))).module()


@dataclass(slots=True)
class _Scope:
    """The values that operations can name by number, and the number of the next one in each open region."""

    values: list[ir.Value | None] = field(default_factory=list)
    next_numbers: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def enter(self, count: int) -> None:
        self.starts.append(len(self.values))
        self.next_numbers.append(len(self.values))
        self.values.extend([None] * count)

    def leave(self) -> None:
        self.next_numbers.pop()
        del self.values[self.starts.pop() :]


@dataclass(slots=True)
class _Frame:
    """A region that is being read: `blocks` are those still to come, the open one first."""

    operation: ir.Operation
    stream: Stream
    regions: list[ir.Region]
    is_isolated: bool
    blocks: list[ir.Block] = field(default_factory=list)
    operations_left: int = 0
    is_open: bool = False


class _Reader:
    def __init__(self, file: Container) -> None:
        self._file = file
        self._entries = Entries(
            file,
            {
                "builtin": builtin.read_attribute,
                "chlo": stablehlo.read_chlo_attribute,
                "sdy": shardy.read_attribute,
                "stablehlo": stablehlo.read_attribute,
                "vhlo": vhlo.read_attribute,
            },
            {
                "builtin": builtin.read_type,
                "quant": quant.read_type,
                "stablehlo": stablehlo.read_type,
                "vhlo": vhlo.read_type,
            },
            (parse_attribute, parse_type),
        )
        self._scopes: list[_Scope] = []

    def module(self) -> ir.Operation:
        """The one operation at the top of the file."""
        top = ir.Operation("builtin.module")
        region = ir.Region([ir.Block()])
        self._scopes.append(_Scope())
        frame = _Frame(top, self._file.ir, [region], True)
        self._scopes[-1].enter(0)
        self._open_block(frame, region.blocks[0])
        frame.blocks = list(region.blocks)
        frame.is_open = True
        self._read([frame])
        found = region.blocks[0].operations
        if len(found) != 1 or found[0].name != "builtin.module":
            names = ", ".join(operation.name for operation in found) or "nothing"
            raise BytecodeError(f"MLIR bytecode: a program is one builtin.module, found {names}")
        return found[0]

    def _read(self, frames: list[_Frame]) -> None:
        """Reads until every region is, without recursion: the innermost region is the last frame."""
        while frames:
            frame = frames[-1]
            if not frame.is_open:
                if not frame.regions:
                    frames.pop()
                    if frame.is_isolated:
                        self._scopes.pop()
                    continue
                self._open_region(frame, frame.regions[0])
                continue
            if frame.operations_left:
                frame.operations_left -= 1
                inner = self._operation(frame)
                if inner is not None:
                    frames.append(inner)
                continue
            frame.blocks.pop(0)
            if frame.blocks:
                self._open_block(frame, frame.blocks[0])
                continue
            frame.is_open = False
            frame.regions.pop(0)
            self._scopes[-1].leave()

    def _open_region(self, frame: _Frame, region: ir.Region) -> None:
        stream = frame.stream
        blocks = stream.count()
        if not blocks:
            frame.regions.pop(0)
            return
        self._scopes[-1].enter(stream.count())
        region.blocks = [ir.Block() for _ in range(blocks)]
        frame.blocks = list(region.blocks)
        frame.is_open = True
        self._open_block(frame, region.blocks[0])

    def _open_block(self, frame: _Frame, block: ir.Block) -> None:
        stream = frame.stream
        frame.operations_left, has_arguments = stream.flagged()
        if not has_arguments:
            return
        for index in range(stream.count()):
            block.arguments.append(self._argument(stream, block, index))
        self._define(stream, block.arguments)
        if self._file.version >= container.USE_LISTS and stream.byte():
            _skip_use_lists(stream, len(block.arguments))

    def _argument(self, stream: Stream, block: ir.Block, index: int) -> ir.Value:
        if self._file.version < container.ELIDED_LOCATIONS:
            type_, has_location = stream.number(), True
        else:
            type_, has_location = stream.flagged()
        argument = ir.Value(self._entries.type(type_), block, index)
        if has_location:
            argument.location = self._location(stream)
        return argument

    def _location(self, stream: Stream) -> ir.FileLocation:
        found = self._entries.attribute(stream.number())
        if not isinstance(found, ir.FileLocation):
            raise stream.fail(f"a location stands where {found!r} is")
        return found

    def _operation(self, frame: _Frame) -> _Frame | None:
        """Reads an operation into the open block; what is needed to read its regions, if it has some."""
        stream = frame.stream
        index = stream.number()
        if index >= len(self._file.operation_names):
            raise stream.fail(f"there is no name {index} of an operation, only {len(self._file.operation_names)}")
        name = self._file.operation_names[index]
        mask = stream.byte()
        location = self._location(stream)
        attributes = self._attributes(stream, mask, name)
        operation = ir.Operation(name.name, location=location)
        if mask & HAS_RESULTS:
            types = [self._entries.type(stream.number()) for _ in range(stream.count())]
            operation.results = [ir.Value(type_, operation, number) for number, type_ in enumerate(types)]
        if mask & HAS_OPERANDS:
            operation.operands = [self._value(stream) for _ in range(stream.count())]
        if mask & HAS_SUCCESSORS:
            raise UnsupportedError(f"{name.name}: StableHLO has no branches between blocks")
        if mask & HAS_USE_LISTS and self._file.version >= container.USE_LISTS:
            _skip_use_lists(stream, len(operation.results))
        regions, is_isolated = stream.flagged() if mask & HAS_REGIONS else (0, False)
        if regions > stream.remaining:
            raise stream.fail(f"{regions} regions where {stream.remaining} bytes are left")
        operation.regions = [ir.Region() for _ in range(regions)]
        if _is_cast(operation):
            self._define(stream, operation.operands)
            return None
        self._finish(operation, attributes, frame)
        frame.blocks[0].operations.append(operation)
        self._define(stream, operation.results)
        return self._inner(operation, stream, is_isolated) if regions else None

    def _inner(self, operation: ir.Operation, stream: Stream, is_isolated: bool) -> _Frame:
        if is_isolated:
            self._scopes.append(_Scope())
            if self._file.version >= container.ISOLATED_SECTIONS:
                kind, stream = stream.section()
                if kind != container.IR:
                    raise stream.fail(f"the regions of {operation.name} are in a section of IR, found section {kind}")
        return _Frame(operation, stream, list(operation.regions), is_isolated)

    @staticmethod
    def _finish(operation: ir.Operation, attributes: dict[str, Any], frame: _Frame) -> None:
        if operation.name.startswith("vhlo."):
            is_in_function = frame.operation.name == "func.func"
            operation.name, attributes = upgraded(operation.name, attributes, is_in_function)
        operation.attributes = attributes

    def _attributes(self, stream: Stream, mask: int, name: OperationName) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if mask & HAS_ATTRIBUTES:
            found = self._entries.attribute(stream.number())
            if not isinstance(found, dict):
                raise stream.fail(f"the attributes of {name.name} are a dictionary, found {found}")
            attributes.update(found)
        if mask & HAS_PROPERTIES:
            attributes.update(self._properties(stream, name))
        return attributes

    def _properties(self, stream: Stream, name: OperationName) -> dict[str, Any]:
        if not name.is_registered:
            found = self._entries.attribute(stream.number())
            return found if isinstance(found, dict) else {}
        index = stream.number()
        if index >= len(self._file.properties):
            raise stream.fail(f"there are no properties {index}, only {len(self._file.properties)}")
        properties = EntryStream(self._entries, *self._file.properties[index])
        found = read_properties(properties, name.name, self._file.version)
        if found is None:
            raise UnsupportedError(
                f"MLIR bytecode, byte {stream.position}: {name.name} has properties, whose form is not known here"
            )
        return found

    def _value(self, stream: Stream) -> ir.Value:
        number = stream.number()
        values = self._scopes[-1].values
        value = values[number] if number < len(values) else None
        if value is None:
            raise stream.fail(f"value {number} is used before it is there")
        return value

    def _define(self, stream: Stream, values: list[ir.Value]) -> None:
        if not values:
            return
        scope = self._scopes[-1]
        number = scope.next_numbers[-1]
        if number + len(values) > len(scope.values):
            raise stream.fail(f"the region announces fewer values than it has: {len(scope.values)}")
        scope.values[number : number + len(values)] = values
        scope.next_numbers[-1] = number + len(values)


def _is_cast(operation: ir.Operation) -> bool:
    """Between a type of VHLO and the same type of another dialect, which are one type here."""
    given, made = ([value.type for value in values] for values in (operation.operands, operation.results))
    return operation.name == "builtin.unrealized_conversion_cast" and given == made


def _skip_use_lists(stream: Stream, values: int) -> None:
    """The order of a value's uses, which has no meaning for a program."""
    for _ in range(stream.number() if values > 1 else 1):
        if values > 1:
            stream.number()
        for _ in range(stream.flagged()[0]):
            stream.number()
