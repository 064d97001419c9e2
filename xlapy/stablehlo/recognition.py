"""Recognizes MLIR text and MLIR bytecode by how they begin, to tell StableHLO programs from HLO."""

from __future__ import annotations

import re

_MAGIC = b"ML\xefR"
_BLANK = re.compile(r"(?:\s|//[^\n]*(?:\n|$))*")
_MLIR = re.compile(
    r'"[\w$.]+"\s*\(|[#!][\w$.]+\s*=|\{-#'
    r"|(?:builtin\s*\.\s*)?module\s*(?:@|attributes\b|\{|$)|func\s*\.\s*func\b|(?:sdy|stablehlo)\s*\.\s*\w+"
)


def is_bytecode(data: bytes) -> bool:
    """Returns whether the bytes begin with the magic number of MLIR bytecode."""
    return data.startswith(_MAGIC)


def is_stablehlo_text(text: str) -> bool:
    """Returns whether the text begins as MLIR does: with a module, a function, an alias or an operation in quotes.

    HLO text begins with `HloModule` or with a computation.
    """
    start = _BLANK.match(text)
    return _MLIR.match(text, start.end() if start else 0) is not None
