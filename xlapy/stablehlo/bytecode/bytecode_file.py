"""Splits an MLIR bytecode file into its sections and reads the tables of strings, dialects and operation names.

Responsible for the layout of the file. Does not depend on how attributes, types and operations are encoded.

Source: MLIR's BytecodeFormat.md, and Encoding.h for the numbers of versions and sections.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from xlapy.base.error_codes.formats import bytecode as codes
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
_MAX_DIALECT_CHARACTERS = 200
"""The longest name of a dialect. The name of each of its operations repeats it."""
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


class SpanTable:
    """Ranges of bytes by number, each a start and an end offset.

    A file of a few bytes per entry has millions of them: they take sixteen bytes each here.
    """

    def __init__(self) -> None:
        self._starts, self._ends = array("Q"), array("Q")

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self._starts[index], self._ends[index]

    def append(self, part: EncodingReader) -> None:
        """Adds the bytes of a reader that has not read any of them."""
        self._starts.append(part.position)
        self._ends.append(part.end)

    def extend(self, starts: array[int], ends: array[int]) -> None:
        """Adds ranges."""
        self._starts += starts
        self._ends += ends


class EntryTable:
    """The encoded attributes, or types, by number."""

    def __init__(self) -> None:
        self._spans = SpanTable()
        self._dialects: list[str] = []
        self._is_custom = bytearray()

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, index: int) -> EncodedEntry:
        return EncodedEntry(self._dialects[index], *self._spans[index], bool(self._is_custom[index]))

    def extend(self, dialect: str, starts: array[int], ends: array[int], are_custom: bytes) -> None:
        """Adds entries of a dialect. are_custom: a byte each, 0 for text."""
        self._dialects += [dialect] * len(starts)
        self._spans.extend(starts, ends)
        self._is_custom += are_custom


class OperationNameTable:
    """The names of operations by number. The text of a name is made when it is used."""

    def __init__(self) -> None:
        self._dialects: list[str] = []
        self._names: list[str] = []
        self._is_registered = bytearray()
        self._made: dict[int, OperationName] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> OperationName:
        made = self._made.get(index)
        if made is None:
            dialect, name = self._dialects[index], self._names[index]
            made = OperationName(f"{dialect}.{name}" if name else dialect, bool(self._is_registered[index]))
            self._made[index] = made
        return made

    def append(self, dialect: str, name: str, is_registered: bool) -> None:
        self._dialects.append(dialect)
        self._names.append(name)
        self._is_registered.append(is_registered)


class ResourceTable:
    """The blobs of resources by number, with their names."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._names: list[str] = []
        self._blobs = SpanTable()

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> tuple[str, memoryview]:
        start, end = self._blobs[index]
        return self._names[index], memoryview(self._data)[start:end]

    def append(self, name: str, blob: EncodingReader) -> None:
        self._names.append(name)
        self._blobs.append(blob)


@dataclass(slots=True)
class BytecodeFile:
    """The contents of a file.

    `properties` holds the bytes of the properties of operations, `ir` the section of operations.
    """

    data: bytes
    version: int
    producer: str
    strings: list[str]
    dialects: list[str] = field(default_factory=list)
    operation_names: OperationNameTable = field(default_factory=OperationNameTable)
    attributes: EntryTable = field(default_factory=EntryTable)
    types: EntryTable = field(default_factory=EntryTable)
    resources: ResourceTable = field(init=False)
    properties: SpanTable = field(default_factory=SpanTable)
    ir: EncodingReader = field(default_factory=lambda: EncodingReader(b""))

    def __post_init__(self) -> None:
        self.resources = ResourceTable(self.data)

    def string(self, reader: EncodingReader) -> str:
        """Reads a reference to a string."""
        return self.string_at(reader, reader.varint())

    def string_at(self, reader: EncodingReader, index: int) -> str:
        """Returns the string with a number; `reader` is the position for errors."""
        if index >= len(self.strings):
            raise reader.fail(codes.BYTECODE_REFERENCE, f"there is no string {index}, only {len(self.strings)}")
        return self.strings[index]

    def dialect(self, reader: EncodingReader) -> str:
        """Reads a reference to a dialect and returns its name."""
        index = reader.varint()
        if index >= len(self.dialects):
            raise reader.fail(codes.BYTECODE_REFERENCE, f"there is no dialect {index}, only {len(self.dialects)}")
        return self.dialects[index]


