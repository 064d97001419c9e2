"""The rendezvous of one launch: devices exchange values, wait for each other, and fail together.

Responsible for collectives, messages between devices, deadlock detection and cancellation. Does not depend on what is
exchanged, or on threads beyond the fact that each device runs in its own.

Deadlock detection: a waiting device needs other devices to act. It can proceed if all of the devices it needs (or one
of them, for a message from any device) are running or can proceed themselves. As soon as some device cannot, the whole
run fails, and the error says which device waits for which.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, UnsupportedError, XlaError, message_of
from xlapy.hlo.instruction import Instruction
from xlapy.runtime.collectives.remote_processes import RemoteLaunch

_POLLS = 20
"""How often a failed launch looks at what its devices wait for."""

_MAX_LISTED_DEVICES = 8
"""The number of devices that errors list; of more, they give the number."""

MessageSlot = tuple[Hashable, int]
"""A key, and how many times the key was used before."""


@dataclass(slots=True)
class _Wait:
    """A device waits in `what` until all of the devices that `needs` returns have acted, or one of them if `any_of`."""

    what: str
    needs: Callable[[], Sequence[int]]
    any_of: bool = False

    def can_end(self, running: set[int]) -> bool:
        needed = self.needs()
        return any(d in running for d in needed) if self.any_of else all(d in running for d in needed)


@dataclass(frozen=True, slots=True)
class ExternalWait:
    """A device waits in `what`, outside the rendezvous, for all `missing` devices, or for one of them if `any_of`.

    times: number of the device's waits so far, which distinguishes this wait from the previous one.
    """

    what: str
    missing: tuple[int, ...]
    times: int
    any_of: bool = False


def _receiver_of(key: Hashable) -> int | None:
    """The receiver of the messages of a key `(channel, (sender, receiver))`; None if it is not known."""
    pair = key[1] if isinstance(key, tuple) else None
    return pair[1] if isinstance(pair, tuple) else None


def _name_of_key(key: Hashable) -> str:
    """The key of a collective, as all processes write it."""
    return key.name if isinstance(key, Instruction) else repr(key)


def _constant(devices: Sequence[int]) -> Callable[[], Sequence[int]]:
    return lambda: devices


@dataclass(slots=True)
class _PendingCollective:
    what: str
    signature: str
    contributions: dict[int, Any] = field(default_factory=dict[int, Any])


@dataclass(slots=True)
class _Message:
    what: str
    sender: int
    value: Any


class LaunchRendezvous:
    """The state of one launch that its devices share. Devices are numbered from 0; `names` are their names in error
    messages.

    are_started: whether all devices run already; otherwise each calls `start` first. remote: the other processes, if
    some devices are theirs; those count as running. `canceled` is set when the run has
    failed, and `failure` is its error. `wake` is called then, to end waits outside the rendezvous.
    """

    def __init__(
        self,
        names: Sequence[str],
        timeout: float,
        wake: Callable[[], None] = lambda: None,
        *,
        are_started: bool = True,
        remote: RemoteLaunch | None = None,
    ) -> None:
        self._remote = remote
        devices = range(len(names))
        self._local = frozenset(devices if remote is None else remote.topology.local_devices)
        self.canceled = threading.Event()
        self.failure: BaseException | None = None
        self._names = names
        self._timeout = timeout
        self._wake = wake
        self._lock = threading.Lock()
        self._changed = [threading.Condition(self._lock) for _ in names]
        self._waits: list[_Wait | None] = [None] * len(names)
        self._host_waits: dict[int, str] = {}
        """Devices that wait for the host, with a description of the wait for error messages."""
        self._wait_starts: dict[int, tuple[ExternalWait, float]] = {}
        self._unstarted: set[int] = set() if are_started else set(self._local)
        """Devices that are busy with earlier launches. Waits for them do not count against the timeout."""
        self._finished: set[int] = set()
        self._uses: Counter[Hashable] = Counter()
        self._pending: dict[MessageSlot, _PendingCollective] = {}
        self._messages: dict[MessageSlot, _Message] = {}
        self._receivers: dict[MessageSlot, int] = {}
        self._ends: dict[Hashable, int] = {}

    # -- collectives

    def join(
        self, device: int, key: Hashable, members: Sequence[int], contribution: Any, what: str, signature: str
    ) -> list[Any]:
        """Contributes a value to a collective; waits for all members and returns their contributions in the members'
        order.

        Calls match if their keys and members are equal and each device has joined equally many before. `ExecutionError`
        if their signatures differ.
        """
        with self._lock:
            slot = self._next_slot((key, tuple(members)), device)
            pending = self._pending.setdefault(slot, _PendingCollective(what, signature))
            if pending.signature != signature:
                present = self._joined_names(list(pending.contributions))
                raise ExecutionError(
                    codes.COLLECTIVE_MISMATCH,
                    f"{what} {signature} meets {pending.what} {pending.signature} of {present}",
                )
            pending.contributions[device] = contribution
            local = [member for member in members if member in self._local]
            if len(pending.contributions) < len(local):
                self._wait(device, _Wait(what, lambda: [m for m in members if m not in pending.contributions]))
            else:
                del self._pending[slot]
                if len(local) < len(members):
                    self._gather_remote(device, key, members, pending)
                for member in local:
                    self._release(member)
            return [pending.contributions[member] for member in members]

    def _gather_remote(self, device: int, key: Hashable, members: Sequence[int], pending: _PendingCollective) -> None:
        """Adds the contributions of the members in other processes. The last local member calls this; the lock is
        held, but not while the processes exchange data."""
        assert self._remote is not None
        remote = [member for member in members if member not in self._local]
        self._waits[device] = _Wait(pending.what, _constant(remote))
        contributions = dict(pending.contributions)
        self._lock.release()
        try:
            found = self._remote.contribute(
                _name_of_key(key), members, pending.signature, contributions, self._describe_exchange(pending, remote)
            )
        finally:
            self._lock.acquire()
            self._waits[device] = None
        for member, (signature, value) in found.items():
            if signature != pending.signature:
                raise ExecutionError(
                    codes.COLLECTIVE_MISMATCH,
                    f"{pending.what} {pending.signature} meets {signature} of {self._names[member]}",
                )
            pending.contributions[member] = value

    def _describe_exchange(self, pending: _PendingCollective, remote: Sequence[int]) -> str:
        return f"{pending.what} of {self._joined_names(list(pending.contributions))} for {self._joined_names(remote)}"

    # -- messages from one device to another

    def send(self, device: int, key: Hashable, value: Any, what: str) -> None:
        """Sends a message to the one device that receives on `key`; `ExecutionError` if another device sends
        there too."""
        with self._lock:
            self._claim("send", key, device, what)
            slot = self._next_slot((key, "sent"))
            target = _receiver_of(key)
            if self._remote is not None and target is not None and target not in self._local:
                self._remote.send(slot, target, value, f"{what} on {self._names[device]} for {self._names[target]}")
                return
            self._messages[slot] = _Message(what, device, value)
            if slot in self._receivers:
                self._release(self._receivers.pop(slot))

    def start_receive(self, device: int, key: Hashable, what: str) -> MessageSlot:
        """Reserves the slot of the next message that `device` receives on `key`; `ExecutionError` if another device
        receives there too."""
        with self._lock:
            self._claim("receive", key, device, what)
            return (key, "sent"), self._next_slot((key, "received"))[1]

    def finish_receive(self, device: int, slot: MessageSlot, senders: Sequence[int], what: str) -> Any:
        """Returns the message in a slot; waits until one of the senders has sent it."""
        remote = [sender for sender in senders if sender not in self._local]
        if self._remote is not None and len(senders) == 1 and remote:
            with self._lock:
                self._waits[device] = _Wait(what, _constant(remote))
            try:
                described = f"{what} on {self._names[device]} from {self._names[remote[0]]}"
                return self._remote.receive(slot, remote[0], described)
            finally:
                with self._lock:
                    self._waits[device] = None
        with self._lock:
            if slot not in self._messages:
                self._receivers[slot] = device
                self._wait(device, _Wait(what, lambda: senders, any_of=True))
            return self._messages.pop(slot).value

    def claim_channel(self, end: str, key: Hashable, device: int, what: str) -> None:
        """Claims an end ("send", "receive") of a channel for a device; `ExecutionError` if another device holds it."""
        with self._lock:
            self._claim(end, key, device, what)

    def _claim(self, end: str, key: Hashable, device: int, what: str) -> None:
        first = self._ends.setdefault((end, key), device)
        if first != device:
            raise ExecutionError(
                codes.CHANNEL_ENDS,
                f"{what}: {self._names[first]} and {self._names[device]} both {end} on the channel, which joins two "
                "devices only; name the pairs in the frontend attribute _xla_send_recv_source_target_pairs",
            )

    def unreceived_error(self, sent_natively: Sequence[tuple[int, str]]) -> ExecutionError | None:
        """The error for messages without a receive, or None. Call it when all devices have finished.

        sent_natively: sender and instruction of messages that native code sent.
        """
        messages = [*((message.sender, message.what) for message in self._messages.values()), *sent_natively]
        if not messages:
            return None
        sent = [f"{what} on {self._names[sender]}" for sender, what in messages]
        return ExecutionError(codes.UNRECEIVED_MESSAGE, f"no device received what was sent by {', '.join(sent)}")

    def _next_slot(self, key: Hashable, device: int | None = None) -> MessageSlot:
        """Returns the slot of the next use of a key (by a device)."""
        counted = key if device is None else (key, device)
        self._uses[counted] += 1
        return key, self._uses[counted] - 1

    # -- waiting

    def _wait(self, device: int, wait: _Wait) -> None:
        """Blocks the device until `_release` clears its wait. The lock is held."""
        self._waits[device] = wait
        self._fail_if_stuck()
        deadline = time.monotonic() + self._timeout
        while self._waits[device] is wait:
            if self.canceled.is_set():
                raise ExecutionError(codes.CANCELED, f"{wait.what}: canceled")
            left = deadline - time.monotonic()
            if left <= 0 and not self._unstarted.isdisjoint(wait.needs()):
                deadline += self._timeout
            elif left <= 0:
                self._fail(
                    ExecutionError(
                        codes.WAIT_TIMEOUT, f"waited for {self._timeout:g} seconds: {self._describe_waits([device])}"
                    )
                )
            else:
                self._changed[device].wait(left)

    def check_external_waits(self, device: int, poll: Callable[[], Mapping[int, ExternalWait]]) -> None:
        """Fails the run if devices that wait outside the rendezvous can never proceed or have waited too long.

        device: the waiting device that calls, periodically. poll: returns the waits of all devices that wait outside,
        by device. `ExecutionError` if the run has ended.
        """
        with self._lock:
            failure = None if self._remote is None else self._remote.failure
            if failure is not None:
                self._fail(self._located(failure, poll))
                raise ExecutionError(codes.CANCELED, "canceled")
            waits = poll()
            for waiter, wait in waits.items():
                self._waits[waiter] = _Wait(wait.what, _constant(wait.missing), wait.any_of)
            self._fail_if_stuck()
            own = waits.get(device)
            if own is not None and self._too_long(device, own):
                self._fail(
                    ExecutionError(
                        codes.WAIT_TIMEOUT, f"waited for {self._timeout:g} seconds: {self._describe_waits([device])}"
                    )
                )
            for waiter in waits:
                self._waits[waiter] = None
            if self.canceled.is_set():
                raise ExecutionError(codes.CANCELED, "canceled")

    def _located(self, failure: XlaError, poll: Callable[[], Mapping[int, ExternalWait]]) -> XlaError:
        """Adds to a failure of the processes what a device has waited for: the first that waits for another process, or
        else the first that waits."""
        waits: Mapping[int, ExternalWait] = {}
        for _ in range(_POLLS):  # while other devices move on, there is nothing to read
            waits = waits or poll()
        if not waits:
            return failure
        device = min(waits, key=lambda one: (self._local.issuperset(waits[one].missing), one))
        wait = waits[device]
        self._waits[device] = _Wait(wait.what, _constant(wait.missing), wait.any_of)
        return ExecutionError(failure.code, f"{failure.message}; {self._describe_waits([device])}")

    def _too_long(self, device: int, wait: ExternalWait) -> bool:
        known = self._wait_starts.get(device)
        is_due = self._unstarted.isdisjoint(wait.missing)
        if known is None or known[0] != wait or not is_due:
            known = self._wait_starts[device] = wait, time.monotonic()
        return is_due and time.monotonic() - known[1] > self._timeout

    def is_waiting_for_host(self) -> bool:
        """Whether a device waits for the host outside of native code."""
        return bool(self._host_waits)

    @contextmanager
    def waiting_for_host(self, device: int, what: str) -> Iterator[None]:
        """Marks a device as waiting for the host, which may or may not respond.

        An error fails the run while the device still counts as waiting: devices whose time is over at the same moment
        must not report themselves instead of the cause.
        """
        self._host_waits[device] = what
        try:
            yield
        except BaseException as error:
            self.fail(device, error)
            raise
        finally:
            del self._host_waits[device]

    def _release(self, device: int) -> None:
        self._waits[device] = None
        self._changed[device].notify()

    def _fail_if_stuck(self) -> None:
        running = {d for d, wait in enumerate(self._waits) if wait is None and d not in self._finished}
        waiting = {d: wait for d, wait in enumerate(self._waits) if wait is not None}
        while freed := [d for d, wait in waiting.items() if wait.can_end(running)]:
            running.update(freed)
            for d in freed:
                del waiting[d]
        if waiting:
            self._fail(
                ExecutionError(codes.DEADLOCK, f"the program can never finish: {self._describe_waits(list(waiting))}")
            )

    def _describe_waits(self, devices: Sequence[int]) -> str:
        """Describes which device waits for which, and what the awaited devices do."""
        parts: list[str] = []
        awaited: set[int] = set()
        for device in devices:
            wait = self._waits[device]
            assert wait is not None
            needed = wait.needs()
            awaited.update(needed)
            awaits = (
                f"a send by {self._joined_names(needed, 'or') or 'another device'}"
                if wait.any_of
                else self._joined_names(needed)
            )
            waits = f"waits for {awaits}" if awaits else "waits"
            parts.append(f"{wait.what} on {self._names[device]} {waits}")
        parts += [f"{self._names[d]} {self._describe_state(d)}" for d in sorted((awaited & self._local) - set(devices))]
        return "; ".join(parts)

    def _describe_state(self, device: int) -> str:
        wait = self._waits[device]
        if device in self._finished:
            return "has finished"
        if device in self._unstarted:
            return "is busy with earlier launches"
        if wait is None:
            return self._host_waits.get(device, "is running")
        return f"waits in {wait.what}"

    def _joined_names(self, devices: Sequence[int], conjunction: str = "and") -> str:
        names = [self._names[d] for d in devices[:_MAX_LISTED_DEVICES]]
        if len(devices) > _MAX_LISTED_DEVICES:
            names[-1] = f"{len(devices) - len(names) + 1} more"
        return f" {conjunction} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    # -- starting and finishing

    def start(self, device: int) -> None:
        """Marks a device as started."""
        with self._lock:
            self._unstarted.discard(device)

    def finish(self, device: int) -> None:
        """Marks a device as finished, successfully or not."""
        with self._lock:
            self._finished.add(device)
            self._waits[device] = None
            if not self.canceled.is_set():
                self._fail_if_stuck()

    def fail(self, device: int | None, error: BaseException) -> None:
        """Fails the run because of an error on a device, or (None) outside the devices. The first error counts."""
        with self._lock:
            self._fail(error if device is None else self._with_device(device, error))

    def _with_device(self, device: int, error: BaseException) -> BaseException:
        """Adds the device's name to an error, unless there is only one device."""
        if len(self._names) == 1 or not isinstance(error, Exception):
            return error
        kind = UnsupportedError if isinstance(error, UnsupportedError) else ExecutionError
        if isinstance(error, XlaError):
            located = kind(error.code, f"{self._names[device]}: {error.message}")
        else:
            located = kind(codes.FOREIGN_ERROR, f"{self._names[device]}: {message_of(error)}")
        located.__cause__ = error
        return located

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            if self._remote is not None:
                self._remote.fail(error)
        self.canceled.set()
        for changed in self._changed:
            changed.notify_all()
        self._wake()
