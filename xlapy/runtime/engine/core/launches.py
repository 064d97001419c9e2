"""Launches whose devices synchronize with each other: their shared memory, and how all devices fail if one does.

The memory that the devices share starts out as zeros, and returns to that state after a launch in which every device
succeeded; an executable keeps one spare. If a device fails, a flag in this memory cancels the others. The storages of
failed frames are kept until the last device has finished, because other devices may still read them.

Responsible for the records of launches and the list of active ones. Must not know how devices synchronize, or which
thread runs a frame.
"""

from __future__ import annotations

from xlapy.cpu.llvm.communication.process_rendezvous import (
    CANCELLATION_SLICE,
    ProcessTable,
    is_exchange_pending,
    launch_number,
)
from xlapy.cpu.llvm.communication.waits import CancellationWord, WordOffsets, cancel_waits
from xlapy.native.function import Function, external, free, native, native_holding
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.records import Record, Trailing
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.events import Error, copy_of_error, free_error
from xlapy.runtime.engine.core.launch_records import (
    LAUNCHES,
    NOT_STARTED,
    Executable,
    Launch,
    LaunchFrame,
    Numbers,
)
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, Storage, allocate, release, retain


class LaunchPointers(Record):
    """Pointers to launches."""

    items: Trailing[Launch]


@external
def memset(f: Function, target: Address, value: Int32, size: Word) -> Address:  # type: ignore[empty-body]
    """Sets bytes."""


# --- lifetime


@native
def acquire_shared_memory(f: Function, executable: Executable) -> Nullable[Storage]:
    """Shared memory that is all zeros or was used by a successful launch; null if memory is exhausted."""
    spare = executable.spare_shared.exchange(None, ACQUIRE)
    with f.when(spare.is_present()):
        f.ret(spare)
    bytes = executable.shared_bytes
    made = allocate(f, bytes)
    with f.when(made.is_present()):
        memset(f, made.value.offset(STORAGE_BYTES), f.constant(Int32, 0), executable.cleared_bytes)
    return made


@native
def return_shared_memory(f: Function, executable: Executable, shared: Storage) -> None:
    """Keeps the shared memory of a successful launch as the spare one, or releases it. Queues of the host do not return
    to zeros."""
    is_clean = (cancellation_word(shared).is_canceled.load(RELAXED) == 0) & (executable.calls_host == 0)
    with f.when(is_clean):
        _, is_kept = executable.spare_shared.compare_exchange(None, shared.maybe(), RELEASE, RELAXED)
        with f.when(is_kept):
            f.ret()
    release(f, shared)


def cancellation_word(shared: Storage) -> CancellationWord:
    """The word of shared memory that cancels a launch."""
    return shared.offset(STORAGE_BYTES).cast(CancellationWord)


@native
def new_launch(f: Function, executable: Executable) -> Nullable[Launch]:
    """An active launch on all devices of an executable, with one owner; null if memory is exhausted."""
    shared = acquire_shared_memory(f, executable)
    with f.when(shared.is_null()):
        f.ret(None)
    count = executable.device_program_count
    made = f.allocate(Launch, count * 8)
    with f.when(made.is_null()):
        return_shared_memory(f, executable, shared.value)
        f.ret(None)
    launch = made.value
    launches = f.static(LAUNCHES)
    launch.number = launches.next_number.fetch_add(1, RELAXED)
    launch.owners.store(1, RELAXED)
    launch.remaining.store(count, RELAXED)
    launch.executable = executable
    launch.shared = shared.value
    launch.failed_frames = None
    launch.error = None
    launch.is_open = 1
    launch.is_begun = 0
    with f.count(count) as one:
        launch.states[one.index].store(NOT_STARTED, RELAXED)
    with f.locked(launches.lock):
        launch.next = launches.first
        launches.first = made
    return made


@native
def close_launch(f: Function, launch: Launch) -> None:
    """Removes a launch from the active ones. From now on it cannot be failed from outside."""
    launches = f.static(LAUNCHES)
    with f.locked(launches.lock):
        launch.is_open = 0
        before = f.variable(Nullable[Launch], None)
        found = f.variable(Nullable[Launch], launches.first)
        with f.loop() as loop:
            with f.when(found.get() == launch):
                loop.leave()
            before.set(found.get())
            found.set(found.get().known("an active launch is in the list").next)
        previous = before.get()
        with f.when(previous.is_null()) as is_first:
            launches.first = launch.next
        with is_first.otherwise():
            previous.value.next = launch.next
    await_exchanges(f, launch)
    return_shared_memory(f, launch.executable, launch.shared)


@native
def release_launch(f: Function, launch: Launch) -> None:
    """Gives up the ownership of a launch."""
    with f.when(launch.owners.fetch_sub(1, ACQ_REL) == 1):
        last = f.exclusive_access(launch, "the last owner")
        free_error(f, last.error)
        free(f, last.as_memory())


# --- other processes


@native
def begin_in_processes(f: Function, launch: Launch) -> None:
    """Begins a launch in the processes that run devices of its program, unless that was done. Streams run launches in
    the order in which they were queued, so all processes begin them in the same order."""
    processes = launch.executable.processes
    with f.when(processes.is_present()):
        with f.locked(f.static(LAUNCHES).lock):
            with f.when(launch.is_begun == 0):
                launch.is_begun = 1
                table = processes.value
                number = f.call_address(
                    table.begin_launch, table.transport, table.clique, table.program, result=Word
                )  # 0 if the processes have failed; what is posted then fails, too
                begun = launch_number(launch.shared.offset(STORAGE_BYTES))
                f.exclusive_access(begun, "no device of the launch has run yet").number = number