def read_file(data: bytes) -> BytecodeFile:
    """Splits a file into its sections. Raises `BytecodeError` if it is not bytecode or its version is too new."""
    reader = EncodingReader(data)
    if data[:4] != MAGIC:
        raise reader.fail(codes.BYTECODE_START, f"bytecode must begin with {MAGIC!r}, but begins with {data[:4]!r}")
    reader.position = 4
    version = reader.varint()
    if version > MAX_SUPPORTED_VERSION:
        raise reader.fail(
            codes.BYTECODE_VERSION,
            f"version {version} of the format is newer than {MAX_SUPPORTED_VERSION}, the newest supported version",
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
            raise reader.fail(codes.DAMAGED_BYTECODE, f"section {kind} occurs twice")
        sections[kind] = section
    for kind, name in _REQUIRED_SECTIONS.items():
        if kind not in sections:
            raise reader.fail(codes.DAMAGED_BYTECODE, f"the section of {name} is missing")
    return sections


def _strings(reader: EncodingReader) -> list[str]:
    """Reads the strings. Their lengths come first, in reverse order, then the strings, each with a zero byte."""
    sizes = reader.varints(reader.count())[::-1]
    if 0 in sizes:
        raise reader.fail(codes.DAMAGED_BYTECODE, "a string lacks its terminating zero byte")
    data, (starts, ends) = reader.data, _spans(reader, sizes)
    return [data[start : end - 1].decode("utf-8", "surrogateescape") for start, end in zip(starts, ends, strict=True)]


def _spans(reader: EncodingReader, sizes: Sequence[int]) -> tuple[array[int], array[int]]:
    """Reads parts of known sizes, and returns where each starts and ends."""
    start = reader.sub_reader(sum(sizes)).position
    bounds = array("Q", accumulate(sizes, initial=start))
    return bounds[:-1], bounds[1:]


def _read_dialects(file: BytecodeFile, reader: EncodingReader) -> None:
    for _ in range(reader.count()):
        is_versioned = False
        if file.version < DIALECT_VERSIONING:
            name = file.string(reader)
        else:
            index, is_versioned = reader.varint_with_flag()
            name = file.string_at(reader, index)
        if len(name) > _MAX_DIALECT_CHARACTERS:
            raise reader.fail(
                codes.DAMAGED_BYTECODE,
                f"the name of a dialect has {len(name)} characters, more than {_MAX_DIALECT_CHARACTERS}",
            )
        file.dialects.append(name)
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
            file.operation_names.append(dialect, name, is_registered)


def _read_entries(file: BytecodeFile, entries: EncodingReader, offsets: EncodingReader) -> None:
    """Reads the table of attributes, then that of types, in groups of one dialect. The offset section holds sizes."""
    attributes, types = offsets.varint(), offsets.varint()
    for table, count in ((file.attributes, attributes), (file.types, types)):
        while len(table) < count:
            dialect = file.dialect(offsets)
            encoded = offsets.varints(offsets.count())
            sizes = [number >> 1 for number in encoded]
            if 0 in sizes:
                raise offsets.fail(codes.DAMAGED_BYTECODE, "an attribute or type has no bytes")
            table.extend(dialect, *_spans(entries, sizes), bytes([number & 1 for number in encoded]))
        if len(table) > count:
            raise offsets.fail(codes.DAMAGED_BYTECODE, f"expected {count} attributes or types, found {len(table)}")


def _read_resources(file: BytecodeFile, values: EncodingReader | None, offsets: EncodingReader | None) -> None:
    """Reads the resources: external groups first, which nothing refers to, then the blobs of the dialects."""
    if values is None or offsets is None:
        return
    for _ in range(offsets.count()):
        offsets.varint()
        for _ in _resource_group(file, values, offsets):
            pass
    while offsets.remaining:
        file.dialect(offsets)
        for name, blob in _resource_group(file, values, offsets):
            file.resources.append(name, blob)


def _resource_group(
    file: BytecodeFile, values: EncodingReader, offsets: EncodingReader
) -> Iterator[tuple[str, EncodingReader]]:
    """Yields the names and the bytes of the resources of a dialect. A resource that is not a blob has no bytes."""
    for _ in range(offsets.count()):
        name = file.string(offsets)
        part = values.sub_reader(offsets.varint())
        is_blob = offsets.byte() == 0
        yield name, _blob(part) if is_blob and part.remaining else EncodingReader(file.data, 0, 0)


def _blob(reader: EncodingReader) -> EncodingReader:
    alignment = reader.varint()
    size = reader.varint()
    reader.align(alignment)
    return reader.sub_reader(size)


def _read_properties(file: BytecodeFile, reader: EncodingReader) -> None:
    file.properties.extend(*reader.sized_parts(reader.count()))
