"""The lifetime of executables: their handles, and the list of those without handles.

Responsible for who owns an executable's record. Must not know what executables do.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.locks import acquire_permit, release_permit
from xlapy.native.records import Atomic, Guarded, Lock, Record
from xlapy.native.values import Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.frames import free_spare_frame
from xlapy.runtime.engine.core.launch_records import DeviceProgram, Executable
from xlapy.runtime.engine.core.memory import release
from xlapy.runtime.engine.core.queues import semaphore


class Destroyed(Record, lock="lock"):
    """Executables without handles, linked, which a thread of Python frees. requests: permits for that thread, one per
    executable."""

    lock: Lock
    first: Guarded[Nullable[Executable]]
    requests: Atomic[Int32]
    requests_sleepers: Atomic[Int32]


DESTROYED = Static("destroyed", Destroyed)


@native
def retain_executable(f: Function, executable: Executable) -> None:
    """Adds a handle. The caller has one already."""
    executable.owners.fetch_add(1, RELAXED)


@native
def release_executable(f: Function, executable: Executable) -> None:
    """Gives up a handle. The last one adds the executable to those that are to be freed, and wakes the thread that
    frees them."""
    with f.when(executable.owners.fetch_sub(1, ACQ_REL) != 1):
        f.ret()
    destroyed = f.static(DESTROYED)
    with f.locked(destroyed.lock):
        executable.next = destroyed.first
        destroyed.first = executable.maybe()
    release_permit(f, semaphore(destroyed.requests))


@native
def await_destroyed(f: Function) -> Nullable[Executable]:
    """Waits until an executable has lost its last handle; returns the list of executables without handles. It may be
    empty, if an earlier call has returned them."""
    acquire_permit(f, semaphore(f.static(DESTROYED).requests))
    return take_destroyed(f)


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


@native
def set_instrumented(f: Function, executable: Executable, instrumented: Nullable[Executable]) -> None:
    """Says what runs instead of an executable while a trace is taken; null for nothing."""
    executable.instrumented.store(instrumented, RELEASE)


@native
def allow_native_calls(f: Function, executable: Executable, is_allowed: Word) -> None:
    """Says whether calls run without Python: 1 once the records of the executable are complete, 0 after its
    deletion."""
    executable.runs_natively.store(is_allowed, RELEASE)


@native
def allows_native_calls(f: Function, executable: Executable) -> Bool:
    """Whether calls run without Python."""
    return executable.runs_natively.load(ACQUIRE) != 0


@native
def pending_launches(f: Function, program: DeviceProgram) -> Word:
    """The number of launches of a device's program that have not finished."""
    return program.pending_launches.load(ACQUIRE)


@native
def set_trace_id(f: Function, program: DeviceProgram, number: Word) -> None:
    """Sets the number under which the launch times of a device's program are recorded; 0 for none."""
    program.trace_id.store(number, RELAXED)
