"""What a process does in each rendezvous of a program whose devices belong to several processes.

The last local member of a group to arrive posts one request: what remote members read of local arrays is sent, and
what local members read of remote arrays is received. Arrays in staging memory are received where their member would
have copied them. Of arrays that members only publish, the blocks that are read go to *received memory* behind the
shared memory of the launch, and a remote member's published address is such that the usual offset leads there:

    operand of a remote member:     [.......RRRR....]    RRRR: what local members read, from byte `lo` to byte `hi`
    received memory:                      [RRRR]         at `place`; the published address is `place - lo`

All processes derive the same list of transfers between two of them, in the same order, from the same thunks.

Responsible for these plans and the layout of their memory. Does not depend on native code or on the transport.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import cast

from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import exchange_slot_bytes, round_to_cache_lines
from xlapy.cpu.program.thunks import Block, CollectiveThunk, RendezvousPart, RendezvousParticipant, merged


class Base(IntEnum):
    """What the offset of planned memory counts from: staging memory, the address in a slot of staging memory, or
    received memory."""

    STAGING = 0
    PUBLISHED = 1
    RECEIVED = 2


@dataclass(frozen=True, slots=True)
class PlannedTransfer:
    """A transfer with another process. slot: of the address, for `Base.PUBLISHED`. tag: numbers the transfers between
    two processes, per direction."""

    is_receive: bool
    peer: int
    tag: int
    base: Base
    slot: int
    block: Block


@dataclass(frozen=True, slots=True)
class PublishedAddress:
    """What stands in the address slot of a remote member: the address in another slot, which is at `offset`, or one in
    received memory."""

    slot: int
    base: Base
    offset: int


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What this process does in a rendezvous of one group.

    thunk: the number of the thunk that begins the rendezvous. awaited_in: that of the thunk that waits for it.
    exchange: the number of the exchange, the same in all processes. slot_offset: of the exchange slot in shared memory.
    devices: the local members. members: all members.
    """

    thunk: int
    awaited_in: int
    exchange: int
    slot_offset: int
    devices: tuple[int, ...]
    members: tuple[int, ...]
    transfers: tuple[PlannedTransfer, ...]
    addresses: tuple[PublishedAddress, ...]

    @property
    def remote_members(self) -> tuple[int, ...]:
        return tuple(device for device in self.members if device not in self.devices)


@dataclass(slots=True)
class ProcessPlans:
    """The plans of a program in a process.

    groups: of each thunk and group with local members. shared_size: bytes of shared memory, with the exchange slots.
    received_size: bytes of the received memory behind it, which is not cleared.
    """

    topology: ProcessTopology
    groups: list[GroupPlan] = field(default_factory=list[GroupPlan])
    shared_size: int = 0
    received_size: int = 0

    def by_device(self) -> dict[tuple[int, int], GroupPlan]:
        """Returns the plans by the number of the thunk and the device."""
        return {
            (thunk, device): group
            for group in self.groups
            for thunk in (group.thunk, group.awaited_in)
            for device in group.devices
        }


def plan_processes(program: NativeProgram, topology: ProcessTopology) -> ProcessPlans:
    """Returns the plans of a program for the process of a topology."""
    collectives = [cast(CollectiveThunk, thunk) for thunk in program.host_calling_thunks if thunk.is_collective]
    awaited_in = {thunk.start: thunk.number for thunk in collectives if thunk.part is RendezvousPart.DONE}
    lanes = _lanes(collectives)
    pending = [
        _Exchange(
            collective,
            awaited_in.get(collective.number, collective.number),
            lanes.get(collective.start, -1),
            number,
            members,
            topology,
        )
        for collective in collectives
        if collective.part is not RendezvousPart.DONE
        for number, members in enumerate(sorted({row.members for row in collective.participants if row.members}))
        if any(map(topology.is_local, members))
    ]
    # The local members of a group read what they have received before they meet again: their next synchronous
    # collective reuses the memory. Asynchronous ones reuse it only if they are never pending at the same time.
    sizes: dict[_Readers, int] = {}
    for exchange in pending:
        sizes[exchange.readers] = max(sizes.get(exchange.readers, 0), exchange.received_size)
    starts: dict[_Readers, int] = {}
    plans = ProcessPlans(topology)
    for readers, size in sizes.items():
        starts[readers] = plans.received_size
        plans.received_size += round_to_cache_lines(size)
    plans.shared_size = round_to_cache_lines(program.shared_size)
    for exchange in pending:
        group = exchange.plan(plans.shared_size, starts[exchange.readers])
        plans.shared_size += round_to_cache_lines(exchange_slot_bytes(len(group.transfers)))
        plans.groups.append(group)
    return plans


_Readers = tuple[tuple[int, ...], int]
"""The local members of a group, and the lane of an asynchronous collective, or -1."""


