"""Dot instructions: each lane adds a few products of narrow numbers to a sum of 32 bits.

A lane of each factor is an I32 that holds a *group* of consecutive terms, the first term in its lowest bits:

    BF16_PAIRS     sum: F32    2 x bf16 times 2 x bf16
    S16_PAIRS      sum: I32    2 x s16 times 2 x s16
    U8_S8_QUADS    sum: I32    4 x u8 times 4 x s8

The operation `dot` of loop IR is one such instruction. `codegen.target.Target` says which ones a machine has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlapy.loops.types import F32, I32, ScalarType


@dataclass(frozen=True, slots=True)
class DotInstruction:
    """A way to add the products of two groups of terms to a sum.

    terms: the number of terms of a group, each of 32 / terms bits. sum: the type of the sum. left_signed, right_signed:
    whether integers of each factor are signed. Integer sums wrap. Floats are added by two fused multiply-adds, the
    second term of a pair first; denormal numbers are read and written as 0.
    """

    name: str
    terms: int
    sum: ScalarType
    left_signed: bool = True
    right_signed: bool = True

    @property
    def term_bits(self) -> int:
        return 32 // self.terms

    @property
    def operations_name(self) -> str:
        """The name under which its multiplications and additions are counted."""
        return f"dot {self.name}"

    @property
    def tile_operations_name(self) -> str:
        """The name under which the multiplications and additions of its tiles are counted."""
        return f"tile {self.name}"

    def __str__(self) -> str:
        return self.name


BF16_PAIRS: Final = DotInstruction("bf16", 2, F32)
S16_PAIRS: Final = DotInstruction("s16", 2, I32)
U8_S8_QUADS: Final = DotInstruction("u8s8", 4, I32, left_signed=False)
S8_QUADS: Final = DotInstruction("s8", 4, I32)
S8_U8_QUADS: Final = DotInstruction("s8u8", 4, I32, right_signed=False)
U8_QUADS: Final = DotInstruction("u8", 4, I32, left_signed=False, right_signed=False)

TILE_SIDE: Final = 16
"""The rows of a tile, and the groups of terms, or columns, in a row.

A *tile instruction* adds the products of a tile of the left operand and one of the right operand, with a dot
instruction's groups of terms, to a tile of sums. Of floats, it adds the first and the second terms of 16 groups apart,
by fused multiply-adds, then both sums, and that to the total.
"""

TILE_SPEED: Final = 8
"""How many times as many groups tile instructions multiply in the time of dot instructions."""

DOT_TERMS: Final = {each.operations_name: each.terms for each in (BF16_PAIRS, S16_PAIRS, U8_S8_QUADS)} | {
    each.tile_operations_name: TILE_SPEED * each.terms
    for each in (BF16_PAIRS, S8_QUADS, S8_U8_QUADS, U8_S8_QUADS, U8_QUADS)
}
"""The terms of a group by the name of the operations: as many times as many as of f32 in the same time."""

Fused = Callable[[Any, Any, Any], Any]


def evaluate_dot(instruction: DotInstruction, args: Sequence[Any], fused: Fused) -> Any:
    """Returns the sum of the products of two groups and a total. args: these three, scalars of 32 bits.

    fused: left * right + addend of float32 numbers, before its rounding to float32.
    """
    left, right, total = args
    if not instruction.sum.is_float:
        signed = instruction.left_signed, instruction.right_signed
        factors = [
            np.asarray(group).reshape(1).view(f"{'i' if sign else 'u'}{instruction.term_bits // 8}").astype(np.int64)
            for group, sign in zip((left, right), signed, strict=True)
        ]
        exact = int(total) + int(np.sum(factors[0] * factors[1]))
        return np.array(exact & 0xFFFFFFFF, np.uint32).view(np.int32)[()]
    pairs = [_bfloat16_pair(group) for group in (left, right)]
    for term in (1, 0):
        total = _flushed(np.float32(fused(pairs[0][term], pairs[1][term], _flushed(total))))
    return total


def evaluate_tile_sum(instruction: DotInstruction, left: Any, right: Any, total: Any, fused: Fused) -> Any:
    """Returns a total plus the products of a row of a tile and a column of another one, arrays of groups."""
    if not instruction.sum.is_float:
        for groups in zip(left, right, strict=True):
            total = evaluate_dot(instruction, (*groups, total), fused)
        return total
    chains = [np.float32(0), np.float32(0)]
    for pair in zip(map(_bfloat16_pair, left), map(_bfloat16_pair, right), strict=True):
        for term, (a, b) in enumerate(zip(*pair, strict=True)):
            chains[term] = _flushed(np.float32(fused(a, b, chains[term])))
    return _flushed(_flushed(total) + _flushed(chains[0] + chains[1]))


def _bfloat16_pair(group: Any) -> list[Any]:
    bits = int(np.asarray(group).reshape(1).view(np.uint32)[0])
    terms = np.array([bits << 16 & 0xFFFFFFFF, bits & 0xFFFF0000], np.uint32).view(np.float32)
    return [_flushed(term) for term in terms]


def _flushed(number: Any) -> Any:
    return np.copysign(np.float32(0), number) if abs(number) < np.finfo(np.float32).tiny else number
