"""The native program before it is machine code: memory slots, and steps that read and write them.

A slot is an array's memory: an argument, a result, a constant, or a temporary with a place in the arena. Tuples are
gone: a tuple value is a tree of slots. Steps run one after the other; loops and conditionals hold steps of their own.

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


class SlotKind(Enum):
    ARGUMENT = "argument"
    RESULT = "result"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    HELD = "held"
    """A temporary that one part alone uses: it lies on that function's stack, or in registers."""
    SHARED = "shared"
    """What the members of a meeting brought: each meeting says anew where it lies."""


@dataclass(eq=False, slots=True)
class Slot:
    """The memory of one array, row-major. number: of the argument, result or constant.

    A temporary lies at `offset` in the arena, or in the memory of the result `number` until that is made.
    """

    shape: Shape
    kind: SlotKind = SlotKind.TEMPORARY
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
        if self.kind is SlotKind.HELD:
            return f"held {self.name}:{self.shape.brief}"
        place = self.place if self.kind is SlotKind.TEMPORARY else str(self.number)
        return f"{self.kind.value}{place}:{self.shape.brief}"


@dataclass(eq=False, slots=True)
class KernelStep:
    """Runs a kernel on slots, one a buffer. work: a rough count of scalar operations of one parallel iteration.

    written_out: in the function of the steps around it, all loops unrolled.
    """

    kernel: Kernel
    slots: list[Slot]
    work: int = 1
    origin: str = ""
    """The instruction it computes."""
    written_out: bool = False


@dataclass(eq=False, slots=True)
class CopyStep:
    """Copies the bytes of one slot to another. Of what is shared there may be none: then the target becomes zeros."""

    source: Slot
    target: Slot


@dataclass(eq=False, slots=True)
class WhileStep:
    """Runs `condition`; while the PRED in `decides` is true, `body` and `condition` again."""

    condition: list[Step]
    decides: Slot
    body: list[Step]
    origin: str = ""


@dataclass(eq=False, slots=True)
class BranchStep:
    """Runs one of the branches: that with the index in `index`, the last one for any index out of range.

    A PRED index takes branch 0 for true.
    """

    index: Slot
    branches: list[list[Step]] = field(default_factory=list["list[Step]"])
    origin: str = ""


@dataclass(eq=False, slots=True)
class PartStep:
    """Steps that are one function. loaded: small slots that it holds in copies of its own; stored: copied back."""

    steps: list[Step]
    loaded: list[Slot] = field(default_factory=list[Slot])
    stored: list[Slot] = field(default_factory=list[Slot])


@dataclass(frozen=True, slots=True)
class Convention:
    """How native code is called instead of the host: by its frame, or by one of C's signatures.

    operands, results: the places of the step's slots among all that the code is told of, which tokens are too.
    """

    version: int
    """XLA's number of the signature: 1 to 3, and 4 for frames."""
    operands: tuple[int, ...]
    results: tuple[int, ...]
    single: bool
    """Whether the result is no tuple."""


@dataclass(eq=False, slots=True)
class CallbackStep:
    """Asks the host for what an instruction gives; the host may fail, which ends the program.

    With a convention, native code is called where the host has put its address, and the host is asked where not. What
    draws random numbers has their counter behind its operands, and behind its results.
    """

    number: int
    """Its place among the program's callbacks."""
    instruction: Any
    """What the host is asked for: opaque here."""
    operands: list[Slot]
    results: list[Slot]
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


MESSAGE_HEADER = 64


@dataclass(eq=False, slots=True)
class TransferStep(CallbackStep):
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


WAITS_FOR_HOST = 1 << 32
"""Is added to the number of a step in which a device waits for the host."""

FED_HEADER = 16
"""Bytes of what is fed in before the addresses of its arrays."""


@dataclass(eq=False, slots=True)
class FeedStep(CallbackStep):
    """Takes what the host feeds in, or gives to it what is fed out; where the host has not joined, it is called."""

    place: int = 0
    """Where the feeds of all devices lie in what they share, one behind the other."""
    kind: int = 0
    """The number of the shape that is fed in, from 1 on."""


class BlockField(IntEnum):
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
class MeetStep:
    """Copies operands to memory that the members of a group share, and waits until all have done so.

    `shared` are then the places in that memory from which this device reads; they hold until it meets there twice more.
    If it is direct, only the addresses of the operands go to that memory, and `shared` are places in the operands of
    members: they hold as long as each member keeps its own, until a later meeting.
    """

    number: int
    """Its place among the program's callbacks: the host looks after those who wait."""
    instruction: Any
    operands: list[Slot]
    shared: list[Slot]
    rows: list[MeetRow]
    """What each device does."""
    stage_size: int
    """Bytes of the memory for one meeting; there are two of them, used in turn."""
    origin: str = ""
    direct: bool = False


