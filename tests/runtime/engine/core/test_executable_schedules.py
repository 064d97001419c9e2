"""What calls of an executable hand over to each other and to the thread that frees it, and calls that are refused."""

from __future__ import annotations

from functools import cache

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import RELAXED
from xlapy.native.values import Word
from xlapy.runtime.engine.core import execute as execution
from xlapy.runtime.engine.core.buffers import delete_buffer, destroy_buffer, is_deleted
from xlapy.runtime.engine.core.events import (
    READY_EVENT,
    Error,
    await_event,
    complete_event,
    new_event,
    release_event,
)
from xlapy.runtime.engine.core.executables import (
    allow_native_calls,
    allows_native_calls,
    await_destroyed,
    free_spare_memory,
    instrumented_executable,
    pending_launches,
    release_executable,
    retain_executable,
    set_instrumented,
    set_trace_id,
    take_destroyed,
)
from xlapy.runtime.engine.core.execute import CANCELED, DONE, REFUSED
from xlapy.runtime.engine.core.frames import acquire_frame, allocate_results, destroy_results, return_frame
from xlapy.runtime.engine.core.launch_records import Executable, Numbers, argument_storages, result_storages
from xlapy.runtime.engine.core.launch_times import (
    CopiedTimes,
    TimeRow,
    TimeTable,
    recorded_times,
    set_time_table,
)
from xlapy.runtime.engine.core.launches import close_launch, new_launch, release_launch
from xlapy.runtime.engine.core.memory import STORAGE_BYTES
from xlapy.runtime.engine.core.streams import cancel_launch_of_event, stop_streams

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


@pytest.mark.parametrize("field", ["type", "layout", "on_device_size_in_bytes"])
@pytest.mark.parametrize("unexpected", [0, 1])
def test_a_call_with_an_unexpected_argument_gives_the_others_back(unexpected: int, field: str):
    @native
    def call_in_vain(f: Function) -> None:
        argument = f.exclusive_access(model.argument(f, unexpected, 0, 1), "no other thread runs")
        setattr(argument, field, argument.offset(0).maybe() if field == "layout" else f.constant(Word, 2))
        f.check(model.call(f, 2) == REFUSED, "the call is refused")
        for device in range(2):
            for index in range(2):
                f.check(~is_deleted(f, model.argument(f, index, 0, device)), "arguments are given back")
        model.destroy_arguments(f, 2)

    assert explore(model.build(2), [call_in_vain], nothing_is_left(2), also=model.ENTRY_FUNCTIONS).ends == 1


@pytest.mark.parametrize("statuses", [(1, 0), (0, 1)])
def test_a_program_that_is_canceled_in_the_caller_leaves_no_results(statuses: tuple[int, int]):
    @native
    def call_and_be_canceled(f: Function) -> None:
        f.static(model.OUTCOME).statuses.store(statuses[0], RELAXED)
        f.static(model.OUTCOME).second_status.store(statuses[1], RELAXED)
        f.check(model.call(f, 2) == CANCELED, "the call is canceled")
        model.destroy_arguments(f, 2)

    setup = model.build(2, asynchronous=False)
    assert explore(setup, [call_and_be_canceled], nothing_is_left(2), also=model.ENTRY_FUNCTIONS).ends == 1


def test_the_list_of_many_frames_is_freed(monkeypatch: pytest.MonkeyPatch):
    """Lists of few are on the stack."""
    monkeypatch.setattr(execution, "_STACK_FRAMES", 1)
    monkeypatch.setattr(model, "execute", NativeFunction(execution.execute._build))

    @native
    def call_two_devices(f: Function) -> None:
        with f.when(model.call(f, 2) == DONE):
            model.finish_call(f, 2, succeeds=True)
        model.destroy_arguments(f, 2)

    setup = model.build(2, asynchronous=False)
    threads = [call_two_devices]
    assert explore(setup, threads, nothing_is_left(2), also=model.ENTRY_FUNCTIONS, exhausts_memory=True).ends > 1


