"""Splits an MLIR bytecode file into its sections and reads the tables of strings, dialects and operation names.

Responsible for the layout of the file. Does not depend on how attributes, types and operations are encoded.

Source: MLIR's BytecodeFormat.md, and Encoding.h for the numbers of versions and sections.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlapy.stablehlo.bytecode.encoding_reader import EncodingReader

MAGIC = b"ML\xefR"
MAX_SUPPORTED_VERSION = 6
DIALECT_VERSIONING = 1
LAZY_LOADING = 2
USE_LIST_ORDERING = 3
ELIDE_UNKNOWN_BLOCK_ARGUMENT_LOCATION = 4
NATIVE_PROPERTIES_ENCODING = 5
"""The versions of the format that introduced features, named as in MLIR's `BytecodeVersion`."""

STRINGS, DIALECTS, ATTRIBUTES_AND_TYPES, ATTRIBUTE_TYPE_OFFSETS, IR, RESOURCES, RESOURCE_OFFSETS, _, PROPERTIES = range(
    9
)
"""The numbers of the sections."""
_REQUIRED_SECTIONS = {
    STRINGS: "strings",
    DIALECTS: "dialects",
    ATTRIBUTES_AND_TYPES: "attributes and types",
    ATTRIBUTE_TYPE_OFFSETS: "offsets",
    IR: "IR",
}


@dataclass(frozen=True, slots=True)
class OperationName:
    """The name of an operation, with its dialect. A registered operation has its own encoding of its properties."""

    name: str
    is_registered: bool


@dataclass(frozen=True, slots=True)
class EncodedEntry:
    """An encoded attribute or type: its dialect and its range of bytes, which is text unless `is_custom`."""

    dialect: str
    position: int
    end: int
    is_custom: bool


@dataclass(slots=True)
class BytecodeFile:
    """The contents of a file. `resources` holds pairs of name and bytes in the order of their numbers.

    `properties` holds the start and end offsets of the properties of operations, `ir` the section of operations.
    """

    data: bytes
    version: int
    producer: str
    strings: list[str]
    dialects: list[str] = field(default_factory=list)
    operation_names: list[OperationName] = field(default_factory=list)
    attributes: list[EncodedEntry] = field(default_factory=list)
    types: list[EncodedEntry] = field(default_factory=list)
    resources: list[tuple[str, memoryview]] = field(default_factory=list)
    properties: list[tuple[int, int]] = field(default_factory=list)
    ir: EncodingReader = field(default_factory=lambda: EncodingReader(b""))

    def string(self, reader: EncodingReader) -> str:
        """Reads a reference to a string."""
        return self.string_at(reader, reader.varint())

    def string_at(self, reader: EncodingReader, index: int) -> str:
        """Returns the string with a number; `reader` is the position for errors."""
        if index >= len(self.strings):
            raise reader.fail(f"there is no string {index}, only {len(self.strings)}")
        return self.strings[index]

    def dialect(self, reader: EncodingReader) -> str:
        """Reads a reference to a dialect and returns its name."""
        index = reader.varint()
        if index >= len(self.dialects):
            raise reader.fail(f"there is no dialect {index}, only {len(self.dialects)}")
        return self.dialects[index]


def read_file(data: bytes) -> BytecodeFile:
    """Splits a file into its sections. Raises `BytecodeError` if it is not bytecode or its version is too new."""
    reader = EncodingReader(data)
    if data[:4] != MAGIC:
        raise reader.fail(f"bytecode must begin with {MAGIC!r}, but begins with {data[:4]!r}")
    reader.position = 4
    version = reader.varint()
    if version > MAX_SUPPORTED_VERSION:
        raise reader.fail(
            f"version {version} of the format is newer than {MAX_SUPPORTED_VERSION}, the newest supported version"
        )
    producer = reader.null_terminated()
    sections = _sections(reader)
    file = BytecodeFile(data, version, producer, _strings(sections[STRINGS]))
    _read_dialects(file, sections[DIALECTS])
    _read_entries(file, sections[ATTRIBUTES_AND_TYPES], sections[ATTRIBUTE_TYPE_OFFSETS])
    _read_resources(file, sections.get(RESOURCES), sections.get(RESOURCE_OFFSETS))
    if PROPERTIES in sections:
        _read_properties(file, sections[PROPERTIES])
    file.ir = sections[IR]
    return file


