"""Telling StableHLO from HLO by how it begins.

Owns: what the beginnings of MLIR text and bytecode look like. Must not know: the rest of either.
"""

from __future__ import annotations

import re

_MAGIC = b"ML\xefR"
_BLANK = re.compile(r"(?:\s|//[^\n]*(?:\n|$))*")
_MLIR = re.compile(
    r'"[\w$.]+"\s*\(|[#!][\w$.]+\s*=|\{-#'
    r"|(?:builtin\s*\.\s*)?module\s*(?:@|attributes\b|\{|$)|func\s*\.\s*func\b|(?:sdy|stablehlo)\s*\.\s*\w+"
)


def is_bytecode(data: bytes) -> bool:
    """Whether bytes begin as MLIR bytecode does."""
    return data.startswith(_MAGIC)


def is_stablehlo_text(text: str) -> bool:
    """Whether text begins as MLIR does: with a module, a function, an alias, an operation in quotes.

    HLO text begins with `HloModule` or with a computation.
    """
    start = _BLANK.match(text)
    return _MLIR.match(text, start.end() if start else 0) is not None