def test_results_are_destroyed_if_there_is_no_memory_for_the_next():
    @native
    def allocate_in_vain(f: Function) -> None:
        program = f.exclusive_access(f.static(model.PROGRAMS[0]), "no other thread runs")
        program.aliases = model.words(f, "no_aliases", -1, -1).cast(Numbers)
        frame = acquire_frame(f, program)
        with f.when(frame.is_present()):
            with f.when(allocate_results(f, program, frame.value, f.static(READY_EVENT))):
                destroy_results(f, program, frame.value, program.result_count)
            return_frame(f, program, frame.value)
        model.destroy_arguments(f)

    setup = model.build()
    threads = [allocate_in_vain]
    assert explore(setup, threads, nothing_is_left(1), also=model.ENTRY_FUNCTIONS, exhausts_memory=True).ends > 1


def test_nothing_is_queued_at_the_end_of_the_process():
    @native
    def stop_and_call(f: Function) -> None:
        stop_streams(f)
        f.check(model.call(f) == DONE, "the call runs in this thread")
        model.finish_call(f, succeeds=True)
        model.destroy_arguments(f)

    assert explore(model.build(), [stop_and_call], nothing_is_left(1), also=model.ENTRY_FUNCTIONS).ends == 1


def test_a_short_program_whose_arguments_are_pending_is_queued():
    """It runs behind the launch that writes them."""

    @native
    def call_with_results(f: Function) -> None:
        executable = f.exclusive_access(f.static(model.EXECUTABLE), "no other thread runs")
        f.check(model.call(f) == DONE, "the call is queued")
        executable.is_asynchronous = 0
        model.new_arguments(f, 1, 0)
        destroy_buffer(f, model.argument(f, 0, caller=1))
        first, second = model.results_of(f)
        model.slots(f, "arguments", 1, 0).items[0] = first.maybe()
        f.check(model.call(f, caller=1) == DONE, "the call is queued")
        f.check(f.static(model.STREAMS[0]).queued.load(RELAXED) == 2, "both calls are queued")
        model.stream_thread(0, 0)(f)
        last = model.results_of(f, caller=1)
        for result, value in zip(last, (7, 16), strict=True):
            f.check(await_event(f, result.event).is_null(), "the call succeeds")
            f.check(model.value_of(f, result) == value, "the second call adds to what the first one gave")
            destroy_buffer(f, result)
        destroy_buffer(f, second)
        for caller in range(2):
            release_event(f, model.event_of(f, caller=caller))
            model.destroy_arguments(f, caller=caller)

    assert explore(model.build(), [call_with_results], nothing_is_left(1), also=model.ENTRY_FUNCTIONS).ends == 1


def test_a_call_whose_arguments_wait_for_the_host_is_refused():
    """Nothing says that they are ready when the stream runs the launch."""

    @native
    def call_too_early(f: Function) -> None:
        event = new_event(f, f.constant(Word, 2)).known("memory suffices")
        given = f.exclusive_access(model.argument(f, 0), "no other thread runs")
        given.event = event
        f.check(model.call(f) == REFUSED, "the call is refused")
        f.check(~is_deleted(f, model.argument(f, 1)), "the donated argument is given back")
        complete_event(f, event, f.null(Error))
        f.check(model.call(f) == DONE, "the call is queued")
        model.stream_thread(0)(f)
        model.finish_call(f, succeeds=True)
        model.destroy_arguments(f)

    assert explore(model.build(), [call_too_early], nothing_is_left(1), also=model.ENTRY_FUNCTIONS).ends == 1


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


def test_a_call_gives_its_frame_up_when_it_is_queued():
    """The stream may return it before the call does, and another call takes it."""

    @native
    def call_once(f: Function) -> None:
        f.check(model.call(f) == DONE, "the call is queued")

    @native
    def run_and_use_frame(f: Function) -> None:
        model.stream_thread(0)(f)
        program = f.static(model.PROGRAMS[0])
        frame = acquire_frame(f, program).known("memory suffices")
        frame.event = f.static(READY_EVENT)
        for rows in (argument_storages(frame), result_storages(program, frame)):
            rows[0] = rows[0]
        return_frame(f, program, frame)

    @native
    def the_call_has_ended(f: Function) -> None:
        model.finish_call(f, succeeds=True)
        nothing_is_kept(f)

    threads = [call_once, run_and_use_frame]
    assert explore(model.build(), threads, the_call_has_ended, also=model.ENTRY_FUNCTIONS).ends >= 1


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


