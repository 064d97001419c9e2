"""Mutations of bytes and of texts that the generators of all formats share.

Responsible for damage that needs no knowledge of a format beyond brackets, numbers and words. All mutations take random
numbers and return new bytes. Does not depend on any reader.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

MAX_BYTES = 200_000
"""Size beyond which an input is not repeated or nested further. Larger inputs only slow down the search: what is not
in proportion to the size shows at this size."""

Mutation = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
"""Receives the input, random numbers, and the corpus, from which pieces may be taken."""

_BYTES = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 129, 192, 252, 253, 254, 255)
_WORDS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32)
_LONG_WORDS = (*_WORDS, (1 << 60) + 1, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_TIMES = (2, 2, 3, 10, 100, 1_000, 30_000)
NUMBERS = tuple(
    str(number).encode()
    for number in (
        *(0, 1, -1, 2, 3, 7, 8, 31, 63, 64, 65, 1000, 65536, 10**6, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 10**12),
        *(2**60 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, "1" * 400, "9" * 5000),
        *("0x7FFFFFFF", "0x" + "F" * 16, "1e400", "1.5", "-0", "1e-400", "nan", "0x", "00", "1_000", "?", "٣"),
    )
)
"""Numbers at the edges of types and limits, and words in the place of a number."""
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKEN = re.compile(rb"[A-Za-z_][\w.$-]*|[%@#!^][\w.$-]+|-?\d+(?:\.\d+)?|\"[^\"\n]*\"|->|::|[^\s\w]")
_STRAY = b"{}()[],=%#\"'/*<>-?:_\\ \n\0!@^.xT|~+"
_OPEN, _CLOSED = b"([{<", b")]}>"
_ARROW = b"->"


def mutated(
    data: bytes, rng: random.Random, corpus: Sequence[bytes], mutations: Sequence[Mutation], limit: int = MAX_BYTES
) -> bytes:
    """Returns an input with one to five of the mutations, not much longer than `limit` bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        result = rng.choice(mutations)(data, rng, corpus)
        if len(result) <= max(limit, len(data)):
            data = result
    return data


# -- any bytes


