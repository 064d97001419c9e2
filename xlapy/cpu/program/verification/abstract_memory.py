"""The contents of a program's memory at one point of its run, as far as they are known on every path to that point.

Memory consists of regions: the arena, each argument, result and constant, and the stack of each function. A range of a
region holds a slice, together with the array values that the slice is known to hold, or nothing that is known.

Responsible for ranges and their overlap. Does not depend on thunks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.verification.value_records import Values


class Location(NamedTuple):
    """A range of bytes in a region."""

    region: Hashable
    start: int
    end: int

    def overlaps(self, other: Location) -> bool:
        return self.region == other.region and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Contents:
    """What a range holds: all bytes of a slice as they were last written, and the numbers of the values they are."""

    start: int
    end: int
    slice: BufferSlice
    values: Values


class AbstractMemory:
    """The known contents of all regions."""

    def __init__(self) -> None:
        self._regions: dict[Hashable, list[Contents]] = {}
        """The contents of each region, ordered by their starts. They do not overlap."""

    def copy(self) -> AbstractMemory:
        made = AbstractMemory()
        made._regions = {region: list(contents) for region, contents in self._regions.items()}
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMemory) and self._regions == other._regions

    __hash__ = None  # type: ignore[assignment]

    def at(self, location: Location) -> list[Contents]:
        """Returns the contents that overlap a range."""
        contents = self._regions.get(location.region, [])
        first = self._first(contents, location.start)
        found: list[Contents] = []
        while first < len(contents) and contents[first].start < location.end:
            found.append(contents[first])
            first += 1
        return found

    def write(self, location: Location, slice_: BufferSlice, values: Values) -> None:
        """Sets the contents of a range. Whatever overlapped it is lost."""
        contents = self._regions.setdefault(location.region, [])
        first = self._first(contents, location.start)
        count = len(self.at(location))
        contents[first : first + count] = [Contents(location.start, location.end, slice_, values)]

    def forget(self, location: Location) -> None:
        """Makes the contents of a range unknown."""
        contents = self._regions.get(location.region, [])
        first = self._first(contents, location.start)
        del contents[first : first + len(self.at(location))]

    def forget_values(self, numbers: range) -> None:
        """Forgets which slices hold some values, because other values have these numbers from here on."""
        for contents in self._regions.values():
            for position, held in enumerate(contents):
                if any(value in numbers for value in held.values):
                    values = frozenset(value for value in held.values if value not in numbers)
                    contents[position] = Contents(held.start, held.end, held.slice, values)

    def forget_regions(self, is_forgotten: Callable[[Hashable], bool]) -> None:
        self._regions = {region: held for region, held in self._regions.items() if not is_forgotten(region)}

    def weaken(self, location: Location, slice_: BufferSlice) -> None:
        """Forgets the values in a range. A slice may still lie there only if it is the given one."""
        is_there = any(held.slice is slice_ and held.end == location.end for held in self.at(location))
        self.forget(location)
        if is_there:
            self.write(location, slice_, frozenset())

    def meet(self, other: AbstractMemory) -> AbstractMemory:
        """Returns what is known if the program comes from either of two points."""
        made = AbstractMemory()
        for region, contents in self._regions.items():
            others = {(held.start, held.end): held for held in other._regions.get(region, ())}
            common: list[Contents] = []
            for held in contents:
                match = others.get((held.start, held.end))
                if match is not None and match.slice is held.slice:
                    common.append(Contents(held.start, held.end, held.slice, held.values & match.values))
            made._regions[region] = common
        return made

    @staticmethod
    def _first(contents: list[Contents], start: int) -> int:
        """Returns the position of the first contents that end after an offset."""
        return bisect_left(contents, start + 1, key=lambda held: held.end)
