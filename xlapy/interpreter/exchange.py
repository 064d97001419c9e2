"""What joins the device that a program runs on with the other devices and with the host: the protocol `Exchange`.

Owns: the protocol, and `ALONE` for a program that runs where there is neither. Must not know: how values travel, which
is the runtime's to say; what any collective computes.

Devices are numbers, replica * partitions + partition. An instruction is passed to name it in errors, and because
devices that run the same instruction mean the same exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn, Protocol

from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction

Value = Any
"""As in `interpreter/core.py`."""


class Exchange(Protocol):
    """One device's door to the others and to the host. Whatever waits raises `ExecutionError` if it waits in vain."""

    replica_count: int
    partition_count: int

    def meet(self, instruction: Instruction, members: Sequence[int], brought: Value) -> list[Value]:
        """What each of the members, this device among them, brings to a collective; waits until all have come."""
        ...

    def send(self, instruction: Instruction, target: int | None, value: Value) -> None:
        """Sends to the device `target`, or to whichever device receives on the channel; does not wait."""
        ...

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        """Announces that a value from `source`, or from whichever device sends, is awaited; a number above 0 for it."""
        ...

    def start_receive_from_host(self, instruction: Instruction) -> int:
        """Likewise for the next value that the host sends on the channel."""
        ...

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Value:
        """The value that was announced under a number, of the shape that is expected; waits for it."""
        ...

    def send_to_host(self, instruction: Instruction, value: Value) -> None:
        """Hands a value to the host, on the instruction's channel."""
        ...

    def infeed(self, instruction: Instruction, shape: Shape) -> Value:
        """The next value, of `shape`, that the host feeds in; waits for it."""
        ...

    def outfeed(self, instruction: Instruction, value: Value) -> None:
        """Feeds a value out to the host."""
        ...


class Alone:
    """One device without host: a collective of itself is all it can take part in."""

    replica_count = 1
    partition_count = 1

    def meet(self, instruction: Instruction, members: Sequence[int], brought: Value) -> list[Value]:
        return [brought for _ in members]

    def send(self, instruction: Instruction, target: int | None, value: Value) -> None:
        _refuse(instruction, "device")

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        _refuse(instruction, "device")

    def start_receive_from_host(self, instruction: Instruction) -> int:
        _refuse(instruction, "host")

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Value:
        _refuse(instruction, "device")

    def send_to_host(self, instruction: Instruction, value: Value) -> None:
        _refuse(instruction, "host")

    def infeed(self, instruction: Instruction, shape: Shape) -> Value:
        _refuse(instruction, "host")

    def outfeed(self, instruction: Instruction, value: Value) -> None:
        _refuse(instruction, "host")


def _refuse(instruction: Instruction, who: str) -> NoReturn:
    raise ExecutionError(
        f"{describe(instruction)}: the program runs where no {who} is joined to it; run it by a Client"
    )


def describe(instruction: Instruction) -> str:
    """`all-reduce.1 (all-reduce)`"""
    return f"{instruction.name} ({instruction.op.name})"


ALONE: Final = Alone()
