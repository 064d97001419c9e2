"""The protocol of thunks, through which the stages of the compiler use them, and the thunks of control flow.

A class implements `reads`, `writes`, `replace`, `cost`, `title` and `emit`, and overrides the other members where
their defaults do not apply. Buffer assignment, verification, outlining, counters, checks and code generation work
through this protocol, so a new kind of thunk is one class.

Responsible for the protocol, for loops, conditionals and outlined functions, and for walking thunks. Does not depend on
what other thunks do, on HLO operations or LLVM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xlapy.cpu.program.buffer_slices import AccessedRange, BufferSlice, Replacements, join_slices, replaced
from xlapy.cpu.program.thunks.emitter import ThunkEmitter
from xlapy.loops import Kernel


class Thunk(ABC):
    """A unit of execution of a native program. It reads and writes buffer slices."""

    __slots__ = ()

    is_loop: ClassVar[bool] = False
    """Whether the nested thunks run repeatedly."""
    polls_itself: ClassVar[bool] = False
    """Whether the code inside of the thunk contains its own safepoint polls, so that its cost does not add up."""
    copies_bytes: ClassVar[bool] = False
    """Whether the thunk leaves the bytes of the one slice that it reads in the one slice that it writes."""

    @property
    def op_name(self) -> str:
        """The name of the instruction that the thunk computes; empty if it computes none."""
        return ""

    # -- memory

    @property
    @abstractmethod
    def reads(self) -> list[BufferSlice]:
        """The slices that the thunk itself reads and does not write, without those of nested thunks."""

    @property
    @abstractmethod
    def writes(self) -> list[BufferSlice]:
        """The slices that the thunk itself writes. It may read them too."""

    @abstractmethod
    def replace(self, mapping: Replacements) -> None:
        """Replaces slices wherever the thunk itself refers to them."""

    @property
    def accesses(self) -> list[BufferSlice]:
        """The slices that the thunk itself refers to: `reads`, followed by `writes`."""
        return [*self.reads, *self.writes]

    @property
    def carried(self) -> list[BufferSlice]:
        """The slices in which nested thunks leave what the thunk as a whole computes."""
        return []

    @property
    def publishes(self) -> list[BufferSlice]:
        """The slices whose addresses other devices get. They need not have been written before."""
        return []

    @property
    def read_by_peers(self) -> list[BufferSlice]:
        """The published slices that other devices read until they meet this device again."""
        return []

    def own_array(self, received: BufferSlice) -> BufferSlice | None:
        """Returns the published slice of this device that a received slice is of another device; None if the thunk
        does not receive it in the memory of that device."""
        return None

    @property
    def begins(self) -> Hashable:
        """Where the device begins to meet other devices in this thunk; None if it does not."""
        return None

    @property
    def completes(self) -> Hashable:
        """Where the device has met other devices when the thunk has run; None if it does not. A thunk that begins a
        rendezvous and does not complete it leaves it pending until another one does."""
        return None

    def may_compute_in(self, result: BufferSlice, target: BufferSlice) -> bool:
        """Whether the thunk may write `result`, which it does now, to the memory of `target`, which it may read."""
        return False

    def mark_may_alias(self, *slices: BufferSlice) -> None:
        """Notes that the memory of some slices of the thunk may overlap."""
        return

    def may_overlap(self, written: int, others: Sequence[int]) -> bool:
        """Whether a written slice may lie in the same memory as others, by their positions in `accesses`."""
        return False

    def ranges(self) -> Iterator[AccessedRange]:
        """Yields the ranges that the thunk accesses in memory whose size is known when the program is compiled."""
        return iter(())

    # -- structure

    @property
    def nested(self) -> list[list[Thunk]]:
        """The thunk sequences that the thunk contains directly."""
        return []

    @property
    def nested_titles(self) -> list[str]:
        """What each nested sequence is called in a dump; empty if its thunks need no title."""
        return []

    @property
    def own_kernel(self) -> Kernel | None:
        """The kernel that the thunk runs, if it runs one."""
        return None

    @property
    def function(self) -> OutlinedThunk | None:
        """The thunk itself if it is emitted as a function of its own."""
        return None

    def accept(self, visitor: ThunkVisitor) -> None:
        """Calls the method of the visitor for this kind of control flow."""
        visitor.leaf(self)

    # -- sizes

    @property
    @abstractmethod
    def cost(self) -> int:
        """The estimated time in cycles of one core. Loops that poll themselves count as one iteration."""

    @property
    def statements(self) -> int:
        """The statements that an execution takes in code without loops, to divide measured times."""
        return 1

    @property
    def shared_statements(self) -> int | None:
        """`statements` if the thunk is so short that reading the clock takes as long as it does; else None."""
        return None

    @property
    def is_inline(self) -> bool:
        """Whether the code of the thunk lies in the function that contains it, so that slices may be stack slots."""
        return False

    @property
    def stores_by_index(self) -> set[BufferSlice]:
        """The slices of which inline code stores a single element whose index is computed."""
        return set()

    @property
    def loads_vectors(self) -> set[BufferSlice]:
        """The slices of which inline code loads vectors of neighboring elements."""
        return set()

    def choose_unrolling(self, is_unrolled: Callable[[Kernel], bool]) -> None:
        """Decides whether the thunk's kernel, if it has one, is unrolled."""
        return

    def function_statements(self, count: Callable[[Kernel], int]) -> int:
        """The size of the thunk in the function that contains it. count: the statements of an unrolled kernel."""
        return 1 + sum(thunk.function_statements(count) for thunks in self.nested for thunk in thunks)

    @property
    def runs_on_one_thread(self) -> bool:
        """Whether the thunk only computes, cannot fail, and takes so little time that one thread may run it while
        other threads run others."""
        return False

    # -- text

    @property
    @abstractmethod
    def title(self) -> str:
        """One line that says what the thunk does, on which slices, and for which instruction."""

    @property
    def subject(self) -> str:
        """The name of the instruction that the thunk computes, or whose result it moves."""
        return self.op_name

    @property
    def label(self) -> str:
        """What the thunk is called in tables."""
        return self.op_name or type(self).__name__

    # -- code

    @abstractmethod
    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        """Emits the code of the thunk at the end of a function. function: a `FunctionState` of the emitter."""


