"""Records of array values: which value each thunk is meant to find in a slice, and which value it leaves there.

The builder numbers the array values of a program and notes them while it lowers instructions, before any memory is
shared. A value is an array that an instruction defines at one call site. The state of a loop has three numbers per
leaf: for the initial value, for the value in an iteration, and for the next one.

Responsible for the records. Does not depend on liveness, on reuse of memory or on offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.thunks import ConditionalThunk, Thunk, WhileThunk

Values = frozenset[int]
"""Numbers of array values. Several stand for the same array if it is the result of several instructions."""

NO_VALUES: Values = frozenset()


@dataclass(frozen=True, slots=True)
class ThunkValues:
    """The values of the slices of a thunk, by their position in `Thunk.accesses`.

    expected: what a slice must hold when the thunk starts. defined: what it holds when the thunk has run. also_defined:
    slices that the thunk completes without a reference to them, such as results of a collective that are written
    through addresses of shared memory.
    """

    expected: tuple[Values, ...]
    defined: tuple[Values, ...]
    also_defined: tuple[tuple[BufferSlice, Values], ...] = ()


@dataclass(frozen=True, slots=True)
class LoopLeaf:
    """The values of one leaf of a loop's state: before the loop, in an iteration, after it, and after the loop."""

    initial: int
    current: int
    next: int
    final: int


@dataclass(frozen=True, slots=True)
class LoopValues:
    """The values of a loop. inner: the numbers of the values that each iteration defines anew. state: one entry for
    each slice in the thunk's `state`."""

    predicate: int
    inner: range
    state: tuple[LoopLeaf, ...]


@dataclass(frozen=True, slots=True)
class BranchValues:
    """The values of a conditional. results: for each slice in the thunk's `results`, the value that each branch leaves
    there, and the value that it is after the conditional, which is the same if all branches leave the same value."""

    index: int
    results: tuple[tuple[tuple[int, ...], int], ...]


@dataclass(slots=True)
class ValueRecords:
    """The numbers of a program's array values and, if `is_recording`, what thunks do with them."""

    is_recording: bool = False
    count: int = 0
    names: list[str] = field(default_factory=list[str])
    """What each number stands for, for error messages."""
    thunks: dict[Thunk, ThunkValues] = field(default_factory=dict["Thunk", ThunkValues])
    loops: dict[WhileThunk, LoopValues] = field(default_factory=dict[WhileThunk, LoopValues])
    branches: dict[ConditionalThunk, BranchValues] = field(default_factory=dict[ConditionalThunk, BranchValues])
    initial: dict[BufferSlice, Values] = field(default_factory=dict[BufferSlice, Values])
    """What arguments and constants hold from the start."""
    results: list[int] = field(default_factory=list[int])
    """The value of each result of the program."""
    donated: frozenset[BufferSlice] = frozenset()
    """The arguments that the program may overwrite."""

    def new(self, name: str) -> int:
        """Returns the number of a new value."""
        if self.is_recording:
            self.names.append(name)
        self.count += 1
        return self.count - 1

    def note(
        self, thunks: Sequence[Thunk], operands: Mapping[BufferSlice, Values], results: Mapping[BufferSlice, Values]
    ) -> None:
        """Records the thunks of one instruction.

        operands: the values in the slices of its operands before it. results: the values in those of its results.
        """
        last = {slice_: thunk for thunk in thunks for slice_ in thunk.writes}
        written: set[BufferSlice] = set()
        for thunk in thunks:
            new = thunk.writes
            expected = [NO_VALUES if s in written else operands.get(s, NO_VALUES) for s in thunk.accesses]
            defined = [results.get(s, NO_VALUES) if last.get(s) is thunk else NO_VALUES for s in thunk.accesses]
            self.thunks[thunk] = ThunkValues(tuple(expected), tuple(defined))
            written.update(new)
        used = {slice_ for thunk in thunks for slice_ in thunk.accesses}
        unwritten = [(slice_, values) for slice_, values in results.items() if slice_ not in last]
        if not thunks:
            self.initial |= {slice_: self.initial.get(slice_, NO_VALUES) | values for slice_, values in unwritten}
        elif unwritten:
            found = self.thunks[thunks[-1]]
            also = tuple((slice_, values) for slice_, values in unwritten if slice_ in used)
            self.thunks[thunks[-1]] = ThunkValues(found.expected, found.defined, also)


def values_by_slice(pairs: Iterable[tuple[BufferSlice, int]]) -> dict[BufferSlice, Values]:
    """Returns the numbers of the values in each slice."""
    found: dict[BufferSlice, Values] = {}
    for slice_, value in pairs:
        found[slice_] = found.get(slice_, NO_VALUES) | {value}
    return found
