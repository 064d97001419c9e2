"""Reads the operations of a bytecode file.

Responsible for how operations, regions, blocks and values are nested and numbered. Does not depend on what operations
mean.

Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.error_codes.formats import stablehlo_text as text_codes
from xlapy.base.errors import BytecodeError, UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import builtin, bytecode_file, quant, shardy, stablehlo, vhlo
from xlapy.stablehlo.bytecode.attribute_type_reader import AttributeTypeReader, DialectReader
from xlapy.stablehlo.bytecode.bytecode_file import MAGIC, BytecodeFile, OperationName, read_file
from xlapy.stablehlo.bytecode.encoding_reader import EncodingReader
from xlapy.stablehlo.bytecode.legalize_to_stablehlo import legalize_to_stablehlo
from xlapy.stablehlo.bytecode.properties import read_properties
from xlapy.stablehlo.text import parse_attribute, parse_type

__all__ = ["MAGIC", "read_bytecode"]

HAS_ATTRIBUTES = 1
HAS_RESULTS = 2
HAS_OPERANDS = 4
HAS_SUCCESSORS = 8
HAS_REGIONS = 16
HAS_USE_LISTS = 32
HAS_PROPERTIES = 64
"""Bits of the mask that tells which parts of an operation are encoded (`OpEncodingMask` in MLIR)."""


def read_bytecode(data: bytes) -> ir.Operation:
    """Returns the `builtin.module` in MLIR bytecode: a portable artifact (VHLO 0.9 to 1.20) or the StableHLO dialect.

    Raises `BytecodeError` for bytes that are not bytecode or are damaged, and `UnsupportedError` for a program that is
    not StableHLO.
    """
    return _OperationReader(read_file(bytes(data))).module()


@dataclass(slots=True)
class _OpenRegion:
    """A region that is being read: the numbers of its values, and how many of them are defined."""

    start: int
    end: int
    next_number: int


@dataclass(slots=True)
class _ValueScope:
    """The numbered values of an isolated region.

    A region announces how many values it has. The numbers of regions inside it follow. Only values that are defined
    take memory, whatever a damaged file announces.
    """

    values: dict[int, ir.Value] = field(default_factory=dict)
    regions: list[_OpenRegion] = field(default_factory=list)

    def enter(self, count: int) -> None:
        """Opens a region with `count` values, which are not defined yet."""
        start = self.regions[-1].end if self.regions else 0
        self.regions.append(_OpenRegion(start, start + count, start))

    def leave(self) -> None:
        """Closes the innermost region and drops its values."""
        region = self.regions.pop()
        for number in range(region.start, region.next_number):
            del self.values[number]


@dataclass(slots=True)
class _RegionFrame:
    """An operation whose regions are being read.

    `regions_left` and `blocks_left` count those that were not begun yet; `block` is the open one.
    """

    operation: ir.Operation
    reader: EncodingReader
    regions_left: int
    is_isolated: bool
    block: ir.Block | None = None
    blocks_left: int = 0
    operations_left: int = 0


class _OperationReader:
    """Reads the operations of one file."""

    def __init__(self, file: BytecodeFile) -> None:
        self._file = file
        self._entries = AttributeTypeReader(
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
        self._scopes: list[_ValueScope] = []

    def module(self) -> ir.Operation:
        """Reads the top-level operation of the file, which must be a module."""
        top = ir.Operation("builtin.module", regions=[ir.Region()])
        self._scopes.append(_ValueScope())
        self._scopes[-1].enter(0)
        frame = _RegionFrame(top, self._file.ir, 0, True)
        self._open_block(frame)
        self._read([frame])
        found = top.regions[0].blocks[0].operations
        if len(found) != 1 or found[0].name != "builtin.module":
            names = ", ".join(operation.name for operation in found) or "nothing"
            raise BytecodeError(
                codes.BYTECODE_MODULE, f"MLIR bytecode: a program must be one builtin.module, found {names}"
            )
        return found[0]

    def _read(self, frames: list[_RegionFrame]) -> None:
        """Reads all regions without recursion. The last frame is the innermost region."""
        while frames:
            frame = frames[-1]
            if frame.block is None:
                if frame.regions_left:
                    self._open_region(frame)
                    continue
                frames.pop()
                if frame.is_isolated:
                    self._scopes.pop()
            elif frame.operations_left:
                frame.operations_left -= 1
                inner = self._operation(frame, frame.block)
                if inner is not None:
                    frames.append(inner)
            elif frame.blocks_left:
                frame.blocks_left -= 1
                self._open_block(frame)
            else:
                frame.block = None
                self._scopes[-1].leave()

    def _open_region(self, frame: _RegionFrame) -> None:
        reader = frame.reader
        frame.regions_left -= 1
        frame.operation.regions.append(ir.Region())
        blocks = reader.count()
        if not blocks:
            return
        self._scopes[-1].enter(reader.count())
        frame.blocks_left = blocks - 1
        self._open_block(frame)

    def _open_block(self, frame: _RegionFrame) -> None:
        reader = frame.reader
        block = frame.block = ir.Block()
        frame.operation.regions[-1].blocks.append(block)
        frame.operations_left, has_arguments = reader.varint_with_flag()
        if not has_arguments:
            return
        for index in range(reader.count()):
            block.arguments.append(self._argument(reader, block, index))
        self._define(reader, block.arguments)
        if self._file.version >= bytecode_file.USE_LIST_ORDERING and reader.byte():
            _skip_use_lists(reader, len(block.arguments))

    def _argument(self, reader: EncodingReader, block: ir.Block, index: int) -> ir.Value:
        if self._file.version < bytecode_file.ELIDE_UNKNOWN_BLOCK_ARGUMENT_LOCATION:
            type_, has_location = reader.varint(), True
        else:
            type_, has_location = reader.varint_with_flag()
        argument = ir.Value(self._entries.type(type_), block, index)
        if has_location:
            argument.location = self._location(reader)
        return argument

    def _location(self, reader: EncodingReader) -> ir.FileLocation:
        found = self._entries.attribute(reader.varint())
        if not isinstance(found, ir.FileLocation):
            raise reader.fail(codes.BYTECODE_KIND, f"expected a location, found {found!r}")
        return found

    def _operation(self, frame: _RegionFrame, block: ir.Block) -> _RegionFrame | None:
        """Reads an operation into the open block of a frame. Returns the frame to read its regions with, if any."""
        reader = frame.reader
        index = reader.varint()
        if index >= len(self._file.operation_names):
            raise reader.fail(
                codes.BYTECODE_REFERENCE, f"there is no operation name {index}, only {len(self._file.operation_names)}"
            )
        name = self._file.operation_names[index]
        mask = reader.byte()
        location = self._location(reader)
        attributes = self._attributes(reader, mask, name)
        operation = ir.Operation(name.name, location=location)
        if mask & HAS_RESULTS:
            types = [self._entries.type(reader.varint()) for _ in range(reader.count())]
            operation.results = [ir.Value(type_, operation, number) for number, type_ in enumerate(types)]
        if mask & HAS_OPERANDS:
            operation.operands = [self._value(reader) for _ in range(reader.count())]
        if mask & HAS_SUCCESSORS:
            raise UnsupportedError(text_codes.SUCCESSOR_BLOCKS, f"{name.name}: StableHLO has no successor blocks")
        if mask & HAS_USE_LISTS and self._file.version >= bytecode_file.USE_LIST_ORDERING:
            _skip_use_lists(reader, len(operation.results))
        regions, is_isolated = reader.varint_with_flag() if mask & HAS_REGIONS else (0, False)
        if regions > reader.remaining:
            raise reader.fail(
                codes.TRUNCATED_BYTECODE, f"expected {regions} regions, but only {reader.remaining} bytes are left"
            )
        if _is_cast(operation):
            self._define(reader, operation.operands)
            return None
        self._finish(operation, attributes, frame)
        block.operations.append(operation)
        self._define(reader, operation.results)
        return self._inner(operation, reader, regions, is_isolated) if regions else None

    def _inner(self, operation: ir.Operation, reader: EncodingReader, regions: int, is_isolated: bool) -> _RegionFrame:
        if is_isolated:
            self._scopes.append(_ValueScope())
            if self._file.version >= bytecode_file.LAZY_LOADING:
                kind, reader = reader.section()
                if kind != bytecode_file.IR:
                    raise reader.fail(
                        codes.DAMAGED_BYTECODE,
                        f"the regions of {operation.name} must be in a section of IR, found section {kind}",
                    )
        return _RegionFrame(operation, reader, regions, is_isolated)

    @staticmethod
    def _finish(operation: ir.Operation, attributes: dict[str, Any], frame: _RegionFrame) -> None:
        if operation.name.startswith("vhlo."):
            is_in_function = frame.operation.name == "func.func"
            operation.name, attributes = legalize_to_stablehlo(operation.name, attributes, is_in_function)
        operation.attributes = attributes

    def _attributes(self, reader: EncodingReader, mask: int, name: OperationName) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if mask & HAS_ATTRIBUTES:
            found = self._entries.attribute(reader.varint())
            if not isinstance(found, dict):
                raise reader.fail(
                    codes.BYTECODE_KIND, f"the attributes of {name.name} must be a dictionary, found {found}"
                )
            attributes.update(found)
        if mask & HAS_PROPERTIES:
            attributes.update(self._properties(reader, name))
        return attributes

    def _properties(self, reader: EncodingReader, name: OperationName) -> dict[str, Any]:
        if not name.is_registered:
            found = self._entries.attribute(reader.varint())
            return found if isinstance(found, dict) else {}
        index = reader.varint()
        if index >= len(self._file.properties):
            raise reader.fail(
                codes.BYTECODE_REFERENCE, f"there are no properties {index}, only {len(self._file.properties)}"
            )
        properties = DialectReader(self._entries, *self._file.properties[index])
        found = read_properties(properties, name.name, self._file.version)
        if found is None:
            raise UnsupportedError(
                codes.BYTECODE_ENCODING,
                f"MLIR bytecode, byte {reader.position}: the encoding of the properties of {name.name} is "
                "not supported",
            )
        return found

    def _value(self, reader: EncodingReader) -> ir.Value:
        number = reader.varint()
        value = self._scopes[-1].values.get(number)
        if value is None:
            raise reader.fail(codes.BYTECODE_REFERENCE, f"value {number} is used before it is defined")
        return value

    def _define(self, reader: EncodingReader, values: list[ir.Value]) -> None:
        if not values:
            return
        scope = self._scopes[-1]
        region = scope.regions[-1]
        if region.next_number + len(values) > region.end:
            raise reader.fail(
                codes.DAMAGED_BYTECODE,
                f"the region has more values than the {region.end - region.start} that it declares",
            )
        for value in values:
            scope.values[region.next_number] = value
            region.next_number += 1


def _is_cast(operation: ir.Operation) -> bool:
    """Returns whether an operation casts between a VHLO type and its StableHLO equivalent, which are equal here."""
    operand_types, result_types = (
        [value.type for value in values] for values in (operation.operands, operation.results)
    )
    return operation.name == "builtin.unrealized_conversion_cast" and operand_types == result_types


def _skip_use_lists(reader: EncodingReader, values: int) -> None:
    """Skips the use-list orders of values, which do not affect the program."""
    for _ in range(reader.varint() if values > 1 else 1):
        if values > 1:
            reader.varint()
        for _ in range(reader.varint_with_flag()[0]):
            reader.varint()
