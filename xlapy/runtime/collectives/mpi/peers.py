"""Processes that leave the process group, and processes that are lost.

A process that ends sends a last message, LEAVING, after all others. So what has not been announced by then never comes.
A process that ends with an error first tells that it does, because it may wait until another process has shown the
error. A process that ends without such a message is lost; `watch` finds that out.

Responsible for what the end of a process means for cliques. Does not depend on how the end is noticed.
"""

from __future__ import annotations

from xlapy.cpu.program.communication.exchange_records import ExchangeRequest
from xlapy.native.function import Function, native, native_holding
from xlapy.native.ir import RELAXED
from xlapy.native.values import Int32, Nullable, Word
from xlapy.runtime.collectives.mpi.failures import fail_by_peer, peer_word, request_clique, wake_progress
from xlapy.runtime.collectives.mpi.operations import new_message, now, send_message, transfer_at
from xlapy.runtime.collectives.mpi.records import (
    LOCK,
    TRANSPORT,
    CliqueRecord,
    FailureReason,
    MessageKind,
    PeerState,
    TransferState,
)

SETTLE_NANOSECONDS = 10_000_000
"""How long after a LEAVING message the messages before it may still be in the hands of MPI, which reports completed
receives in any order. It does so within microseconds."""


@native_holding(LOCK)
def note_left(f: Function, process: Word) -> None:
    """Notes that a process has sent its last message."""
    with f.when(peer_word(f, process).state == PeerState.PRESENT):
        peer_word(f, process).state = PeerState.LEFT
    f.static(TRANSPORT).left_at = now(f)


@native_holding(LOCK)
def note_gone(f: Function, process: Word) -> None:
    """Notes that nothing can be sent to a process any more."""
    note_left(f, process)
    with f.when(peer_word(f, process).state == PeerState.LEFT):
        peer_word(f, process).state = PeerState.GONE


@native_holding(LOCK)
def fail_deserted(f: Function) -> None:
    """Fails the cliques of requests that wait for a message of a process that has left."""
    transport = f.static(TRANSPORT)
    with f.when(transport.left_at == 0):
        f.ret()
    with f.when(now(f) - transport.left_at < SETTLE_NANOSECONDS):
        f.ret()
    following = f.variable(Nullable[ExchangeRequest], transport.pending)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        following.set(found.value.next)
        missing = deserter(f, found.value)
        clique = request_clique(found.value)
        with f.when((missing != transport.peer_count) & (clique.failure.load(RELAXED) == 0)):
            fail_by_peer(f, clique, f.constant(Int32, FailureReason.LEFT), missing)
            loop.leave()  # the list has changed; the next poll continues


@native_holding(LOCK)
def deserter(f: Function, request: ExchangeRequest) -> Word:
    """A process that has left, or ends with an error, and for whose message a request waits; the number of processes
    if there is none."""
    with f.count(request.transfer_count) as one:
        transfer = transfer_at(request, one.index)
        peer = peer_word(f, transfer.peer)
        is_left = (peer.state == PeerState.LEFT) | (peer.state == PeerState.GONE) | (peer.report != 0)
        with f.when((transfer.state == TransferState.WAITING) & is_left):
            f.ret(transfer.peer)
    return f.static(TRANSPORT).peer_count


@native
def lose_process(f: Function, process: Word) -> None:
    """Notes that a process has ended without leaving, fails its cliques, and tells all other processes."""
    transport = f.static(TRANSPORT)
    with f.locked(transport.lock):
        with f.when(peer_word(f, process).state != PeerState.PRESENT):
            f.ret()
        note_lost(f, process)
        tell_all(f, f.constant(Word, MessageKind.LOST), process)
    wake_progress(f)


@native_holding(LOCK)
def tell_all(f: Function, kind: Word, about: Word) -> None:
    """Sends a message about a process to all others that are not lost or gone."""
    transport = f.static(TRANSPORT)
    with f.count(transport.peer_count) as one:
        state = peer_word(f, one.index).state
        is_alive = (state != PeerState.LOST) & (state != PeerState.GONE)
        with f.when((one.index != transport.process) & is_alive):
            message = new_message(f)
            message.kind = kind
            message.source = transport.process
            message.clique = 0
            message.exchange = about
            message.size = 0
            send_message(f, message, one.index, f.constant(Word, 0))


@native_holding(LOCK)
def note_lost(f: Function, process: Word) -> None:
    """Notes that a process has ended without leaving, and notifies the other processes of its cliques."""
    with f.when(peer_word(f, process).state != PeerState.PRESENT):
        f.ret()
    peer_word(f, process).state = PeerState.LOST
    following = f.variable(Nullable[CliqueRecord], f.static(TRANSPORT).cliques)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        fail_if_member(f, found.value, process)
        following.set(found.value.next)


@native_holding(LOCK)
def fail_if_member(f: Function, clique: CliqueRecord, process: Word) -> None:
    """Fails a clique if a process that is lost is a member."""
    with f.count(clique.member_count) as one:
        with f.when(clique.members[one.index] == process):
            fail_by_peer(f, clique, f.constant(Int32, FailureReason.LOST), process)
            f.ret()


@native_holding(LOCK)
def fail_if_lost(f: Function, clique: CliqueRecord) -> None:
    """Fails a new clique if one of its processes is lost."""
    with f.count(clique.member_count) as one:
        with f.when(peer_word(f, clique.members[one.index]).state == PeerState.LOST):
            fail_by_peer(f, clique, f.constant(Int32, FailureReason.LOST), clique.members[one.index])
            f.ret()


@native
def report_error(f: Function, report: Word) -> None:
    """Tells all other processes about the error that ends this one. report: see `PeerWord.report`."""
    with f.locked(f.static(TRANSPORT).lock):
        tell_all(f, f.constant(Word, MessageKind.REPORT), report)
    wake_progress(f)


@native_holding(LOCK)
def note_report(f: Function, process: Word, report: Word) -> None:
    """Notes the error that ends a process. That it is shown counts, in whatever order both messages come."""
    peer = peer_word(f, process)
    with f.when((peer.report == 0) | ((report & 1) != 0)):
        peer.report = report
    f.static(TRANSPORT).left_at = now(f)


@native
def leave(f: Function) -> None:
    """Sends the last message of this process to all others. What it has received too early is discarded."""
    transport = f.static(TRANSPORT)
    with f.locked(transport.lock):
        transport.is_leaving = 1
        transport.has_retired = 1
        tell_all(f, f.constant(Word, MessageKind.LEAVING), transport.process)
        transport.left_at = now(f)
    wake_progress(f)


@native
def announce_end(f: Function) -> None:
    """Tells the other processes that this one does not wait for them."""
    transport = f.static(TRANSPORT)
    with f.locked(transport.lock):
        tell_all(f, f.constant(Word, MessageKind.GONE), transport.process)
    wake_progress(f)
