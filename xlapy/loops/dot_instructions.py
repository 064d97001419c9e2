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
        factors = _integers(instruction, left, right)
        exact = int(total) + int(np.sum(factors[0] * factors[1]))
        return np.array(exact & 0xFFFFFFFF, np.uint32).view(np.int32)[()]
    pairs = _bfloat16_terms(left), _bfloat16_terms(right)
    for term in (1, 0):
        total = _flushed(np.float32(fused(pairs[0][term], pairs[1][term], _flushed(total))))
    return total


def evaluate_tiles(instruction: DotInstruction, left: Any, right: Any, totals: Any, fused: Fused) -> Any:
    """Returns totals, an array [rows, columns], plus the products of a tile [rows, groups] and another one [groups,
    columns], of groups of 32 bits."""
    if not instruction.sum.is_float:
        rows, columns = _integers(instruction, left, right)
        exact = totals.astype(np.int64) + np.einsum("rgt,gct->rc", rows, columns)
        return exact.astype(np.uint64).astype(np.uint32).view(np.int32)
    chains = [np.zeros(totals.shape, np.float32), np.zeros(totals.shape, np.float32)]
    pairs = _bfloat16_terms(left), _bfloat16_terms(right)
    for group in range(left.shape[1]):
        for term, (a, b) in enumerate(zip(*pairs, strict=True)):
            chains[term] = _flushed(fused(a[:, group, None], b[group], chains[term]).astype(np.float32))
    return _flushed(_flushed(totals) + _flushed(chains[0] + chains[1]))


def _integers(instruction: DotInstruction, left: Any, right: Any) -> list[Any]:
    """Returns the terms of groups, as a further dimension."""
    signed = instruction.left_signed, instruction.right_signed
    return [
        np.asarray(groups)[..., None].view(f"{'i' if sign else 'u'}{instruction.term_bits // 8}").astype(np.int64)
        for groups, sign in zip((left, right), signed, strict=True)
    ]


def _bfloat16_terms(groups: Any) -> list[Any]:
    """Returns the first and the second terms of pairs."""
    bits = np.asarray(groups).view(np.uint32)
    return [_flushed(terms.view(np.float32)) for terms in (bits << np.uint32(16), bits & np.uint32(0xFFFF0000))]


def _flushed(numbers: Any) -> Any:
    tiny = np.abs(numbers) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), numbers), numbers)[()]
