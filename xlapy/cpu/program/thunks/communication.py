"""Thunks that communicate with other devices.

Responsible for these records, for how a waiting device is read off shared memory, and for what of a thunk is
serialized. Does not depend on HLO operations or LLVM.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from xlapy.cpu.program.buffer_slices import AccessedRange, BufferSlice, join_slices
from xlapy.cpu.program.shared_records import ADDRESS_BYTES, QUEUE_SENT_OFFSET, RENDEZVOUS_HEADER_BYTES
from xlapy.cpu.program.thunks.emitter import ThunkEmitter
from xlapy.cpu.program.thunks.host import (
    BoundsThunk,
    CallbackThunk,
    FeedThunk,
    HostCalls,
    HostThunk,
    IterationThunk,
    ReadWord,
    ValueCheckThunk,
)
from xlapy.cpu.program.thunks.remote_reads import RemoteRead


@dataclass(eq=False, slots=True)
class TransferThunk(HostThunk):
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

    kind: ClassVar[str] = "transfer"
    needs_device: ClassVar[bool] = True
    waits_for_any: ClassVar[bool] = True
    is_transfer: ClassVar[bool] = True

    @property
    def _verb(self) -> str:
        return "transfer"

    def emit_call(self, emitter: ThunkEmitter, function: Any) -> str:
        return emitter.transfer(function, self)

    def call_host(self, host: HostCalls) -> None:
        """Claims the channel if that is needed, or checks a transfer for which the device waits for long."""
        if self.claims_end:
            host.claim_channel(self)
        else:
            host.check_waits()

    def queues_between_devices(self) -> set[int]:
        return {queue for queues in self.queues for queue in queues}

    def missing_devices(self, read_word: ReadWord, device: int, goal: int) -> tuple[int, ...] | None:
        sent = read_word(self.queues[device][0] + QUEUE_SENT_OFFSET)
        has_arrived = (sent - goal) % (1 << 32) < 1 << 31
        return None if has_arrived else self.partners[device]

    def fields_to_json(self) -> dict[str, Any]:
        return {"queues": self.queues, "partners": self.partners, "claims_end": self.claims_end}

    @classmethod
    def fields_from_json(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        queues, partners = ([tuple(row) for row in data[key]] for key in ("queues", "partners"))
        return {"queues": queues, "partners": partners, "claims_end": bool(data["claims_end"])}


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


class RendezvousPart(Enum):
    """What a thunk does of a rendezvous.

    WHOLE: a member arrives, and waits for all others. START: it arrives and goes on. DONE: it waits for the rendezvous
    that a START has begun. Between both, other members and other processes read what the member has contributed.
    """

    WHOLE = "whole"
    START = "start"
    DONE = "done"


@dataclass(eq=False, slots=True)
class CollectiveThunk(HostThunk):
    """Meets the other members of a group in a rendezvous, to which every member contributes its operands.

    The operands are copied to staging memory that the members share. Afterwards the results point to that memory; they
    stay valid until the device has met there twice more. If the thunk is `direct`, only the addresses of the operands
    are published and the results point into the members' own arrays; these stay valid until a later rendezvous. The
    host checks on devices that wait for a long time.
    """

    participants: list[RendezvousParticipant] = field(default_factory=list[RendezvousParticipant])
    """One entry per device."""
    staging_size: int = 0
    """The size in bytes of the staging memory of one rendezvous; there are two such areas, used alternately."""
    direct: bool = False
    remote_reads: list[RemoteRead] = field(default_factory=list[RemoteRead])
    """What members read of each other's operands until the next rendezvous, if the program spans processes."""
    exchanged: tuple[int, ...] = ()
    """The numbers of those `remote_reads` whose arrays are complete now. The others are in another thunk of the
    collective, which has equal `remote_reads`."""
    part: RendezvousPart = RendezvousPart.WHOLE
    start: int = -1
    """The number of the thunk that starts the collective, if that is asynchronous; else -1."""

    kind: ClassVar[str] = "collective"
    runs_without_python: ClassVar[bool] = True
    is_collective: ClassVar[bool] = True

    @property
    def is_complete(self) -> bool:
        return all(row.rendezvous_offset >= 0 for row in self.participants)

    @property
    def publishes(self) -> list[BufferSlice]:
        return self.operands if self.direct else []

    def own_array(self, received: BufferSlice) -> BufferSlice | None:
        if not self.direct or received not in self.results:
            return None
        offset = self.participants[0].receive_offsets[self.results.index(received)]
        return self.operands[max(0, offset) // ADDRESS_BYTES % len(self.operands)]

    @property
    def begins(self) -> Hashable:
        return None if self.part is RendezvousPart.DONE else self._records

    @property
    def completes(self) -> Hashable:
        return None if self.part is RendezvousPart.START else self._records

    @property
    def _records(self) -> tuple[int, ...]:
        """The rendezvous records of all devices, which tell the places apart where they meet."""
        return tuple(participant.rendezvous_offset for participant in self.participants)

    @property
    def read_by_peers(self) -> list[BufferSlice]:
        if not self.direct:
            return []
        found: set[int] = set()
        for participant in self.participants:
            for offset in participant.receive_offsets:
                if offset >= 0:
                    member, array = divmod(offset // ADDRESS_BYTES, len(self.operands))
                    found |= {array} if member != participant.rank else set()
        return [self.operands[number] for number in sorted(found)]

    def may_compute_in(self, result: BufferSlice, target: BufferSlice) -> bool:
        return False

    def may_overlap(self, written: int, others: Sequence[int]) -> bool:
        return False

    def ranges(self) -> Iterator[AccessedRange]:
        if self.direct:
            return
        for participant in self.participants:
            sent = zip(participant.send_offsets, self.operands, strict=False)
            received = zip(participant.receive_offsets, self.results, strict=False)
            for offset, slice_ in (*sent, *received):
                if offset >= 0:
                    yield AccessedRange(f"the staging memory of {slice_}", offset, slice_.size, self.staging_size)

    @property
    def title(self) -> str:
        operands, received = join_slices(self.operands), join_slices(self.results)
        if self.part is RendezvousPart.START:
            return f"start rendezvous {self.number} {self.op_name}({operands})"
        if self.part is RendezvousPart.DONE:
            return f"await rendezvous {self.start} {self.op_name}, then read ({received})"
        return f"rendezvous {self.number} {self.op_name}({operands}), then read ({received})"

    def emit_call(self, emitter: ThunkEmitter, function: Any) -> str:
        return emitter.rendezvous(function, self)

    def call_host(self, host: HostCalls) -> None:
        if self.participants[host.device].rendezvous_offset < 0:
            host.evaluate(self)
        else:
            host.check_waits()

    def futex_offsets(self, device_count: int) -> set[int]:
        return {p.rendezvous_offset for p in self.participants if p.rendezvous_offset >= 0}

    def missing_devices(self, read_word: ReadWord, device: int, goal: int) -> tuple[int, ...] | None:
        participant = self.participants[device]
        completed = read_word(participant.rendezvous_offset)
        if completed != goal:
            return None
        counters = participant.rendezvous_offset + RENDEZVOUS_HEADER_BYTES
        latest = [read_word(counters + 4 * rank) for rank in range(len(participant.members))]
        return tuple(member for member, last in zip(participant.members, latest, strict=True) if last == completed)

    def fields_to_json(self) -> dict[str, Any]:
        participants = [
            [p.rendezvous_offset, p.members, p.rank, p.send_offsets, p.receive_offsets, p.peer_offsets]
            for p in self.participants
        ]
        data = {"participants": participants, "staging_size": self.staging_size, "direct": self.direct}
        remote = {"reads": [read.to_json() for read in self.remote_reads], "exchanged": self.exchanged}
        parts = {"part": self.part.value, "start": self.start}
        return data | (remote if self.remote_reads else {}) | (parts if self.start >= 0 else {})

    @classmethod
    def fields_from_json(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        participants = [
            RendezvousParticipant(int(offset), tuple(members), int(rank), tuple(send), tuple(receive), tuple(peer))
            for offset, members, rank, send, receive, peer in data["participants"]
        ]
        size, direct = int(data["staging_size"]), bool(data["direct"])
        reads = [RemoteRead.from_json(read) for read in data.get("reads", ())]
        remote = {"remote_reads": reads, "exchanged": tuple(map(int, data.get("exchanged", ())))}
        parts = {"part": RendezvousPart(data.get("part", "whole")), "start": int(data.get("start", -1))}
        return {"participants": participants, "staging_size": size, "direct": direct, **remote, **parts}


HOST_THUNKS: dict[str, type[HostThunk]] = {
    thunk.kind: thunk
    for thunk in (
        CallbackThunk,
        BoundsThunk,
        ValueCheckThunk,
        IterationThunk,
        TransferThunk,
        FeedThunk,
        CollectiveThunk,
    )
}
"""The classes that serialized executables may contain, by kind."""
