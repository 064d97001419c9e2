"""Launches of programs that call the host: infeeds, outfeeds, host transfers, custom calls in Python.

The engine queues such a launch like any other. The stream of each device then runs its frame here, in Python. The
devices of a launch share a `LaunchRendezvous`. They end together, so that a message that nothing receives fails the
whole launch.

A device that waits for the host may be fed at any time after the call. Its wait ends with an error after the timeout
for collectives, when its launch is canceled, and when the interpreter ends: nothing can be fed then.

Responsible for running frames and for their cancellation. Does not depend on how launches are queued.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.communication import queue_messages
from xlapy.cpu.program.communication.wait_state import (
    SharedMemory,
    Wait,
    cancel_run,
    shared_memory_size,
    waiting_devices,
)
from xlapy.cpu.program.host_callbacks import HostCallbackHandler, run_ids
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.targets.python_callbacks import PythonCallbacks
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter import Context, EvaluationPlan
from xlapy.interpreter.checks import Checks
from xlapy.runtime.collectives.communicator import DeviceCommunicator
from xlapy.runtime.collectives.device_names import device_names
from xlapy.runtime.collectives.native_feeds import attached_feeds
from xlapy.runtime.collectives.remote_processes import await_exchanges, begin_remote_launch, set_launch_number
from xlapy.runtime.collectives.rendezvous import ExternalWait, LaunchRendezvous
from xlapy.runtime.collectives.watchdog import external_wait
from xlapy.runtime.device import Device, collective_timeout
from xlapy.runtime.engine.core.events import CANCELED
from xlapy.runtime.engine.core.memory import STORAGE_BYTES
from xlapy.runtime.engine.core.streams import HOST_DONE
from xlapy.runtime.engine.device_programs import runnable_at
from xlapy.runtime.engine.dispatch import align_arguments, custom_call_arguments, per_device_values
from xlapy.runtime.engine.launch_errors import error_record, read_error, remember_cause
from xlapy.runtime.engine.native_call import Host, NativeCall, array_address
from xlapy.runtime.engine.native_engine import engine
from xlapy.runtime.engine.python_host import PythonHost
from xlapy.runtime.engine.records import WORD, Record, read_words

_CAUSE_SECONDS = 1.0
"""How long a device that did not start waits for the cause. Native code cancels a launch before its host knows why."""
_STARVING_POLLS = 20
"""Polls in a row, at the end of the interpreter, that must find a device waiting for the host before its launch is
canceled: a value that was just fed may not have been taken yet."""


class HostProgram:
    """A program that calls the host, and what its runs share.

    call: runs the native code. callbacks: the Python functions that it calls, if it calls nothing else. state: what
    custom-call targets keep between runs.
    """

    def __init__(
        self,
        program: NativeProgram,
        call: NativeCall,
        partition_count: int,
        checks: Checks,
        callbacks: PythonCallbacks | None,
        state: dict[Instruction, Any],
    ) -> None:
        self.program = program
        self.partition_count = partition_count
        self._call = call
        self._checks = checks
        self._callbacks = callbacks
        self._state = state
        self._plans: dict[Computation, EvaluationPlan] = {}
        self._in_place = custom_call_arguments(program)
        self._calls_targets = any(thunk.calling_convention for thunk in program.host_calling_thunks)
        self.has_feeds = any(thunk.feed is not None for thunk in program.host_calling_thunks)
        self._draws_random = "rng-get-and-update-state" in program.implicit_arguments
        self._devices: Sequence[Device] = ()
        self._launches: dict[int, _HostLaunch] = {}

    def bind(self, devices: Sequence[Device]) -> None:
        """Sets the devices whose queues launches use."""
        self._devices = devices

    def context(self, context: Context) -> Context:
        """Fills in what callbacks can read of their run."""
        context.platform, context.seed = "cpu", int(flags.get("rng_seed"))
        context.plans, context.program_state = self._plans, self._state
        context.run_id = context.run_id or next(run_ids)
        return context

    def handler(self, communicator: DeviceCommunicator, run_id: int, shared: SharedMemory) -> HostCallbackHandler:
        """The host of a run on one device."""
        ids = divmod(communicator.number, self.partition_count)
        canceled = communicator.rendezvous.canceled
        context = Context(*ids, communicator=communicator, canceled=canceled, run_id=run_id)
        watchdog = _LaunchWatchdog(communicator)
        number = communicator.number
        return HostCallbackHandler(self.program, self.context(context), number, shared, watchdog, self._checks)

    def unreceived(self, shared: SharedMemory) -> list[tuple[int, str]]:
        """Removes the messages that no device has received; returns their senders and instructions. All devices have
        ended."""
        return [
            (number, describe_instruction(thunk.instruction))
            for number, thunk in queue_messages.clear_all_queues(self.program, shared)
        ]

    # -- launches

    def run(self, frame: Record, program: Record, launch: Record) -> None:
        """Runs the frame of one device of a launch; raises the error of the launch.

        A frame with an error does not run: its device has failed.
        """
        if self._callbacks is not None:
            self._run_callbacks(self._callbacks, frame, program, launch)
            return
        row = program["number"]
        number = row if self.program.placement is None else self.program.placement.topology.local_devices[row]
        shared = self._launch(launch)
        rendezvous = shared.rendezvous
        rendezvous.start(number)
        try:
            if frame["error"]:
                error = read_error(frame["error"])
                if error.status == CANCELED:
                    shared.ended.wait(_CAUSE_SECONDS)  # the device whose failure canceled the launch tells why
                raise error
            self._execute(frame, program, shared, row)
        except BaseException as error:  # any error must release the devices that wait for this one
            rendezvous.fail(number, error)
        finally:
            rendezvous.finish(number)
            self._finish(launch["number"], shared)
        shared.ended.wait()
        if rendezvous.failure is not None:
            raise rendezvous.failure

    def _run_callbacks(self, callbacks: PythonCallbacks, frame: Record, program: Record, launch: Record) -> None:
        """Runs a program on one device that calls nothing but Python functions: it waits for nobody."""
        if frame["error"]:
            raise read_error(frame["error"])
        shared = _shared_array(self.program, launch["shared"])
        host = PythonHost(self.program, callbacks, shared.ctypes.data)
        try:
            self._call_native(frame, program, 0, host, shared)
        except BaseException:
            if engine().is_memory_canceled(shared.ctypes.data):
                raise ExecutionError(codes.CANCELED, "the program was canceled") from None
            raise

    def _launch(self, record: Record) -> _HostLaunch:
        with _lock:
            launch = self._launches.get(record["number"])
            if launch is None:
                launch = self._launches[record["number"]] = _HostLaunch(self, record, self._devices)
                _active.add(launch)
        return launch

    def _finish(self, number: int, launch: _HostLaunch) -> None:
        """Ends the launch with its last device."""
        with _lock:
            launch.remaining -= 1
            is_last = not launch.remaining
            if is_last:
                self._launches.pop(number, None)
                _active.discard(launch)
        if is_last:
            await_exchanges(self.program, launch.shared)
            unreceived = launch.rendezvous.unreceived_error(self.unreceived(launch.shared))
            if unreceived is not None:
                launch.rendezvous.fail(None, unreceived)
            launch.ended.set()

    def _execute(self, frame: Record, program: Record, launch: _HostLaunch, row: int) -> None:
        communicator = launch.communicators[row]
        number = communicator.number
        host = self.handler(communicator, launch.run_id, launch.shared)
        is_attached = attached_feeds(communicator.device, self.program, launch.shared, number)
        with is_attached if self.has_feeds else nullcontext():
            self._call_native(frame, program, number, host, launch.shared)

    def _call_native(self, frame: Record, program: Record, number: int, host: Host, shared: SharedMemory) -> None:
        """Runs native code on a frame. shared: the memory that the devices share."""
        ids = divmod(number, self.partition_count)
        native = self.program
        counts = program["argument_count"], program["result_count"]
        table = frame.address + Record.sizes["launch_frame"] + WORD * (counts[0] + 2 * counts[1])
        addresses = read_words(table + WORD, len(native.arguments) + len(native.results))
        owners: list[Any] = list(addresses)
        if self._draws_random:
            first = native.implicit_arguments_index - 1
            for index, array in enumerate(per_device_values(native.implicit_arguments, *ids)):
                owners[first + index], addresses[first + index] = array, array_address(array)
        self._call.refresh_targets()
        align_arguments(owners, addresses, self._in_place)
        storages = _owned_storages(frame, sum(counts)) if self._calls_targets else None
        self._call(*addresses, host=host, memory=(owners, storages, shared), device=number)


@dataclass(frozen=True, slots=True)
class _LaunchWatchdog:
    """Connects the host side of a native run to the run's rendezvous, which detects deadlocks and timeouts."""

    communicator: DeviceCommunicator

    def check_waits(self, snapshot: Callable[[], Mapping[int, Wait]]) -> None:
        def waits() -> dict[int, ExternalWait]:
            return {number: external_wait(wait) for number, wait in snapshot().items()}

        self.communicator.rendezvous.check_external_waits(self.communicator.number, waits)

    def claim_channel(self, instruction: Instruction) -> None:
        self.communicator.claim_channel(instruction)

    def check_host_wait(self, instruction: Instruction, count: int) -> None:
        self.communicator.check_host_wait(instruction, count)


