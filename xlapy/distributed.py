"""Execution over several processes, which need not share memory.

    import xlapy as xla

    xla.distributed.initialize()        # in each process that `mpirun -n 4 python program.py` has started
    client = xla.Client("cpu", devices=2)

Each process executes the same program on the devices of all processes. They communicate through MPI.

Responsible for joining a process group and for leaving it. Does not depend on what the processes execute.
"""

from __future__ import annotations

import atexit
import os
from typing import Final

from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.runtime.collectives.error_reports import show_uncaught_errors_once
from xlapy.runtime.collectives.process_group import KeyValueStore, current_process_group, set_process_group

__all__ = ["initialize", "is_initialized", "process_count", "process_index", "shutdown"]

INITIALIZATION_SECONDS: Final = 300.0
"""The default time that the processes have to start, as in JAX."""


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout: float = INITIALIZATION_SECONDS,
    key_value_store: KeyValueStore | None = None,
) -> None:
    """Makes this process a member of the process group. All processes call this, before they make a client.

    Under mpirun, the arguments may be left out. Processes that are started by hand give all three: the address
    `HOST:PORT` of process 0, the number of processes, and their own index.

    timeout: seconds that the processes have to start. key_value_store: a store that all processes reach, in which
    process 0 publishes its address in place of `coordinator_address`.

    If something is wrong with the processes as a whole, process 0 raises `ExecutionError`, and the others exit with
    code 1. Afterwards, an uncaught exception that ends several processes is printed by the first of them only.
    """
    from xlapy.runtime.collectives.mpi import start

    launcher = start.find_launcher(os.environ)
    try:
        _check_arguments(num_processes, process_id, timeout)
    except InvalidArgumentError:
        if launcher is not None and launcher.process_index:  # process 0 raises it, too
            raise SystemExit(1) from None
        raise
    group = current_process_group()
    if group is not None or _ended:
        state = "is a member of the process group already" if group is not None else "has left the process group"
        raise ExecutionError(codes.ALREADY_INITIALIZED, f"this process {state}; initialize is called once")
    if launcher is not None:
        for name, given, known in (
            ("num_processes", num_processes, launcher.process_count),
            ("process_id", process_id, launcher.process_index),
        ):
            if given is not None and given != known:
                start.refuse(
                    launcher.process_index,
                    codes.PROCESS_COUNT,
                    f"{name}={given}, but {launcher.name} has started this process as process "
                    f"{launcher.process_index} of {launcher.process_count}; leave the arguments out under mpirun",
                )
        library = start.start_under_launcher(launcher, timeout)
    elif num_processes is not None and process_id is not None:
        library = start.start_by_hand(coordinator_address, num_processes, process_id, timeout, key_value_store)
    else:
        raise ExecutionError(
            codes.PROCESS_COUNT,
            "this process was not started by mpirun: start it by `mpirun -n N python ...`, or give "
            "coordinator_address, num_processes and process_id",
        )
    set_process_group(start.start_group(library))
    show_uncaught_errors_once()
    atexit.register(_end)


def _check_arguments(count: object, index: object, timeout: float) -> None:
    if count is not None and (not isinstance(count, int) or count < 1):
        raise InvalidArgumentError(codes.PROCESS_COUNT, f"num_processes is a number from 1 on, not {count!r}")
    if index is not None and (not isinstance(index, int) or index < 0 or (count is not None and index >= count)):
        limit = "num_processes" if count is None else f"num_processes={count}"
        raise InvalidArgumentError(
            codes.PROCESS_COUNT, f"process_id is a number from 0 to {limit} less 1, not {index!r}"
        )
    if timeout <= 0:
        raise InvalidArgumentError(codes.COORDINATOR, f"timeout is a number of seconds above 0, not {timeout!r}")


def shutdown() -> None:
    """Leaves the process group once all other processes leave it, too. Does nothing without a process group.

    A process calls this by itself at its end.
    """
    group = current_process_group()
    if group is None or group.is_forked:
        return
    set_process_group(None)
    _ended.append((group.process_index, group.close()))


_ended: Final[list[tuple[int, bool]]] = []
"""Not empty once this process has left the process group: its index, and whether all others have left it, too."""


def _end() -> None:
    """Leaves the process group at the end of the process, and finalizes MPI."""
    group = current_process_group()
    if group is not None and group.is_forked:
        return
    shutdown()
    from xlapy.runtime.collectives.mpi import start

    start.finalize(*_ended[0])


def is_initialized() -> bool:
    """Returns whether this process is a member of a process group."""
    return current_process_group() is not None


def process_index() -> int:
    """Returns the index of this process; 0 without a process group."""
    group = current_process_group()
    return 0 if group is None else group.process_index


def process_count() -> int:
    """Returns the number of processes; 1 without a process group."""
    group = current_process_group()
    return 1 if group is None else group.process_count
