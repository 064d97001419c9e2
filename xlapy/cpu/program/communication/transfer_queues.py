"""Lowers transfers between devices to queues in the memory that they share: one per channel and pair of devices.

Either all transfers of a module go through queues, or none does: if one has an unusual form or would fail, the host
executes all of them. Transfers with the host are always executed by the host.

Responsible for which queue a device sends to or receives from. Does not depend on the layout of queues or on how
devices wait.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from xlapy import opcodes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import QUEUE_BYTES
from xlapy.cpu.program.thunks import TransferThunk
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.interpreter.transfer import find_partners, source_target_pairs, transfer_group_mode
from xlapy.lower.scalar_computations import CONTROL_FLOW
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, participants
from xlapy.opcodes.transfer import ChannelAttributes

_STARTS, _DONES = frozenset({opcodes.RECV, opcodes.SEND}), frozenset({opcodes.RECV_DONE, opcodes.SEND_DONE})


class TransferQueues:
    """The queues of a program, by channel and pair of devices; `is_native` says whether transfers use them."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        self._program = program
        self._devices = range(program.replica_count * program.partition_count)
        self._offsets: dict[Hashable, int] = {}
        lowered = set(_lowered_computations(module.entry_computation))
        transfers = [
            (computation, instruction)
            for computation in computation_post_order(module)
            for instruction in computation
            if instruction.op in _STARTS | _DONES and not instruction.attributes_as(ChannelAttributes).is_host_transfer
        ]
        starts = [instruction for _, instruction in transfers if instruction.op in _STARTS]
        shapes = {(_channel(start), start.shape.tuple_shapes[0].to_text(layout=False)) for start in starts}
        self.is_native = (
            len({channel for channel, _ in shapes}) == len(shapes)
            and all(computation in lowered and _is_paired(i) for computation, i in transfers)
            and all(map(self._has_valid_pairs, starts))
        )

    def _has_valid_pairs(self, start: Instruction) -> bool:
        """Whether the source-target pairs of a transfer name existing devices."""
        try:
            self.known_partners(start)
        except ExecutionError:
            return False
        return True

    def known_partners(self, start: Instruction) -> list[tuple[int, ...]] | None:
        """Returns the devices that each device sends to or receives from; None if the module has no pairs.

        Raises `ExecutionError` for invalid pairs.
        """
        pairs = source_target_pairs(start)
        if pairs is None:
            return None
        if start.op is opcodes.RECV:
            pairs = tuple((target, source) for source, target in pairs)
        counts, mode = (self._program.replica_count, self._program.partition_count), transfer_group_mode(start)
        groups = [participants(ALL_REPLICAS, mode, *counts, device) for device in self._devices]
        partners = [tuple(find_partners(start, pairs, group, device)) for device, group in enumerate(groups)]
        return partners if start.op is opcodes.SEND else [found[:1] for found in partners]

    def queues(self, start: Instruction) -> list[tuple[int, ...]]:
        """Returns the offsets of the queues that each device uses for a transfer."""
        partners = self.known_partners(start)
        if partners is None:
            return [(self._queue((_channel(start), None)),) for _ in self._devices]
        if start.op is opcodes.SEND:
            pairs = [[(device, target) for target in targets] for device, targets in enumerate(partners)]
        else:
            pairs = [[(source, device) for source in sources] for device, sources in enumerate(partners)]
        return [tuple(self._queue((_channel(start), pair)) for pair in of_device) for of_device in pairs]

    def possible_partners(self, start: Instruction) -> list[tuple[int, ...]]:
        """Returns, for each device, the devices of which one sends to it or receives from it."""
        all_others = [tuple(d for d in self._devices if d != device) for device in self._devices]
        return self.known_partners(start) or all_others

    def _queue(self, key: Hashable) -> int:
        if key not in self._offsets:
            self._offsets[key] = self._program.allocate_shared(QUEUE_BYTES)
        return self._offsets[key]


def _lowered_computations(entry: Computation) -> Iterable[Computation]:
    """Yields the computations that are lowered to thunks."""
    pending = [entry]
    while pending:
        computation = pending.pop()
        yield computation
        pending += [called for i in computation if i.op in CONTROL_FLOW for called in i.computations]


def _channel(instruction: Instruction) -> int:
    return instruction.attributes_as(ChannelAttributes).channel_id or 0


def _is_paired(instruction: Instruction) -> bool:
    """Whether a transfer starts and finishes in one computation, and nothing else uses its unfinished value."""
    if instruction.op in _DONES:
        start = instruction.operands[0]
        return start.op in _STARTS and _channel(start) == _channel(instruction)
    return not instruction.is_root and all(user.op in _DONES for user in instruction.users)


_HOST_REASON = "the host is the other end, checks all values, or the transfers of its channel differ"


def _native_queues(context: LoweringContext, instruction: Instruction) -> TransferQueues | None:
    """Returns the program's queues; None if the host executes the transfer, for example to check all values."""
    if instruction.attributes_as(ChannelAttributes).is_host_transfer or context.builder.keeps_operands:
        return None
    queues = context.builder.module_state(TransferQueues)
    return queues if queues.is_native else None


@THUNK_RULES.rule(opcodes.SEND)
def _lower_send(context: LoweringContext, instruction: Instruction) -> None:
    queues = _native_queues(context, instruction)
    if queues is None:
        context.add_host_callback(instruction, _HOST_REASON)
        return
    context.allocate(instruction)
    _append_transfer(context, queues, instruction, instruction, context.slices_of(instruction.operands[0]), [])


@THUNK_RULES.rule(opcodes.SEND_DONE)
def _lower_send_done(context: LoweringContext, instruction: Instruction) -> None:
    """Needs no thunk: the message was copied when the transfer started."""
    context.allocate(instruction)


@THUNK_RULES.rule(opcodes.RECV)
def _lower_recv(context: LoweringContext, instruction: Instruction) -> None:
    queues = _native_queues(context, instruction)
    if queues is None:
        context.add_host_callback(instruction, _HOST_REASON)
        return
    *_, message_number = context.allocate(instruction)
    _append_transfer(context, queues, instruction, instruction, [], [message_number])


@THUNK_RULES.rule(opcodes.RECV_DONE)
def _lower_recv_done(context: LoweringContext, instruction: Instruction) -> None:
    queues = _native_queues(context, instruction)
    if queues is None:
        context.add_host_callback(instruction, _HOST_REASON)
        return
    (start,) = instruction.operands
    *_, message_number = context.slices_of(start)
    _append_transfer(context, queues, instruction, start, [message_number], context.allocate(instruction))


def _append_transfer(
    context: LoweringContext,
    queues: TransferQueues,
    instruction: Instruction,
    start: Instruction,
    operands: Sequence[BufferSlice],
    results: Sequence[BufferSlice],
) -> None:
    thunk = TransferThunk(
        len(context.builder.program.host_calling_thunks),
        instruction,
        list(operands),
        list(results),
        instruction.name,
        queues=queues.queues(start),
        partners=queues.possible_partners(start),
        claims_end=instruction is start and source_target_pairs(start) is None,
    )
    context.append_callback(thunk)
