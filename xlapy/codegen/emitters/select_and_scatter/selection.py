"""The functions of a select-and-scatter on elements: which element of a window is selected, and what its source adds.

Does not depend on the loops around a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, Affine, AxisKind, Value
from xlapy.lower import Lowering
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Element, Index, flatten_elements, linear
from xlapy.lower.elementwise import select_element
from xlapy.lower.movement import element_where
from xlapy.lower.reduction import MAX_UNROLLED_WINDOW, combine_elements, unflatten_elements
from xlapy.lower.windows import Span, span_positions
from xlapy.opcodes.reduction import WindowAttributes


class WindowSelection:
    """Emits the selection in a window of a select-and-scatter, and the combination with its source."""

    def __init__(self, instruction: Instruction, lowering: Lowering) -> None:
        self.lowering, self.builder = lowering, lowering.builder
        self.operand, self.source, self.initial = instruction.operands
        self.select, self.scatter = instruction.computations
        self.windows = instruction.attributes_as(WindowAttributes).window.dimensions

    def selected(self, spans: Sequence[Span]) -> Value:
        """The number of the offset at which the selected element is; -1 if the window has only padding.

        The first element is selected, unless `select` prefers a later one to it.
        """
        builder, lowering = self.builder, self.lowering
        like = [zero_element(builder, self.operand.shape.element_type)]
        nothing = builder.constant(I32, -1)

        def at_offset(offsets: Index, carried: Sequence[Value]) -> list[Value]:
            (best,), number = unflatten_elements(carried[:-1], like), carried[-1]
            at, condition = span_positions(lowering, spans, offsets)
            candidate = element_where(lowering, self.operand, at, condition)
            (preferred,) = combine_elements(lowering, self.select, [best], [candidate])
            assert isinstance(preferred, Value)
            stays = builder.binary("and", preferred, builder.compare("ne", number, nothing))
            if condition is not None:
                stays = builder.binary("or", stays, builder.logical_not(condition))
            element = select_element(builder, stays, best, candidate)
            return [*flatten_elements([element]), builder.select(stays, number, self.number(spans, offsets))]

        return self._reduced(spans, (), [*flatten_elements(like), nothing], at_offset)[-1]

    def _reduced(
        self,
        spans: Sequence[Span],
        offsets: Index,
        carried: Sequence[Value],
        step: Callable[[Index, Sequence[Value]], list[Value]],
    ) -> list[Value]:
        if len(offsets) == len(spans):
            return step(offsets, carried)
        count = spans[len(offsets)].count
        if count == 1:
            return self._reduced(spans, (*offsets, Affine()), carried, step)
        return self.builder.reduce(
            count, carried, lambda k, values: self._reduced(spans, (*offsets, k), values, step), kind=axis_kind(count)
        )

    def number(self, spans: Sequence[Span], offsets: Index) -> Value:
        """The number of an offset among all of the window, in row-major order."""
        at = tuple(span.first + offset for span, offset in zip(spans, offsets, strict=True))
        position = linear(at, [w.size for w in self.windows])
        return self.builder.convert("trunc", self.builder.value_of(position), I32)

    def combined(self, before: Element, source: Element) -> Element:
        (element,) = combine_elements(self.lowering, self.scatter, [before], [source])
        return element


def axis_kind(count: int | Value) -> AxisKind:
    return AxisKind.UNROLL if isinstance(count, int) and count <= MAX_UNROLLED_WINDOW else AxisKind.SERIAL
