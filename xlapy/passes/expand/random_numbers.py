"""Expansion of rng: Philox bits from the counter of the execution, and arithmetic that turns them into numbers.

Results are bit-equal to the interpreter's, except for the rounding of logarithms and cosines in normal numbers.
"""

from __future__ import annotations

import math

from xlapy import opcodes
from xlapy.base.element_types import F64, S64, U4, U8, U16, U32, U64
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.kernels.random_bits import philox_block_count
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DimensionsAttributes
from xlapy.opcodes.random import (
    RandomAlgorithm,
    RandomDistribution,
    RngAttributes,
    RngBitGeneratorAttributes,
    RngGetAndUpdateStateAttributes,
)
from xlapy.opcodes.registry import OpDef
from xlapy.passes.expand.blocks import compare, slice_dimension
from xlapy.passes.rewrite import Writer, move_control_edges

_STORAGE = {4: U4, 8: U8, 16: U16, 32: U32, 64: U64}


def random_numbers(write: Writer, instruction: Instruction) -> Instruction:
    """Writes the numbers of an rng, of static shape.

    Each element takes one word, of 64 bits for elements of 64 bits and else of 32; a normal number takes two.
    """
    element_type = instruction.shape.element_type
    if element_type.is_floating and element_type.bits not in _STORAGE:
        raise UnsupportedError(
            codes.EXPANSION,
            f"random numbers are of 4 bits or whole bytes, given {instruction.shape.to_text(layout=False)}",
        )
    first, second = instruction.operands
    numbers = _Numbers(write, instruction)
    if instruction.attributes_as(RngAttributes).distribution is RandomDistribution.NORMAL:
        return numbers.normal(first, second)
    return numbers.uniform(first, second) if element_type.is_floating else numbers.integers(first, second)


