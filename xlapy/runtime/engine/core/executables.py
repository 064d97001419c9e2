"""The lifetime of executables: their handles, and the list of those without handles.

Responsible for who owns an executable's record. Must not know what executables do.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED
from xlapy.native.records import Guarded, Lock, Record
from xlapy.native.values import Bool, Nullable
from xlapy.runtime.engine.core.frames import free_spare_frame
from xlapy.runtime.engine.core.launch_records import Executable
from xlapy.runtime.engine.core.memory import release


class Destroyed(Record, lock="lock"):
    """Executables without handles, linked, which Python will free."""

    lock: Lock
    first: Guarded[Nullable[Executable]]


DESTROYED = Static("destroyed", Destroyed)


@native
def retain_executable(f: Function, executable: Executable) -> None:
    """Adds a handle. The caller has one already."""
    executable.owners.fetch_add(1, RELAXED)


@native
def release_executable(f: Function, executable: Executable) -> Bool:
    """Gives up a handle. The last one adds the executable to those that are to be freed; returns whether it did."""
    with f.when(executable.owners.fetch_sub(1, ACQ_REL) != 1):
        f.ret(False)
    destroyed = f.static(DESTROYED)
    with f.locked(destroyed.lock):
        executable.next = destroyed.first
        destroyed.first = executable.maybe()
    return f.constant(Bool, True)


@native
def take_destroyed(f: Function) -> Nullable[Executable]:
    """The list of executables without handles, which is empty afterwards."""
    destroyed = f.static(DESTROYED)
    with f.locked(destroyed.lock):
        first = destroyed.first
        destroyed.first = None
    return first


@native
def free_spare_memory(f: Function, executable: Executable) -> None:
    """Frees the spare frames and the spare shared memory of an executable."""
    with f.count(executable.device_program_count) as one:
        free_spare_frame(f, executable.device_programs.items[one.index])
    shared = executable.spare_shared.exchange(None, ACQ_REL)
    with f.when(shared.is_present()):
        release(f, shared.value)


@native
def instrumented_executable(f: Function, executable: Executable) -> Nullable[Executable]:
    """The executable that runs instead while a trace is taken; null if none is."""
    return executable.instrumented.load(ACQUIRE)
