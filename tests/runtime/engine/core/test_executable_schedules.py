"""What calls of an executable hand over to each other and to the thread that frees it, and calls that are refused."""

from __future__ import annotations

from functools import cache

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import RELAXED
from xlapy.native.values import Word
from xlapy.runtime.engine.core.buffers import delete_buffer, is_deleted
from xlapy.runtime.engine.core.executables import (
    allow_native_calls,
    allows_native_calls,
    await_destroyed,
    free_spare_memory,
    release_executable,
    retain_executable,
    take_destroyed,
)
from xlapy.runtime.engine.core.execute import DONE, REFUSED
from xlapy.runtime.engine.core.frames import acquire_frame, return_frame
from xlapy.runtime.engine.core.launches import close_launch, new_launch, release_launch
from xlapy.runtime.engine.core.memory import STORAGE_BYTES

# --- memory that is exhausted at any allocation, in one thread


@pytest.mark.parametrize(
    ("devices", "collectives", "asynchronous"),
    [(1, False, False), (1, False, True), (2, False, False), (2, False, True), (2, True, True)],
)
def test_nothing_is_lost_when_any_allocation_fails(devices: int, collectives: bool, asynchronous: bool):
    """The call is refused, and its donated arguments are given back; or it fails, or it succeeds."""

    @native
    def call_and_finish(f: Function) -> None:
        status = model.call(f, devices)
        with f.when(status == REFUSED) as refused:
            for device in range(devices):
                for index in range(2):
                    f.check(~is_deleted(f, model.argument(f, index, 0, device)), "arguments are given back")
        with refused.otherwise():
            if asynchronous:
                for device in range(devices):
                    model.stream_thread(device)(f)
            model.finish_call(f, devices)
        model.destroy_arguments(f, devices)

    finish = nothing_is_left(devices)
    setup = model.build(devices, collectives, asynchronous)
    assert explore(setup, [call_and_finish], finish, also=model.ENTRY_FUNCTIONS, exhausts_memory=True).ends > 2


@cache
def nothing_is_left(devices: int) -> NativeFunction[[], None]:
    return native(_named(f"nothing_is_left{devices}", lambda f: model.nothing_is_left(f, devices)))


def _named(name: str, build):
    def builder(f: Function) -> None:
        build(f)

    builder.__name__ = name
    return builder


# --- calls that are refused


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_call_with_a_deleted_argument_gives_the_others_back(deleted: int):
    @native
    def call_in_vain(f: Function) -> None:
        delete_buffer(f, model.argument(f, deleted, 0, 1))
        f.check(model.call(f, 2) == REFUSED, "the call is refused")
        for device in range(2):
            for index in range(2):
                is_gone = is_deleted(f, model.argument(f, index, 0, device))
                if (device, index) != (1, deleted):
                    f.check(~is_gone, "the other arguments are given back")
        model.destroy_arguments(f, 2)

    setup = model.build(2, asynchronous=True)
    assert explore(setup, [call_in_vain], nothing_is_left(2), also=model.ENTRY_FUNCTIONS).ends == 1


# --- spare memory that goes from thread to thread


@native
def use_frame(f: Function) -> None:
    """A call that uses a frame for itself."""
    program = f.static(model.PROGRAMS[0])
    frame = acquire_frame(f, program).known("memory suffices")
    frame.thread = 1
    return_frame(f, program, frame)


@native
def nothing_is_kept(f: Function) -> None:
    model.destroy_arguments(f)
    model.nothing_is_left(f)


def test_a_frame_is_used_by_one_call_after_the_other():
    assert explore(model.build(), [use_frame] * 2, nothing_is_kept, also=model.ENTRY_FUNCTIONS).ends >= 1


def test_a_spare_frame_is_freed_after_its_last_use():
    @native
    def free_spare(f: Function) -> None:
        free_spare_memory(f, f.static(model.EXECUTABLE))

    assert explore(model.build(), [use_frame, free_spare], nothing_is_kept, also=model.ENTRY_FUNCTIONS).ends >= 1


@native
def use_shared_memory(f: Function) -> None:
    """A launch whose device writes to the shared memory."""
    launch = new_launch(f, f.static(model.EXECUTABLE)).known("memory suffices")
    launch.shared.offset(STORAGE_BYTES + 8).cast(model.Element).value = 1
    close_launch(f, launch)
    release_launch(f, launch)


def test_shared_memory_is_used_by_one_launch_after_the_other():
    setup = model.build(1, collectives=True)
    assert explore(setup, [use_shared_memory] * 2, nothing_is_kept, also=model.ENTRY_FUNCTIONS).ends >= 1


# --- handles


@native
def prepare_handles(f: Function) -> None:
    """An executable with a spare frame and spare shared memory, and two handles."""
    model.build(1, asynchronous=False)(f)
    f.check(model.call(f) == DONE, "the call runs")
    model.finish_call(f)
    model.destroy_arguments(f)
    retain_executable(f, f.static(model.EXECUTABLE))


@native
def use_and_release(f: Function) -> None:
    """The last uses of a handle: the shared memory of a launch, and a word of the executable."""
    use_shared_memory(f)
    executable = f.exclusive_access(f.static(model.EXECUTABLE), "each thread writes what it is the first to write")
    with f.when(f.static(model.OUTCOME).runs.fetch_add(1, RELAXED) == 1):
        executable.zero = 1
    release_executable(f, f.static(model.EXECUTABLE))


@native
def release_only(f: Function) -> None:
    release_executable(f, f.static(model.EXECUTABLE))


@native
def free_executable(f: Function) -> None:
    found = await_destroyed(f).known("an executable has lost its last handle")
    free_spare_memory(f, found)
    f.exclusive_access(found, "it has no handles").zero = 2


@native
def all_is_freed(f: Function) -> None:
    f.check(take_destroyed(f).is_null(), "the executable is freed once")
    model.nothing_is_left(f)


def test_spare_shared_memory_is_freed_after_its_last_use():
    @native
    def free_spare(f: Function) -> None:
        free_spare_memory(f, f.static(model.EXECUTABLE))

    setup = model.build(1, collectives=True)
    assert explore(setup, [use_shared_memory, free_spare], nothing_is_kept, also=model.ENTRY_FUNCTIONS).ends >= 1


def test_an_executable_is_freed_after_its_last_use():
    threads = [use_and_release, release_only, free_executable]
    assert explore(prepare_handles, threads, all_is_freed, also=model.ENTRY_FUNCTIONS).ends >= 1


# --- calls without Python


@native
def publish(f: Function) -> None:
    """Completes the records of an executable, then allows calls."""
    f.exclusive_access(f.static(model.EXECUTABLE), "calls are not allowed yet").argument_count = 2
    allow_native_calls(f, f.static(model.EXECUTABLE), f.constant(Word, 1))


@native
def call_if_allowed(f: Function) -> None:
    executable = f.static(model.EXECUTABLE)
    with f.when(allows_native_calls(f, executable)):
        f.check(executable.argument_count == 2, "the records are complete")


def test_calls_are_allowed_once_the_records_are_complete():
    assert explore(None, [publish, call_if_allowed]).ends >= 1