def _lanes(collectives: Sequence[CollectiveThunk]) -> dict[int, int]:
    """Returns a number for each asynchronous collective, by the number of the thunk that starts it, so that those that
    may be pending at the same time have different ones. Thunks are numbered in the order in which they run, and a
    collective begins and ends in one sequence of them."""
    last = {thunk.start: thunk.number for thunk in collectives if thunk.start >= 0}
    ends: list[int] = []
    found: dict[int, int] = {}
    for start in sorted(last):
        lane = next((number for number, end in enumerate(ends) if end < start), len(ends))
        ends[lane : lane + 1] = [last[start]]
        found[start] = lane
    return found


class _Exchange:
    """The rendezvous of one group of a thunk."""

    def __init__(
        self,
        thunk: CollectiveThunk,
        awaited_in: int,
        lane: int,
        number: int,
        members: tuple[int, ...],
        topology: ProcessTopology,
    ) -> None:
        self._thunk, self._awaited_in = thunk, awaited_in
        self._number, self._members, self._topology = number, members, topology
        self._ranks: dict[int, list[int]] = {}
        for rank, device in enumerate(members):
            self._ranks.setdefault(topology.process_of_device[device], []).append(rank)
        own = self._ranks[topology.process_index]
        self._local = tuple(sorted(members[rank] for rank in own))
        self.readers: _Readers = self._local, lane
        self._peers = sorted(set(self._ranks) - {topology.process_index})
        self._places: dict[tuple[int, int], int] = {}
        """Where received memory would begin with an array, by rank and number: the published address."""
        self.received_size = 0
        if thunk.direct:
            self._place_received()

    def _place_received(self) -> None:
        every = range(len(self._thunk.remote_reads))
        for peer in self._peers:
            for key, blocks in self._blocks(peer, self._topology.process_index, every).items():
                low, high = min(block.offset for block in blocks), max(block.end for block in blocks)
                start = round_to_cache_lines(self.received_size) + low % 64  # aligned as the array is
                self._places[key] = start - low
                self.received_size = start + high - low

    def _blocks(self, sender: int, receiver: int, reads: Iterable[int]) -> dict[tuple[int, int], list[Block]]:
        """Returns the blocks that the members of one process read of those of another, by rank and number of the
        array."""
        found: dict[tuple[int, int], set[Block]] = {}
        for read in (self._thunk.remote_reads[number] for number in reads):
            for reader in self._ranks[receiver]:
                for member in self._ranks[sender]:
                    block = read.block(reader, member)
                    if block is not None:
                        found.setdefault((member, read.array_of(reader)), set()).add(block)
        return {key: merged(found[key]) for key in sorted(found)}

    def plan(self, slot_offset: int, received_start: int) -> GroupPlan:
        """Returns the plan of this process. received_start: where its received memory begins."""
        own = self._topology.process_index
        transfers: list[PlannedTransfer] = []
        for peer in self._peers:
            transfers += self._transfers(False, peer, self._blocks(own, peer, self._thunk.exchanged), received_start)
            transfers += self._transfers(True, peer, self._blocks(peer, own, self._thunk.exchanged), received_start)
        exchange = self._thunk.number << 32 | self._number
        addresses = tuple(self._addresses(received_start)) if self._thunk.direct else ()
        return GroupPlan(
            thunk=self._thunk.number,
            awaited_in=self._awaited_in,
            exchange=exchange,
            slot_offset=slot_offset,
            devices=self._local,
            members=self._members,
            transfers=tuple(transfers),
            addresses=addresses,
        )

    def _transfers(
        self, is_receive: bool, peer: int, blocks: dict[tuple[int, int], list[Block]], received_start: int
    ) -> Iterable[PlannedTransfer]:
        if not self._thunk.direct:
            staged = [
                Block(self._participant(rank).send_offsets[array] + block.offset, block.count, block.size, block.stride)
                for (rank, array), own in blocks.items()
                for block in own
            ]
            for tag, block in enumerate(merged(staged)):
                yield PlannedTransfer(is_receive, peer, tag, Base.STAGING, 0, block)
            return
        pairs = [(key, block) for key, own in blocks.items() for block in own]
        for tag, ((rank, array), block) in enumerate(pairs):
            if not is_receive:
                slot = self._participant(rank).send_offsets[array]
                yield PlannedTransfer(False, peer, tag, Base.PUBLISHED, slot, block)
                continue
            offset = received_start + self._places[rank, array] + block.offset
            moved = Block(offset, block.count, block.size, block.stride)
            yield PlannedTransfer(True, peer, tag, Base.RECEIVED, 0, moved)

    def _addresses(self, received_start: int) -> Iterable[PublishedAddress]:
        """Yields the addresses of the arrays of remote members. An array of which nothing is received has that of a
        local member, because kernels may read it although the result is not used."""
        local = self._participant(self._ranks[self._topology.process_index][0]).send_offsets
        for peer in self._peers:
            for rank in self._ranks[peer]:
                for array, slot in enumerate(self._participant(rank).send_offsets):
                    place = self._places.get((rank, array))
                    if place is None:
                        yield PublishedAddress(slot, Base.PUBLISHED, local[array])
                    else:
                        yield PublishedAddress(slot, Base.RECEIVED, received_start + place)

    def _participant(self, rank: int) -> RendezvousParticipant:
        return self._thunk.participants[self._members[rank]]
