"""The exchange that the interpreter's rules find in their context, for one device of a run.

Owns: by what collectives and channels of several devices know each other. Must not know: what they compute.

Collectives meet by their channel if they have one, else by being the same instruction; the nth time on one device meets
the nth time on the others.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xlapy import opcodes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter import DynamicArray
from xlapy.runtime.collectives.host_queues import HostQueue
from xlapy.runtime.collectives.rendezvous import Place, Rendezvous
from xlapy.runtime.device import Device
from xlapy.runtime.engine.arguments import bounded, check_value, fits, shape_of
from xlapy.runtime.values import Value


@dataclass(slots=True)
class _Awaited:
    """A message that was announced: its place and possible senders, or (no place) a host channel."""

    place: Place | None
    senders: Sequence[int]
    channel: int


@dataclass(slots=True)
class DeviceCommunicator:
    """The `Exchange` of device `number` in a run; `device` has its queues to the host, which has `timeout` seconds."""

    rendezvous: Rendezvous
    device: Device
    number: int
    replica_count: int
    partition_count: int
    timeout: float
    _awaited: dict[int, _Awaited] = field(default_factory=dict[int, _Awaited])
    _last: int = 0
    _since: tuple[int, float] = (0, 0)
    """Which wait for the host it is in which native code waits, and since when."""

    def gather_operands(self, instruction: Instruction, members: Sequence[int], operands: Value) -> list[Value]:
        if len(members) == 1:
            return [operands]
        channel = instruction.channel_id
        key: Hashable = instruction if channel is None else ("channel", channel)
        what, signature = describe_instruction(instruction), _signature(instruction)
        return self.rendezvous.meet(self.number, key, members, operands, what, signature)

    def send(self, instruction: Instruction, target: int | None, value: Value) -> None:
        self.rendezvous.post(
            self.number, self._key(instruction, self.number, target), value, describe_instruction(instruction)
        )

    def claim(self, instruction: Instruction) -> None:
        """Says that this device is the one to send, or to receive, on the channel; `ExecutionError` if another is."""
        end = "send" if instruction.op is opcodes.SEND else "receive"
        self.rendezvous.claim(end, self._key(instruction, None, None), self.number, describe_instruction(instruction))

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        me = None if source is None else self.number
        place = self.rendezvous.announce(
            self.number, self._key(instruction, source, me), describe_instruction(instruction)
        )
        everybody = range(self.replica_count * self.partition_count)
        senders = [d for d in everybody if d != self.number] if source is None else [source]
        return self._awaiting(_Awaited(place, senders, instruction.channel_id or 0))

    def start_receive_from_host(self, instruction: Instruction) -> int:
        return self._awaiting(_Awaited(None, (), instruction.channel_id or 0))

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Value:
        what = describe_instruction(instruction)
        awaited = self._awaited.pop(number, None)
        if awaited is None:
            raise ExecutionError(f"{what}: no transfer {number} is under way; its recv is done already")
        if awaited.place is None:
            value = self._take(self.device.to_device(awaited.channel), f"{what} on channel {awaited.channel}")
            return check_value(shape, value, what)
        value = self.rendezvous.collect(self.number, awaited.place, awaited.senders, what)
        if not fits(value, shape):
            raise ExecutionError(
                f"{what}: {shape_of(value).to_text(layout=False)} was sent, {shape.to_text(layout=False)} is expected"
            )
        return bounded(value, shape)

    def send_to_host(self, instruction: Instruction, value: Value) -> None:
        self.device.from_device(instruction.channel_id or 0).put(_copied(value))

    def infeed(self, instruction: Instruction, shape: Shape) -> Value:
        what = describe_instruction(instruction)
        return check_value(shape, self._take(self.device.infeed, what), what)

    def wait_for_host(self, instruction: Instruction, times: int) -> None:
        """Told now and then that native code waits for the host, the `times`th time; `ExecutionError` if too long."""
        if self._since[0] != times:
            self._since = times, time.monotonic()
        elif time.monotonic() - self._since[1] > self.timeout:
            what = f"{describe_instruction(instruction)} waits for the host"
            raise ExecutionError(f"{what}: nothing came within {self.timeout:g} seconds")

    def outfeed(self, instruction: Instruction, value: Value) -> None:
        self.device.outfeed.put(_copied(value))

    def _key(self, instruction: Instruction, source: int | None, target: int | None) -> Hashable:
        """A channel between two devices, or (without target) between the two that use it."""
        pair = None if target is None else (source, target)
        return instruction.channel_id or 0, pair

    def _awaiting(self, awaited: _Awaited) -> int:
        self._last += 1
        self._awaited[self._last] = awaited
        return self._last

    def _take(self, queue: HostQueue, what: str) -> Value:
        with self.rendezvous.waiting_outside(self.number, f"waits in {what} for the host"):
            return queue.take(f"{what} waits for the host", self.timeout, self.rendezvous.cancelled)


def _signature(instruction: Instruction) -> str:
    """What instructions that meet must agree on: `all-reduce(f32[4])`."""
    return f"{instruction.op.name}({', '.join(shape.to_text(layout=False) for shape in instruction.operand_shapes)})"


def _copied(value: Value) -> Value:
    """Values outlive the run: they must not share memory with its arguments."""
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    if isinstance(value, DynamicArray):
        return DynamicArray(value.array.copy(), value.sizes)
    return value.copy() if isinstance(value, np.ndarray) else value
