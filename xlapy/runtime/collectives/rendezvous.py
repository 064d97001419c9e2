"""Where the devices of one run meet: values that they exchange, who waits for whom, and how a run fails.

Owns: meetings, messages between devices, the search for runs that can never finish, cancellation.
Must not know: what is exchanged, threads beyond that each device runs in one of its own.

A device that waits needs others to act. It can go on if all that it needs (one of them, for a message from anybody)
run or can go on themselves; as soon as some device cannot, the whole run fails and the error says who waits for whom.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xlapy.base.errors import ExecutionError, UnsupportedError

Place = tuple[Hashable, int]
"""A key and how many times it was used before."""


@dataclass(slots=True)
class _Wait:
    """A device waits in `what` until all (or `any_of`: one) of the devices that `needs` gives have acted."""

    what: str
    needs: Callable[[], Sequence[int]]
    any_of: bool = False

    def can_end(self, going: set[int]) -> bool:
        needed = self.needs()
        return any(d in going for d in needed) if self.any_of else all(d in going for d in needed)


@dataclass(frozen=True, slots=True)
class ExternalWait:
    """A device waits in `what`, of which others know nothing, for all that are missing, or (`any_of`) one of them.

    times: tells waits apart.
    """

    what: str
    missing: tuple[int, ...]
    times: int
    any_of: bool = False


def _given(devices: Sequence[int]) -> Callable[[], Sequence[int]]:
    return lambda: devices


@dataclass(slots=True)
class _Meeting:
    what: str
    signature: str
    brought: dict[int, Any] = field(default_factory=dict[int, Any])


@dataclass(slots=True)
class _Message:
    what: str
    sender: int
    value: Any


class Rendezvous:
    """The state of one run that its devices share; devices are numbers from 0, `names` say how errors call them.

    `cancelled` is set when the run has failed, `failure` tells why; `wake` is called then, to end waits outside.
    """

    def __init__(self, names: Sequence[str], timeout: float, wake: Callable[[], None] = lambda: None) -> None:
        self.cancelled = threading.Event()
        self.failure: BaseException | None = None
        self._names = names
        self._timeout = timeout
        self._wake = wake
        self._lock = threading.Lock()
        self._changed = [threading.Condition(self._lock) for _ in names]
        self._waits: list[_Wait | None] = [None] * len(names)
        self._outside: dict[int, str] = {}
        """What devices wait in that are no business of other devices."""
        self._since: dict[int, tuple[ExternalWait, float]] = {}
        self._finished: set[int] = set()
        self._uses: Counter[Hashable] = Counter()
        self._meetings: dict[Place, _Meeting] = {}
        self._messages: dict[Place, _Message] = {}
        self._receivers: dict[Place, int] = {}
        self._ends: dict[Hashable, int] = {}

    # -- meetings of groups

    def meet(
        self, device: int, key: Hashable, members: Sequence[int], brought: Any, what: str, signature: str
    ) -> list[Any]:
        """What every member brings to the same meeting, in the members' order; waits until all are there.

        Meetings are the same if their keys and members are and each device was at as many of them before;
        `ExecutionError` if they differ in signature.
        """
        with self._lock:
            place = self._next((key, tuple(members)), device)
            meeting = self._meetings.setdefault(place, _Meeting(what, signature))
            if meeting.signature != signature:
                there = self._listed(list(meeting.brought))
                raise ExecutionError(f"{what} {signature} meets {meeting.what} {meeting.signature} of {there}")
            meeting.brought[device] = brought
            if len(meeting.brought) < len(members):
                self._wait(device, _Wait(what, lambda: [m for m in members if m not in meeting.brought]))
            else:
                del self._meetings[place]
                for member in members:
                    self._release(member)
            return [meeting.brought[member] for member in members]

    # -- messages from one device to another

    def post(self, device: int, key: Hashable, value: Any, what: str) -> None:
        """Leaves a message for the one device that receives on `key`; `ExecutionError` if another sends there too."""
        with self._lock:
            self._claim("send", key, device, what)
            place = self._next((key, "sent"))
            self._messages[place] = _Message(what, device, value)
            if place in self._receivers:
                self._release(self._receivers.pop(place))

    def announce(self, device: int, key: Hashable, what: str) -> Place:
        """The place on `key` of the next message that `device` receives there; `ExecutionError` if another does too."""
        with self._lock:
            self._claim("receive", key, device, what)
            return (key, "sent"), self._next((key, "received"))[1]

    def collect(self, device: int, place: Place, senders: Sequence[int], what: str) -> Any:
        """The message at a place; waits until one of the senders has sent it."""
        with self._lock:
            if place not in self._messages:
                self._receivers[place] = device
                self._wait(device, _Wait(what, lambda: senders, any_of=True))
            return self._messages.pop(place).value

    def claim(self, end: str, key: Hashable, device: int, what: str) -> None:
        """Says that a device is at an end ("send", "receive") of a channel; `ExecutionError` if another is."""
        with self._lock:
            self._claim(end, key, device, what)

    def _claim(self, end: str, key: Hashable, device: int, what: str) -> None:
        first = self._ends.setdefault((end, key), device)
        if first != device:
            raise ExecutionError(
                f"{what}: {self._names[first]} and {self._names[device]} both {end} on the channel, which joins two "
                "devices only; name the pairs in the frontend attribute _xla_send_recv_source_target_pairs"
            )

    def unreceived(self, outside: Sequence[tuple[int, str]]) -> ExecutionError | None:
        """The error for messages that nobody took; to be asked when all devices have finished.

        outside: sender and instruction of those that went another way.
        """
        messages = [*((message.sender, message.what) for message in self._messages.values()), *outside]
        if not messages:
            return None
        sent = [f"{what} on {self._names[sender]}" for sender, what in messages]
        return ExecutionError(f"nobody received what was sent by {', '.join(sent)}")

    def _next(self, key: Hashable, device: int | None = None) -> Place:
        """The place of one more use of a key (by a device)."""
        counted = key if device is None else (key, device)
        self._uses[counted] += 1
        return key, self._uses[counted] - 1

    # -- waiting

    def _wait(self, device: int, wait: _Wait) -> None:
        """Until the wait is taken away by `_release`; the lock is held."""
        self._waits[device] = wait
        self._fail_if_stuck()
        deadline = time.monotonic() + self._timeout
        while self._waits[device] is wait:
            if self.cancelled.is_set():
                raise ExecutionError(f"{wait.what}: cancelled")
            left = deadline - time.monotonic()
            if left <= 0:
                self._fail(ExecutionError(f"waited for {self._timeout:g} seconds: {self._situation([device])}"))
            else:
                self._changed[device].wait(left)

    def check_external_waits(self, device: int, look: Callable[[], Mapping[int, ExternalWait]]) -> None:
        """Ends the run if devices that wait elsewhere, as `look` finds them, wait in vain.

        `ExecutionError` if it has ended.

        To be called now and then by a device that waits so.
        """
        with self._lock:
            waits = look()
            for waiter, wait in waits.items():
                self._waits[waiter] = _Wait(wait.what, _given(wait.missing), wait.any_of)
            self._fail_if_stuck()
            own = waits.get(device)
            if own is not None and self._too_long(device, own):
                self._fail(ExecutionError(f"waited for {self._timeout:g} seconds: {self._situation([device])}"))
            for waiter in waits:
                self._waits[waiter] = None
            if self.cancelled.is_set():
                raise ExecutionError("cancelled")

    def _too_long(self, device: int, wait: ExternalWait) -> bool:
        known = self._since.get(device)
        if known is None or known[0] != wait:
            known = self._since[device] = wait, time.monotonic()
        return time.monotonic() - known[1] > self._timeout

    @contextmanager
    def waiting_outside(self, device: int, what: str) -> Iterator[None]:
        """While a device waits for the host, of which nobody knows whether it will come."""
        self._outside[device] = what
        try:
            yield
        finally:
            del self._outside[device]

    def _release(self, device: int) -> None:
        self._waits[device] = None
        self._changed[device].notify()

    def _fail_if_stuck(self) -> None:
        going = {d for d, wait in enumerate(self._waits) if wait is None and d not in self._finished}
        waiting = {d: wait for d, wait in enumerate(self._waits) if wait is not None}
        while freed := [d for d, wait in waiting.items() if wait.can_end(going)]:
            going.update(freed)
            for d in freed:
                del waiting[d]
        if waiting:
            self._fail(ExecutionError(f"the program can never finish: {self._situation(list(waiting))}"))

    def _situation(self, devices: Sequence[int]) -> str:
        """Who waits for whom, and what the awaited do."""
        parts: list[str] = []
        awaited: set[int] = set()
        for device in devices:
            wait = self._waits[device]
            assert wait is not None
            needed = wait.needs()
            awaited.update(needed)
            awaits = (
                f"a send by {self._listed(needed, 'or') or 'another device'}" if wait.any_of else self._listed(needed)
            )
            parts.append(f"{wait.what} on {self._names[device]} waits for {awaits}")
        parts += [f"{self._names[d]} {self._doing(d)}" for d in sorted(awaited - set(devices))]
        return "; ".join(parts)

    def _doing(self, device: int) -> str:
        wait = self._waits[device]
        if device in self._finished:
            return "has finished"
        if wait is None:
            return self._outside.get(device, "is running")
        return f"waits in {wait.what}"

    def _listed(self, devices: Sequence[int], conjunction: str = "and") -> str:
        names = [self._names[d] for d in devices]
        return f" {conjunction} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    # -- the end

    def finish(self, device: int) -> None:
        """A device has run to its end, or has failed."""
        with self._lock:
            self._finished.add(device)
            self._waits[device] = None
            if not self.cancelled.is_set():
                self._fail_if_stuck()

    def fail(self, device: int | None, error: BaseException) -> None:
        """Ends the run because of an error on a device, or (None) outside; the first error counts."""
        with self._lock:
            self._fail(error if device is None else self._located(device, error))

    def _located(self, device: int, error: BaseException) -> BaseException:
        """The error with its device; alone, a device needs no name."""
        if len(self._names) == 1 or not isinstance(error, Exception):
            return error
        kind = UnsupportedError if isinstance(error, UnsupportedError) else ExecutionError
        located = kind(f"{self._names[device]}: {error}")
        located.__cause__ = error
        return located

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        self.cancelled.set()
        for changed in self._changed:
            changed.notify_all()
        self._wake()
