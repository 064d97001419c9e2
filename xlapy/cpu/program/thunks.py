"""The native program before it is machine code: memory slices, and thunks that read and write them.

A slice_ is an array's memory: an argument, a result, a constant, or a temporary with a place in the arena. Tuples are
gone: a tuple value is a tree of slices. Steps run one after the other; loops and conditionals hold thunks of their own.

Owns: the data. Must not know: HLO's operations, LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from xlapy.base.shape import Shape
from xlapy.loops import Kernel

if TYPE_CHECKING:
    from xlapy.cpu.program.profiling_counters import Clocks


class StorageClass(Enum):
    ARGUMENT = "argument"
    RESULT = "result"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    HELD = "held"
    """A temporary that one part alone uses: it lies on that function's stack, or in registers."""
    SHARED = "shared"
    """What the members of a meeting brought: each meeting says anew where it lies."""


@dataclass(eq=False, slots=True)
class BufferSlice:
    """The memory of one array, row-major. number: of the argument, result or constant.

    A temporary lies at `offset` in the arena, or in the memory of the result `number` until that is made.
    """

    shape: Shape
    kind: StorageClass = StorageClass.TEMPORARY
    number: int = -1
    offset: int = -1
    data: np.ndarray[Any, Any] | None = None
    """The elements of a constant."""
    name: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.shape.size * self.shape.element_type.byte_size

    @property
    def place(self) -> str:
        """Where a temporary lies: its offset, that of a result before it."""
        return f"+{self.offset}" if self.number < 0 else f"@result{self.number}+{self.offset}"

    def __str__(self) -> str:
        if self.kind is StorageClass.HELD:
            return f"held {self.name}:{self.shape.to_text(layout=False)}"
        place = self.place if self.kind is StorageClass.TEMPORARY else str(self.number)
        return f"{self.kind.value}{place}:{self.shape.to_text(layout=False)}"


@dataclass(eq=False, slots=True)
class KernelThunk:
    """Runs a kernel on slices, one a buffer. work: a rough count of scalar operations of one parallel iteration.

    unrolled: in the function of the thunks around it, all loops unrolled.
    """

    kernel: Kernel
    slices: list[BufferSlice]
    work: int = 1
    origin: str = ""
    """The instruction it computes."""
    unrolled: bool = False


@dataclass(eq=False, slots=True)
class CopyThunk:
    """Copies the bytes of one slice_ to another. Of what is shared there may be none: then the target becomes zeros."""

    source: BufferSlice
    target: BufferSlice


@dataclass(eq=False, slots=True)
class WhileThunk:
    """Runs `condition`; while the PRED in `decides` is true, `body` and `condition` again."""

    condition: list[Thunk]
    decides: BufferSlice
    body: list[Thunk]
    origin: str = ""


@dataclass(eq=False, slots=True)
class ConditionalThunk:
    """Runs one of the branches: that with the index in `index`, the last one for any index out of range.

    A PRED index takes branch 0 for true.
    """

    index: BufferSlice
    branches: list[list[Thunk]] = field(default_factory=list["list[Thunk]"])
    origin: str = ""


@dataclass(eq=False, slots=True)
class OutlinedThunk:
    """Steps that are one function. loaded: small slices that it holds in copies of its own; stored: copied back."""

    thunks: list[Thunk]
    loaded: list[BufferSlice] = field(default_factory=list[BufferSlice])
    stored: list[BufferSlice] = field(default_factory=list[BufferSlice])


@dataclass(frozen=True, slots=True)
class Convention:
    """How native code is called instead of the host: by its frame, or by one of C's signatures.

    operands, results: the places of the thunk's slices among all that the code is told of, which tokens are too.
    """

    version: int
    """XLA's number of the signature: 1 to 3, and 4 for frames."""
    operands: tuple[int, ...]
    results: tuple[int, ...]
    single: bool
    """Whether the result is no tuple."""


@dataclass(eq=False, slots=True)
class CallbackThunk:
    """Asks the host for what an instruction gives; the host may fail, which ends the program.

    With a convention, native code is called where the host has put its address, and the host is asked where not. What
    draws random numbers has their counter behind its operands, and behind its results.
    """

    number: int
    """Its place among the program's callbacks."""
    instruction: Any
    """What the host is asked for: opaque here."""
    operands: list[BufferSlice]
    results: list[BufferSlice]
    origin: str = ""
    convention: Convention | None = None
    draws: bool = False


class QueueField(IntEnum):
    """Where the queue between two devices has what, in bytes: those from DONE on are the receiver's."""

    FIRST = 0
    LAST = 8
    SENT = 16
    ASLEEP = 20
    SENDER = 24
    DONE = 64
    ANNOUNCED = 72
    RECEIVER = 76


QUEUE_BYTES = 128