def test_a_frame_that_was_canceled_is_used_again():
    @native
    def cancel_and_call_again(f: Function) -> None:
        for succeeds in (False, True):
            f.check(model.call(f) == DONE, "the call is queued")
            if not succeeds:
                cancel_launch_of_event(f, model.event_of(f))
            model.stream_thread(0)(f)
            model.finish_call(f, succeeds=succeeds)
            model.destroy_arguments(f)
            if not succeeds:
                model.new_arguments(f, 0, 0)

    assert explore(model.build(), [cancel_and_call_again], nothing_is_left(1), also=model.ENTRY_FUNCTIONS).ends == 1


# --- handles


@native
def queue_two(f: Function) -> None:
    model.build()(f)
    f.check(model.call(f) == DONE, "the call is queued")
    model.new_arguments(f, 1, 0)
    f.check(model.call(f, caller=1) == DONE, "the call is queued")


@native
def free_when_none_is_pending(f: Function) -> None:
    with f.when(pending_launches(f, f.static(model.PROGRAMS[0])) == 0):
        model.free_executable(f)


@native
def both_have_ended(f: Function) -> None:
    for caller in range(2):
        model.finish_call(f, caller=caller, succeeds=True)
        model.destroy_arguments(f, caller=caller)
    with f.when(f.static(model.OUTCOME).is_freed.load(RELAXED) == 0):
        model.free_executable(f)
    model.nothing_is_kept(f)


def test_an_executable_may_be_freed_after_the_last_of_two_launches():
    """Each has a frame of its own; one of them becomes the spare one."""
    threads = [model.stream_thread(0, 0), free_when_none_is_pending]
    assert explore(queue_two, threads, both_have_ended, also=model.ENTRY_FUNCTIONS).ends >= 1


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
    assert explore(None, [publish, call_if_allowed], calls_are_allowed).ends >= 1


@native
def calls_are_allowed(f: Function) -> None:
    f.check(allows_native_calls(f, f.static(model.EXECUTABLE)), "calls run without Python")


# --- traces

INSTRUMENTED = Static("instrumented_executable", Executable)
TIMES = Static("times_of_launches", TimeTable, TimeTable.byte_size() + TimeRow.byte_size())
ROWS = Static("copied_times", CopiedTimes)


@native
def instrument(f: Function) -> None:
    """Completes another executable, which runs instead from now on."""
    other = f.static(INSTRUMENTED)
    f.exclusive_access(other, "nobody runs it yet").argument_count = 2
    set_instrumented(f, f.static(model.EXECUTABLE), other.maybe())


@native
def look_for_instrumented(f: Function) -> None:
    found = instrumented_executable(f, f.static(model.EXECUTABLE))
    with f.when(found.is_present()):
        f.check(found.value.argument_count == 2, "its records are complete")


@native
def the_other_runs(f: Function) -> None:
    found = instrumented_executable(f, f.static(model.EXECUTABLE))
    f.check(found == f.static(INSTRUMENTED), "the other executable runs instead")


def test_an_executable_is_instrumented_while_others_call_it():
    assert explore(None, [instrument, look_for_instrumented], the_other_runs).ends >= 1


def test_launches_of_a_traced_program_are_recorded():
    @native
    def call_traced(f: Function) -> None:
        table = f.static(TIMES)
        f.exclusive_access(table, "no launch records yet").capacity = 1
        set_time_table(f, table.maybe())
        set_trace_id(f, f.static(model.PROGRAMS[0]), f.constant(Word, 7))
        f.check(model.call(f) == DONE, "the call runs")
        model.finish_call(f, succeeds=True)
        model.destroy_arguments(f)
        f.check(recorded_times(f, table, f.static(ROWS)) == 1, "the launch is recorded")
        f.check(f.static(ROWS).trace_id == 7, "under the number of its program")

    models = {"ticks": lambda execution, arguments: 5}
    setup = model.build(1, asynchronous=False)
    assert explore(setup, [call_traced], nothing_is_left(1), also=model.ENTRY_FUNCTIONS, models=models).ends == 1
