"""Thunks: the units of execution of a native program. Each one reads and writes buffer slices.

The thunks of a sequence run one after the other. Loops, conditionals and outlined functions contain sequences of their
own.

Responsible for the thunk records and for walking them. Does not depend on HLO operations or LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.loops import Kernel


@dataclass(eq=False, slots=True)
class KernelThunk:
    """Runs a kernel on one slice per buffer.

    work: a rough number of scalar operations in one iteration of the kernel's parallel loop.
    unrolled: whether the kernel is emitted inline, with all loops unrolled, into the function that contains the thunk.
    """

    kernel: Kernel
    slices: list[BufferSlice]
    work: int = 1
    op_name: str = ""
    """The name of the instruction that the kernel computes."""
    unrolled: bool = False


@dataclass(eq=False, slots=True)
class CopyThunk:
    """Copies the bytes of one slice to another. If a shared source has no address, the target is filled with zeros."""

    source: BufferSlice
    target: BufferSlice


@dataclass(eq=False, slots=True)
class WhileThunk:
    """Runs `condition`; while the PRED in `predicate` is true, runs `body` and `condition` again.

    state: the slices of the leaves that the body changes. They hold the initial values before the loop, and the next
    ones after the body.
    """

    condition: list[Thunk]
    predicate: BufferSlice
    body: list[Thunk]
    op_name: str = ""
    state: list[BufferSlice] = field(default_factory=list[BufferSlice])


@dataclass(eq=False, slots=True)
class ConditionalThunk:
    """Runs the branch whose number is in `index`, or the last branch if the number is out of range.

    A PRED index selects branch 0 if it is true. Each branch leaves the results in the slices `results`.
    """

    index: BufferSlice
    branches: list[list[Thunk]] = field(default_factory=list["list[Thunk]"])
    op_name: str = ""
    results: list[BufferSlice] = field(default_factory=list[BufferSlice])


@dataclass(eq=False, slots=True)
class OutlinedThunk:
    """A sequence of thunks that is emitted as a function of its own.

    loaded: small slices that the function copies to its stack when it starts. stored: those it copies back at the end.
    """

    thunks: list[Thunk]
    loaded: list[BufferSlice] = field(default_factory=list[BufferSlice])
    stored: list[BufferSlice] = field(default_factory=list[BufferSlice])


@dataclass(frozen=True, slots=True)
class CallingConvention:
    """How native code calls a custom-call target directly: by a call frame or by one of the C signatures.

    operand_positions, result_positions: the positions of the thunk's slices among all leaves that the target receives,
    because tokens are leaves too but have no slices.
    """

    api_version: int
    """XLA's number of the signature: 1 to 3 for C signatures, 4 for call frames."""
    operand_positions: tuple[int, ...]
    result_positions: tuple[int, ...]
    returns_array: bool
    """Whether the result is a single array rather than a tuple."""


@dataclass(eq=False, slots=True)
class CallbackThunk:
    """Calls the host to compute an instruction. The host may fail, which ends the program.

    With a calling convention, native code calls a target directly if the host has provided its address, and calls the
    host otherwise. An instruction that draws random numbers has their counter as its last operand and last result.
    """

    number: int
    """The index in the program's `host_calling_thunks`."""
    instruction: Any
    """The HLO instruction; opaque to the native program."""
    operands: list[BufferSlice]
    results: list[BufferSlice]
    op_name: str = ""
    calling_convention: CallingConvention | None = None
    draws_random: bool = False


@dataclass(eq=False, slots=True)
class BoundsThunk(CallbackThunk):
    """Reports an access out of bounds to the host, from wherever it happened. The operand describes the access."""


@dataclass(eq=False, slots=True)
class TransferThunk(CallbackThunk):
    """Sends its operands to queues in the memory that devices share, or receives its results from such a queue.

    A recv stores the number of the message to come; its recv-done takes that message. The host checks on devices that
    wait for a long time.
    """

    queues: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """For each device, the offsets of its queues in shared memory; empty if the device does not take part."""
    partners: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """For each device, the devices of which one is at the other end."""
    claims_end: bool = False
    """Whether any two devices may use the queue, so that the first sender and the first receiver claim its ends."""


@dataclass(eq=False, slots=True)
class FeedThunk(CallbackThunk):
    """Takes what the host feeds in, or hands over what is fed out. If the host has not joined, it is called instead."""

    queue_offset: int = 0
    """The offset in shared memory of the feed queues of all devices, which lie one after the other."""
    shape_number: int = 0
    """For infeeds, the number of the shape that is fed in, starting from 1."""


