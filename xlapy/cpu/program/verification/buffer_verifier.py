"""Verifies buffer assignment: every read of a program's thunks finds the array value that is meant.

The verifier runs the thunks on abstract memory, in which each range of bytes is known to hold the values of a slice or
nothing. It follows both paths at a branch and repeats loops until nothing changes. From the start of a rendezvous with
other devices to its end, what they may read stays unchanged, and what they send is not read. What thunks are meant to
find was recorded when they were made; where slices lie is read off their final offsets. Nothing else of the assignment
is used: neither live ranges nor the decisions to reuse memory.

Responsible for the rules and their errors. Does not depend on how memory was assigned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import VerificationError
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import (
    ConcurrentThunk,
    ConditionalThunk,
    OutlinedThunk,
    Thunk,
    ThunkVisitor,
    WhileThunk,
    walk_thunks,
)
from xlapy.cpu.program.verification.abstract_memory import AbstractMemory, Location
from xlapy.cpu.program.verification.value_records import NO_VALUES, ThunkValues, ValueRecords, Values


def verify_buffers(program: NativeProgram) -> None:
    """Raises `VerificationError` unless every read finds the value that is meant.

    The program has assigned buffers, and was built with records of its values. The error names the thunk, the slice,
    the value that is meant, and what lies there.
    """
    assert program.values is not None, "the program was built without records of its values"
    _Verifier(program, program.values).run()


class _Verifier(ThunkVisitor):
    def __init__(self, program: NativeProgram, records: ValueRecords) -> None:
        self._program = program
        self._records = records
        self._memory = AbstractMemory()
        """The contents of what the program may write."""
        self._constants = dict(records.initial)
        """The values of constants and of arguments that are not donated."""
        self._function: OutlinedThunk | None = None
        """The function whose thunks run."""
        self._stack_slots: dict[OutlinedThunk, frozenset[BufferSlice]] = {}
        self._published: dict[BufferSlice, list[BufferSlice]] = {}
        """For each slice that a direct rendezvous receives, what its members publish."""
        self._read_by_peers: dict[BufferSlice, Thunk] = {}
        """What other members of a direct rendezvous may read until they meet this device again."""
        self._pending: dict[Hashable, Thunk] = {}
        """The thunks that have started a rendezvous that is not complete, by the place of the rendezvous."""
        self._received: dict[int, Hashable] = {}
        """The place of the rendezvous that has set the address of each slice that other devices send, by its number."""

    def run(self) -> None:
        program, records = self._program, self._records
        for slice_ in records.donated:
            self._memory.write(self._location(slice_), slice_, records.initial.get(slice_, NO_VALUES))
        self._complete_sequence(program.thunks)
        for result, number in zip(program.results, records.results, strict=True):
            found = self._memory.at(self._location(result))
            if result.size and (len(found) != 1 or number not in found[0].values):
                self._fail(f"result {result.number}", result, frozenset({number}))

    # -- thunks

    def leaf(self, thunk: Thunk) -> None:
        slices, first = thunk.accesses, len(thunk.reads)
        written = range(first, len(slices))
        values = self._records.thunks.get(thunk) or ThunkValues((NO_VALUES,) * len(slices), (NO_VALUES,) * len(slices))
        published = thunk.publishes
        for position, (slice_, expected) in enumerate(zip(slices, values.expected, strict=True)):
            if expected or not (position >= first or slice_ in published):
                self._read(thunk, slice_, expected)
        self._check_overlaps(thunk, slices, written)
        self._meet(thunk)
        if published:
            self._publish(thunk)
        copied = self._values_of(slices[0]) if thunk.copies_bytes else NO_VALUES
        for position in written:
            self._write(thunk, slices[position], values.defined[position] | copied)
        for slice_, defined in values.also_defined:
            self._write(thunk, slice_, defined)

    def _meet(self, thunk: Thunk) -> None:
        """Follows a rendezvous, whose start and end may be in two thunks. Slices that other devices send are accessed
        only after its end, and until the next start at the same place."""
        begins, completes = thunk.begins, thunk.completes
        if begins is not None:
            started = self._pending.get(begins)
            if started is not None:
                self._refuse(thunk, f"begins a rendezvous while [{started.title}] is pending at the same place")
            self._pending[begins] = thunk
        if completes is not None:
            if self._pending.pop(completes, None) is None:
                self._refuse(thunk, "ends a rendezvous that has not begun")
            self._received |= {s.number: completes for s in thunk.writes if s.storage is StorageClass.SHARED}
        elif begins is not None:
            self._received = {number: place for number, place in self._received.items() if place != begins}
        for slice_ in thunk.accesses:
            if slice_.storage is StorageClass.SHARED and slice_.size and slice_.number not in self._received:
                self._refuse(thunk, f"accesses {slice_} before the rendezvous that receives it is complete")

    def _complete_sequence(self, thunks: Iterable[Thunk]) -> None:
        """Runs thunks, which complete each rendezvous that they begin."""
        before = dict(self._pending)
        self.sequence(thunks)
        for place, thunk in self._pending.items():
            if before.get(place) is not thunk:
                self._refuse(thunk, "begins a rendezvous that nothing completes")
        for place, thunk in before.items():
            if place not in self._pending:
                self._refuse(thunk, "begins a rendezvous that is completed in a loop or a branch")

    def _publish(self, thunk: Thunk) -> None:
        """Members access what a direct rendezvous publishes from here on, even if it is written only later."""
        if thunk.completes is not None:  # then they have finished what they did since they met there before
            self._read_by_peers = {
                slice_: other
                for slice_, other in self._read_by_peers.items()
                if thunk.completes not in (other.begins, other.completes)
            }
        self._published |= dict.fromkeys(thunk.writes, thunk.publishes)
        for slice_ in thunk.publishes:
            if slice_.size and not self._is_intact(slice_):
                self._write(thunk, slice_, NO_VALUES)
        self._read_by_peers |= dict.fromkeys(thunk.read_by_peers, thunk)

    def loop(self, thunk: WhileThunk) -> None:
        """Runs a loop until what is known at its head stays the same, mostly once.

        What the loop writes is assumed to hold other values at the head than before the loop.
        """
        values = self._records.loops[thunk]
        current = [leaf.current for leaf in values.state]
        held = self._held(thunk.state, (leaf.initial for leaf in values.state))
        for location, slice_ in self._writes(thunk):
            self._memory.weaken(location, slice_)
        self._define(thunk.state, current, held)
        while True:
            head = self._memory.copy()
            self._complete_sequence(thunk.condition)
            self._read(thunk, thunk.predicate, frozenset({values.predicate}))
            after = self._memory.copy()
            self._complete_sequence(thunk.body)
            held = self._held(thunk.state, (leaf.next for leaf in values.state))
            self._memory.forget_values(values.inner)
            self._define(thunk.state, current, held)
            self._memory = head.meet(self._memory)
            if self._memory == head:
                break
        self._memory = after
        self._define(thunk.state, (leaf.final for leaf in values.state), self._held(thunk.state, current))

    def _writes(self, loop: WhileThunk) -> dict[tuple[Location, BufferSlice], None]:
        """Returns what the thunks in a loop write, and where it lies."""
        found: dict[tuple[Location, BufferSlice], None] = {}
        pending = [(thunk, self._function) for thunk in (*loop.condition, *loop.body)]
        while pending:
            thunk, function = pending.pop()
            called = thunk.function
            for slice_ in (*thunk.writes, *thunk.publishes, *(called.stored if called is not None else ())):
                if slice_.size and slice_.storage is not StorageClass.SHARED:
                    found[self._location(slice_, function), slice_] = None
            if called is not None:
                self._stack_slots[called] = frozenset((*called.loaded, *called.stored))
                function = called
            pending += [(inner, function) for nested in thunk.nested for inner in nested]
        return found

    def conditional(self, thunk: ConditionalThunk) -> None:
        values = self._records.branches[thunk]
        self._read(thunk, thunk.index, frozenset({values.index}))
        before, after = self._memory, list[AbstractMemory]()
        for number, branch in enumerate(thunk.branches):
            self._memory = before.copy()
            self._complete_sequence(branch)
            held = self._held(thunk.results, (left[number] for left, _ in values.results))
            self._define(thunk.results, (merged for _, merged in values.results), held)
            after.append(self._memory)
        self._memory = after[0]
        for memory in after[1:]:
            self._memory = self._memory.meet(memory)

    def outlined(self, thunk: OutlinedThunk) -> None:
        """Runs a function: its stack slots are loaded at its start and stored at its end.

        A function may load what nothing has written yet, if it writes the slot before it reads it.
        """
        self._stack_slots[thunk] = frozenset((*thunk.loaded, *thunk.stored))
        slots = [s for s in thunk.loaded if not self._is_constant(s)]
        loaded = [(slice_, self._values_of(slice_)) for slice_ in slots if self._is_intact(slice_)]
        caller, self._function = self._function, thunk
        for slice_, values in loaded:
            self._memory.write(self._location(slice_), slice_, values)
        self.sequence(thunk.thunks)
        stored = {slice_: self._values_of(slice_) for slice_ in thunk.stored if self._is_intact(slice_)}
        self._function = caller
        self._memory.forget_regions(lambda region: isinstance(region, tuple) and region[0] is thunk)
        for slice_ in thunk.stored:
            self._write(thunk, slice_, stored.get(slice_, NO_VALUES))
            if slice_ not in stored:
                self._memory.forget(self._location(slice_))

    def concurrent(self, thunk: ConcurrentThunk) -> None:
        """Runs tasks in their order, after checking that any other order that their waits allow gives the same."""
        for inner in walk_thunks([thunk]):
            if inner.begins is not None or inner.completes is not None:
                self._refuse(inner, "meets other devices in a task that runs at the same time as others")
        self._check_tasks(thunk)
        super().concurrent(thunk)

    def _check_tasks(self, thunk: ConcurrentThunk) -> None:
        """Checks that no task writes memory that another one, which may run at the same time, accesses."""
        before: list[set[int]] = []
        accessed: list[list[tuple[Location, BufferSlice, bool]]] = []
        for number, (task, waits) in enumerate(zip(thunk.tasks, thunk.waits, strict=True)):
            before.append(set(waits).union(*(before[other] for other in waits)))
            accessed.append(self._memory_of(task))
            for other in set(range(number)) - before[number]:
                for location, slice_, is_written in accessed[number]:
                    for place, peer, is_peer_written in accessed[other]:
                        if (is_written or is_peer_written) and location.overlaps(place):
                            raise VerificationError(
                                codes.BUFFER_ASSIGNMENT,
                                f"tasks {other} and {number} of {_title(thunk)} run at the same time, but {peer} "
                                f"overlaps {slice_}, which one of them writes; {_OUR_ERROR}",
                            )

    def _memory_of(self, task: OutlinedThunk) -> list[tuple[Location, BufferSlice, bool]]:
        """Returns where the slices lie that a task accesses, and whether it writes them."""
        found: dict[BufferSlice, bool] = {}
        for thunk in walk_thunks([task]):
            for slice_ in thunk.accesses:
                if slice_.size and slice_.storage not in (StorageClass.STACK, StorageClass.SHARED):
                    found[slice_] = found.get(slice_, False) or slice_ in thunk.writes
        return [(self._location(slice_), slice_, is_written) for slice_, is_written in found.items()]

    # -- memory

    def _location(self, slice_: BufferSlice, function: OutlinedThunk | None = None) -> Location:
        """Returns where a slice lies for a function, by default the one that runs."""
        function = function or self._function
        if slice_.storage is StorageClass.STACK or (function and slice_ in self._stack_slots[function]):
            return Location((function, slice_), 0, slice_.size)
        number = slice_.number
        if slice_.storage is StorageClass.RESULT and number in self._program.aliases:
            return Location((StorageClass.ARGUMENT, self._program.aliases[number]), 0, slice_.size)
        if slice_.storage is not StorageClass.TEMPORARY:
            return Location((slice_.storage, number), 0, slice_.size)
        region = StorageClass.TEMPORARY if number < 0 else StorageClass.RESULT
        return Location((region, number), slice_.offset, slice_.offset + slice_.size)

    def _read(self, thunk: Thunk, slice_: BufferSlice, expected: Values) -> Values:
        """Checks that a slice is intact and holds some values; returns all that it holds."""
        if not slice_.size:
            return NO_VALUES
        if slice_.storage is StorageClass.SHARED:
            for published in self._published.get(slice_, ()):
                self._read(thunk, published, NO_VALUES)
            return NO_VALUES
        if not self._is_intact(slice_) or not expected <= self._values_of(slice_):
            self._fail(_title(thunk), slice_, expected)
        return self._values_of(slice_)

    def _is_intact(self, slice_: BufferSlice) -> bool:
        """Whether the memory of a slice holds all that was last written to the slice."""
        if self._is_constant(slice_):
            return True
        location = self._location(slice_)
        found = self._memory.at(location)
        return len(found) == 1 and found[0].slice is slice_ and found[0].end == location.end

    def _write(self, thunk: Thunk, slice_: BufferSlice, values: Values) -> None:
        if not slice_.size or slice_.storage is StorageClass.SHARED:
            return
        if self._is_constant(slice_):
            raise VerificationError(
                codes.BUFFER_ASSIGNMENT, f"{_title(thunk)} writes {slice_}, which must stay unchanged; {_OUR_ERROR}"
            )
        location = self._location(slice_)
        for published, rendezvous in self._read_by_peers.items():
            if location.overlaps(self._location(published)):
                raise VerificationError(
                    codes.BUFFER_ASSIGNMENT,
                    f"{_title(thunk)} writes {slice_}, which overlaps {published}, while other devices may read that "
                    f"since {_title(rendezvous)}; {_OUR_ERROR}",
                )
        self._memory.write(location, slice_, values)

    def _is_constant(self, slice_: BufferSlice) -> bool:
        """Whether a slice never changes: a constant, or an argument that is not donated."""
        is_argument = slice_.storage is StorageClass.ARGUMENT and slice_ not in self._records.donated
        return is_argument or slice_.storage is StorageClass.CONSTANT

    def _values_of(self, slice_: BufferSlice) -> Values:
        if not slice_.size or slice_.storage is StorageClass.SHARED:
            return NO_VALUES
        if self._is_constant(slice_):
            return self._constants.get(slice_, NO_VALUES)
        (found,) = self._memory.at(self._location(slice_))
        return found.values

    def _held(self, slices: list[BufferSlice], numbers: Iterable[int]) -> list[bool]:
        """Returns for each slice whether it holds a value. That is not required, because a result may be unused."""
        return [
            bool(slice_.size) and self._is_intact(slice_) and number in self._values_of(slice_)
            for slice_, number in zip(slices, numbers, strict=True)
        ]

    def _define(self, slices: list[BufferSlice], numbers: Iterable[int], held: list[bool]) -> None:
        """Adds a value to what a slice holds, where the value is the same as one that it is known to hold."""
        for slice_, number, is_held in zip(slices, numbers, held, strict=True):
            if is_held and self._is_constant(slice_):
                self._constants[slice_] = self._values_of(slice_) | {number}
            elif is_held:
                self._memory.write(self._location(slice_), slice_, self._values_of(slice_) | {number})

    # -- operands and results in the same memory

    def _check_overlaps(self, thunk: Thunk, slices: list[BufferSlice], written: range) -> None:
        """Checks that a thunk writes to memory of its other slices only where that is allowed."""
        locations = [self._location(slice_) for slice_ in slices]
        for target in written:
            for other, location in enumerate(locations):
                if other == target or not locations[target].overlaps(location):
                    continue
                both_written = other in written
                if both_written or not self._may_share(thunk, target, other, locations):
                    raise VerificationError(
                        codes.BUFFER_ASSIGNMENT,
                        f"{_title(thunk)} writes {slices[target]}, which overlaps {slices[other]}; {_OUR_ERROR}",
                    )

    def _may_share(self, thunk: Thunk, target: int, other: int, locations: list[Location]) -> bool:
        if locations[target] != locations[other]:
            return False
        others = [n for n, location in enumerate(locations) if location == locations[target] and n != target]
        return thunk.may_overlap(target, others)

    # -- errors

    def _refuse(self, thunk: Thunk, why: str) -> None:
        raise VerificationError(codes.BUFFER_ASSIGNMENT, f"{_title(thunk)} {why}; {_OUR_ERROR}")

    def _fail(self, reader: str, slice_: BufferSlice, expected: Values) -> None:
        contents = [(held.slice, held.values) for held in self._memory.at(self._location(slice_))]
        if self._is_constant(slice_):
            contents = [(slice_, self._values_of(slice_))]
        held = [f"{content} with {self._names(values)}" for content, values in contents]
        meant = f"{self._names(expected)} in " if expected else ""
        raise VerificationError(
            codes.BUFFER_ASSIGNMENT,
            f"{reader} reads {meant}{slice_}, but its memory holds {', '.join(held) or 'nothing that is known'}; "
            f"{_OUR_ERROR}",
        )

    def _names(self, values: Values) -> str:
        names = ", ".join(f"{self._records.names[number]} (value {number})" for number in sorted(values))
        return names or "no recorded value"


_OUR_ERROR = "this is an error of the compiler, not of the program"


def _title(thunk: Thunk) -> str:
    return f"[{thunk.title}]"
