"""Executables as bytes: a compiled program with its module, for other processes on machines of the same kind.

A container (`xlapy.base.container`) of the kind "executable": the header has the platform, the devices, the donated
leaves of the parameters and the description of the module (`unread.describe`), the sections are the module as HLO text,
compressed by zlib, and the platform's image of the program.

Owns: this form. Must not know: what an image holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.base.container import is_container, pack, unpack
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.runtime.engine.donation import Donated, donated_at
from xlapy.runtime.storage.lazy_module import Unread, describe, described
from xlapy.text import PrintOptions, parse_hlo, print_module

KIND = "executable"


@dataclass(frozen=True, slots=True)
class Serialized:
    """What an executable is made of."""

    platform: str
    source: Unread
    num_replicas: int
    num_partitions: int
    donated: tuple[Donated, ...]
    image: bytes


def is_serialized(data: bytes) -> bool:
    """Whether data looks like an executable; HLO text never does."""
    return is_container(data)


def write_executable(
    platform: str, module: Module, num_replicas: int, num_partitions: int, donated: Sequence[Donated], image: bytes
) -> bytes:
    """The executable as bytes."""
    header = {
        "platform": platform,
        "num_replicas": num_replicas,
        "num_partitions": num_partitions,
        "donated": [[leaf.parameter, list(leaf.path)] for leaf in donated],
        "module": describe(module),
    }
    text = print_module(module, PrintOptions(print_large_constants=True)).encode("utf-8", "surrogateescape")
    return pack(KIND, header, [zlib.compress(text, 1), image])


def place_of(data: bytes) -> tuple[str, int]:
    """The platform of an executable, and how many devices it runs on; `InvalidArgumentError` for other bytes."""
    header = unpack(KIND, data).header
    try:
        return str(header["platform"]), int(header["num_replicas"]) * int(header["num_partitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the {KIND} cannot be read: {type(error).__name__}: {error}") from error


def read_executable(data: bytes) -> Serialized:
    """The inverse of `write_executable`; `InvalidArgumentError` for other or damaged bytes."""
    container = unpack(KIND, data)
    header = container.header
    try:
        text, image = container.sections
        source = described(header["module"], lambda: _module(bytes(text)))
        counts = int(header["num_replicas"]), int(header["num_partitions"])
        donated = [donated_at(source, int(number), map(int, path)) for number, path in header["donated"]]
        return Serialized(str(header["platform"]), source, *counts, tuple(donated), bytes(image))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the {KIND} cannot be read: {type(error).__name__}: {error}") from error


def _module(text: bytes) -> Module:
    return parse_hlo(zlib.decompress(text).decode("utf-8", "surrogateescape"))