@dataclass(eq=False, slots=True)
class CollectiveThunk:
    """Meets the other members of a group in a rendezvous, to which every member contributes its operands.

    The operands are copied to staging memory that the members share. Afterwards the slices in `received` point to that
    memory; they stay valid until the device has met there twice more. If the thunk is `direct`, only the addresses of
    the operands are published and `received` points into the members' own arrays; these stay valid until a later
    rendezvous.
    """

    number: int
    """The index in the program's `host_calling_thunks`: the host checks on devices that wait for a long time."""
    instruction: Any
    operands: list[BufferSlice]
    received: list[BufferSlice]
    participants: list[RendezvousParticipant]
    """One entry per device."""
    staging_size: int
    """The size in bytes of the staging memory of one rendezvous; there are two such areas, used alternately."""
    op_name: str = ""
    direct: bool = False


@dataclass(frozen=True, slots=True)
class RendezvousParticipant:
    """What one device does in a rendezvous. Offsets are in bytes, within staging memory unless said otherwise."""

    rendezvous_offset: int
    """The offset of the rendezvous record in shared memory; -1 if the device is in no group although it must be."""
    members: tuple[int, ...]
    """The numbers of the devices in the group."""
    rank: int
    """The position of this device among the members."""
    send_offsets: tuple[int, ...] = ()
    """Where the device puts each operand, or its address if the rendezvous is direct."""
    receive_offsets: tuple[int, ...] = ()
    """Where each received array, or its address, lies; -1 stands for zeros, which only copies may read."""
    peer_offsets: tuple[int, ...] = ()
    """In a direct rendezvous: the offset of each received array from the published address."""


# -- library calls


@dataclass(frozen=True, slots=True)
class LibraryArray:
    """An argument of a library function: `size` bytes of a slice for each call of a batch."""

    slice_index: int
    size: int
    offset: int = 0
    """The number of bytes to skip at the start of the array."""


@dataclass(frozen=True, slots=True)
class LibraryScratch:
    """An argument of a library function: workspace, at an offset in bytes."""

    offset: int


@dataclass(eq=False, slots=True)
class LibraryCallThunk:
    """Calls a library function once for each element of a batch. All arguments are pointers, as in Fortran."""

    symbol: str
    arguments: tuple[bytes | LibraryArray | LibraryScratch | None, ...]
    """What each pointer points to; bytes are compile-time constants."""
    character_arguments: int
    """The number of character arguments: Fortran passes their lengths after all other arguments."""
    slices: list[BufferSlice]
    """The slices that arguments refer to; the last one is the workspace."""
    written: frozenset[int]
    """The indices of the slices that the function writes."""
    zero_initialized: tuple[LibraryArray, ...]
    """The arrays that are filled with zeros before each call."""
    must_be_finite: LibraryArray | None
    """An array, of floats of `element_bytes` each, that is checked before each call. If it contains an infinity or a
    NaN, the function is not called and its last argument is set to -4."""
    element_bytes: int
    batch: int
    """The number of calls."""
    grain: int
    """The number of calls per parallel task."""
    scratch_size: int
    """The size in bytes of the workspace of one task."""
    work: int
    """A rough number of operations per call."""
    op_name: str = ""


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
    """Returns the thunk sequences that a thunk contains directly."""
    if isinstance(thunk, WhileThunk):
        return [thunk.condition, thunk.body]
    if isinstance(thunk, OutlinedThunk):
        return [thunk.thunks]
    return thunk.branches if isinstance(thunk, ConditionalThunk) else []


def used_slices(thunk: Thunk) -> list[BufferSlice]:
    """Returns the slices that a thunk itself refers to, without those of nested thunks."""
    if isinstance(thunk, KernelThunk | LibraryCallThunk):
        return thunk.slices
    if isinstance(thunk, CopyThunk):
        return [thunk.source, thunk.target]
    if isinstance(thunk, OutlinedThunk):
        return []
    if isinstance(thunk, CallbackThunk):
        return [*thunk.operands, *thunk.results]
    if isinstance(thunk, CollectiveThunk):
        return [*thunk.operands, *thunk.received]
    return [thunk.predicate] if isinstance(thunk, WhileThunk) else [thunk.index]


def written_positions(thunk: Thunk) -> list[int]:
    """Returns the positions, in `used_slices`, of the slices that a thunk itself writes."""
    if isinstance(thunk, KernelThunk):
        return [number for number, buffer in enumerate(thunk.kernel.buffers) if buffer.written]
    if isinstance(thunk, LibraryCallThunk):
        return [*sorted(thunk.written), len(thunk.slices) - 1]
    if isinstance(thunk, CallbackThunk | CollectiveThunk):
        return list(range(len(thunk.operands), len(used_slices(thunk))))
    return [1] if isinstance(thunk, CopyThunk) else []


def written_slices(thunk: Thunk) -> list[BufferSlice]:
    """Returns the slices that a thunk itself writes."""
    slices = used_slices(thunk)
    return [slices[number] for number in written_positions(thunk)]


def walk_thunks(thunks: list[Thunk]) -> Iterator[Thunk]:
    """Yields every thunk in pre-order: each one before those that it contains."""
    stack = thunks[::-1]
    while stack:
        thunk = stack.pop()
        yield thunk
        for nested in reversed(nested_thunks(thunk)):
            stack.extend(nested[::-1])
