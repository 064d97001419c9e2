"""The fingerprint of a module: a number by which processes find out whether they run the same program.

Two modules have the same fingerprint if they have the same text, without source locations, and the same constants, and
if they are compiled by the same version of xlapy, which then lowers them in the same way.

Responsible for what counts. Does not depend on processes or on machine code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.version import VERSION
from xlapy.hlo.module import Module
from xlapy.text import PrintOptions, print_module

_TEXT = PrintOptions(print_metadata=False)


def module_fingerprint(module: Module) -> int:
    """Returns a positive number of 63 bits.

    Constants count by their bytes: text does not distinguish all NaNs, and printing large constants is slow.
    """
    digest = hashlib.sha256(VERSION.encode())
    update_digest(digest, module)
    return int.from_bytes(digest.digest()[:8], "little") >> 1


def update_digest(digest: hashlib._Hash, module: Module) -> None:
    """Adds the text and the constants of a module to a digest."""
    digest.update(print_module(module, _TEXT).encode("utf-8", "surrogateescape"))
    for instruction in module.instructions():
        if instruction.op is opcodes.CONSTANT:
            for array in _arrays(instruction.literal):
                digest.update(array)


def _arrays(literal: Literal) -> Iterator[bytes]:
    if literal.shape.is_array:
        yield literal.to_bytes()
    for element in literal.elements if literal.shape.is_tuple else ():
        yield from _arrays(element)