class _HostLaunch:
    """What the devices of one launch share. remaining: number of devices that have not ended. ended: set when all have
    ended, or the launch has failed. starving_polls: polls in a row that found a device waiting for the host."""

    def __init__(self, host: HostProgram, record: Record, devices: Sequence[Device]) -> None:
        program = host.program
        self._has_feeds = host.has_feeds
        remote = begin_remote_launch(program)
        topology = None if remote is None else remote.topology
        count = program.replica_count * program.partition_count
        numbers = range(count) if topology is None else topology.local_devices
        self.devices = devices or [Device(number, "cpu") for number in numbers]
        self.remaining = len(self.devices)
        self.program = program
        self.shared = _shared_array(program, record["shared"])
        set_launch_number(self.shared, remote)
        self.ended = threading.Event()
        self.run_id = next(run_ids)
        self.starving_polls = 0
        timeout, partitions = collective_timeout(), host.partition_count
        replicas = (len(self.devices) if topology is None else count) // partitions
        names = device_names(replicas, partitions, topology)
        self.rendezvous = LaunchRendezvous(names, timeout, self._wake, are_started=False, remote=remote)
        self.communicators = [
            DeviceCommunicator(self.rendezvous, device, number, replicas, partitions, timeout, row)
            for row, (number, device) in enumerate(zip(numbers, self.devices, strict=topology is not None))
        ]

    def _wake(self) -> None:
        """Ends the waits of the devices, because the launch has failed."""
        cancel_run(self.program, self.shared)
        for device in self.devices:
            device.wake()
        self.ended.set()

    @property
    def is_canceled(self) -> bool:
        """Whether native code has canceled the launch."""
        return bool(engine().is_memory_canceled(self.shared.ctypes.data))

    def is_starving(self) -> bool:
        """Whether a device waits for a value that the host has not fed."""
        if self.rendezvous.is_waiting_for_host() or not self._has_feeds:
            return self.rendezvous.is_waiting_for_host()
        waits = waiting_devices(self.program, self.shared)
        return any(wait.thunk.waits_for_host and not len(self.devices[number].infeed) for number, wait in waits.items())


