"""The sections of an MLIR bytecode file: strings, dialects, names of operations, and where the rest lies.

Owns the file's layout. Must not know: how attributes, types and operations are written.
Source: MLIR's BytecodeFormat.md; the numbers of versions and sections are those of its encoding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlapy.stablehlo.bytecode.stream import Stream

MAGIC = b"ML\xefR"
NEWEST = 6
DIALECT_VERSIONS = 1
ISOLATED_SECTIONS = 2
USE_LISTS = 3
ELIDED_LOCATIONS = 4
NATIVE_PROPERTIES = 5

STRINGS, DIALECTS, ENTRIES, OFFSETS, IR, RESOURCES, RESOURCE_OFFSETS, _, PROPERTIES = range(9)
_NEEDED = {STRINGS: "strings", DIALECTS: "dialects", ENTRIES: "attributes and types", OFFSETS: "offsets", IR: "IR"}


@dataclass(frozen=True, slots=True)
class OperationName:
    """`name` has the dialect; a registered operation writes its properties in a form of its own."""

    name: str
    is_registered: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """An attribute or a type: its dialect and its bytes, which are text unless `is_custom`."""

    dialect: str
    position: int
    end: int
    is_custom: bool


@dataclass(slots=True)
class Container:
    """A file taken apart. `resources` are (name, bytes) in the order in which attributes number them."""

    data: bytes
    version: int
    producer: str
    strings: list[str]
    dialects: list[str] = field(default_factory=list)
    operation_names: list[OperationName] = field(default_factory=list)
    attributes: list[Entry] = field(default_factory=list)
    types: list[Entry] = field(default_factory=list)
    resources: list[tuple[str, memoryview]] = field(default_factory=list)
    properties: list[tuple[int, int]] = field(default_factory=list)
    ir: Stream = field(default_factory=lambda: Stream(b""))

    def string(self, stream: Stream) -> str:
        return self.string_at(stream, stream.number())

    def string_at(self, stream: Stream, index: int) -> str:
        if index >= len(self.strings):
            raise stream.fail(f"there is no string {index}, only {len(self.strings)}")
        return self.strings[index]

    def dialect(self, stream: Stream) -> str:
        index = stream.number()
        if index >= len(self.dialects):
            raise stream.fail(f"there is no dialect {index}, only {len(self.dialects)}")
        return self.dialects[index]


def read_container(data: bytes) -> Container:
    """Takes a file apart; `BytecodeError` where it is not one, or is newer than what this reads."""
    stream = Stream(data)
    if data[:4] != MAGIC:
        raise stream.fail(f"bytecode begins with {MAGIC!r}, this with {data[:4]!r}")
    stream.position = 4
    version = stream.number()
    if version > NEWEST:
        raise stream.fail(f"version {version} of the format is newer than {NEWEST}, the newest that is known here")
    producer = stream.terminated()
    sections = _sections(stream)
    container = Container(data, version, producer, _strings(sections[STRINGS]))
    _read_dialects(container, sections[DIALECTS])
    _read_entries(container, sections[ENTRIES], sections[OFFSETS])
    _read_resources(container, sections.get(RESOURCES), sections.get(RESOURCE_OFFSETS))
    if PROPERTIES in sections:
        _read_properties(container, sections[PROPERTIES])
    container.ir = sections[IR]
    return container


def _sections(stream: Stream) -> dict[int, Stream]:
    sections: dict[int, Stream] = {}
    while stream.remaining:
        kind, section = stream.section()
        if kind in sections:
            raise stream.fail(f"section {kind} is there twice")
        sections[kind] = section
    for kind, name in _NEEDED.items():
        if kind not in sections:
            raise stream.fail(f"the section of {name} is missing")
    return sections


def _strings(stream: Stream) -> list[str]:
    """All lengths first, of the last string first, then the strings, each with a zero byte behind it."""
    sizes = [stream.number() for _ in range(stream.count())]
    strings = []
    for size in reversed(sizes):
        if size == 0:
            raise stream.fail("a string without its zero byte")
        part = stream.part(size)
        strings.append(stream.data[part.position : part.end - 1].decode("utf-8", "surrogateescape"))
    return strings


def _read_dialects(container: Container, stream: Stream) -> None:
    for _ in range(stream.count()):
        if container.version < DIALECT_VERSIONS:
            container.dialects.append(container.string(stream))
            continue
        index, is_versioned = stream.flagged()
        container.dialects.append(container.string_at(stream, index))
        if is_versioned:
            stream.section()
    if container.version >= ELIDED_LOCATIONS:
        stream.number()
    while stream.remaining:
        dialect = container.dialect(stream)
        for _ in range(stream.count()):
            if container.version < NATIVE_PROPERTIES:
                name, is_registered = container.string(stream), False
            else:
                index, is_registered = stream.flagged()
                name = container.string_at(stream, index)
            container.operation_names.append(OperationName(f"{dialect}.{name}" if name else dialect, is_registered))


def _read_entries(container: Container, entries: Stream, offsets: Stream) -> None:
    """Attributes, then types, in groups of one dialect; the offsets are sizes."""
    attributes, types = offsets.number(), offsets.number()
    for table, count in ((container.attributes, attributes), (container.types, types)):
        while len(table) < count:
            dialect = container.dialect(offsets)
            for _ in range(offsets.count()):
                size, is_custom = offsets.flagged()
                part = entries.part(size)
                table.append(Entry(dialect, part.position, part.end, is_custom))
        if len(table) > count:
            raise offsets.fail(f"{len(table)} attributes or types where {count} are announced")


def _read_resources(container: Container, values: Stream | None, offsets: Stream | None) -> None:
    """External groups first, which nothing refers to, then the dialects': blobs of constants."""
    if values is None or offsets is None:
        return
    for _ in range(offsets.count()):
        offsets.number()
        _resource_group(container, values, offsets)
    while offsets.remaining:
        container.dialect(offsets)
        container.resources.extend(_resource_group(container, values, offsets))


def _resource_group(container: Container, values: Stream, offsets: Stream) -> list[tuple[str, memoryview]]:
    found = []
    for _ in range(offsets.count()):
        name = container.string(offsets)
        part = values.part(offsets.number())
        is_blob = offsets.byte() == 0
        found.append((name, _blob(part) if is_blob and part.remaining else memoryview(b"")))
    return found


def _blob(stream: Stream) -> memoryview:
    alignment = stream.number()
    size = stream.number()
    stream.align(alignment)
    return stream.view(size)


def _read_properties(container: Container, stream: Stream) -> None:
    for _ in range(stream.count()):
        part = stream.part(stream.number())
        container.properties.append((part.position, part.end))
