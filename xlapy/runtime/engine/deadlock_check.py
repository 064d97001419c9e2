"""What the engine calls when a device has waited long: passes the active launches to the watchdog."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from xlapy.cpu.program.communication.wait_state import SharedMemory, shared_memory_size
from xlapy.runtime.collectives.device_names import device_names
from xlapy.runtime.collectives.watchdog import RUNNING, ActiveLaunch, Watchdog
from xlapy.runtime.engine.core.memory import STORAGE_BYTES
from xlapy.runtime.engine.device_programs import RunnableProgram, runnable_at
from xlapy.runtime.engine.launch_errors import error_record
from xlapy.runtime.engine.native_engine import engine
from xlapy.runtime.engine.records import Record

_MAX_LAUNCHES = 1 << 10
"""Launches that are checked at once. Streams hold far fewer."""

_watchdog = Watchdog()


def check_deadlocks(_: int) -> int:
    """Fails the active launches that can never finish and those that exceed the timeout for collectives. Returns 0."""
    native = engine()
    addresses = (ctypes.c_uint64 * _MAX_LAUNCHES)()
    count = native.active_launches(ctypes.addressof(addresses), _MAX_LAUNCHES)
    records = [Record("launch", address) for address in addresses[:count]]
    try:  # launches that call the host are checked by their own rendezvous
        pairs = [(record, runnable_at(record["executable"])) for record in records]
        _watchdog.check(
            [
                _active_launch(record, program)
                for record, program in pairs
                if program is not None and program.host is None
            ]
        )
    finally:
        for record in records:
            native.release(record["shared"])
            native.release_launch(record.address)
    return 0


def _active_launch(record: Record, runnable: RunnableProgram) -> ActiveLaunch:
    program, count = runnable.program, len(runnable.device_programs)
    data: Any = (ctypes.c_char * shared_memory_size(program)).from_address(record["shared"] + STORAGE_BYTES)
    shared: SharedMemory = np.frombuffer(data, np.uint8)
    states = (ctypes.c_int64 * count)()
    engine().device_states(record.address, ctypes.addressof(states))
    placement, device_states = program.placement, list(states)
    topology = None if placement is None else placement.topology
    if topology is not None:
        device_states = [RUNNING] * topology.device_count
        for device, state in zip(topology.local_devices, states, strict=True):
            device_states[device] = state
    return ActiveLaunch(
        record["number"],
        device_names(*runnable.counts, topology),
        program,
        shared,
        device_states,
        functools.partial(_fail, record.address),
        None if placement is None else placement.connection,
    )


def _fail(launch: int, error: BaseException) -> None:
    native = engine()
    native.fail_launch(launch, error_record(native, error))