_lock = fork_safe_lock()
_active: set[_HostLaunch] = set()


def _forget_launches() -> None:
    """In the child of a fork: the threads that ran the launches are lost."""
    _active.clear()


os.register_at_fork(after_in_child=_forget_launches)


def run_host_launch(address: int) -> int:
    """Runs the launch frame at an address; returns the address of an error, or 0. The engine calls this."""
    try:
        frame = Record("launch_frame", address)
        launch = Record("launch", frame["launch"])
        frame["host_status"] = HOST_DONE
        runnable = runnable_at(launch["executable"])
        assert runnable is not None and runnable.host is not None, "it was queued"
        runnable.host.run(frame, Record("device_program", frame["program"]), launch)
    except BaseException as error:  # no exception may pass through native code
        remember_cause(error)
        return error_record(engine(), error)
    return 0


def note_canceled() -> None:
    """Ends the waits of launches that native code has canceled."""
    with _lock:
        canceled = [launch for launch in _active if launch.is_canceled]
    for launch in canceled:
        launch.rendezvous.fail(None, ExecutionError(codes.CANCELED, "the program was canceled"))


def cancel_starving() -> None:
    """Cancels the launches that wait for the host, because nothing can be fed any more."""
    with _lock:
        active = list(_active)
    for launch in active:
        launch.starving_polls = launch.starving_polls + 1 if launch.is_starving() else 0
        if launch.starving_polls >= _STARVING_POLLS:
            message = "the program waits for the host at the end of the interpreter: nothing can be fed any more"
            launch.rendezvous.fail(None, ExecutionError(codes.CANCELED, message))


def _shared_array(program: NativeProgram, storage: int) -> SharedMemory:
    """The memory in a storage that the devices of a launch share, as an array that keeps it alive."""
    memory: Any = (ctypes.c_char * shared_memory_size(program)).from_address(storage + STORAGE_BYTES)
    memory.owner = engine().owned_storage(storage)
    return np.frombuffer(memory, np.uint8)


def _owned_storages(frame: Record, count: int) -> list[Any]:
    """Keeps the memory of the first arguments and results of a frame alive: an asynchronous custom call that goes on
    after a failed launch may still write there."""
    storages = read_words(frame.address + Record.sizes["launch_frame"], count)
    return list(map(functools.partial(engine().owned_storage), storages))
