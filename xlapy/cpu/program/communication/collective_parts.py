"""The two parts of a collective: what a device does when the collective begins, and what it does when it ends.

The lowering of a collective is an iterator. Its first step appends the thunks that begin the collective, the rest those
that finish it. A synchronous collective has both at its own position. An asynchronous one begins at its start and ends
at its done: there it leaves START and DONE thunks of one rendezvous, between which other thunks run. What a pending
collective reads and writes stays reserved, because its thunks refer to it at both positions.

Responsible for the positions of both parts and for the thunks of rendezvous. Does not depend on what members send and
receive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.shape import Shape
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.builder import LoweringContext
from xlapy.cpu.program.communication.rendezvous_assignment import RendezvousRecord
from xlapy.cpu.program.thunks import CollectiveThunk, RemoteRead, RendezvousPart, RendezvousParticipant
from xlapy.hlo.instruction import Instruction

Parts = Iterator[None]
"""The lowering of a collective: the first step begins it, the rest finishes it."""


@dataclass(slots=True)
class Collective:
    """A collective while it is lowered.

    operation: the instruction that says what is computed. position: the instruction at whose position thunks are
    appended: the operation itself, or the start and then the done. operands, results: the memory of the arrays; that of
    results is not written before the collective ends.
    """

    context: LoweringContext
    operation: Instruction
    position: Instruction
    rendezvous: RendezvousRecord
    operands: list[BufferSlice]
    results: list[BufferSlice]
    is_asynchronous: bool = False
    start: int = -1
    """The number of the thunk that starts an asynchronous collective."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the operands, which may differ from those of their memory."""
        return tuple(self.operation.operand_shapes)

    @property
    def name(self) -> str:
        """The name of the instruction at whose position thunks are appended."""
        return self.position.name

    @property
    def member_count(self) -> int:
        return self.rendezvous.member_count

    def append(self, thunk: Any) -> None:
        """Appends a thunk that does not call the host."""
        self.context.thunks.append(thunk)

    def allocate_received(self, shapes: Sequence[Shape]) -> list[BufferSlice]:
        """Returns new slices for arrays that a device receives in a rendezvous."""
        program = self.context.builder.program
        first = program.received_count
        program.received_count += len(shapes)
        return [
            BufferSlice(shape.without_layout(), StorageClass.SHARED, first + n, name=self.name)
            for n, shape in enumerate(shapes)
        ]


@dataclass(frozen=True, slots=True)
class RendezvousExchange:
    """What the members of a group exchange in a rendezvous.

    sent: the arrays that a device contributes. received: the slices of those that it receives. reads: which bytes of
    the members' arrays a device reads, now or after a later rendezvous of the collective. exchanged: the numbers of the
    reads of arrays that are complete now.
    """

    participants: list[RendezvousParticipant]
    sent: list[BufferSlice]
    received: list[BufferSlice]
    reads: Sequence[RemoteRead] = ()
    exchanged: Sequence[int] = ()


def begin_rendezvous(collective: Collective, exchange: RendezvousExchange) -> Generator[None, None, list[BufferSlice]]:
    """Appends the first rendezvous of a collective, which begins it; returns the slices that are received."""
    if not collective.is_asynchronous:
        _append(collective, exchange, RendezvousPart.WHOLE)
        yield
        return exchange.received
    collective.start = len(collective.context.builder.program.host_calling_thunks)
    _append(collective, exchange, RendezvousPart.START)
    if collective.rendezvous.direct:
        collective.context.reusable.difference_update(exchange.sent)  # later readers must not overwrite them
    yield
    _append(collective, exchange, RendezvousPart.DONE)
    return exchange.received


def append_rendezvous(collective: Collective, exchange: RendezvousExchange) -> list[BufferSlice]:
    """Appends a further rendezvous of a collective, when it ends; returns the slices that are received."""
    _append(collective, exchange, RendezvousPart.WHOLE)
    return exchange.received


def _append(collective: Collective, exchange: RendezvousExchange, part: RendezvousPart) -> None:
    program, rendezvous = collective.context.builder.program, collective.rendezvous
    sent, received, participants = exchange.sent, exchange.received, exchange.participants
    if part is RendezvousPart.START:
        received = []
    elif part is RendezvousPart.DONE and not rendezvous.direct:  # the operands were copied at the start
        sent = []
        participants = [
            RendezvousParticipant(p.rendezvous_offset, p.members, p.rank, (), p.receive_offsets) for p in participants
        ]
    thunk = CollectiveThunk(
        len(program.host_calling_thunks),
        collective.position,
        sent,
        received,
        collective.name,
        participants,
        rendezvous.staging_size,
        direct=rendezvous.direct,
        part=part,
        start=collective.start,
    )
    if program.spans_processes and part is not RendezvousPart.DONE:
        thunk.remote_reads, thunk.exchanged = list(exchange.reads), tuple(exchange.exchanged)
    collective.context.append_callback(thunk)


# -- positions


def lower_at_once(collective: Collective, lowering: Callable[[Collective], Parts]) -> None:
    """Appends all thunks of a collective at its position."""
    for _ in lowering(collective):
        pass


def lower_start(collective: Collective, lowering: Callable[[Collective], Parts]) -> None:
    """Appends the thunks that begin an asynchronous collective at its start. `finish_pending` appends the others."""
    context, start = collective.context, collective.position
    parts = lowering(collective)
    next(parts)

    def finish(done: Instruction) -> None:
        collective.position = done
        context.define(done, collective.results)
        for _ in parts:
            pass

    context.pending[start] = finish


def finish_pending(context: LoweringContext, start: Instruction, done: Instruction) -> bool:
    """Appends the thunks that finish a collective at its done; returns whether it has been left pending."""
    finish = context.pending.pop(start, None)
    if finish is None:
        return False
    finish(done)
    return True
