"""Entry that native code calls when a device has waited long: passes the active launches to the runtime's watchdog."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from xlapy.cpu.program.communication.wait_state import SharedMemory, shared_memory_size
from xlapy.pjrt.c_api.entries import entry, error_of
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.objects.executable import running_at
from xlapy.pjrt.objects.loaded_executable import LoadedExecutable
from xlapy.pjrt.objects.records import SIZES, Record, read_words
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.collectives.launch import device_name
from xlapy.runtime.collectives.watchdog import ActiveLaunch, Watchdog
from xlapy.runtime.engine.core.memory import STORAGE_BYTES

_MAX_LAUNCHES = 1 << 10
"""Launches that are checked at once. Streams hold far fewer."""

_watchdog = Watchdog()


@entry("check_deadlocks", "LoadedExecutable_Execute")
def check_deadlocks(_: Any) -> None:
    """Fails the active launches that can never finish and those that exceed the timeout for collectives."""
    addresses = (ctypes.c_uint64 * _MAX_LAUNCHES)()
    count = native().active_launches(ctypes.addressof(addresses), _MAX_LAUNCHES)
    records = [Record("launch", address) for address in addresses[:count]]
    try:
        pairs = [(record, running_at(record["executable"])) for record in records]
        _watchdog.check([_active_launch(record, loaded) for record, loaded in pairs if loaded is not None])
    finally:
        for record in records:
            native().release(record["shared"])
            native().release_launch(record.address)


def _active_launch(record: Record, loaded: LoadedExecutable) -> ActiveLaunch:
    program = loaded.executable.program
    assert isinstance(program, CpuProgram)
    counts = loaded.assignment.num_replicas, loaded.assignment.num_partitions
    size = shared_memory_size(program.compiled.program)
    data: Any = (ctypes.c_char * size).from_address(record["shared"] + STORAGE_BYTES)
    shared: SharedMemory = np.frombuffer(data, np.uint8)
    return ActiveLaunch(
        record["number"],
        [device_name(number, *counts) for number in range(len(loaded.devices))],
        program.compiled.program,
        shared,
        read_words(record.address + SIZES["launch"], len(loaded.devices)),
        functools.partial(_fail, record.address),
    )


def _fail(launch: int, error: BaseException) -> None:
    native().fail_launch(launch, error_of(native(), error))