class _Numbers:
    """Writes the random numbers of one rng instruction."""

    def __init__(self, write: Writer, instruction: Instruction) -> None:
        self.write = write
        self.instruction = instruction
        self.dimensions = instruction.shape.dimensions
        self.element_type = instruction.shape.element_type
        self.bits = 64 if self.element_type.bits == 64 else 32

    # -- arithmetic, in which scalars are broadcast

    def apply(self, op: OpDef, left: Instruction, right: Instruction | float) -> Instruction:
        """Writes a binary operation; `right` is broadcast to the shape of `left` if it is a scalar."""
        if not isinstance(right, Instruction):
            right = self.write.scalar(right, left.shape.element_type)
        return self.write.add(op, left, self.broadcast_like(right, left))

    def broadcast_like(self, number: Instruction, array: Instruction) -> Instruction:
        if number.shape.rank == array.shape.rank:
            return number
        return self.write.broadcast(number, array.shape.with_element_type(number.shape.element_type))

    def spread(self, number: Instruction) -> Instruction:
        """Broadcasts a scalar to the dimensions of the result."""
        return self.write.broadcast(number, Shape.array(number.shape.element_type, self.dimensions))

    # -- random words

    def words(self, *rows: int) -> Instruction:
        """Returns random words of dimensions (*rows, *result dimensions), and advances the counter of the execution."""
        dimensions = (*rows, *self.dimensions)
        delta = philox_block_count(math.prod(dimensions), self.bits)
        counter = self.write.add(
            opcodes.RNG_GET_AND_UPDATE_STATE, attributes=RngGetAndUpdateStateAttributes.make(delta=delta)
        )
        move_control_edges(self.instruction, counter)
        key_first = self.write.add(opcodes.REVERSE, counter, attributes=DimensionsAttributes.make(dimensions=(0,)))
        return self.write.add(
            opcodes.RNG_BIT_GENERATOR,
            key_first,
            attributes=RngBitGeneratorAttributes.make(algorithm=RandomAlgorithm.PHILOX),
            shape=Shape.array(U64 if self.bits == 64 else U32, dimensions),
        )

    def unit(self, words: Instruction) -> Instruction:
        """Converts words to f64 numbers in [0, 1)."""
        kept = 32
        if self.bits == 64:
            words, kept = self.apply(opcodes.SHIFT_RIGHT_LOGICAL, words, 11), 53
        return self.apply(opcodes.MULTIPLY, self.write.convert(words, F64), 2.0**-kept)

    # -- distributions

    def normal(self, mean: Instruction, deviation: Instruction) -> Instruction:
        """sqrt(-2 log(1 - u)) cos(2 pi v), scaled."""
        rows = self.words(2)
        one, other = (self.unit(self.row(rows, number)) for number in range(2))
        distance = self.write.add(
            opcodes.LOG, self.write.add(opcodes.SUBTRACT, self.spread(self.write.scalar(1, F64)), one)
        )
        distance = self.write.add(opcodes.SQRT, self.apply(opcodes.MULTIPLY, distance, -2.0))
        direction = self.write.add(opcodes.COSINE, self.apply(opcodes.MULTIPLY, other, 2 * math.pi))
        scaled = self.apply(
            opcodes.MULTIPLY, self.write.add(opcodes.MULTIPLY, distance, direction), self.write.convert(deviation, F64)
        )
        return self.write.convert(self.apply(opcodes.ADD, scaled, self.write.convert(mean, F64)), self.element_type)

    def row(self, rows: Instruction, number: int) -> Instruction:
        row = slice_dimension(self.write, rows, 0, number, number + 1)
        return self.write.reshape(row, Shape.array(row.shape.element_type, self.dimensions))

    def uniform(self, low: Instruction, high: Instruction) -> Instruction:
        """low (1 - u) + high u; a number that would round to `high` becomes the next lower number."""
        write = self.write
        unit = self.unit(self.words())
        lower, upper = write.convert(low, F64), write.convert(high, F64)
        rest = write.add(opcodes.SUBTRACT, self.spread(write.scalar(1, F64)), unit)
        number = write.add(
            opcodes.ADD, self.apply(opcodes.MULTIPLY, rest, lower), self.apply(opcodes.MULTIPLY, unit, upper)
        )
        number = write.convert(self.apply(opcodes.MAXIMUM, number, lower), self.element_type)
        inside = compare(write, write.convert(number, F64), self.spread(upper), ComparisonDirection.LT)
        number = write.add(opcodes.SELECT, inside, number, self.spread(self.next_lower(high)))
        full = self.spread(compare(write, lower, upper, ComparisonDirection.LT))
        return write.add(opcodes.SELECT, full, number, self.spread(low))

    def next_lower(self, number: Instruction) -> Instruction:
        """Returns the next lower number of a scalar, from its bits: a sign and a magnitude, or a magnitude alone."""
        t = self.element_type
        bits = self.write.convert(
            self.write.add(opcodes.BITCAST_CONVERT, number, shape=Shape.scalar(_STORAGE[t.bits])), U64
        )
        below = self.apply(opcodes.SUBTRACT, bits, 1)
        if t is not t.F8E8M0FNU:
            sign = self.write.scalar(2 ** (t.bits - 1), U64)
            beyond = compare(self.write, bits, sign, ComparisonDirection.GE)
            below = self.write.add(opcodes.SELECT, beyond, self.apply(opcodes.ADD, bits, 1), below)
            magnitude = self.apply(opcodes.AND, bits, 2 ** (t.bits - 1) - 1)
            is_zero = compare(self.write, magnitude, self.write.scalar(0, U64), ComparisonDirection.EQ)
            below = self.write.add(opcodes.SELECT, is_zero, self.apply(opcodes.ADD, sign, 1), below)
        stored = self.write.convert(below, _STORAGE[t.bits])
        return self.write.add(opcodes.BITCAST_CONVERT, stored, shape=Shape.scalar(t))

    def integers(self, low: Instruction, high: Instruction) -> Instruction:
        """low + the upper half of the product of a word and the size of the interval."""
        write = self.write
        first = self.modular(low)
        some = compare(write, low, high, ComparisonDirection.LT)
        size = write.add(opcodes.SUBTRACT, self.modular(high), first)
        size = write.add(opcodes.SELECT, some, size, write.scalar(0, U64))
        words = write.convert(self.words(), U64)
        if self.bits == 64:
            offsets = self.upper_half(words, size)
        else:
            offsets = self.apply(opcodes.SHIFT_RIGHT_LOGICAL, self.apply(opcodes.MULTIPLY, words, size), 32)
        total = self.apply(opcodes.ADD, offsets, first)
        if self.element_type.is_signed:
            total = write.add(opcodes.BITCAST_CONVERT, total, shape=total.shape.with_element_type(S64))
        return write.convert(total, self.element_type)

    def modular(self, number: Instruction) -> Instruction:
        """Converts an integer to u64, modulo 2^64."""
        if not self.element_type.is_signed:
            return self.write.convert(number, U64)
        return self.write.add(opcodes.BITCAST_CONVERT, self.write.convert(number, S64), shape=Shape.scalar(U64))

    def upper_half(self, words: Instruction, factor: Instruction) -> Instruction:
        """Returns the upper 64 of the 128 bits of products of u64 numbers."""
        low, high = self.halves(words)
        factor_low, factor_high = self.halves(factor)
        lowest = self.apply(opcodes.MULTIPLY, low, factor_low)
        middle = self.write.add(
            opcodes.ADD,
            self.apply(opcodes.MULTIPLY, high, factor_low),
            self.apply(opcodes.SHIFT_RIGHT_LOGICAL, lowest, 32),
        )
        middle_low, middle_high = self.halves(middle)
        other = self.write.add(opcodes.ADD, self.apply(opcodes.MULTIPLY, low, factor_high), middle_low)
        total = self.write.add(opcodes.ADD, self.apply(opcodes.MULTIPLY, high, factor_high), middle_high)
        return self.write.add(opcodes.ADD, total, self.apply(opcodes.SHIFT_RIGHT_LOGICAL, other, 32))

    def halves(self, numbers: Instruction) -> tuple[Instruction, Instruction]:
        """Returns the lower and upper halves of u64 numbers, as u64."""
        return self.apply(opcodes.AND, numbers, 2**32 - 1), self.apply(opcodes.SHIFT_RIGHT_LOGICAL, numbers, 32)
