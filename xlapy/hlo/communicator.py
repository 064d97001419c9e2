"""The protocol `Communicator`, which connects the device that runs a program with other devices and the host.

Responsible for the protocol, and for `SINGLE_DEVICE`, the communicator of a program that runs without other devices and
without a host. Does not depend on how values are transported (the runtime implements that) or on what any collective
computes.

A device number is replica * partition_count + partition. Methods take the instruction to name it in errors and to match
it with the other devices: devices that execute the same instruction take part in the same collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, Protocol

from xlapy.base.error_codes.structure import editing as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.base.value import Value
from xlapy.hlo.instruction import Instruction, describe_instruction


class Communicator(Protocol):
    """One device's connection to the other devices and to the host.

    A method that waits raises `ExecutionError` if the value cannot arrive, for example because another device failed.
    """

    replica_count: int
    partition_count: int

    def gather_operands(self, instruction: Instruction, members: Sequence[int], operands: Value) -> list[Value]:
        """Waits for all members, including this device, and returns the operands that each passes to the collective."""
        ...

    def send(self, instruction: Instruction, target: int | None, value: Value) -> None:
        """Sends to the device `target`, or, if it is None, to the receiver on the channel; does not wait."""
        ...

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        """Starts to receive a value from the device `source`, or, if it is None, from any sender on the channel.

        Returns a number above 0 for `finish_receive`.
        """
        ...

    def start_receive_from_host(self, instruction: Instruction) -> int:
        """Starts to receive the next value from the host on the channel; returns a number for `finish_receive`."""
        ...

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Value:
        """Waits for the value of the receive with this number, which must have the given shape, and returns it."""
        ...

    def send_to_host(self, instruction: Instruction, value: Value) -> None:
        """Sends a value to the host, on the instruction's channel."""
        ...

    def infeed(self, instruction: Instruction, shape: Shape) -> Value:
        """Waits for the next value of `shape` in the infeed queue and returns it."""
        ...

    def outfeed(self, instruction: Instruction, value: Value) -> None:
        """Appends a value to the outfeed queue."""
        ...


class SingleDevice:
    """The communicator of one device without a host. It supports only collectives of that device with itself."""

    replica_count = 1
    partition_count = 1

    def gather_operands(self, instruction: Instruction, members: Sequence[int], operands: Value) -> list[Value]:
        return [operands for _ in members]

    def send(self, instruction: Instruction, target: int | None, value: Value) -> None:
        _raise_not_connected(instruction, "other devices")

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        _raise_not_connected(instruction, "other devices")

    def start_receive_from_host(self, instruction: Instruction) -> int:
        _raise_not_connected(instruction, "a host")

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Value:
        _raise_not_connected(instruction, "other devices")

    def send_to_host(self, instruction: Instruction, value: Value) -> None:
        _raise_not_connected(instruction, "a host")

    def infeed(self, instruction: Instruction, shape: Shape) -> Value:
        _raise_not_connected(instruction, "a host")

    def outfeed(self, instruction: Instruction, value: Value) -> None:
        _raise_not_connected(instruction, "a host")


def _raise_not_connected(instruction: Instruction, peer: str) -> NoReturn:
    raise ExecutionError(
        codes.CONNECTION,
        f"{describe_instruction(instruction)}: the program runs without a connection to {peer}; run it with a Client",
    )


SINGLE_DEVICE: Final = SingleDevice()