@dataclass(frozen=True, slots=True)
class MeetRow:
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
    """An argument of a library's function: the slot with a number, `size` bytes of it for each call of a batch."""

    slot: int
    size: int
    offset: int = 0
    """Bytes behind which the function is to begin."""


@dataclass(frozen=True, slots=True)
class LibraryScratch:
    """An argument of a library's function: workspace, at an offset in bytes."""

    offset: int


@dataclass(eq=False, slots=True)
class LibraryStep:
    """Calls a function of a library once for each part of a batch. All arguments are pointers, as Fortran has them."""

    symbol: str
    arguments: tuple[bytes | LibraryArray | LibraryScratch | None, ...]
    """What each pointer points to; bytes are known now."""
    letters: int
    """How many arguments are letters: Fortran takes their lengths behind all others."""
    slots: list[Slot]
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


MEET_HEADER = 128
"""Bytes of a door before the numbers of the members' last meetings: the meetings so far, who has come, who sleeps."""

WAIT_RECORD = 64
"""Bytes that say what a device waits for. They lie behind as many for the cancellation, one record a device."""


def rounded(size: int) -> int:
    """Bytes in whole lines of memory."""
    return -(-size // 64) * 64


def door_header(members: int) -> int:
    """Bytes of a door before the memory for what is brought."""
    return MEET_HEADER + rounded(4 * members)


Step = KernelStep | CopyStep | WhileStep | BranchStep | PartStep | CallbackStep | MeetStep | LibraryStep


def inner_steps(step: Step) -> list[list[Step]]:
    """The lists of steps that belong to a step."""
    if isinstance(step, WhileStep):
        return [step.condition, step.body]
    if isinstance(step, PartStep):
        return [step.steps]
    return step.branches if isinstance(step, BranchStep) else []


def slots_of(step: Step) -> list[Slot]:
    """The slots that the step itself names."""
    if isinstance(step, KernelStep | LibraryStep):
        return step.slots
    if isinstance(step, CopyStep):
        return [step.source, step.target]
    if isinstance(step, PartStep):
        return []
    if isinstance(step, CallbackStep):
        return [*step.operands, *step.results]
    if isinstance(step, MeetStep):
        return [*step.operands, *step.shared]
    return [step.decides] if isinstance(step, WhileStep) else [step.index]


def written_slots(step: Step) -> list[Slot]:
    """Those of them that the step writes."""
    if isinstance(step, KernelStep):
        return [slot for buffer, slot in zip(step.kernel.buffers, step.slots, strict=True) if buffer.written]
    if isinstance(step, LibraryStep):
        return [*(step.slots[number] for number in sorted(step.written)), step.slots[-1]]
    if isinstance(step, CallbackStep | MeetStep):
        return step.results if isinstance(step, CallbackStep) else step.shared
    return [step.target] if isinstance(step, CopyStep) else []


def all_steps(steps: list[Step]) -> Iterator[Step]:
    """Every step, those of inner lists behind what they belong to."""
    stack = steps[::-1]
    while stack:
        step = stack.pop()
        yield step
        for inner in reversed(inner_steps(step)):
            stack.extend(inner[::-1])


@dataclass(eq=False, slots=True)
class NativeProgram:
    """All steps of a module, and its slots at the boundary."""

    name: str
    arguments: list[Slot] = field(default_factory=list[Slot])
    """The leaves of the parameters, then those of `ids`."""
    ids: list[str] = field(default_factory=list[str])
    """What the program asks of the device and the run: "replica-id", "partition-id", "rng-get-and-update-state"."""
    results: list[Slot] = field(default_factory=list[Slot])
    aliases: dict[int, int] = field(default_factory=dict[int, int])
    """Results that lie in the memory of a donated argument: the numbers of both."""
    constants: list[Slot] = field(default_factory=list[Slot])
    steps: list[Step] = field(default_factory=list[Step])
    callbacks: list[CallbackStep | MeetStep] = field(default_factory=list["CallbackStep | MeetStep"])
    replica_count: int = 1
    partition_count: int = 1
    shared: int = 0
    """Places in shared memory that the table has."""
    shared_size: int = 0
    """Bytes that the devices of a run share."""
    arena_size: int = 0
    temporaries: list[Slot] = field(default_factory=list[Slot])
    """Those in the arena, the largest first."""
    clocks: Clocks | None = None
    """Where the clock is read, if the program is instrumented."""

    def share(self, size: int) -> int:
        """Where so many bytes more lie in what devices share, behind the records of who waits."""
        records = rounded(WAIT_RECORD * (1 + self.replica_count * self.partition_count))
        place = max(records, self.shared_size)
        self.shared_size = place + rounded(size)
        return place

    def table_index(self, slot: Slot) -> int:
        """Where the table of addresses has the memory that a slot lies in: arena, arguments, results, constants."""
        if slot.kind is SlotKind.TEMPORARY:
            return 0 if slot.number < 0 else 1 + len(self.arguments) + slot.number
        if slot.kind is SlotKind.ARGUMENT:
            return 1 + slot.number
        if slot.kind is SlotKind.RESULT:
            return 1 + len(self.arguments) + slot.number
        if slot.kind is SlotKind.SHARED:
            return self.device_index + 1 + slot.number
        return 1 + len(self.arguments) + len(self.results) + slot.number

    @property
    def ids_index(self) -> int:
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
    def blocks_index(self) -> int:
        """Where it has the address of the block of each callback that may be native code, by number."""
        return self.device_index + 1 + self.shared

    @property
    def asking_index(self) -> int:
        """Where it has the function of the host that says now and then whether to go on, the identity of the one thread
        that is to ask, and room for when it last did, and whether it was told to end."""
        return self.blocks_index + len(self.callbacks)

    @property
    def table_size(self) -> int:
        """How many addresses the table holds."""
        return self.clock_index + (self.clocks is not None)

    @property
    def clock_index(self) -> int:
        """Where it has the address of what an instrumented program counts: behind all else."""
        return self.asking_index + 4


def print_program(program: NativeProgram) -> str:
    """The memory of a program and its steps, a line each; loops and branches indent what they hold."""
    lines = [f"program {program.name}: arena of {program.arena_size} bytes"]
    for title, slots in (("argument", program.arguments), ("result", program.results), ("constant", program.constants)):
        lines += [f"  {title} {slot.number}: {slot.shape.brief}, {slot.size} bytes" for slot in slots]
    lines += [f"  result {result} lies in argument {argument}" for result, argument in program.aliases.items()]
    return "\n".join([*lines, *_printed(program.steps, "  ")]) + "\n"


def _printed(steps: list[Step], indent: str) -> Iterator[str]:
    for step in steps:
        yield indent + step_title(step)
        if isinstance(step, PartStep):
            yield from _printed(step.steps, indent + "  ")
            continue
        for number, inner in enumerate(inner_steps(step)):
            name = ("condition", "body")[number] if isinstance(step, WhileStep) else f"branch {number}"
            yield f"{indent}  {name}"
            yield from _printed(inner, indent + "    ")


def step_title(step: Step) -> str:
    """The line of a step: what it does, on which memory, for which instruction."""
    if isinstance(step, KernelStep):
        loop = step.kernel.parallel_loop
        extent = f", {loop.extent} iterations of about {step.work} operations" if loop is not None else ""
        return f"kernel {step.origin}({', '.join(map(str, step.slots))}){extent}"
    if isinstance(step, CopyStep):
        return f"copy {step.source} to {step.target}"
    if isinstance(step, CallbackStep):
        operands, results = (", ".join(map(str, slots)) for slots in (step.operands, step.results))
        what = "callback" if step.convention is None else "target"
        what = "transfer" if isinstance(step, TransferStep | FeedStep) else what
        return f"{what} {step.number} {step.origin}({operands}) to ({results})"
    if isinstance(step, MeetStep):
        operands, shared = (", ".join(map(str, slots)) for slots in (step.operands, step.shared))
        return f"meet {step.number} {step.origin}({operands}), then read ({shared})"
    if isinstance(step, LibraryStep):
        calls = f", {step.batch} calls of about {step.work} operations" if step.batch > 1 else ""
        return f"{step.symbol} {step.origin}({', '.join(map(str, step.slots))}){calls}"
    if isinstance(step, WhileStep):
        return f"while {step.decides} ({step.origin})"
    if isinstance(step, PartStep):
        copies = [("loads", step.loaded), ("stores", step.stored)]
        return "part" + ",".join(f" {what} {', '.join(map(str, slots))}" for what, slots in copies if slots)
    return f"branch by {step.index} ({step.origin})"
