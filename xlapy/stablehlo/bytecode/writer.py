"""Programs as portable artifacts: MLIR bytecode with VHLO.

Owns the sections and the numbering of operations and values. Must not know: how attributes are encoded.
Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from xlapy.base.errors import InvalidArgumentError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import container, reader
from xlapy.stablehlo.bytecode.container import MAGIC
from xlapy.stablehlo.bytecode.downgrade import needed_version, versioned
from xlapy.stablehlo.bytecode.output import Output
from xlapy.stablehlo.bytecode.tables import Tables


def write_bytecode(module: ir.Operation) -> bytes:
    """A `builtin.module` as a portable artifact, of the oldest version of VHLO from 1.12 on that has all it needs.

    `UnsupportedError` for operations of other dialects and for what VHLO has no form for.
    """
    if module.name != "builtin.module":
        raise InvalidArgumentError(f"a portable artifact is made of a builtin.module, given {module.name}")
    return _Writer(needed_version(module)).file(module)


class _Writer:
    def __init__(self, minor: int) -> None:
        self._minor = minor
        self._tables = Tables()
        self._names: dict[str, int] = {}
        self._properties: dict[bytes, int] = {}
        self._values: dict[ir.Value, int] = {}

    def file(self, module: ir.Operation) -> bytes:
        """The whole file."""
        body = self._module(module)
        dialects = self._dialects()
        entries, offsets = self._entries(dialects)
        file = Output()
        file.data += MAGIC
        file.number(container.NEWEST)
        file.terminated(f"StableHLO_v1.{self._minor}.0")
        names = self._dialect_section(dialects)
        file.section(container.STRINGS, self._strings())
        file.section(container.DIALECTS, names)
        file.section(container.OFFSETS, offsets)
        file.section(container.ENTRIES, entries)
        file.section(container.PROPERTIES, self._property_section())
        file.section(container.IR, body)
        return bytes(file.data)

    def _module(self, module: ir.Operation) -> bytes:
        """The block at the top, which holds the module; its region is isolated and therefore a section."""
        attributes = dict(module.attributes)
        properties = Output()
        for name in ("sym_name", "sym_visibility"):
            value = attributes.pop(name, None)
            properties.flagged(0 if value is None else self._tables.builtin(value), value is not None)
        output = Output()
        output.flagged(1, False)
        output.number(self._name("builtin.module"))
        output.byte(reader.HAS_REGIONS | reader.HAS_PROPERTIES | (reader.HAS_ATTRIBUTES if attributes else 0))
        output.number(self._tables.location(module.location))
        if attributes:
            output.number(self._tables.builtin(attributes))
        output.number(self._property(bytes(properties.data)))
        output.flagged(1, True)
        inner = Output()
        self._region(inner, module.regions[0], 0)
        output.section(container.IR, bytes(inner.data))
        return bytes(output.data)

    def _region(self, output: Output, region: ir.Region, first: int) -> None:
        """Values are numbered from `first` on: those of the region itself, then those of regions inside it."""
        output.number(len(region.blocks))
        if not region.blocks:
            return
        next_number = first
        for block in region.blocks:
            for value in (*block.arguments, *(result for inner in block.operations for result in inner.results)):
                self._values[value] = next_number
                next_number += 1
        output.number(next_number - first)
        for block in region.blocks:
            self._block(output, block, next_number)

    def _block(self, output: Output, block: ir.Block, first: int) -> None:
        output.flagged(len(block.operations), bool(block.arguments))
        if block.arguments:
            output.number(len(block.arguments))
            for argument in block.arguments:
                is_known = argument.location != ir.UNKNOWN_LOCATION
                output.flagged(self._tables.type(argument.type), is_known)
                if is_known:
                    output.number(self._tables.location(argument.location))
            output.byte(0)
        for operation in block.operations:
            self._operation(output, operation, first)

    def _operation(self, output: Output, operation: ir.Operation, first: int) -> None:
        found = versioned(operation, self._minor)
        properties = Output()
        for value in found.properties:
            properties.number(self._tables.attribute(value))
        masks = (
            (reader.HAS_ATTRIBUTES, found.others),
            (reader.HAS_PROPERTIES, found.properties),
            (reader.HAS_RESULTS, operation.results),
            (reader.HAS_OPERANDS, operation.operands),
            (reader.HAS_REGIONS, operation.regions),
        )
        output.number(self._name(found.name))
        output.byte(sum(mask for mask, part in masks if part))
        output.number(self._tables.location(operation.location))
        if found.others:
            output.number(self._tables.dictionary(found.others))
        if found.properties:
            output.number(self._property(bytes(properties.data)))
        if operation.results:
            output.numbers(self._tables.type(result.type) for result in operation.results)
        if operation.operands:
            output.numbers(self._values[operand] for operand in operation.operands)
        if operation.regions:
            output.flagged(len(operation.regions), False)
            for region in operation.regions:
                self._region(output, region, first)

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _property(self, data: bytes) -> int:
        return self._properties.setdefault(data, len(self._properties))

    def _dialects(self) -> dict[str, int]:
        used = ["builtin", "vhlo", *(entry[0] for entry in self._tables.attributes.entries)]
        return {name: number for number, name in enumerate(dict.fromkeys(used))}

    def _entries(self, dialects: dict[str, int]) -> tuple[bytes, bytes]:
        """The encodings one behind the other, and their sizes in runs of one dialect."""
        data, offsets = Output(), Output()
        tables = (self._tables.attributes.entries, self._tables.types.entries)
        for table in tables:
            offsets.number(len(table))
        for table in tables:
            start = 0
            while start < len(table):
                dialect, end = table[start][0], start
                while end < len(table) and table[end][0] == dialect:
                    end += 1
                offsets.number(dialects[dialect])
                offsets.number(end - start)
                for _, encoded, is_custom in table[start:end]:
                    offsets.flagged(len(encoded), is_custom)
                    data.data += encoded
                start = end
        return bytes(data.data), bytes(offsets.data)

    def _dialect_section(self, dialects: dict[str, int]) -> bytes:
        """The dialects, then the names of operations: of `builtin` one, all others of VHLO, in their order."""
        output = Output()
        output.number(len(dialects))
        for name in dialects:
            output.flagged(self._tables.string(name), False)
        output.number(len(self._names))
        for name in self._names:
            dialect, _, plain = name.partition(".")
            output.number(dialects[dialect])
            output.number(1)
            output.flagged(self._tables.string(plain), True)
        return bytes(output.data)

    def _strings(self) -> bytes:
        output = Output()
        texts = [text.encode("utf-8", "surrogateescape") + b"\0" for text in self._tables.strings]
        output.number(len(texts))
        for text in reversed(texts):
            output.number(len(text))
        output.data += b"".join(texts)
        return bytes(output.data)

    def _property_section(self) -> bytes:
        output = Output()
        output.number(len(self._properties))
        for data in self._properties:
            output.blob(data)
        return bytes(output.data)
