"""`DeviceCommunicator`: connects a device of a run to the other devices and to the host.

Responsible for matching the collectives and channels of several devices. Does not depend on what they compute.

Collectives match by their channel if they have one, else by being the same instruction. The nth execution on one device
matches the nth execution on the others.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter import DynamicArray
from xlapy.opcodes.collectives import CollectiveAttributes
from xlapy.opcodes.transfer import ChannelAttributes
from xlapy.runtime.collectives.host_queues import HostQueue
from xlapy.runtime.collectives.rendezvous import LaunchRendezvous, MessageSlot
from xlapy.runtime.device import Device
from xlapy.runtime.engine.arguments import check_value, matches_shape, pad_to_shape, shape_of
from xlapy.runtime.values import Value


@dataclass(slots=True)
class _PendingReceive:
    """A receive that has started: its message slot and possible senders, or (without a slot) a host channel."""

    slot: MessageSlot | None
    senders: Sequence[int]
    channel: int


@dataclass(slots=True)
class DeviceCommunicator:
    """The `Communicator` of device `number` in a run. `device` holds its queues to the host; waits for the host end
    after `timeout` seconds. `row`: its position among the devices of this process."""

    rendezvous: LaunchRendezvous
    device: Device
    number: int
    replica_count: int
    partition_count: int
    timeout: float
    row: int = 0
    _pending_receives: dict[int, _PendingReceive] = field(default_factory=dict[int, _PendingReceive])
    _last: int = 0
    _host_wait: tuple[int, float] = (0, 0)
    """The current wait of native code for the host: its number, and when it was first reported."""

    def gather_operands(self, instruction: Instruction, members: Sequence[int], operands: Value) -> list[Value]:
        if len(members) == 1:
            return [operands]
        channel = instruction.attributes_as(CollectiveAttributes).channel_id
        key: Hashable = instruction if channel is None else ("channel", channel)
        what, signature = describe_instruction(instruction), _signature(instruction)
        return self.rendezvous.join(self.number, key, members, operands, what, signature)

    def send(self, instruction: Instruction, target: int | None, value: Value) -> None:
        self.rendezvous.send(
            self.number, self._key(instruction, self.number, target), value, describe_instruction(instruction)
        )

    def claim_channel(self, instruction: Instruction) -> None:
        """Claims the channel's send or receive end for this device; `ExecutionError` if another device holds it."""
        end = "send" if instruction.op is opcodes.SEND else "receive"
        self.rendezvous.claim_channel(
            end, self._key(instruction, None, None), self.number, describe_instruction(instruction)
        )

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        target = None if source is None else self.number
        slot = self.rendezvous.start_receive(
            self.number, self._key(instruction, source, target), describe_instruction(instruction)
        )
        devices = range(self.replica_count * self.partition_count)
        senders = [d for d in devices if d != self.number] if source is None else [source]
        return self._add_pending(
            _PendingReceive(slot, senders, instruction.attributes_as(ChannelAttributes).channel_id or 0)
        )

    def start_receive_from_host(self, instruction: Instruction) -> int:
        return self._add_pending(
            _PendingReceive(None, (), instruction.attributes_as(ChannelAttributes).channel_id or 0)
        )

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Value:
        what = describe_instruction(instruction)
        pending = self._pending_receives.pop(number, None)
        if pending is None:
            raise ExecutionError(
                codes.COMPLETED_TRANSFER, f"{what}: no transfer {number} is in progress; its recv has completed already"
            )
        if pending.slot is None:
            value = self._take(self.device.to_device(pending.channel), f"{what} on channel {pending.channel}")
            return check_value(shape, value, what)
        value = self.rendezvous.finish_receive(self.number, pending.slot, pending.senders, what)
        if not matches_shape(value, shape):
            raise ExecutionError(
                codes.TRANSFER_SHAPE,
                f"{what}: {shape_of(value).to_text(layout=False)} was sent, {shape.to_text(layout=False)} is expected",
            )
        return pad_to_shape(value, shape)

    def send_to_host(self, instruction: Instruction, value: Value) -> None:
        self.device.from_device(instruction.attributes_as(ChannelAttributes).channel_id or 0).put(_copy(value))

    def infeed(self, instruction: Instruction, shape: Shape) -> Value:
        what = describe_instruction(instruction)
        return check_value(shape, self._take(self.device.infeed, what), what)

    def check_host_wait(self, instruction: Instruction, times: int) -> None:
        """Called periodically while native code waits for the host. times: number of the wait. `ExecutionError` after
        the timeout, which fails the run while the device still counts as waiting."""
        if self._host_wait[0] != times:
            self._host_wait = times, time.monotonic()
        elif time.monotonic() - self._host_wait[1] > self.timeout:
            what = f"{describe_instruction(instruction)} waits for the host"
            error = ExecutionError(codes.WAIT_TIMEOUT, f"{what}: nothing came within {self.timeout:g} seconds")
            self.rendezvous.fail(self.number, error)
            raise error

    def outfeed(self, instruction: Instruction, value: Value) -> None:
        self.device.outfeed.put(_copy(value))

    def _key(self, instruction: Instruction, source: int | None, target: int | None) -> Hashable:
        """Identifies a channel between two given devices, or (without `target`) between whichever two devices
        use it."""
        pair = None if target is None else (source, target)
        return instruction.attributes_as(ChannelAttributes).channel_id or 0, pair

    def _add_pending(self, pending: _PendingReceive) -> int:
        self._last += 1
        self._pending_receives[self._last] = pending
        return self._last

    def _take(self, queue: HostQueue, what: str) -> Value:
        with self.rendezvous.waiting_for_host(self.number, f"waits in {what} for the host"):
            return queue.take(f"{what} waits for the host", self.timeout, self.rendezvous.canceled)


def _signature(instruction: Instruction) -> str:
    """What matching instructions must agree on: `all-reduce(f32[4])`."""
    return f"{instruction.op.name}({', '.join(shape.to_text(layout=False) for shape in instruction.operand_shapes)})"


def _copy(value: Value) -> Value:
    """Copies a value that outlives the run, so that it does not share memory with the run's arguments."""
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    if isinstance(value, DynamicArray):
        return DynamicArray(value.array.copy(), value.sizes)
    return value.copy() if isinstance(value, np.ndarray) else value
