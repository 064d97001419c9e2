"""Transfers between devices as queues in the memory that they share: a queue for each pair that sends and receives.

Of all transfers of a module either all go through queues or none: where one has a form that is seldom met, or would
fail, the host carries them out. Those with the host are always the host's.

Owns: which queue a device sends to or receives from. Must not know: what queues are made of, how devices wait.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from xlapy import opcodes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.builder import THUNK_RULES, Scope
from xlapy.cpu.program.thunks import QUEUE_BYTES, BufferSlice, NativeProgram, TransferThunk
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.interpreter.transfer import find_partners, source_target_pairs, transfer_group_mode
from xlapy.lower.scalar_computations import CONTROL_FLOW
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, participants

_STARTS, _ENDS = frozenset({opcodes.RECV, opcodes.SEND}), frozenset({opcodes.RECV_DONE, opcodes.SEND_DONE})


class Channels:
    """The queues of a program, by channel and the devices that they join; `native` tells whether there are any."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        self._program = program
        self._devices = range(program.replica_count * program.partition_count)
        self._queues: dict[Hashable, int] = {}
        followed = set(_followed(module.entry_computation))
        found = [
            (computation, instruction)
            for computation in computation_post_order(module)
            for instruction in computation
            if instruction.op in _STARTS | _ENDS and not instruction.is_host_transfer
        ]
        shapes = {(_channel(i), i.shape.tuple_shapes[0].to_text(layout=False)) for _, i in found if i.op in _STARTS}
        self.native = (
            len({channel for channel, _ in shapes}) == len(shapes)
            and all(computation in followed and _is_paired(i) for computation, i in found)
            and all(self._is_known(i) for _, i in found if i.op in _STARTS)
        )

    def _is_known(self, start: Instruction) -> bool:
        """Whether the devices that take part are known, and there."""
        try:
            self.partners(start)
        except ExecutionError:
            return False
        return True

    def partners(self, start: Instruction) -> list[tuple[int, ...]] | None:
        """Whom each device sends to or receives from; None if no pairs say so. `ExecutionError` for wrong pairs."""
        pairs = source_target_pairs(start)
        if pairs is None:
            return None
        if start.op is opcodes.RECV:
            pairs = tuple((target, source) for source, target in pairs)
        counts = self._program.replica_count, self._program.partition_count
        rows = [participants(ALL_REPLICAS, transfer_group_mode(start), *counts, device) for device in self._devices]
        partners = [tuple(find_partners(start, pairs, row, device)) for device, row in enumerate(rows)]
        return partners if start.op is opcodes.SEND else [row[:1] for row in partners]

    def queues(self, start: Instruction) -> list[tuple[int, ...]]:
        """Where the queues of each device lie."""
        partners = self.partners(start)
        if partners is None:
            return [(self._queue((_channel(start), None)),) for _ in self._devices]
        if start.op is opcodes.SEND:
            ends = [[(device, target) for target in row] for device, row in enumerate(partners)]
        else:
            ends = [[(source, device) for source in row] for device, row in enumerate(partners)]
        return [tuple(self._queue((_channel(start), pair)) for pair in row) for row in ends]

    def others(self, start: Instruction) -> list[tuple[int, ...]]:
        """The devices, one of which each device sends to or receives from."""
        everybody = [tuple(d for d in self._devices if d != device) for device in self._devices]
        return self.partners(start) or everybody

    def _queue(self, key: Hashable) -> int:
        if key not in self._queues:
            self._queues[key] = self._program.share(QUEUE_BYTES)
        return self._queues[key]


def _followed(entry: Computation) -> Iterable[Computation]:
    """The computations that run as thunks."""
    pending = [entry]
    while pending:
        computation = pending.pop()
        yield computation
        pending += [called for i in computation if i.op in CONTROL_FLOW for called in i.computations]


def _channel(instruction: Instruction) -> int:
    return instruction.channel_id or 0


def _is_paired(instruction: Instruction) -> bool:
    """Whether a transfer is started and finished in one computation, and nothing else looks at what is under way."""
    if instruction.op in _ENDS:
        start = instruction.operands[0]
        return start.op in _STARTS and _channel(start) == _channel(instruction)
    return not instruction.is_root and all(user.op in _ENDS for user in instruction.users)


def _native(scope: Scope, instruction: Instruction) -> Channels | None:
    """None where the host carries a transfer out: it must, where it looks at all values."""
    if instruction.is_host_transfer or scope.maker.watched:
        return None
    channels = scope.maker.kept(Channels)
    return channels if channels.native else None


@THUNK_RULES.rule(opcodes.SEND)
def _send(scope: Scope, instruction: Instruction) -> None:
    channels = _native(scope, instruction)
    if channels is None:
        scope.callback(instruction)
        return
    scope.fresh(instruction)
    _transfer(scope, channels, instruction, instruction, scope.slices_of(instruction.operands[0]), [])


@THUNK_RULES.rule(opcodes.SEND_DONE)
def _send_done(scope: Scope, instruction: Instruction) -> None:
    """The value has left."""
    scope.fresh(instruction)


@THUNK_RULES.rule(opcodes.RECV)
def _recv(scope: Scope, instruction: Instruction) -> None:
    channels = _native(scope, instruction)
    if channels is None:
        scope.callback(instruction)
        return
    *_, number = scope.fresh(instruction)
    _transfer(scope, channels, instruction, instruction, [], [number])


@THUNK_RULES.rule(opcodes.RECV_DONE)
def _recv_done(scope: Scope, instruction: Instruction) -> None:
    channels = _native(scope, instruction)
    if channels is None:
        scope.callback(instruction)
        return
    (start,) = instruction.operands
    *_, number = scope.slices_of(start)
    _transfer(scope, channels, instruction, start, [number], scope.fresh(instruction))


def _transfer(
    scope: Scope,
    channels: Channels,
    instruction: Instruction,
    start: Instruction,
    operands: Sequence[BufferSlice],
    results: Sequence[BufferSlice],
) -> None:
    callbacks = scope.maker.program.callbacks
    thunk = TransferThunk(
        len(callbacks),
        instruction,
        list(operands),
        list(results),
        instruction.name,
        queues=channels.queues(start),
        partners=channels.others(start),
        claims=instruction is start and source_target_pairs(start) is None,
    )
    callbacks.append(thunk)
    scope.thunks.append(thunk)
