"""`ProcessPlacement`: a program as one of several processes runs it, with the records that native code reads.

Responsible for these records and for which devices a waiting device waits for. Does not depend on launches, or on how a
transport moves bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import UnsupportedError
from xlapy.cpu.llvm.communication.host_functions import host_functions
from xlapy.cpu.llvm.communication.process_rendezvous import (
    REQUEST_OFFSET,
    AddressPlan,
    GroupRecord,
    ProcessTable,
    TransferPlan,
)
from xlapy.cpu.llvm.communication.process_transfers import ArrayPlace, QueuePlan, TransferRecord
from xlapy.cpu.program.communication.process_plans import GroupPlan, plan_processes
from xlapy.cpu.program.communication.rendezvous_assignment import byte_size
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import message_places
from xlapy.cpu.program.thunks import HostThunk, TransferThunk
from xlapy.hlo.instruction import describe_instruction

_WORD = 8

_TRANSFERS = 1 << 61
"""Numbers of exchanges of queues begin here: those of collectives are smaller, those of the host larger."""


class Connection(Protocol):
    """What connects a program to the other processes: addresses of records and native functions of a transport."""

    transport: int
    clique: int
    program: int
    post_exchange: int
    start_exchange: int
    drive_exchanges: int
    begin_launch: int
    fail_clique: int

    def missing_processes(self, request: int) -> Sequence[int]:
        """The processes that the pending request at an address waits for."""
        ...


class ProcessPlacement:
    """The devices of a program in this and other processes, and the process table that native code reads.

    connection: None before the program is connected to the transport.
    """

    def __init__(self, program: NativeProgram, topology: ProcessTopology) -> None:
        self.topology = topology
        if topology.spans_processes:
            _check_channels(program)
        self.plans = plan_processes(program, topology)
        self.connection: Connection | None = None
        self._groups = self.plans.by_device()
        self._exchanges = topology.spans_processes and bool(program.host_calling_thunks)
        self._kept: list[Any] = []
        self._table = self._make_table(program, topology.device_count)

    @property
    def table_address(self) -> int:
        """The address of the `ProcessTable`, which lives as long as this object."""
        return ctypes.addressof(self._table)

    @property
    def exchanges(self) -> bool:
        """Whether launches of the program are known to the other processes: devices may exchange data there."""
        return self._exchanges

    @property
    def slot_offsets(self) -> list[int]:
        """The offsets in shared memory of the exchange slots that are used."""
        return [group.slot_offset for group in self.plans.groups if group.transfers]

    @property
    def shared_size(self) -> int:
        """The bytes of shared memory that are zeros before the first launch."""
        return self.plans.shared_size

    @property
    def memory_size(self) -> int:
        """The bytes that the local devices of a launch share, with received memory."""
        return self.plans.shared_size + self.plans.received_size

    def connect(self, connection: Connection) -> None:
        """Sets the transport and the clique. Called before the first launch."""
        self.connection = connection
        native = ("post_exchange", "start_exchange", "drive_exchanges", "begin_launch", "fail_clique")
        for name in ("transport", "clique", "program", *native):
            self._table[ProcessTable.offsets()[name] // _WORD] = getattr(connection, name)

    def missing_devices(
        self, thunk: HostThunk, device: int, missing: Sequence[int] | None, address: int
    ) -> tuple[int, ...] | None:
        """Returns the devices for which a device waits in a thunk, or has waited when the processes failed; None if it
        does not wait.

        missing: those that have not arrived in the shared memory at `address`, where remote devices never do; None if
        the wait has ended there.
        """
        group = self._groups.get((thunk.number, device))
        if group is None:
            return None if missing is None else tuple(missing)
        if missing is None:
            return self._abandoned_devices(group, address)
        local = tuple(one for one in missing if self.topology.is_local(one))
        if local or not group.transfers:
            return local
        return self._awaited_devices(group, address)

    def _abandoned_devices(self, group: GroupPlan, address: int) -> tuple[int, ...] | None:
        """The devices for which a group has waited if its exchange in this launch has failed, or else None."""
        if not group.transfers or not host_functions().has_exchange_failed(address, group.slot_offset):
            return None
        return self._awaited_devices(group, address) or group.remote_members

    def _awaited_devices(self, group: GroupPlan, address: int) -> tuple[int, ...]:
        """The devices of the processes that the request of a group waits for, or has waited for."""
        awaited: Sequence[int] = self.topology.remote_processes(group.members)
        if self.connection is not None:
            awaited = self.connection.missing_processes(address + group.slot_offset + REQUEST_OFFSET)
        return tuple(one for one in group.remote_members if self.topology.process_of_device[one] in awaited)

    def _make_table(self, program: NativeProgram, device_count: int) -> Any:
        records = {id(group): self._group_record(group) for group in self.plans.groups}
        words = [0] * (ProcessTable.byte_size() // _WORD)
        words[ProcessTable.offsets()["received_offset"] // _WORD] = self.plans.shared_size
        for thunk in program.host_calling_thunks:
            for device in range(device_count):
                group = self._groups.get((thunk.number, device))
                if group is not None:
                    words.append(records[id(group)])
                elif thunk.is_transfer and self.topology.is_local(device):
                    words.append(self._transfer_record(cast(TransferThunk, thunk), device))
                else:
                    words.append(0)
        return (ctypes.c_int64 * len(words))(*words)

    def _group_record(self, group: GroupPlan) -> int:
        transfers = [
            {
                "is_receive": int(one.is_receive),
                "peer": one.peer,
                "tag": one.tag,
                "base": int(one.base),
                "slot": one.slot,
                "distance": one.block.offset,
                "count": one.block.count,
                "block_bytes": one.block.size,
                "stride_bytes": one.block.stride,
            }
            for one in group.transfers
        ]
        addresses = [{"slot": one.slot, "base": int(one.base), "distance": one.offset} for one in group.addresses]
        fields = {
            "local_count": len(group.devices),
            "exchange": group.exchange,
            "slot_offset": group.slot_offset,
            "transfer_count": len(transfers),
            "transfers": self._rows(TransferPlan.offsets, transfers),
            "address_count": len(addresses),
            "addresses": self._rows(AddressPlan.offsets, addresses),
        }
        return self._rows(GroupRecord.offsets, [fields])

    def _transfer_record(self, thunk: TransferThunk, device: int) -> int:
        sizes = _message_sizes(thunk)
        places = message_places(sizes)
        arrays = [{"place": place, "size": size} for place, size in zip(places, sizes, strict=False) if size]
        process_of, own = self.topology.process_of_device, self.topology.process_index
        partners = thunk.partners[device] if thunk.queues[device] else ()
        queues = [
            {"peer": -1 if process_of[partner] == own else process_of[partner], "exchange": _TRANSFERS | queue}
            for queue, partner in zip(thunk.queues[device], partners, strict=False)
        ]
        fields = {
            "message_bytes": places[-1],
            "array_count": len(arrays),
            "arrays": self._rows(ArrayPlace.offsets, arrays),
            "queues": self._rows(QueuePlan.offsets, queues),
        }
        return self._rows(TransferRecord.offsets, [fields])

    def _rows(self, offsets: Callable[[], Any], rows: Sequence[dict[str, int]]) -> int:
        """Returns the address of consecutive records, whose fields are all words."""
        places = {name: offset // _WORD for name, offset in offsets().items()}
        memory = (ctypes.c_int64 * max(1, len(rows) * len(places)))()
        for number, row in enumerate(rows):
            for name, value in row.items():
                memory[number * len(places) + places[name]] = value
        self._kept.append(memory)
        return ctypes.addressof(memory)


def _check_channels(program: NativeProgram) -> None:
    """Raises `UnsupportedError` for transfers on channels whose ends, and so their processes, are not known."""
    for thunk in program.host_calling_thunks:
        if thunk.is_transfer and cast(TransferThunk, thunk).claims_end:
            raise UnsupportedError(
                codes.CHANNEL_ENDS,
                f"{describe_instruction(thunk.instruction)}: any two devices may use its channel, and the devices of "
                f"{program.name} belong to several processes; name the pairs in the frontend attribute "
                "_xla_send_recv_source_target_pairs",
            )


def _message_sizes(thunk: TransferThunk) -> list[int]:
    """Returns the bytes of the arrays that a send or a receive passes on."""
    if thunk.instruction.op is opcodes.SEND:
        return [slice_.size for slice_ in thunk.operands]
    leaves = array_leaves(thunk.instruction.shape.tuple_shapes[0])
    return [byte_size(leaf) for _, leaf in leaves]
