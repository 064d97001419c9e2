"""Writes programs as portable artifacts: MLIR bytecode of VHLO operations.

Responsible for the sections and for the numbering of operation names and values. Does not depend on how attributes are
encoded.

Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import bytecode_file, reader
from xlapy.stablehlo.bytecode.bytecode_file import MAGIC
from xlapy.stablehlo.bytecode.encoding_emitter import EncodingEmitter
from xlapy.stablehlo.bytecode.legalize_to_vhlo import legalize_to_vhlo, required_version
from xlapy.stablehlo.bytecode.numbering import IRNumbering


def write_bytecode(module: ir.Operation) -> bytes:
    """Returns the portable artifact of a `builtin.module`, in the oldest VHLO version since 1.12 that can express it.

    Raises `UnsupportedError` for operations, attributes and types that VHLO lacks.
    """
    if module.name != "builtin.module":
        raise InvalidArgumentError(
            codes.ARTIFACT_MODULE, f"a portable artifact must be made from a builtin.module, but got {module.name}"
        )
    return _OperationWriter(required_version(module)).file(module)


class _OperationWriter:
    """Writes one program for a minor version of VHLO 1."""

    def __init__(self, minor: int) -> None:
        self._minor = minor
        self._numbering = IRNumbering()
        self._names: dict[str, int] = {}
        self._properties: dict[bytes, int] = {}
        self._values: dict[ir.Value, int] = {}

    def file(self, module: ir.Operation) -> bytes:
        """Returns the whole file."""
        body = self._module(module)
        dialects = self._dialects()
        entries, offsets = self._entries(dialects)
        file = EncodingEmitter()
        file.data += MAGIC
        file.varint(bytecode_file.MAX_SUPPORTED_VERSION)
        file.null_terminated(f"StableHLO_v1.{self._minor}.0")
        names = self._dialect_section(dialects)
        file.section(bytecode_file.STRINGS, self._strings())
        file.section(bytecode_file.DIALECTS, names)
        file.section(bytecode_file.ATTRIBUTE_TYPE_OFFSETS, offsets)
        file.section(bytecode_file.ATTRIBUTES_AND_TYPES, entries)
        file.section(bytecode_file.PROPERTIES, self._property_section())
        file.section(bytecode_file.IR, body)
        return bytes(file.data)

    def _module(self, module: ir.Operation) -> bytes:
        """Writes the top-level block, which holds the module. Its region is isolated and therefore a section."""
        attributes = dict(module.attributes)
        properties = EncodingEmitter()
        for name in ("sym_name", "sym_visibility"):
            value = attributes.pop(name, None)
            properties.varint_with_flag(0 if value is None else self._numbering.builtin(value), value is not None)
        emitter = EncodingEmitter()
        emitter.varint_with_flag(1, False)
        emitter.varint(self._name("builtin.module"))
        emitter.byte(reader.HAS_REGIONS | reader.HAS_PROPERTIES | (reader.HAS_ATTRIBUTES if attributes else 0))
        emitter.varint(self._numbering.location(module.location))
        if attributes:
            emitter.varint(self._numbering.builtin(attributes))
        emitter.varint(self._property(bytes(properties.data)))
        emitter.varint_with_flag(1, True)
        inner = EncodingEmitter()
        self._region(inner, module.regions[0], 0)
        emitter.section(bytecode_file.IR, bytes(inner.data))
        return bytes(emitter.data)

    def _region(self, emitter: EncodingEmitter, region: ir.Region, first: int) -> None:
        """Writes a region. Its values are numbered from `first` on, followed by those of nested regions."""
        emitter.varint(len(region.blocks))
        if not region.blocks:
            return
        next_number = first
        for block in region.blocks:
            for value in (*block.arguments, *(result for inner in block.operations for result in inner.results)):
                self._values[value] = next_number
                next_number += 1
        emitter.varint(next_number - first)
        for block in region.blocks:
            self._block(emitter, block, next_number)

    def _block(self, emitter: EncodingEmitter, block: ir.Block, first: int) -> None:
        emitter.varint_with_flag(len(block.operations), bool(block.arguments))
        if block.arguments:
            emitter.varint(len(block.arguments))
            for argument in block.arguments:
                is_known = argument.location != ir.UNKNOWN_LOCATION
                emitter.varint_with_flag(self._numbering.type(argument.type), is_known)
                if is_known:
                    emitter.varint(self._numbering.location(argument.location))
            emitter.byte(0)
        for operation in block.operations:
            self._operation(emitter, operation, first)

    def _operation(self, emitter: EncodingEmitter, operation: ir.Operation, first: int) -> None:
        found = legalize_to_vhlo(operation, self._minor)
        properties = EncodingEmitter()
        for value in found.properties:
            properties.varint(self._numbering.attribute(value))
        masks = (
            (reader.HAS_ATTRIBUTES, found.others),
            (reader.HAS_PROPERTIES, found.properties),
            (reader.HAS_RESULTS, operation.results),
            (reader.HAS_OPERANDS, operation.operands),
            (reader.HAS_REGIONS, operation.regions),
        )
        emitter.varint(self._name(found.name))
        emitter.byte(sum(mask for mask, part in masks if part))
        emitter.varint(self._numbering.location(operation.location))
        if found.others:
            emitter.varint(self._numbering.dictionary(found.others))
        if found.properties:
            emitter.varint(self._property(bytes(properties.data)))
        if operation.results:
            emitter.varint_list(self._numbering.type(result.type) for result in operation.results)
        if operation.operands:
            emitter.varint_list(self._values[operand] for operand in operation.operands)
        if operation.regions:
            emitter.varint_with_flag(len(operation.regions), False)
            for region in operation.regions:
                self._region(emitter, region, first)

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _property(self, data: bytes) -> int:
        return self._properties.setdefault(data, len(self._properties))

    def _dialects(self) -> dict[str, int]:
        used = ["builtin", "vhlo", *(entry[0] for entry in self._numbering.attributes.entries)]
        return {name: number for number, name in enumerate(dict.fromkeys(used))}

    def _entries(self, dialects: dict[str, int]) -> tuple[bytes, bytes]:
        """Returns the section of encodings and the section of their sizes, in groups of one dialect."""
        data, offsets = EncodingEmitter(), EncodingEmitter()
        tables = (self._numbering.attributes.entries, self._numbering.types.entries)
        for table in tables:
            offsets.varint(len(table))
        for table in tables:
            start = 0
            while start < len(table):
                dialect, end = table[start][0], start
                while end < len(table) and table[end][0] == dialect:
                    end += 1
                offsets.varint(dialects[dialect])
                offsets.varint(end - start)
                for _, encoded, is_custom in table[start:end]:
                    offsets.varint_with_flag(len(encoded), is_custom)
                    data.data += encoded
                start = end
        return bytes(data.data), bytes(offsets.data)

    def _dialect_section(self, dialects: dict[str, int]) -> bytes:
        """Returns the section of dialects and operation names: one name of `builtin`, all others of VHLO."""
        emitter = EncodingEmitter()
        emitter.varint(len(dialects))
        for name in dialects:
            emitter.varint_with_flag(self._numbering.string(name), False)
        emitter.varint(len(self._names))
        for name in self._names:
            dialect, _, mnemonic = name.partition(".")
            emitter.varint(dialects[dialect])
            emitter.varint(1)
            emitter.varint_with_flag(self._numbering.string(mnemonic), True)
        return bytes(emitter.data)

    def _strings(self) -> bytes:
        emitter = EncodingEmitter()
        texts = [text.encode("utf-8", "surrogateescape") + b"\0" for text in self._numbering.strings]
        emitter.varint(len(texts))
        for text in reversed(texts):
            emitter.varint(len(text))
        emitter.data += b"".join(texts)
        return bytes(emitter.data)

    def _property_section(self) -> bytes:
        emitter = EncodingEmitter()
        emitter.varint(len(self._properties))
        for data in self._properties:
            emitter.blob(data)
        return bytes(emitter.data)
