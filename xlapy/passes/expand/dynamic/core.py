"""Helpers of rules for dynamic dimensions: padded arrays with their sizes, arithmetic on sizes, masks.

A value of f32[<=5,3] becomes a static f32[5,3], padded to the bound, and the sizes (an s32[], 3). As a parameter, a
loop state or an element of a tuple it is packed into one value, the tuple (f32[5,3], s32[]): the array, then the size
of each dynamic dimension. The elements of a surrounding tuple keep their indices.

A rule is `rule(write, instruction, values) -> value`, as in the interpreter: it gets the values of the operands and
returns the value of the instruction, which `SizeWriter.conform` then adapts to the declared shape. It raises
`UnsupportedError` for a form of the op that it cannot resolve.

Responsible for `Sized`, the table of rules and packed values. Does not depend on what an op does to sizes (the module
of its family) or on which computations are rewritten (`resolve_dynamic_dimensions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.registry import OpDef, Rules
from xlapy.passes.expand.blocks import compare, iota
from xlapy.passes.rewrite import Writer

Size = int | Instruction
"""A size known at compile time, or an s32[] of the program."""


@dataclass(frozen=True, slots=True)
class Sized:
    """An array padded to its bounds, and the actual size of each dimension. Padding is unspecified."""

    array: Instruction
    sizes: tuple[Size, ...]


Value = Any
"""An instruction of static shape, a `Sized`, or a tuple of values."""

DynamicRule = Callable[["SizeWriter", Instruction, Sequence[Value]], Value]

DYNAMIC_EXPANSIONS: Rules[DynamicRule] = Rules("resolved dynamic dimensions")


def unsupported(instruction: Instruction, why: str) -> UnsupportedError:
    """Returns the error for a form of an op whose dynamic dimensions cannot be resolved."""
    shapes = ", ".join(
        shape.to_text(layout=False) for shape in (*instruction.operand_shapes, instruction.shape) if shape.is_dynamic
    )
    return UnsupportedError(
        codes.RESOLVED_DYNAMIC, f"{describe_instruction(instruction)} of dynamic dimensions ({shapes}): {why}"
    )


# -- shapes and values


def static(shape: Shape) -> Shape:
    """Returns the shape with its bounds as static sizes."""
    if shape.is_tuple:
        return Shape.tuple(map(static, shape.tuple_shapes))
    return shape.with_dimensions(shape.dimensions) if shape.is_array else shape


def packed_shape(shape: Shape) -> Shape:
    """Returns the shape of a packed value: (array, size, ...) for an array with dynamic dimensions."""
    if shape.is_static:
        return shape
    if shape.is_tuple:
        return Shape.tuple(map(packed_shape, shape.tuple_shapes))
    return Shape.tuple([static(shape), *[Shape.scalar(S32)] * sum(shape.dynamic_dimensions)])


def array_of(value: Value) -> Instruction:
    """Returns the array of a value, padded to its bounds."""
    array: Instruction = value.array if isinstance(value, Sized) else value
    return array


def sizes_of(value: Value) -> tuple[Size, ...]:
    """Returns the actual size of each dimension."""
    return value.sizes if isinstance(value, Sized) else value.shape.dimensions


class SizeWriter(Writer):
    """Writes instructions and arithmetic on sizes; computes sizes that are known at compile time."""

    # -- values as a whole

    def pack(self, value: Value, shape: Shape) -> Instruction:
        """Packs a value of a declared shape into one instruction of `packed_shape`."""
        if isinstance(value, tuple):
            elements = zip(value, shape.tuple_shapes, strict=True)
            return self.add(opcodes.TUPLE, *[self.pack(each, part) for each, part in elements])
        if not isinstance(value, Sized):
            return value
        rows = zip(value.sizes, shape.dynamic_dimensions, strict=True)
        return self.add(opcodes.TUPLE, value.array, *[self.size(size) for size, dynamic in rows if dynamic])

    def unpack(self, value: Instruction, shape: Shape) -> Value:
        """Unpacks the value of a declared shape from an instruction of `packed_shape`."""
        if shape.is_static:
            return value
        if shape.is_tuple:
            elements = enumerate(shape.tuple_shapes)
            return tuple(self.unpack(self.get_tuple_element(value, number), part) for number, part in elements)
        numbers = iter(range(1, shape.rank + 1))
        rows = zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
        sizes = [self.get_tuple_element(value, next(numbers)) if dynamic else bound for bound, dynamic in rows]
        return Sized(self.get_tuple_element(value, 0), tuple(sizes))

    def conform(self, value: Value, shape: Shape) -> Value:
        """Adapts a value to the dynamic dimensions of a declared shape.

        A dimension that is declared static gets its bound as size, so that the padding becomes part of the value. A
        static value of a dimension that is declared dynamic has its bound as size.
        """
        if shape.is_tuple:
            if isinstance(value, Instruction):
                if shape.is_static:
                    return value
                value = [self.get_tuple_element(value, number) for number in range(len(shape.tuple_shapes))]
            elements = tuple(map(self.conform, value, shape.tuple_shapes))
            return self.add(opcodes.TUPLE, *elements) if shape.is_static else elements
        if shape.is_static:
            return array_of(value)
        rows = zip(sizes_of(value), shape.dimensions, shape.dynamic_dimensions, strict=True)
        return Sized(array_of(value), tuple(size if dynamic else bound for size, bound, dynamic in rows))

    def like(self, instruction: Instruction, operands: Sequence[Instruction], **changes: Any) -> Instruction:
        """Writes the same operation on padded arrays. changes: attributes to replace."""
        attributes = instruction.attributes.replace(**changes) if changes else instruction.attributes
        shape = static(instruction.shape)
        called = instruction.computations
        made = self.add(instruction.op, *operands, attributes=attributes, computations=called, shape=shape)
        edit.copy_annotations(instruction, made)
        return made

    # -- sizes

    def size(self, size: Size) -> Instruction:
        return self.scalar(size, S32) if isinstance(size, int) else size

    def plus(self, left: Size, right: Size) -> Size:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        return left if right == 0 else right if left == 0 else self._binary(opcodes.ADD, left, right)

    def minus(self, left: Size, right: Size) -> Size:
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return left if right == 0 else self._binary(opcodes.SUBTRACT, left, right)

    def times(self, left: Size, right: Size) -> Size:
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        return left if right == 1 else right if left == 1 else self._binary(opcodes.MULTIPLY, left, right)

    def quotient(self, left: Size, right: Size) -> Size:
        """Returns the quotient of non-negative sizes, rounded down; 0 for a division by 0."""
        if isinstance(left, int) and isinstance(right, int):
            return left // right if right else 0
        if right == 1:
            return left
        if isinstance(right, int):
            return self._binary(opcodes.DIVIDE, left, right) if right else 0
        rounded = self._binary(opcodes.DIVIDE, left, self.larger(right, 1))
        return self.select_size(self.compare_sizes(right, ComparisonDirection.GT, 0), rounded, 0)

    def smaller(self, left: Size, right: Size) -> Size:
        if isinstance(left, int) and isinstance(right, int):
            return min(left, right)
        return left if left is right else self._binary(opcodes.MINIMUM, left, right)

    def larger(self, left: Size, right: Size) -> Size:
        if isinstance(left, int) and isinstance(right, int):
            return max(left, right)
        return left if left is right else self._binary(opcodes.MAXIMUM, left, right)

    def product(self, sizes: Iterable[Size]) -> Size:
        total: Size = 1
        for size in sizes:
            total = self.times(total, size)
        return total

    def compare_sizes(self, left: Size, direction: ComparisonDirection, right: Size) -> Instruction:
        """Returns the comparison as a pred[]."""
        return compare(self, self.size(left), self.size(right), direction)

    def select_size(self, condition: Instruction, on_true: Size, on_false: Size) -> Size:
        return self.add(opcodes.SELECT, condition, self.size(on_true), self.size(on_false))

    def window_count(self, extent: Size, window: int, stride: int) -> Size:
        """Returns the number of windows that fit into an extent at a stride; 0 if it is smaller than the window."""
        shifted = self.larger(self.plus(extent, stride - window), 0)
        counted = self.quotient(shifted, stride)
        if window or isinstance(extent, int):
            return counted if extent != 0 else 0
        return self.select_size(self.compare_sizes(extent, ComparisonDirection.GT, 0), counted, 0)

    def smallest_sizes(self, values: Iterable[Value]) -> tuple[Size, ...]:
        """Returns the smallest size in each dimension of arrays of equal rank."""
        first, *rest = map(sizes_of, values)
        for sizes in rest:
            first = tuple(map(self.smaller, first, sizes))
        return first

    def _binary(self, op: OpDef, left: Size, right: Size) -> Instruction:
        return self.add(op, self.size(left), self.size(right))

    # -- arrays

    def positions(self, dimensions: Sequence[int], dimension: int) -> Instruction:
        """Returns an s32 array with the index of each element along a dimension."""
        return iota(self, Shape.array(S32, dimensions), dimension)

    def broadcast_size(self, scalar: Size, dimensions: Sequence[int]) -> Instruction:
        """Broadcasts a size to s32 of the given dimensions."""
        return self.broadcast(self.size(scalar), Shape.array(S32, dimensions))

    def mask_within(self, dimensions: Sequence[int], sizes: Sequence[Size]) -> Instruction | None:
        """Returns a PRED array, true for elements within the sizes; None if that is true for all elements."""
        mask: Instruction | None = None
        for dimension, size in self._sizes_below_bounds(dimensions, sizes):
            within = compare(
                self,
                self.positions(dimensions, dimension),
                self.broadcast_size(size, dimensions),
                ComparisonDirection.LT,
            )
            mask = within if mask is None else self.add(opcodes.AND, mask, within)
        return mask

    def _sizes_below_bounds(self, dimensions: Sequence[int], sizes: Sequence[Size]) -> Iterator[tuple[int, Size]]:
        for dimension, (bound, size) in enumerate(zip(dimensions, sizes, strict=True)):
            if not isinstance(size, int) or size < bound:
                yield dimension, size

    def masked(self, array: Instruction, sizes: Sequence[Size], fill: Instruction) -> Instruction:
        """Replaces the elements beyond the sizes by a scalar."""
        mask = self.mask_within(array.shape.dimensions, sizes)
        return array if mask is None else self.where(mask, array, self.broadcast(fill, array.shape))

    def zeroed(self, array: Instruction, sizes: Sequence[Size]) -> Instruction:
        """Replaces the elements beyond the sizes by zeros."""
        return self.masked(array, sizes, self.scalar(0, array.shape.element_type))

    def where(self, mask: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
        return self.add(opcodes.SELECT, mask, on_true, on_false)
