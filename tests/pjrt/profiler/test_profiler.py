"""The profiler extension without JAX: its table, the order of calls, and the profiles of programs."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.pjrt.test_native import call, elements, host_buffer
from xlapy.base.error_codes.interfaces.pjrt import HANDLE, PROFILER_STATE
from xlapy.base.errors import UnsupportedError
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import PROFILER_ENTRIES, least_size, structure
from xlapy.pjrt.compile.options import read_device_assignment
from xlapy.pjrt.compile.program_loader import Placement
from xlapy.pjrt.objects.executable import load_executable
from xlapy.pjrt.objects.loaded_executable import ExecutableTraits, LoadedExecutable
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import Record, read_bytes, read_words
from xlapy.pjrt.profiler import instrumented, tracing
from xlapy.proto.messages import decode, message_class

ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
ROOTS = """HloModule roots
ENTRY main {
  x = f32[300] parameter(0)
  two = f32[] constant(2)
  twos = f32[300] broadcast(two), dimensions={}
  y = f32[300] multiply(x, twos), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=3}
  ROOT r = f32[300] sqrt(y), metadata={op_name="jit(f)/sqrt" source_file="f.py" source_line=4}
}
"""


def extension() -> int:
    """The address of the profiler extension."""
    (address,) = read_words(native().table, 2)[1:]
    while read_words(address, 2)[1] != 1:
        (address,) = read_words(address, 3)[2:]
    return address


def ask(name: str, **values: int):
    """Calls a function of the profiler's table; returns its arguments, or the error's code and message."""
    table = read_words(extension(), 5)[3]
    place = table + 16 + 8 * PROFILER_ENTRIES.index(f"Profiler_{name}")
    args = structure(f"Profiler_{name}")(struct_size=least_size(f"Profiler_{name}"), **values)
    error = ENTRY(read_words(place, 1)[0])(ctypes.addressof(args))
    if error is None:
        return args
    told = call("Error_Message", error=error)
    found = call("Error_GetCode", error=error).code, read_bytes(told.message, told.message_size).decode()
    call("Error_Destroy", error=error)
    return found


def session(**options: int) -> int:
    data = message_class("ProfileOptions")(version=1, **{"device_tracer_level": 1, **options}).SerializeToString()
    text = ctypes.create_string_buffer(data, len(data))
    return ask("Create", options=ctypes.addressof(text), options_size=len(data)).profiler


@pytest.fixture
def program():
    executable = platform().client.compile(ROOTS)
    loaded = load_executable(
        executable, read_device_assignment(b""), b"", Placement(), ExecutableTraits("", is_long_running=False)
    )
    yield loaded
    call("LoadedExecutable_Destroy", executable=loaded.record.address)


def run(loaded: LoadedExecutable, array: np.ndarray) -> np.ndarray:
    buffer = host_buffer(array).buffer
    arguments, results = (ctypes.c_uint64 * 1)(buffer), (ctypes.c_uint64 * 1)()
    argument_lists, result_lists = (ctypes.c_uint64 * 1)(), (ctypes.c_uint64 * 1)()
    argument_lists[0], result_lists[0] = ctypes.addressof(arguments), ctypes.addressof(results)
    options = structure("ExecuteOptions")()
    done = call(
        "LoadedExecutable_Execute",
        executable=loaded.record.address,
        options=ctypes.addressof(options),
        argument_lists=ctypes.addressof(argument_lists),
        num_devices=1,
        num_args=1,
        output_lists=ctypes.addressof(result_lists),
    )
    assert not isinstance(done, tuple), done
    result = elements(results[0])
    for handle in (buffer, results[0]):
        call("Buffer_Destroy", buffer=handle)
    return result


def collected(profiler: int):
    args = ask("CollectData", profiler=profiler)
    data = read_bytes(args.buffer, args.buffer_size_in_bytes)
    again = ctypes.create_string_buffer(len(data))
    ask("CollectData", profiler=profiler, buffer=ctypes.addressof(again))
    assert again.raw == data
    return decode("XSpace", data)


def stats_of(plane, target) -> dict[str, object]:
    found = {}
    for stat in target.stats:
        kind = next(name for name in ("int64_value", "str_value", "ref_value", "bytes_value") if stat.HasField(name))
        value = getattr(stat, kind)
        found[plane.stat_metadata[stat.metadata_id].name] = (
            plane.stat_metadata[value].name if kind == "ref_value" else value
        )
    return found


def test_the_extension_and_its_table():
    size, kind, _, table, _ = read_words(extension(), 5)
    assert (size, kind) == (40, 1)
    words = read_words(table, 10)
    assert words[:2] == [80, 0] and all(words[2:])


def test_the_profile_of_a_program(program):
    array = np.arange(300, dtype=np.float32)
    plain = run(program, array)
    profiler = session(enable_hlo_proto=1)
    ask("Start", profiler=profiler)
    traced = [run(program, array) for _ in range(2)]
    ask("Stop", profiler=profiler)
    assert np.array_equal(run(program, array), plain)
    assert all(np.array_equal(result, plain) for result in traced)
    space = collected(profiler)
    device, *_, modules = space.planes
    assert device.name == "/device:CUSTOM:xlapy:0" and modules.name == "/host:metadata"
    lines = {line.name: line for line in device.lines}
    assert [line.name for line in device.lines][:2] == ["XLA Modules", "XLA Ops"]
    runs = lines["XLA Modules"].events
    assert [device.event_metadata[event.metadata_id].name for event in runs] == ["roots", "roots"]
    assert [stats_of(device, event) for event in runs] == [{"run_id": 1}, {"run_id": 2}]
    first = lines["XLA Ops"].events[0]
    assert runs[0].offset_ps <= first.offset_ps
    assert first.offset_ps + first.duration_ps <= runs[0].offset_ps + runs[0].duration_ps
    about = stats_of(device, device.event_metadata[first.metadata_id])
    op = stats_of(device, first)["hlo_op"]
    assert stats_of(device, first) == {"hlo_op": op, "hlo_module": "roots", "run_id": 1}
    assert about["flops"] == 600 and about["bytes_accessed"] == 2400
    assert about["hlo_category"] == "loop fusion" and about["tf_op"] == "jit(f)/sqrt" and about["source"] == "f.py:4"
    assert about["long_name"].startswith(f"{op} = f32[300]")
    (kept,) = modules.event_metadata.values()
    assert kept.name == f"roots({kept.id})" and kept.id == about["program_id"]
    assert decode("HloProto", stats_of(modules, kept)["Hlo Proto"]).hlo_module.name == "roots"
    ask("Destroy", profiler=profiler)


def test_calls_in_the_wrong_order_are_errors(program):
    first, second = session(), session()
    assert ask("Stop", profiler=first) == (3, f"the profiler has not been started [{PROFILER_STATE}]")
    ask("Start", profiler=first)
    assert ask("Start", profiler=first) == (3, f"the profiler has been started already [{PROFILER_STATE}]")
    assert ask("Start", profiler=second) == (
        3,
        f"a trace is being taken: there is one at a time in a process [{PROFILER_STATE}]",
    )
    assert ask("CollectData", profiler=first) == (
        3,
        f"the profiler must be stopped before its data is collected [{PROFILER_STATE}]",
    )
    run(program, np.ones(300, np.float32))
    ask("Destroy", profiler=first)
    assert native().instrumented_executable(program.record.address) is None and tracing.current() is None
    assert ask("CollectData", profiler=first) == (3, f"there is no profiler {first:#x} [{HANDLE}]")
    ask("Destroy", profiler=first)
    ask("Start", profiler=second)
    ask("Stop", profiler=second)
    plane, *_ = collected(second).planes
    assert not plane.lines
    ask("Destroy", profiler=second)


def test_options():
    text = ctypes.create_string_buffer(b"\xff\xff")
    code, message = ask("Create", options=ctypes.addressof(text), options_size=2)
    assert code == 3 and "ProfileOptions" in message
    profiler = session(device_tracer_level=0)
    ask("Start", profiler=profiler)
    assert tracing.current() is None
    ask("Stop", profiler=profiler)
    assert ask("CollectData", profiler=profiler).buffer_size_in_bytes == 0


def test_the_instrumented_copy_is_compiled_once(program, monkeypatch):
    made: list[LoadedExecutable] = []
    original = instrumented._make_instrumented
    monkeypatch.setattr(instrumented, "_make_instrumented", lambda loaded: made.append(loaded) or original(loaded))
    profiler = session()
    for _ in range(3):
        ask("Start", profiler=profiler)
        run(program, np.ones(300, np.float32))
        ask("Stop", profiler=profiler)
        (line, *_) = collected(profiler).planes[0].lines
        assert len(line.events) == 1
    assert made == [program]


def test_programs_that_cannot_be_instrumented_appear_as_whole_launches(program, monkeypatch, caplog):
    def refuse(*_):
        raise UnsupportedError(PROFILER_STATE, "no clocks today")

    monkeypatch.setattr(instrumented, "compile_instrumented", refuse)
    profiler = session()
    ask("Start", profiler=profiler)
    assert run(program, np.full(300, 8, np.float32)).tolist() == [4.0] * 300
    ask("Stop", profiler=profiler)
    (line,) = collected(profiler).planes[0].lines
    assert line.name == "XLA Modules" and len(line.events) == 1
    assert "only whole runs of roots: no clocks today" in caplog.text


def test_deleted_executables_do_not_run_instrumented(program):
    profiler = session()
    ask("Start", profiler=profiler)
    run(program, np.ones(300, np.float32))
    call("LoadedExecutable_Delete", executable=program.record.address)
    with pytest.raises(AssertionError, match="roots has been deleted"):
        run(program, np.ones(300, np.float32))
    ask("Stop", profiler=profiler)
    ask("Destroy", profiler=profiler)


def test_ticks_are_converted_to_time():
    clock = tracing.TickClock(1000, 10**18, 0.5)
    assert clock.picoseconds(np.array([1000, 1001, 3000])).tolist() == [0, 500, 1_000_000]


def test_steps_belong_to_the_launch_around_them():
    rows = np.array([[1, 7, 10, 20], [1, 7, 30, 40]])
    events = np.array([[0, 0, 7, 10, 20], [0, 0, 7, 31, 39], [0, 0, 7, 22, 25], [0, 0, 7, 35, 41]])
    assert tracing._enclosing_rows(rows, np.array([4, 6]), events).tolist() == [4, 6, -1, -1]
    assert tracing._enclosing_rows(rows[:0], np.array([], int), events).tolist() == [-1] * 4


def test_launches_beyond_the_table_are_counted(program):
    profiler = session()
    ask("Start", profiler=profiler)
    run(program, np.ones(300, np.float32))
    trace = tracing.current()
    table = tracing._table()
    table[1] = tracing.MAX_TRACED_LAUNCHES + 5
    ask("Stop", profiler=profiler)
    assert trace.lost_launches == 5 and trace.dropped()[0] == "5 launches"
    plane, *_ = collected(profiler).planes
    assert stats_of(plane, plane)["dropped"].startswith("5 launches")
    ask("Destroy", profiler=profiler)
    assert Record("time_table", table.ctypes.data)["capacity"] == tracing.MAX_TRACED_LAUNCHES


def test_pieces_of_overlapping_launches_belong_to_one_that_contains_them() -> None:
    """The second launch begins and ends during a piece of the first one; the last piece is in neither."""
    rows = np.array([[7, 1, 0, 100], [7, 2, 10, 20], [7, 1, 110, 120]])
    pieces = np.array([[0, 1, 3, begin, end] for begin, end in ((12, 50), (12, 18), (5, 9), (112, 115), (50, 105))])
    assert tracing._enclosing_rows(rows, np.arange(3), pieces).tolist() == [0, 1, 0, 2, -1]