class ThunkVisitor(ABC):
    """Code that differs for the kinds of control flow: plain thunks, loops, conditionals and functions."""

    def sequence(self, thunks: Iterable[Thunk]) -> None:
        """Visits thunks in the order in which they run."""
        for thunk in thunks:
            thunk.accept(self)

    @abstractmethod
    def leaf(self, thunk: Thunk) -> None: ...

    @abstractmethod
    def loop(self, thunk: WhileThunk) -> None: ...

    @abstractmethod
    def conditional(self, thunk: ConditionalThunk) -> None: ...

    @abstractmethod
    def outlined(self, thunk: OutlinedThunk) -> None: ...

    def concurrent(self, thunk: ConcurrentThunk) -> None:
        """Visits the tasks in an order in which they may run."""
        self.sequence(thunk.tasks)


def walk_thunks(thunks: list[Thunk]) -> Iterator[Thunk]:
    """Yields every thunk in pre-order: each one before those that it contains."""
    stack = thunks[::-1]
    while stack:
        thunk = stack.pop()
        yield thunk
        for nested in reversed(thunk.nested):
            stack.extend(nested[::-1])


# -- control flow

CALL_STATEMENTS = 4
"""The number of statements that the call of a kernel or of an outlined function counts as."""


@dataclass(eq=False, slots=True)
class WhileThunk(Thunk):
    """Runs `condition`; while the PRED in `predicate` is true, runs `body` and `condition` again.

    state: the slices of the leaves that the body changes. They hold the initial values before the loop, and the next
    ones after the body.
    """

    condition: list[Thunk]
    predicate: BufferSlice
    body: list[Thunk]
    op_name: str = ""
    state: list[BufferSlice] = field(default_factory=list[BufferSlice])

    is_loop: ClassVar[bool] = True
    polls_itself: ClassVar[bool] = True

    @property
    def reads(self) -> list[BufferSlice]:
        return [self.predicate]

    @property
    def writes(self) -> list[BufferSlice]:
        return []

    def replace(self, mapping: Replacements) -> None:
        self.predicate, *self.state = replaced([self.predicate, *self.state], mapping)

    @property
    def carried(self) -> list[BufferSlice]:
        return self.state

    def ranges(self) -> Iterator[AccessedRange]:
        yield AccessedRange(f"the predicate {self.predicate}", 0, 1, self.predicate.size)

    @property
    def nested(self) -> list[list[Thunk]]:
        return [self.condition, self.body]

    @property
    def nested_titles(self) -> list[str]:
        return ["condition", "body"]

    def accept(self, visitor: ThunkVisitor) -> None:
        visitor.loop(self)

    @property
    def cost(self) -> int:
        return sum(thunk.cost for thunks in self.nested for thunk in thunks)

    @property
    def is_inline(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return f"while {self.predicate} ({self.op_name})"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.while_loop(function, self)


@dataclass(eq=False, slots=True)
class ConditionalThunk(Thunk):
    """Runs the branch whose number is in `index`, or the last branch if the number is out of range.

    A PRED index selects branch 0 if it is true. Each branch leaves the results in the slices `results`.
    """

    index: BufferSlice
    branches: list[list[Thunk]] = field(default_factory=list["list[Thunk]"])
    op_name: str = ""
    results: list[BufferSlice] = field(default_factory=list[BufferSlice])

    @property
    def reads(self) -> list[BufferSlice]:
        return [self.index]

    @property
    def writes(self) -> list[BufferSlice]:
        return []

    def replace(self, mapping: Replacements) -> None:
        self.index, *self.results = replaced([self.index, *self.results], mapping)

    @property
    def carried(self) -> list[BufferSlice]:
        return self.results

    def ranges(self) -> Iterator[AccessedRange]:
        yield AccessedRange(f"the index {self.index}", 0, self.index.shape.element_type.byte_size, self.index.size)

    @property
    def nested(self) -> list[list[Thunk]]:
        return self.branches

    @property
    def nested_titles(self) -> list[str]:
        return [f"branch {number}" for number in range(len(self.branches))]

    def accept(self, visitor: ThunkVisitor) -> None:
        visitor.conditional(self)

    @property
    def cost(self) -> int:
        return max((sum(thunk.cost for thunk in branch) for branch in self.branches), default=0)

    @property
    def is_inline(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return f"branch by {self.index} ({self.op_name})"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.conditional(function, self)


class FunctionsThunk(Thunk):
    """Thunks that are emitted as functions of their own. Only what they contain accesses memory."""

    __slots__ = ()

    polls_itself: ClassVar[bool] = True

    @property
    def reads(self) -> list[BufferSlice]:
        return []

    @property
    def writes(self) -> list[BufferSlice]:
        return []

    def replace(self, mapping: Replacements) -> None:
        return

    @property
    def cost(self) -> int:
        return sum(thunk.cost for thunks in self.nested for thunk in thunks)

    def function_statements(self, count: Callable[[Kernel], int]) -> int:
        return CALL_STATEMENTS


@dataclass(eq=False, slots=True)
class ConcurrentThunk(FunctionsThunk):
    """Runs tasks on all threads, each on one thread.

    waits: the numbers of the tasks that must have run when a task starts, which are smaller than its own.
    """

    tasks: list[OutlinedThunk]
    waits: list[tuple[int, ...]]

    @property
    def nested(self) -> list[list[Thunk]]:
        return [[task] for task in self.tasks]

    @property
    def nested_titles(self) -> list[str]:
        after = [f", after {', '.join(map(str, waits))}" if waits else "" for waits in self.waits]
        return [f"task {number}{text}" for number, text in enumerate(after)]

    def accept(self, visitor: ThunkVisitor) -> None:
        visitor.concurrent(self)

    @property
    def title(self) -> str:
        return f"{len(self.tasks)} tasks at the same time"

    @property
    def label(self) -> str:
        return "tasks"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.concurrent_tasks(function, self)


@dataclass(eq=False, slots=True)
class OutlinedThunk(FunctionsThunk):
    """A sequence of thunks that is emitted as a function of its own.

    loaded: small slices that the function copies to its stack when it starts. stored: those it copies back at the end.
    vectors: stack slots that are one value each, of which elements with a computed index are inserted and extracted.
    They are slices of the nested thunks, so the function itself has neither `reads` nor `writes`.
    """

    thunks: list[Thunk]
    loaded: list[BufferSlice] = field(default_factory=list[BufferSlice])
    stored: list[BufferSlice] = field(default_factory=list[BufferSlice])
    vectors: list[BufferSlice] = field(default_factory=list[BufferSlice])

    def replace(self, mapping: Replacements) -> None:
        self.loaded, self.stored = replaced(self.loaded, mapping), replaced(self.stored, mapping)
        self.vectors = replaced(self.vectors, mapping)

    @property
    def nested(self) -> list[list[Thunk]]:
        return [self.thunks]

    @property
    def nested_titles(self) -> list[str]:
        return [""]

    @property
    def function(self) -> OutlinedThunk | None:
        return self

    def accept(self, visitor: ThunkVisitor) -> None:
        visitor.outlined(self)

    @property
    def title(self) -> str:
        copies = [("loads", self.loaded), ("stores", self.stored)]
        return "function" + ",".join(f" {verb} {join_slices(slices)}" for verb, slices in copies if slices)

    @property
    def label(self) -> str:
        return "a function"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.call_outlined(function, self)
