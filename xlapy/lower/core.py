"""Evaluates computations element by element in loop IR: "element `index` of instruction i is ..."

A rule says what one element of an operation's result is, from elements of its operands: an elementwise operation asks
for the same index of each operand, a transpose for a permuted one. A whole fused computation so becomes one expression,
in which each element of each instruction is computed once. Where the value of an instruction lies in memory (the
operands of a fusion), its element is a load.

Owns: the table of rules, memoisation, masks. Must not know: what ops mean (`lower/<family>.py`), loops around the
element, buffers' places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Value
from xlapy.loops.ir import ZERO
from xlapy.lower.element_types import ComplexElement as ComplexElement
from xlapy.lower.element_types import Element as Element
from xlapy.lower.element_types import load_element
from xlapy.opcodes.registry import Rules

Index: TypeAlias = tuple[Affine, ...]

LowerRule = Callable[["Lowering", Instruction, Index], Any]
"""Gives an `Element`, or a list of elements where the result is a tuple of arrays of equal dimensions."""

LOWERINGS: Rules[LowerRule] = Rules("cpu")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the value of an instruction lies: row-major in a buffer, which begins with the element at `start`."""

    buffer: Buffer
    shape: Shape
    start: Affine = ZERO

    def offset(self, index: Index) -> Affine:
        """Where the element at an index lies in the buffer."""
        return linear(index, self.shape.dimensions) - self.start


class Lowering:
    """Computes elements into a builder's kernel."""

    def __init__(
        self,
        builder: Builder,
        sources: Mapping[Instruction, Source],
        bindings: Mapping[Instruction, Element] | None = None,
    ) -> None:
        self.builder = builder
        self.mask: Value | None = None
        """Where elements are wanted at all; loads elsewhere must not touch memory."""
        self._sources = sources
        self._bindings = {} if bindings is None else bindings
        self._known: dict[Any, Any] = {}

    def element(self, instruction: Instruction, index: Index) -> Element:
        """The element of an array."""
        result = self.elements(instruction, index)
        assert not isinstance(result, list), f"{instruction.name} is a tuple"
        return result

    def value(self, instruction: Instruction, index: Index) -> Value:
        """The element of an array that is not complex."""
        result = self.element(instruction, index)
        assert isinstance(result, Value), f"{instruction.name} is complex"
        return result

    def elements(self, instruction: Instruction, index: Index) -> Any:
        """The element of an array, or a list of the elements of a tuple's arrays."""
        if instruction in self._bindings:
            return self._bindings[instruction]
        if instruction in self._sources:
            return self.load(self._sources[instruction], index)
        # what takes a loop to compute is known in its own block only
        key = (instruction, index, self.mask, self.builder.block)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = LOWERINGS.find(instruction.op)(self, instruction, index)
        return found

    def load(self, source: Source, index: Index) -> Element:
        """An element of what lies in memory."""
        offset = source.offset(index)
        return load_element(self.builder, source.buffer, offset, source.shape.element_type, self.mask)

    @contextmanager
    def where(self, condition: Value) -> Iterator[None]:
        """Elements are wanted only where the condition, too, is true."""
        before = self.mask
        self.mask = condition if before is None else self.builder.binary("and", before, condition)
        yield
        self.mask = before

    @contextmanager
    def hoisted(self, index: Index) -> Iterator[None]:
        """What follows is computed once for all loops that neither the index nor the mask depends on."""
        known = [value for position in index for value, _ in position.terms]
        with self.builder.hoisted(known if self.mask is None else [*known, self.mask]):
            yield

    def apply(self, computation: Computation, arguments: Sequence[Element]) -> Any:
        """The result of a computation on scalars: an element, or a list of those of its tuple."""
        bindings = {p: arguments[p.parameter_number] for p in computation.parameters}
        inner = Lowering(self.builder, {}, bindings)
        return inner.elements(computation.root_instruction, ())

    def nested(self, computation: Computation, operands: Sequence[Instruction]) -> Lowering:
        """For a computation on arrays that stands in place of a call: its parameters are the call's operands."""
        inner = _Inlined(self, operands)
        inner.mask = self.mask
        return inner

    def in_bounds(self, index: Index, limits: Sequence[tuple[int, int]]) -> Value | None:
        """Whether low <= position < high holds for all dimensions; None if that is known."""
        condition: Value | None = None
        for position, (low, high) in zip(index, limits, strict=True):
            for part in _bounds(self.builder, position, low, high):
                condition = part if condition is None else self.builder.binary("and", condition, part)
        return condition


class _Inlined(Lowering):
    """Elements of a called computation, whose parameters are instructions of the caller."""

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


def _bounds(builder: Builder, position: Affine, low: int, high: int) -> Iterator[Value]:
    """The comparisons that are not known to hold."""
    limits = position.bounds()
    if limits is None or limits[0] < low:
        yield _compared(builder, "sge", position, low)
    if limits is None or limits[1] >= high:
        yield _compared(builder, "slt", position, high)


def _compared(builder: Builder, predicate: str, position: Affine, limit: int) -> Value:
    value = builder.value_of(position)
    return builder.compare(predicate, value, builder.constant(value.type, limit))


def linear(index: Index, dimensions: Sequence[int]) -> Affine:
    """The row-major position of an index."""
    stride = 1
    parts: list[tuple[Affine, int]] = []
    for position, size in zip(reversed(index), reversed(dimensions), strict=True):
        parts.append((position, stride))
        stride *= size
    return Affine.sum(parts)


def delinear(builder: Builder, position: Affine, dimensions: Sequence[int]) -> Index:
    """The index of a row-major position; anything where there is none."""
    if 0 in dimensions:
        return (Affine(),) * len(dimensions)
    index: list[Affine] = []
    for size in reversed(dimensions[1:]):
        index.append(builder.remainder(position, size))
        position = builder.quotient(position, size)
    return (position, *reversed(index)) if dimensions else ()