@native
def fail_processes(f: Function, processes: ProcessTable, error: Nullable[Error]) -> None:
    """Fails the launch in the other processes, too. The first failure counts there."""
    with f.when(error.is_present()) as is_known:
        text, size = error.value.message, error.value.message_size
        f.call_address(processes.fail_clique, processes.transport, processes.clique, text, size)
    with is_known.otherwise():
        canceled, length = f.text("a launch was canceled")
        size = f.constant(Word, length)
        f.call_address(processes.fail_clique, processes.transport, processes.clique, canceled, size)


@native
def await_exchanges(f: Function, launch: Launch) -> None:
    """Waits until other processes no longer read or write the memory of a launch that was canceled."""
    executable, shared = launch.executable, cancellation_word(launch.shared)
    with f.when(shared.is_canceled.load(RELAXED) == 0):
        f.ret()
    with f.count(executable.exchange_slot_count) as one:
        slot = executable.exchange_slots.items[one.index]
        with f.loop() as loop:
            with f.when(~is_exchange_pending(f, shared, slot)):
                loop.leave()
            shared.is_canceled.wait(1, CANCELLATION_SLICE)


# --- failures


@native_holding(LAUNCHES.guard("lock"))
def cancel_launch(f: Function, launch: Launch) -> None:
    """Cancels the running devices of an active launch and wakes those that wait."""
    executable = launch.executable
    offsets = executable.wait_words.cast(WordOffsets)
    cancel_waits(f, cancellation_word(launch.shared), offsets, executable.wait_word_count)
    processes = executable.processes
    with f.when(processes.is_present()):
        fail_processes(f, processes.value, launch.error)


@native
def fail_launch(f: Function, launch: Launch, error: Nullable[Error]) -> None:
    """Fails a launch if it is still active. Takes ownership of the error; only the first error is kept."""
    with f.locked(f.static(LAUNCHES).lock):
        is_first = (launch.is_open != 0) & launch.error.is_null()
        with f.when(is_first):
            launch.error = error
            cancel_launch(f, launch)
    with f.when(~is_first):
        free_error(f, error)


@native
def add_failed_frame(f: Function, launch: Launch, frame: LaunchFrame, error: Nullable[Error]) -> None:
    """Keeps a frame that failed until the last device has finished. The frame owns the error."""
    frame.error = error
    with f.locked(f.static(LAUNCHES).lock):
        frame.next = launch.failed_frames
        launch.failed_frames = frame.maybe()


@native
def is_launch_canceled(f: Function, launch: Launch) -> Bool:
    """Whether the devices of a launch are to end. Says nothing about why: `launch_error` acquires the lock."""
    return cancellation_word(launch.shared).is_canceled.load(RELAXED) != 0


@native
def is_memory_canceled(f: Function, shared: CancellationWord) -> Bool:
    """Whether the devices that share memory are to end."""
    return shared.is_canceled.load(RELAXED) != 0


@native
def launch_error(f: Function, launch: Launch) -> Nullable[Error]:
    """A copy of the error of a launch; null if it has none."""
    with f.locked(f.static(LAUNCHES).lock):
        return copy_of_error(f, launch.error)


@native
def cancel_launches(f: Function) -> None:
    """Cancels all active launches."""
    launches = f.static(LAUNCHES)
    with f.locked(launches.lock):
        following = f.variable(Nullable[Launch], launches.first)
        with f.loop() as loop:
            found = following.get()
            with f.when(found.is_null()):
                loop.leave()
            cancel_launch(f, found.value)
            following.set(found.value.next)


@native
def active_launches(f: Function, row: LaunchPointers, capacity: Word) -> Word:
    """Copies pointers to active launches. Becomes an owner of each and of its shared memory; the caller releases them.
    Returns the number copied."""
    launches = f.static(LAUNCHES)
    count = f.variable(Word, 0)
    with f.locked(launches.lock):
        following = f.variable(Nullable[Launch], launches.first)
        with f.loop() as loop:
            found = following.get()
            with f.when(found.is_null()):
                loop.leave()
            with f.when(count.get() >= capacity):
                loop.leave()
            launch = found.value
            launch.owners.fetch_add(1, RELAXED)
            retain(f, launch.shared)
            row.items[count.get()] = launch
            count.set(count.get() + 1)
            following.set(launch.next)
    return count.get()


@native
def set_device_state(f: Function, launch: Launch, number: Word, state: Word) -> None:
    """Sets the state of a device: one of `NOT_STARTED`, `RUNNING`, `FINISHED`. Whoever sees that a device has finished
    sees what it wrote to the shared memory: what others still wait for, it will not do."""
    launch.states[number].store(state, RELEASE)


@native
def device_states(f: Function, launch: Launch, states: Numbers) -> None:
    """Copies the states of the devices of a launch, one word each. The caller owns the launch."""
    with f.count(launch.executable.device_program_count) as one:
        states.items[one.index] = launch.states[one.index].load(ACQUIRE)