class MessageField(IntEnum):
    """Where a message has what, in bytes, before its arrays."""

    NEXT = 0
    NUMBER = 8
    TAKEN = 12
    STEP = 16
    DEVICE = 24


MESSAGE_HEADER_BYTES = 64


@dataclass(eq=False, slots=True)
class TransferThunk(CallbackThunk):
    """Sends its operands to queues in the memory that devices share, or receives its results from one.

    A recv gives the number of the message that is to come, a recv-done takes it. The host looks after those who wait.
    """

    queues: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """Where the queues of each device lie: none for one that takes no part."""
    partners: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """The devices, one of which is at the other end."""
    claims: bool = False
    """Whether any two devices may be the ends of the queue: those that use it first."""


class FeedField(IntEnum):
    """Where a feed, which begins as a queue does, has what else, in bytes: from TAKEN on for an infeed."""

    JOINED = 24
    TAKEN = 72
    BUSY = 76


HOST_WAIT_OFFSET = 1 << 32
"""Is added to the number of a thunk in which a device waits for the host."""

INFEED_MESSAGE_HEADER_BYTES = 16
"""Bytes of what is fed in before the addresses of its arrays."""


@dataclass(eq=False, slots=True)
class FeedThunk(CallbackThunk):
    """Takes what the host feeds in, or gives to it what is fed out; where the host has not joined, it is called."""

    place: int = 0
    """Where the feeds of all devices lie in what they share, one behind the other."""
    kind: int = 0
    """The number of the shape that is fed in, from 1 on."""


class CallBlockField(IntEnum):
    """Where a callback's block has what, in bytes: the memory by which native code is called.

    FAILURE: what it returned, 0 for success. READY: 0 if the host is to be asked first; if it is 0 still then, the host
    has done all. OPERANDS, RESULTS: where the addresses of arrays go. ARGUMENT: of the frame; OPAQUE and LENGTH: text
    of the program. AWAIT: the function that waits for the end of a call which goes on. STATUS: 64 bytes.
    """

    CODE = 0
    FAILURE = 8
    READY = 16
    OPERANDS = 24
    ARGUMENT = 32
    RESULTS = 40
    OPAQUE = 48
    AWAIT = 48
    LENGTH = 56
    STATUS = 64


BLOCK_BYTES = 128


@dataclass(eq=False, slots=True)
class CollectiveThunk:
    """Copies operands to memory that the members of a group share, and waits until all have done so.

    `shared` are then the places in that memory from which this device reads; they hold until it meets there twice more.
    If it is direct, only the addresses of the operands go to that memory, and `shared` are places in the operands of
    members: they hold as long as each member keeps its own, until a later meeting.
    """

    number: int
    """Its place among the program's callbacks: the host looks after those who wait."""
    instruction: Any
    operands: list[BufferSlice]
    shared: list[BufferSlice]
    rows: list[RendezvousParticipant]
    """What each device does."""
    stage_size: int
    """Bytes of the memory for one meeting; there are two of them, used in turn."""
    origin: str = ""
    direct: bool = False


@dataclass(frozen=True, slots=True)
class RendezvousParticipant:
    """A device in a meeting. Offsets are bytes: of the door in what is shared, of all else in the door's memory."""

    door: int
    """-1 if the device is in no group and must be."""
    members: tuple[int, ...]
    """Numbers of devices."""
    place: int
    """Of this device among the members."""
    brings: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    """-1 for zeros, which only copies read."""
    offsets: tuple[int, ...] = ()
    """In a direct meeting: of each place from the address that it takes."""


@dataclass(frozen=True, slots=True)
class LibraryArray:
    """An argument of a library's function: the slice_ with a number, `size` bytes of it for each call of a batch."""

    slice_: int
    size: int
    offset: int = 0
    """Bytes behind which the function is to begin."""


@dataclass(frozen=True, slots=True)
class LibraryScratch:
    """An argument of a library's function: workspace, at an offset in bytes."""

    offset: int


@dataclass(eq=False, slots=True)
class LibraryCallThunk:
    """Calls a function of a library once for each part of a batch. All arguments are pointers, as Fortran has them."""

    symbol: str
    arguments: tuple[bytes | LibraryArray | LibraryScratch | None, ...]
    """What each pointer points to; bytes are known now."""
    letters: int
    """How many arguments are letters: Fortran takes their lengths behind all others."""
    slices: list[BufferSlice]
    """The workspace last."""
    written: frozenset[int]
    cleared: tuple[LibraryArray, ...]
    """What begins as zeros."""
    finite: LibraryArray | None
    """What must hold neither infinities nor NaN, of `element_bytes` each, for the function to be called at all; if it
    does, the last argument becomes -4."""
    element_bytes: int
    batch: int
    grain: int
    """How many calls a task makes."""
    scratch_size: int
    """Bytes of workspace of a task."""
    work: int
    """A rough count of the operations of a call."""
    origin: str = ""


