"""Evaluates computations element by element in loop IR: "element `index` of instruction i is ..."

A rule computes one element of an operation's result from elements of its operands: an elementwise operation needs the
same index of each operand, a transpose a permuted one. So a whole fused computation becomes one expression, in which
each element of each instruction is computed once. If the value of an instruction is in memory, as the operands of a
fusion are, its element is a load.

Responsible for the table of rules, memoization and masks. Does not depend on what operations mean
(`lower/<family>.py`), on the loops around an element, or on the assignment of buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, PositionArithmetic, Value
from xlapy.loops.ir import ZERO
from xlapy.lower.element_types import ComplexElement as ComplexElement
from xlapy.lower.element_types import Element as Element
from xlapy.lower.element_types import load_element
from xlapy.opcodes.registry import Rules

Index: TypeAlias = tuple[Affine, ...]

LowerRule = Callable[["Lowering", Instruction, Index], Any]
"""Returns an `Element`, or a list of elements if the result is a tuple of arrays with equal dimensions."""

LOWERINGS: Rules[LowerRule] = Rules("cpu")


@dataclass(frozen=True, slots=True)
class Source:
    """The buffer that holds the value of an instruction in row-major order, from the element at `start` on."""

    buffer: Buffer
    shape: Shape
    start: Affine = ZERO

    def offset(self, index: Index) -> Affine:
        """The offset of an element in the buffer."""
        return linear(index, self.shape.dimensions) - self.start


class Lowering:
    """Emits the computation of elements into the kernel of a builder."""

    def __init__(
        self,
        builder: Builder,
        sources: Mapping[Instruction, Source],
        bindings: Mapping[Instruction, Element] | None = None,
    ) -> None:
        self.builder = builder
        self.mask: Value | None = None
        """The condition under which elements are needed (None: always); elsewhere loads do not access memory."""
        self._sources = sources
        self._bindings = {} if bindings is None else bindings
        self._known: dict[Any, Any] = {}

    def source(self, instruction: Instruction) -> Source | None:
        """Returns the buffer that holds the value of an instruction; None if it is computed."""
        return self._sources.get(instruction)

    def element(self, instruction: Instruction, index: Index) -> Element:
        """Computes an element of an array."""
        result = self.elements(instruction, index)
        assert not isinstance(result, list), f"{instruction.name} is a tuple"
        return result

    def value(self, instruction: Instruction, index: Index) -> Value:
        """Computes an element of an array that is not complex."""
        result = self.element(instruction, index)
        assert isinstance(result, Value), f"{instruction.name} is complex"
        return result

    def elements(self, instruction: Instruction, index: Index) -> Any:
        """Computes an element of an array, or a list of the elements of the arrays of a tuple."""
        if instruction in self._bindings:
            return self._bindings[instruction]
        if instruction in self._sources:
            return self.load(self._sources[instruction], index)
        # the result of a loop is available in its own block only
        key = (instruction, index, self.mask, self.builder.block)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = LOWERINGS.find(instruction.op)(self, instruction, index)
        return found

    def load(self, source: Source, index: Index) -> Element:
        """Loads an element."""
        offset = source.offset(index)
        return load_element(self.builder, source.buffer, offset, source.shape.element_type, self.mask)

    @contextmanager
    def where(self, condition: Value) -> Iterator[None]:
        """Restricts the elements that the context computes to those for which a condition is true."""
        before = self.mask
        self.mask = condition if before is None else self.builder.binary("and", before, condition)
        yield
        self.mask = before

    @contextmanager
    def hoisted(self, index: Index) -> Iterator[None]:
        """Hoists what the context computes out of all loops on which no operand, index or mask depends."""
        known = [value for position in index for value, _ in position.terms]
        known += self.bound_values()
        with self.builder.hoisted(known if self.mask is None else [*known, self.mask]):
            yield

    def bound_values(self) -> list[Value]:
        """Returns the values that parameters are bound to, on which every element may depend."""
        return flatten_elements(list(self._bindings.values()))

    def apply(self, computation: Computation, arguments: Sequence[Element]) -> Any:
        """Applies a computation on scalars; returns an element, or a list of elements if its result is a tuple."""
        bindings = {p: arguments[p.parameter_number] for p in computation.parameters}
        inner = Lowering(self.builder, {}, bindings)
        return inner.elements(computation.root_instruction, ())

    def nested(self, computation: Computation, operands: Sequence[Instruction]) -> Lowering:
        """A lowering of a called computation on arrays, whose parameters are the operands of the call."""
        inner = _Inlined(self, operands)
        inner.mask = self.mask
        return inner

    def in_bounds(self, index: Index, limits: Sequence[tuple[int, int]]) -> Value | None:
        """The condition that low <= position < high holds for all dimensions; None if that is known to be true."""
        condition: Value | None = None
        for position, (low, high) in zip(index, limits, strict=True):
            for part in _bounds(self.builder, position, low, high):
                condition = part if condition is None else self.builder.binary("and", condition, part)
        return condition


class _Inlined(Lowering):
    """Computes elements of a called computation, whose parameters are instructions of the caller."""

    def __init__(self, outer: Lowering, operands: Sequence[Instruction]) -> None:
        super().__init__(outer.builder, {})
        self._outer = outer
        self._operands = operands

    def elements(self, instruction: Instruction, index: Index) -> Any:
        if not is_parameter(instruction):
            return super().elements(instruction, index)
        before, self._outer.mask = self._outer.mask, self.mask
        result = self._outer.elements(self._operands[instruction.parameter_number], index)
        self._outer.mask = before
        return result

    def bound_values(self) -> list[Value]:
        return self._outer.bound_values()


def flatten_elements(elements: Sequence[Element]) -> list[Value]:
    """Returns the values of elements: one per element, two per complex element."""
    values: list[Value] = []
    for element in elements:
        values += [element.real, element.imaginary] if isinstance(element, ComplexElement) else [element]
    return values


def _bounds(builder: Builder, position: Affine, low: int, high: int) -> Iterator[Value]:
    """The comparisons of low <= position < high that are not known to be true."""
    limits = position.bounds()
    if limits is None or limits[0] < low:
        yield _compared(builder, "sge", position, low)
    if limits is None or limits[1] >= high:
        yield _compared(builder, "slt", position, high)


def _compared(builder: Builder, predicate: str, position: Affine, limit: int) -> Value:
    value = builder.value_of(position)
    return builder.compare(predicate, value, builder.constant(value.type, limit))


def linear(index: Index, dimensions: Sequence[int]) -> Affine:
    """The row-major position of the element at an index."""
    stride = 1
    parts: list[tuple[Affine, int]] = []
    for position, size in zip(reversed(index), reversed(dimensions), strict=True):
        parts.append((position, stride))
        stride *= size
    return Affine.sum(parts)


def delinear(arithmetic: PositionArithmetic, position: Affine, dimensions: Sequence[int]) -> Index:
    """The index of the element at a row-major position; unspecified if there are no elements."""
    if 0 in dimensions:
        return (Affine(),) * len(dimensions)
    index: list[Affine] = []
    for size in reversed(dimensions[1:]):
        index.append(arithmetic.remainder(position, size))
        position = arithmetic.quotient(position, size)
    return (position, *reversed(index)) if dimensions else ()
