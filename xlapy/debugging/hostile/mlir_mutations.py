"""Mutations of MLIR text after which many texts still parse, so that the import rules see what is wrong.

Responsible for types, values, operations and attributes as regular expressions find them. Does not depend on any
reader.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from xlapy.debugging.hostile.mutations import (
    NUMBERS,
    Mutation,
    exchange_brackets,
    inflate_number,
    nest,
    nudge_number,
)

_TYPE = re.compile(rb"tensor<[\w?]*(?:<\w+>)?>|![a-z]+\.[a-z_]+(?!<)|\b[usf]?[if]\d+\b")
_ELEMENT = re.compile(rb"(?:complex<f\d+>|[us]?i\d+|b?f\d+(?:E\w+)?)(?=>|$)")
_ELEMENTS = (
    b"i1",
    b"i8",
    b"ui8",
    b"i4",
    b"ui64",
    b"i64",
    b"f16",
    b"bf16",
    b"f64",
    b"f8E4M3FN",
    b"complex<f32>",
    b"index",
)
_VALUE = re.compile(rb"%[\w#]+")
_OPERATION = re.compile(rb"(?:stablehlo|chlo|arith|tensor|shape|func|sdy|math)\.[a-z_0-9]+")
_CASE = re.compile(rb"\b[A-Z][A-Z_]+\b")
_LIST = re.compile(rb"(?:\[|array<i64: |dense<)([\d, \-]+)(?=[\]>])")
_ATTRIBUTE = re.compile(rb"[a-z_]+ = [\w#.\"]+(?:<[^<>]*>)?(?: : \w+)?")


def change_type(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces a type wherever it occurs by another type, or changes a size or the element type in it."""
    found = _TYPE.findall(data)
    if not found:
        return data
    old = rng.choice(found)
    way = rng.randrange(3)
    if way == 0:
        new = rng.choice(found if rng.random() < 0.7 else _TYPE.findall(rng.choice(corpus)) or found)
    elif way == 1:
        new = _ELEMENT.sub(rng.choice(_ELEMENTS), old, count=1)
    else:
        new = inflate_number(old, rng, corpus) if rng.random() < 0.5 else nudge_number(old, rng, corpus)
    return data.replace(old, new)


def exchange_values(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces a use of a value by another value."""
    found = [*_VALUE.finditer(data)]
    if not found:
        return data
    match, other = rng.choice(found), rng.choice(found)
    return data[: match.start()] + other[0] + data[match.end() :]


def exchange_operation(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Replaces the name of an operation, or the case of an enum, by one of another text."""
    pattern = _OPERATION if rng.random() < 0.7 else _CASE
    found, others = [*pattern.finditer(data)], pattern.findall(rng.choice(corpus))
    if not found or not others:
        return data
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(others) + data[match.end() :]


def change_list(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Drops, repeats or changes a number in a list of an attribute: `[0, 1]`, `array<i64: 0, 1>`."""
    found = [*_LIST.finditer(data)]
    if not found:
        return data
    match = rng.choice(found)
    numbers = match[1].split(b",")
    place = rng.randrange(len(numbers))
    way = rng.randrange(4)
    if way == 0:
        del numbers[place]
    elif way == 1:
        numbers[place:place] = [numbers[place]] * rng.choice((1, 1, 2, 60, 5_000))
    elif way == 2:
        numbers[place] = b" " + rng.choice(NUMBERS)
    else:
        numbers[place] = nudge_number(numbers[place], rng, corpus)
    return data[: match.start(1)] + b",".join(numbers) + data[match.end(1) :]


def change_attribute(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Drops an attribute, or replaces it by one of another text, or adds that one."""
    found, others = [*_ATTRIBUTE.finditer(data)], _ATTRIBUTE.findall(rng.choice(corpus))
    if not found:
        return data
    match = rng.choice(found)
    new = b"" if not others or rng.random() < 0.3 else rng.choice(others)
    kept = match[0] + b", " if new and rng.random() < 0.4 else b""
    return data[: match.start()] + kept + new + data[match.end() :]


MLIR_MUTATIONS: tuple[Mutation, ...] = (
    change_type,
    change_type,
    exchange_values,
    exchange_operation,
    change_list,
    change_list,
    change_attribute,
    inflate_number,
    nudge_number,
    nest,
    exchange_brackets,
)