RENDEZVOUS_HEADER_BYTES = 128
"""Bytes of a door before the numbers of the members' last meetings: the meetings so far, who has come, who sleeps."""

WAIT_RECORD_BYTES = 64
"""Bytes that say what a device waits for. They lie behind as many for the cancellation, one record a device."""


def rounded(size: int) -> int:
    """Bytes in whole lines of memory."""
    return -(-size // 64) * 64


def rendezvous_header_bytes(members: int) -> int:
    """Bytes of a door before the memory for what is brought."""
    return RENDEZVOUS_HEADER_BYTES + rounded(4 * members)


Thunk = (
    KernelThunk
    | CopyThunk
    | WhileThunk
    | ConditionalThunk
    | OutlinedThunk
    | CallbackThunk
    | CollectiveThunk
    | LibraryCallThunk
)


def nested_thunks(thunk: Thunk) -> list[list[Thunk]]:
    """The lists of thunks that belong to a thunk."""
    if isinstance(thunk, WhileThunk):
        return [thunk.condition, thunk.body]
    if isinstance(thunk, OutlinedThunk):
        return [thunk.thunks]
    return thunk.branches if isinstance(thunk, ConditionalThunk) else []


def used_slices(thunk: Thunk) -> list[BufferSlice]:
    """The slices that the thunk itself names."""
    if isinstance(thunk, KernelThunk | LibraryCallThunk):
        return thunk.slices
    if isinstance(thunk, CopyThunk):
        return [thunk.source, thunk.target]
    if isinstance(thunk, OutlinedThunk):
        return []
    if isinstance(thunk, CallbackThunk):
        return [*thunk.operands, *thunk.results]
    if isinstance(thunk, CollectiveThunk):
        return [*thunk.operands, *thunk.shared]
    return [thunk.decides] if isinstance(thunk, WhileThunk) else [thunk.index]


def written_slices(thunk: Thunk) -> list[BufferSlice]:
    """Those of them that the thunk writes."""
    if isinstance(thunk, KernelThunk):
        return [slice_ for buffer, slice_ in zip(thunk.kernel.buffers, thunk.slices, strict=True) if buffer.written]
    if isinstance(thunk, LibraryCallThunk):
        return [*(thunk.slices[number] for number in sorted(thunk.written)), thunk.slices[-1]]
    if isinstance(thunk, CallbackThunk | CollectiveThunk):
        return thunk.results if isinstance(thunk, CallbackThunk) else thunk.shared
    return [thunk.target] if isinstance(thunk, CopyThunk) else []


def walk_thunks(thunks: list[Thunk]) -> Iterator[Thunk]:
    """Every thunk, those of inner lists behind what they belong to."""
    stack = thunks[::-1]
    while stack:
        thunk = stack.pop()
        yield thunk
        for inner in reversed(nested_thunks(thunk)):
            stack.extend(inner[::-1])


@dataclass(eq=False, slots=True)
class NativeProgram:
    """All thunks of a module, and its slices at the boundary."""

    name: str
    arguments: list[BufferSlice] = field(default_factory=list[BufferSlice])
    """The leaves of the parameters, then those of `ids`."""
    ids: list[str] = field(default_factory=list[str])
    """What the program asks of the device and the run: "replica-id", "partition-id", "rng-get-and-update-state"."""
    results: list[BufferSlice] = field(default_factory=list[BufferSlice])
    aliases: dict[int, int] = field(default_factory=dict[int, int])
    """Results that lie in the memory of a donated argument: the numbers of both."""
    constants: list[BufferSlice] = field(default_factory=list[BufferSlice])
    thunks: list[Thunk] = field(default_factory=list[Thunk])
    callbacks: list[CallbackThunk | CollectiveThunk] = field(default_factory=list["CallbackThunk | CollectiveThunk"])
    replica_count: int = 1
    partition_count: int = 1
    shared: int = 0
    """Places in shared memory that the table has."""
    shared_size: int = 0
    """Bytes that the devices of a run share."""
    arena_size: int = 0
    temporaries: list[BufferSlice] = field(default_factory=list[BufferSlice])
    """Those in the arena, the largest first."""
    clocks: Clocks | None = None
    """Where the clock is read, if the program is instrumented."""

    def share(self, size: int) -> int:
        """Where so many bytes more lie in what devices share, behind the records of who waits."""
        records = rounded(WAIT_RECORD_BYTES * (1 + self.replica_count * self.partition_count))
        place = max(records, self.shared_size)
        self.shared_size = place + rounded(size)
        return place

    def table_index(self, slice_: BufferSlice) -> int:
        """Where the table of addresses has the memory that a slice_ lies in: arena, arguments, results, constants."""
        if slice_.kind is StorageClass.TEMPORARY:
            return 0 if slice_.number < 0 else 1 + len(self.arguments) + slice_.number
        if slice_.kind is StorageClass.ARGUMENT:
            return 1 + slice_.number
        if slice_.kind is StorageClass.RESULT:
            return 1 + len(self.arguments) + slice_.number
        if slice_.kind is StorageClass.SHARED:
            return self.device_index + 1 + slice_.number
        return 1 + len(self.arguments) + len(self.results) + slice_.number

    @property
    def implicit_arguments_index(self) -> int:
        """Where it has what the program asks of the device and the run: the last of the arguments."""
        return 1 + len(self.arguments) - len(self.ids)

    @property
    def callback_index(self) -> int:
        """Where the table has the address of the function that carries out callbacks: behind all memory."""
        return 1 + len(self.arguments) + len(self.results) + len(self.constants)

    @property
    def shared_index(self) -> int:
        """Where it has the address of what the devices of a run share."""
        return self.callback_index + 1

    @property
    def device_index(self) -> int:
        """Where it has the number of the device; behind it the places in shared memory."""
        return self.shared_index + 1

    @property
    def call_blocks_index(self) -> int:
        """Where it has the address of the block of each callback that may be native code, by number."""
        return self.device_index + 1 + self.shared

    @property
    def poll_index(self) -> int:
        """Where it has the function of the host that says now and then whether to go on, the identity of the one thread
        that is to ask, and room for when it last did, and whether it was told to end."""
        return self.call_blocks_index + len(self.callbacks)

    @property
    def table_size(self) -> int:
        """How many addresses the table holds."""
        return self.counters_index + (self.clocks is not None)

    @property
    def counters_index(self) -> int:
        """Where it has the address of what an instrumented program counts: behind all else."""
        return self.poll_index + 4


def print_program(program: NativeProgram) -> str:
    """The memory of a program and its thunks, a line each; loops and branches indent what they hold."""
    lines = [f"program {program.name}: arena of {program.arena_size} bytes"]
    for title, slices in (
        ("argument", program.arguments),
        ("result", program.results),
        ("constant", program.constants),
    ):
        lines += [
            f"  {title} {slice_.number}: {slice_.shape.to_text(layout=False)}, {slice_.size} bytes" for slice_ in slices
        ]
    lines += [f"  result {result} lies in argument {argument}" for result, argument in program.aliases.items()]
    return "\n".join([*lines, *_printed(program.thunks, "  ")]) + "\n"


def _printed(thunks: list[Thunk], indent: str) -> Iterator[str]:
    for thunk in thunks:
        yield indent + thunk_title(thunk)
        if isinstance(thunk, OutlinedThunk):
            yield from _printed(thunk.thunks, indent + "  ")
            continue
        for number, inner in enumerate(nested_thunks(thunk)):
            name = ("condition", "body")[number] if isinstance(thunk, WhileThunk) else f"branch {number}"
            yield f"{indent}  {name}"
            yield from _printed(inner, indent + "    ")


def thunk_title(thunk: Thunk) -> str:
    """The line of a thunk: what it does, on which memory, for which instruction."""
    if isinstance(thunk, KernelThunk):
        loop = thunk.kernel.parallel_loop
        extent = f", {loop.extent} iterations of about {thunk.work} operations" if loop is not None else ""
        return f"kernel {thunk.origin}({', '.join(map(str, thunk.slices))}){extent}"
    if isinstance(thunk, CopyThunk):
        return f"copy {thunk.source} to {thunk.target}"
    if isinstance(thunk, CallbackThunk):
        operands, results = (", ".join(map(str, slices)) for slices in (thunk.operands, thunk.results))
        what = "callback" if thunk.convention is None else "target"
        what = "transfer" if isinstance(thunk, TransferThunk | FeedThunk) else what
        return f"{what} {thunk.number} {thunk.origin}({operands}) to ({results})"
    if isinstance(thunk, CollectiveThunk):
        operands, shared = (", ".join(map(str, slices)) for slices in (thunk.operands, thunk.shared))
        return f"meet {thunk.number} {thunk.origin}({operands}), then read ({shared})"
    if isinstance(thunk, LibraryCallThunk):
        calls = f", {thunk.batch} calls of about {thunk.work} operations" if thunk.batch > 1 else ""
        return f"{thunk.symbol} {thunk.origin}({', '.join(map(str, thunk.slices))}){calls}"
    if isinstance(thunk, WhileThunk):
        return f"while {thunk.decides} ({thunk.origin})"
    if isinstance(thunk, OutlinedThunk):
        copies = [("loads", thunk.loaded), ("stores", thunk.stored)]
        return "part" + ",".join(f" {what} {', '.join(map(str, slices))}" for what, slices in copies if slices)
    return f"branch by {thunk.index} ({thunk.origin})"
