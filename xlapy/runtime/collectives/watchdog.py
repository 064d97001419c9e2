"""Whether devices that meet in native code, and have waited there for long, can go on: the rendezvous of a run judges.

Owns: who waits in runs that native code has begun. Must not know: how they wait.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.wait_state import Memory, shared_size, waiting
from xlapy.pjrt.c_api.entries import entry, error_of
from xlapy.pjrt.c_api.loaded import native
from xlapy.pjrt.objects.executable import Loaded, running_at
from xlapy.pjrt.objects.records import SIZES, Record, read_words
from xlapy.runtime.backends.cpu import CpuProgram, outside
from xlapy.runtime.collectives.launch import device_name
from xlapy.runtime.collectives.rendezvous import Outside, Rendezvous
from xlapy.runtime.device import collective_timeout

_MOST = 1 << 10
"""How many runs are judged at once: devices have queues of fewer."""

_NOT_BEGUN, _ENDED = 0, 2

_known: dict[int, Rendezvous] = {}
"""By the numbers of runs: who has waited since when."""


@entry("judge", "LoadedExecutable_Execute")
def judge(_: Any) -> None:
    """Ends the runs that can never finish, and those that have waited for too long."""
    row = (ctypes.c_uint64 * _MOST)()
    runs = [Record("run", address) for address in row[: native().runs_now(ctypes.addressof(row), _MOST)]]
    try:
        for run in runs:
            loaded = running_at(run["executable"])
            if loaded is not None:
                _judge(run, loaded)
    finally:
        numbers = {run["number"] for run in runs}
        for number in set(_known) - numbers:
            del _known[number]
        for run in runs:
            native().release(run["shared"])
            native().give_up_run(run.address)


def _judge(run: Record, loaded: Loaded) -> None:
    rendezvous = _known.get(run["number"]) or _known.setdefault(run["number"], _rendezvous(loaded))
    states = read_words(run.address + SIZES["run"], len(loaded.devices))
    for device, state in enumerate(states):
        if state == _ENDED:
            rendezvous.finish(device)
    waits = _waits(loaded, run)
    try:
        for device, wait in waits.items():
            # Nobody is told off for waiting for a device that has other runs first.
            is_due = all(states[missing] != _NOT_BEGUN for missing in wait.missing)
            rendezvous.judge(device if is_due else -1, functools.partial(dict, waits))
    except ExecutionError as error:
        failure = rendezvous.failure or error
        native().fail_run(run.address, error_of(native(), failure))


def _rendezvous(loaded: Loaded) -> Rendezvous:
    counts = loaded.options.num_replicas, loaded.options.num_partitions
    names = [device_name(number, *counts) for number in range(len(loaded.devices))]
    return Rendezvous(names, collective_timeout())


def _waits(loaded: Loaded, run: Record) -> dict[int, Outside]:
    program = loaded.executable.program
    assert isinstance(program, CpuProgram)
    native_program = program.compiled.program
    size = shared_size(native_program)
    bytes_: Any = (ctypes.c_char * size).from_address(run["shared"] + SIZES["storage"])
    shared: Memory = np.frombuffer(bytes_, np.uint8)
    return {device: outside(wait) for device, wait in waiting(native_program, shared).items()}