def flip_bits(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8)) if data else 0):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_bytes(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Overwrites some bytes by values at the edges of types."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4)) if data else 0):
        changed[rng.randrange(len(data))] = rng.choice(_BYTES)
    return bytes(changed)


def set_word(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Overwrites a little- or big-endian integer of four or eight bytes."""
    size = rng.choice((4, 8))
    word = rng.choice(_WORDS if size == 4 else _LONG_WORDS) & ((1 << 8 * size) - 1)
    place = rng.randrange(max(1, len(data) - size + 1))
    return data[:place] + word.to_bytes(size, rng.choice(("little", "little", "big"))) + data[place + size :]


def truncate(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def delete_piece(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    start, end = _piece(data, rng)
    return data[:start] + data[end:]


def insert_bytes(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    size = rng.choice((1, 1, 2, 4, 8, 100, 10_000))
    piece = bytes([rng.choice(_BYTES)]) * size if rng.random() < 0.6 else rng.randbytes(size)
    return data[:place] + piece + data[place:]


def repeat_piece(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Repeats a piece many times in its place, or copies it to another place."""
    start, end = _piece(data, rng)
    if rng.random() < 0.3:
        place = rng.randrange(len(data) + 1)
        return data[:place] + data[start:end] + data[place:]
    return data[:end] + data[start:end] * _times(rng, end - start) + data[end:]


def exchange_pieces(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def splice(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces a piece, or the rest, by one of another input."""
    other = rng.choice(corpus)
    start, end = _piece(other, rng)
    own_start, own_end = _piece(data, rng)
    if rng.random() < 0.3:
        return data[:own_start] + other[start:]
    return data[:own_start] + other[start:end] + data[own_end:]


BYTE_MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    set_bytes,
    set_word,
    truncate,
    delete_piece,
    insert_bytes,
    repeat_piece,
    exchange_pieces,
    splice,
)


def _piece(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 2, 4, 8, 20, 200, 2_000)))


def _times(rng: random.Random, size: int) -> int:
    """Returns a number of repetitions that keeps the size within bounds."""
    return max(1, min(rng.choice(_TIMES), MAX_BYTES // max(1, size)))


# -- text


def inflate_number(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces one number, or all equal ones, by one at the edge of a type."""
    found = [*_NUMBER.finditer(data)]
    if not found:
        return data
    match, number = rng.choice(found), rng.choice(NUMBERS)
    if rng.random() < 0.3:
        return re.sub(rb"(?<![\w.])" + re.escape(match[0]) + rb"(?![\w.])", lambda _: number, data)
    return data[: match.start()] + number + data[match.end() :]


def nudge_number(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Changes a number a little, so that a rule of the program is broken rather than one of the grammar."""
    found = [*re.finditer(rb"\d+", data)]
    if not found:
        return data
    match = rng.choice(found)
    number = int(match[0][:18]) + rng.choice((-2, -1, -1, 1, 1, 2, 30))
    return data[: match.start()] + str(max(0, number) if rng.random() < 0.9 else number).encode() + data[match.end() :]


def change_dimension(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces the sizes in one type of MLIR or shape of HLO, here or wherever they occur."""
    found = [*re.finditer(rb"(?<=[<x])\d+(?=x)|(?<=\[)[\d,<=]+(?=\])", data)]
    if not found:
        return data
    match = rng.choice(found)
    number = rng.choice(NUMBERS)
    separator = b"," if data[match.start() - 1 : match.start()] == b"[" else b"x"
    if rng.random() < 0.2:
        number = separator.join([rng.choice((b"1", b"0", b"2", number))] * rng.choice((2, 8, 40, 300, 3_000)))
    if rng.random() < 0.4:
        return data.replace(
            data[match.start() - 1 : match.end() + 1],
            data[match.start() - 1 : match.start()] + number + data[match.end() : match.end() + 1],
        )
    return data[: match.start()] + number + data[match.end() :]


def exchange_tokens(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces, removes, repeats or inserts a token; new tokens come from this input or from another."""
    tokens = [*_TOKEN.finditer(data)]
    if not tokens:
        return data
    match = rng.choice(tokens)
    others = tokens if rng.random() < 0.5 else [*_TOKEN.finditer(rng.choice(corpus))]
    other = rng.choice(others or tokens)[0]
    way = rng.randrange(4)
    if way == 0:
        return data[: match.start()] + other + data[match.end() :]
    if way == 1:
        return data[: match.start()] + data[match.end() :]
    if way == 2:
        return data[: match.end()] + (b" " + match[0]) * _times(rng, len(match[0]) + 1) + data[match.end() :]
    return data[: match.start()] + other + b" " + data[match.start() :]


def stray_characters(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    start = rng.randrange(len(_STRAY))
    return data[:place] + _STRAY[start : start + 1] * rng.choice((1, 1, 1, 2, 70, 10_000)) + data[place:]


def change_lines(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Drops, repeats or exchanges lines, or takes lines of another input."""
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        del lines[a : a + rng.choice((1, 1, 3, 10))]
    elif way == 1:
        lines.insert(b, lines[a])
    elif way == 2:
        lines[a], lines[b] = lines[b], lines[a]
    elif way == 3:
        lines[a:a] = [lines[a]] * _times(rng, len(lines[a]) + 1)
    else:
        other = rng.choice(corpus).split(b"\n")
        start = rng.randrange(len(other))
        lines[a:a] = other[start : start + rng.choice((1, 1, 3, 10))]
    return b"\n".join(lines)


def nest(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Nests a bracketed piece in itself many times: what stands before and after an inner piece is repeated.

    Twice, with `t<a>` in `t<t<a>, b>`, it makes `t<t<t<t<a>, b>, b>, b>`.
    """
    spans = bracketed(data)
    if not spans:
        return data
    start, end = rng.choice(spans)
    inner = [(a, b) for a, b in spans if start < a and b < end]
    if inner and rng.random() < 0.7:
        first, last = rng.choice(inner)
    else:
        first, last = start + 1, end - 1
    if rng.random() < 0.7:  # with the word before the bracket, and that before the inner one
        start, first = _word_before(data, start), _word_before(data, first)
    before, after = data[start:first], data[last:end]
    times = _times(rng, len(before) + len(after))
    return data[:first] + before * times + data[first:last] + after * times + data[last:]


def exchange_brackets(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces a bracketed piece by another, of this input or of another."""
    spans = bracketed(data)
    source = data if rng.random() < 0.5 else rng.choice(corpus)
    others = bracketed(source)
    if not spans or not others:
        return data
    (start, end), (first, last) = rng.choice(spans), rng.choice(others)
    return data[:start] + source[first:last] + data[end:]


TEXT_MUTATIONS: tuple[Mutation, ...] = (
    inflate_number,
    inflate_number,
    change_dimension,
    change_dimension,
    exchange_tokens,
    exchange_tokens,
    stray_characters,
    change_lines,
    change_lines,
    nest,
    nest,
    exchange_brackets,
    truncate,
    delete_piece,
    repeat_piece,
    splice,
    flip_bits,
)


def bracketed(data: bytes) -> list[tuple[int, int]]:
    """Returns the ranges of matching brackets in a text."""
    spans: list[tuple[int, int]] = []
    stack: list[tuple[int, int]] = []
    for place, character in enumerate(data):
        if character in _OPEN:
            stack.append((character, place))
        elif character in _CLOSED and data[place - 1 : place + 1] != _ARROW:
            expected = _OPEN[_CLOSED.index(character)]
            if stack and stack[-1][0] == expected:
                spans.append((stack.pop()[1], place + 1))
    return spans


def _word_before(data: bytes, place: int) -> int:
    """Returns where the word before a position starts."""
    while place and (data[place - 1 : place].isalnum() or data[place - 1 : place] in (b"_", b".", b"!", b"#", b'"')):
        place -= 1
    return place