def _sections(reader: EncodingReader) -> dict[int, EncodingReader]:
    sections: dict[int, EncodingReader] = {}
    while reader.remaining:
        kind, section = reader.section()
        if kind in sections:
            raise reader.fail(f"section {kind} occurs twice")
        sections[kind] = section
    for kind, name in _REQUIRED_SECTIONS.items():
        if kind not in sections:
            raise reader.fail(f"the section of {name} is missing")
    return sections


def _strings(reader: EncodingReader) -> list[str]:
    """Reads the strings. Their lengths come first, in reverse order, then the strings, each with a zero byte."""
    sizes = [reader.varint() for _ in range(reader.count())]
    strings = []
    for size in reversed(sizes):
        if size == 0:
            raise reader.fail("a string lacks its terminating zero byte")
        part = reader.sub_reader(size)
        strings.append(reader.data[part.position : part.end - 1].decode("utf-8", "surrogateescape"))
    return strings


def _read_dialects(file: BytecodeFile, reader: EncodingReader) -> None:
    for _ in range(reader.count()):
        if file.version < DIALECT_VERSIONING:
            file.dialects.append(file.string(reader))
            continue
        index, is_versioned = reader.varint_with_flag()
        file.dialects.append(file.string_at(reader, index))
        if is_versioned:
            reader.section()
    if file.version >= ELIDE_UNKNOWN_BLOCK_ARGUMENT_LOCATION:
        reader.varint()
    while reader.remaining:
        dialect = file.dialect(reader)
        for _ in range(reader.count()):
            if file.version < NATIVE_PROPERTIES_ENCODING:
                name, is_registered = file.string(reader), False
            else:
                index, is_registered = reader.varint_with_flag()
                name = file.string_at(reader, index)
            file.operation_names.append(OperationName(f"{dialect}.{name}" if name else dialect, is_registered))


def _read_entries(file: BytecodeFile, entries: EncodingReader, offsets: EncodingReader) -> None:
    """Reads the table of attributes, then that of types, in groups of one dialect. The offset section holds sizes."""
    attributes, types = offsets.varint(), offsets.varint()
    for table, count in ((file.attributes, attributes), (file.types, types)):
        while len(table) < count:
            dialect = file.dialect(offsets)
            for _ in range(offsets.count()):
                size, is_custom = offsets.varint_with_flag()
                part = entries.sub_reader(size)
                table.append(EncodedEntry(dialect, part.position, part.end, is_custom))
        if len(table) > count:
            raise offsets.fail(f"expected {count} attributes or types, found {len(table)}")


def _read_resources(file: BytecodeFile, values: EncodingReader | None, offsets: EncodingReader | None) -> None:
    """Reads the resources: external groups first, which nothing refers to, then the blobs of the dialects."""
    if values is None or offsets is None:
        return
    for _ in range(offsets.count()):
        offsets.varint()
        _resource_group(file, values, offsets)
    while offsets.remaining:
        file.dialect(offsets)
        file.resources.extend(_resource_group(file, values, offsets))


def _resource_group(
    file: BytecodeFile, values: EncodingReader, offsets: EncodingReader
) -> list[tuple[str, memoryview]]:
    found = []
    for _ in range(offsets.count()):
        name = file.string(offsets)
        part = values.sub_reader(offsets.varint())
        is_blob = offsets.byte() == 0
        found.append((name, _blob(part) if is_blob and part.remaining else memoryview(b"")))
    return found


def _blob(reader: EncodingReader) -> memoryview:
    alignment = reader.varint()
    size = reader.varint()
    reader.align(alignment)
    return reader.view(size)


def _read_properties(file: BytecodeFile, reader: EncodingReader) -> None:
    for _ in range(reader.count()):
        part = reader.sub_reader(reader.varint())
        file.properties.append((part.position, part.end))
