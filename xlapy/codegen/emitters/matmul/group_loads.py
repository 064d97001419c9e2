"""Loads groups of terms for dot instructions: at once if they are contiguous in memory, else element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy.codegen.emitters.matmul.group_formats import element_in_group, interleaved, joined
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.loops import I32, I64, Affine, Builder, Location, Value
from xlapy.lower import Element
from xlapy.lower.movement import conjunction


def is_group(places: Sequence[Location | None]) -> bool:
    """Whether elements are contiguous in memory, and fill an I32 together."""
    first = places[0]
    if first is None or first.buffer.type.bits * len(places) != I32.bits:
        return False
    return all(
        place is not None and place.buffer is first.buffer and place.offset - first.offset == Affine((), number)
        for number, place in enumerate(places)
    )


@dataclass(frozen=True, slots=True)
class GroupLoads:
    """Groups of `size` consecutive terms of `terms`. The missing terms of the last group are zero."""

    builder: Builder
    size: int
    terms: int

    @property
    def count(self) -> int:
        """The number of groups."""
        return -(-self.terms // self.size)

    @property
    def _partial(self) -> int:
        """The number of terms of the last group if it is not whole, else 0."""
        return self.terms % self.size

    def load(
        self,
        group: Affine,
        element: Callable[[Affine], Element],
        location: Callable[[Affine], Location | None],
        mask: Value | None = None,
    ) -> Value:
        """Returns a group as an I32. Where the mask is false, memory is not accessed and the result is unspecified.

        element: returns the element of a term, in the type that the format of the group demands, under the same mask.
        location: returns where the element of a term lies in memory as it is; None if it is computed.
        """
        positions = [group * self.size + number for number in range(self.size)]
        found = self._loaded_at_once(group, [location(position) for position in positions], mask)
        if found is not None:
            return found
        builder = self.builder
        parts: list[Value] = []
        for number, position in enumerate(positions):
            if self._partial and number >= self._partial:
                last = clamped_position(builder, position, self.terms)
                part = element_in_group(builder, self.size, element(last), number)
                parts.append(builder.select(self._is_last(group), builder.zero(I32), part))
            else:
                parts.append(element_in_group(builder, self.size, element(position), number))
        return joined(builder, parts)

    def load_columns(self, group: Affine, location: Callable[[Affine, int], Location | None]) -> list[Value] | None:
        """Returns a group of each of `size` neighboring columns; None if the elements of a term in these columns are
        not contiguous in memory.

        location: returns where the element of a term in a column, counted from the first one, lies as it is; None if
        it is computed.
        """
        builder, rows = self.builder, list[Value]()
        for number in range(self.size):
            term = group * self.size + number
            is_missing = self._partial and number >= self._partial
            inside = clamped_position(builder, term, self.terms) if is_missing else term
            places = [location(inside, column) for column in range(self.size)]
            first = places[0]
            if first is None or not is_group(places):
                return None
            row = builder.load_wide(I32, first, None)
            rows.append(builder.select(self._is_last(group), builder.zero(I32), row) if is_missing else row)
        return interleaved(builder, rows)

    def _loaded_at_once(self, group: Affine, places: Sequence[Location | None], mask: Value | None) -> Value | None:
        """Loads the elements of a group at once if they are contiguous in memory; None otherwise."""
        builder, first, partial = self.builder, places[0], self._partial
        if first is None or not is_group(places):
            return None
        if not partial:
            return builder.load_wide(I32, first, mask)
        # The last group reaches into the next row. Only the one in the last row ends outside of the buffer.
        size = first.buffer.size
        start = first.offset - group * self.size
        if any(stride % self.terms for stride in (size, start.constant, *(factor for _, factor in start.terms))):
            return None
        rest = [builder.load(first.buffer, Affine((), size - partial + n)) for n in range(partial)]
        ends = builder.value_of(first.offset + (self.size - 1))
        is_inside = builder.compare("slt", ends, builder.constant(I64, size))
        otherwise = joined(builder, [element_in_group(builder, self.size, part, n) for n, part in enumerate(rest)])
        loaded = builder.load_wide(I32, first, conjunction(builder, is_inside, mask), otherwise)
        kept = builder.constant(I32, (1 << partial * (I32.bits // self.size)) - 1)
        return builder.binary("and", loaded, builder.select(self._is_last(group), kept, builder.constant(I32, -1)))

    def _is_last(self, group: Affine) -> Value:
        builder = self.builder
        return builder.compare("eq", builder.value_of(group), builder.constant(I64, self.count - 1))
