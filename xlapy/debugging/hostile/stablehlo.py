"""StableHLO as text and as MLIR bytecode.

The corpus is the export of the samples of all operations and the programs of `xlapy.testing.stablehlo`. Texts are
mutated as text. Bytecode is mutated as bytes, inside a section whose length is then corrected, or it is written from a
mutated text that still parses.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from xlapy.base.errors import XlaError
from xlapy.base.logging import logger
from xlapy.debugging.hostile.formats import HostileFormat, corpus_of
from xlapy.debugging.hostile.mlir_mutations import MLIR_MUTATIONS
from xlapy.debugging.hostile.mutations import BYTE_MUTATIONS, MAX_BYTES, TEXT_MUTATIONS, mutated
from xlapy.hlo.module import Module
from xlapy.runtime.backend import load_backend
from xlapy.stablehlo.bytecode import read_bytecode, write_bytecode
from xlapy.stablehlo.bytecode.bytecode_file import IR, MAGIC
from xlapy.stablehlo.bytecode.encoding_emitter import EncodingEmitter
from xlapy.stablehlo.bytecode.encoding_reader import EncodingReader
from xlapy.stablehlo.export import to_stablehlo
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.text import parse_text
from xlapy.testing.samples import all_samples
from xlapy.testing.stablehlo.dynamic import DYNAMIC
from xlapy.testing.stablehlo.forms import FORMS
from xlapy.testing.stablehlo.programs import PROGRAMS
from xlapy.text import parse_hlo

_LONGEST = 4_000
"""Characters of a sample; mutations of longer ones are mostly without effect."""
_MOST_INSTRUCTIONS = 2_000
"""Instructions of a module that is exported and compiled. Larger ones take time in proportion, which is no fault."""
_PADDING = 0xCB
"""The byte with which MLIR aligns sections."""


def _texts() -> list[bytes]:
    level = logger.level
    logger.setLevel(logging.ERROR)  # what StableHLO cannot express of a sample is no news here
    try:
        return _texts_of_samples()
    finally:
        logger.setLevel(level)


def _texts_of_samples() -> list[bytes]:
    texts = [*FORMS.values(), *PROGRAMS.values(), *DYNAMIC.values(), *DYNAMIC.values(), *DYNAMIC.values()]
    for sample in all_samples():
        if len(sample.text) <= _LONGEST:
            try:
                texts.append(to_stablehlo(parse_hlo(sample.text)))
            except XlaError:
                continue  # StableHLO has no such operation
    return [text.encode() for text in texts]


def _bytecode() -> list[bytes]:
    found = []
    for text in _texts():
        try:
            found.append(write_bytecode(parse_text(text.decode())))
        except XlaError:
            continue  # VHLO has no such operation
    return found


def _damaged_text(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    return mutated(rng.choice(corpus), rng, corpus, TEXT_MUTATIONS if rng.random() < 0.4 else MLIR_MUTATIONS)


def _damaged_bytecode(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    way = rng.random()
    data = rng.choice(corpus) if way < 0.6 else _written(_damaged_text(rng, corpus_of("stablehlo-text"))) or corpus[0]
    if way > 0.8:
        return data
    if way < 0.2:
        return mutated(data, rng, corpus, BYTE_MUTATIONS)
    for _ in range(rng.choice((1, 1, 2))):
        data = _with_damaged_section(data, rng, corpus)
    return data


def _written(text: bytes) -> bytes | None:
    """Returns the bytecode of a text, or None if it does not parse or has none."""
    try:
        return write_bytecode(parse_text(text.decode("utf-8", "surrogateescape")))
    except Exception:
        # The writer takes programs of the exporter, and relies on them. What its input breaks is no fault of a reader.
        return None


# -- bytecode by its sections


def _sections(data: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Returns what precedes the sections of a file, and the sections: their numbers and contents."""
    reader = EncodingReader(data, len(MAGIC))
    reader.varint()
    reader.null_terminated()
    start, sections = reader.position, list[tuple[int, bytes]]()
    while reader.remaining:
        kind, section = reader.section()
        sections.append((kind, data[section.position : section.end]))
    return data[:start], sections


def _with_damaged_section(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Changes the contents of a section and corrects its length, so that the reader gets as far as to the damage."""
    try:
        head, sections = _sections(data)
        others = _sections(rng.choice(corpus))[1]
    except XlaError:
        return data
    index = rng.choice([place for place, (kind, _) in enumerate(sections) if kind == IR or rng.random() < 0.7] or [0])
    kind, contents = sections[index]
    way = rng.randrange(4)
    if way == 0:
        contents = _with_number(contents, rng)
    elif way == 1 and rng.random() < 0.3:
        contents += bytes([rng.choice((0, 1, 3, _PADDING))]) * rng.choice((1, 100, MAX_BYTES))
    else:
        same = [part for number, part in others if number == kind] or [contents]
        contents = mutated(contents, rng, same, BYTE_MUTATIONS)
    sections[index] = kind, contents
    emitter = EncodingEmitter()
    emitter.data += head
    for number, part in sections:
        emitter.section(number, part)
    return bytes(emitter.data)


def _with_number(contents: bytes, rng: random.Random) -> bytes:
    """Puts an encoded number in the place of a byte."""
    place = rng.randrange(len(contents) + 1)
    emitter = EncodingEmitter()
    emitter.varint(
        rng.choice((0, 1, 2, 100, len(contents), 2 * len(contents), 1 << 20, 1 << 32, 1 << 60, (1 << 64) - 1))
    )
    return contents[:place] + bytes(emitter.data) + contents[place + 1 :]


# -- reading


def _consume_text(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    _use(import_program(parse_text(text), text=text))


def _consume_bytecode(data: bytes) -> None:
    _use(import_program(read_bytecode(data)))


def _use(module: Module) -> None:
    """Prints and compiles a module that was read: what the reader accepts, the rest of xlapy must stand."""
    module.to_text()
    if module.instruction_count <= _MOST_INSTRUCTIONS:
        module.to_proto()
        to_stablehlo(module)
        load_backend("interpreter").compile(module)


FORMATS = (
    HostileFormat("stablehlo-text", _texts, _damaged_text, _consume_text),
    HostileFormat("stablehlo-bytecode", _bytecode, _damaged_bytecode, _consume_bytecode),
)
