"""Calls of executables on four devices: on one of them, with callbacks, with donated buffers, and failing ones."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tests.pjrt.c_api.calls import (
    PjrtError,
    array_of,
    await_event,
    buffer_of,
    bytes_at,
    call,
    compile_program,
    default_memory,
    destroy,
    execute,
    execute_with_events,
    ready,
)
from tests.raising import raises
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import devices as devices_codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.custom_calls.registry import register_custom_call_target, unregister_custom_call_target
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import read_bytes, read_words
from xlapy.proto.messages import message_class

DOUBLE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
DONATING = """
func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %k: tensor<3xi32>) -> tensor<4xf32> {
  %z = stablehlo.custom_call @test_execute_wait(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = stablehlo.add %z, %z : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
REPLICA = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %id = stablehlo.replica_id : tensor<ui32>
  %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %y = stablehlo.add %x, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
SUM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
EXCHANGE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t0 = stablehlo.create_token : !stablehlo.token
  %t1 = "stablehlo.send"(%x, %t0) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
    is_host_transfer = true} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %r:2 = "stablehlo.recv"(%t1) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>,
    is_host_transfer = true} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %r#0 : tensor<4xf32>
}
"""
ONES = np.ones(4, np.float32)


def options_for(*devices: int, replicas: int = 1) -> bytes:
    """Compile options for replicas on some devices."""
    message = message_class("CompileOptionsProto")()
    build = message.executable_build_options
    build.num_replicas, build.num_partitions = replicas, 1
    build.device_assignment.replica_count, build.device_assignment.computation_count = replicas, 1
    build.device_assignment.computation_devices.add().replica_device_ids.extend(devices)
    return message.SerializeToString()


# -- one device


def test_a_program_for_one_device_runs_on_the_device_that_a_call_names():
    executable = compile_program(DOUBLE)
    for number in (0, 2, 3, 2):
        buffer = buffer_of(ONES * number, number)
        device = platform().devices[number].handle
        ((result,),), (event,) = execute_with_events(executable, [buffer], device=device)
        await_event(event)
        assert call("Buffer_Device", buffer=result).device == device
        assert array_of(result).tolist() == [2.0 * number] * 4
        destroy(buffer, result)
    call("LoadedExecutable_Destroy", executable=executable)


def test_a_call_on_another_device_takes_only_arguments_of_that_device():
    executable, buffer = compile_program(DOUBLE), buffer_of(ONES)
    with raises(PjrtError, codes.ARGUMENT_PLACE, "parameter 0", "device 1", "device 0") as raised:
        execute(executable, [buffer], device=platform().devices[1].handle)
    assert raised.value.status == 3
    with raises(PjrtError, codes.HANDLE, "is not a device of xlapy"):
        execute(executable, [buffer], device=default_memory())
    with raises(PjrtError, calls_codes.DEVICE_ARGUMENTS, "for 2"):
        execute(executable, [buffer], [buffer], device=platform().devices[0].handle)
    destroy(buffer)


def test_one_device_of_several_runs_its_part():
    executable = compile_program(REPLICA, options_for(3, 1, replicas=2))
    for number, replica in ((3, 0), (1, 1)):
        buffer = buffer_of(ONES, number)
        ((result,),) = execute(executable, [buffer], device=platform().devices[number].handle)
        assert array_of(result).tolist() == [1.0 + replica] * 4
        destroy(buffer, result)
    buffer = buffer_of(ONES)
    with raises(PjrtError, devices_codes.DEVICE_NUMBER, "[3, 1]", "device 0"):
        execute(executable, [buffer], device=platform().devices[0].handle)
    destroy(buffer)


def test_devices_that_synchronize_run_together():
    executable, buffer = compile_program(SUM, options_for(0, 1, 2, replicas=3)), buffer_of(ONES)
    with raises(PjrtError, codes.SINGLE_CALL) as raised:
        execute(executable, [buffer], device=platform().devices[0].handle)
    assert raised.value.status == 12
    destroy(buffer)


# -- failures


def test_each_device_of_a_failed_launch_says_which_device_failed_and_why():
    executable = compile_program(SUM, options_for(0, 1, 2, replicas=3))
    kept, message, size = bytes_at(b"the disk is full")
    dims = (ctypes.c_int64 * 1)(4)
    failed = call(
        "Client_CreateErrorBuffer",
        client=platform().handle,
        memory=default_memory(1),
        error_code=8,
        error_message=message,
        error_message_size=size,
        shape_dims=ctypes.addressof(dims),
        shape_num_dims=1,
        shape_element_type=11,
    ).buffer
    arguments = [buffer_of(ONES), failed, buffer_of(ONES, 2)]
    rows, events = execute_with_events(executable, *[[one] for one in arguments])
    for device, event in enumerate(events):
        with pytest.raises(PjrtError, match="the disk is full") as raised:
            await_event(event)
        assert raised.value.status == 8
        assert ("device 1 failed" in raised.value.message) == (device != 1), raised.value.message
    for (result,), device in zip(rows, range(3), strict=True):
        with pytest.raises(PjrtError, match="the disk is full"):
            ready(result)
        with pytest.raises(PjrtError, match="the disk is full"):
            array_of(result)
        assert call("Buffer_Device", buffer=result).device == platform().devices[device].handle
    destroy(*arguments, *(result for (result,) in rows))
    assert kept


# -- layouts


def transposed(array: np.ndarray) -> int:
    dims, order = (ctypes.c_int64 * 2)(*array.shape), (ctypes.c_int64 * 2)(0, 1)
    layout = structure("MemoryLayout")(minor_to_major=ctypes.addressof(order), minor_to_major_size=2)
    made = call(
        "Client_BufferFromHostBuffer",
        client=platform().handle,
        data=array.ctypes.data,
        type=11,
        dims=ctypes.addressof(dims),
        num_dims=2,
        memory=default_memory(),
        device_layout=ctypes.addressof(layout),
    )
    return int(made.buffer)


def test_an_argument_of_another_layout_is_refused():
    executable = compile_program(DOUBLE.replace("4xf32", "2x3xf32"))
    buffer = transposed(np.zeros((2, 3), np.float32))
    with raises(PjrtError, codes.ARGUMENT_PLACE, "parameter 0", "{1,0}", "{0,1}") as raised:
        execute(executable, [buffer])
    assert raised.value.status == 3
    destroy(buffer)


# -- memory kinds


def test_parameters_and_results_report_the_memory_kinds_that_the_program_names():
    program = DOUBLE.replace("tensor<4xf32>)", 'tensor<4xf32> {mhlo.memory_kind = "pinned_host"})', 1)
    program = program.replace("-> tensor<4xf32>", '-> (tensor<4xf32> {mhlo.memory_kind = "unpinned_host"})', 1)
    executable = compile_program(program)
    for name, kind in (("Parameter", b"pinned_host"), ("Output", b"unpinned_host")):
        found = call(f"Executable_{name}MemoryKinds", executable=executable)
        (address,), (size,) = read_words(found.memory_kinds, 1), read_words(found.memory_kind_sizes, 1)
        assert read_bytes(address, size) == kind
    buffer = buffer_of(ONES)
    ((result,),) = execute(executable, [buffer])
    memory = call("Buffer_Memory", buffer=result).memory
    kind = call("Memory_Kind", memory=memory)
    assert read_bytes(kind.kind, kind.kind_size) == b"unpinned_host"
    destroy(buffer, result)
    with raises(PjrtError, devices_codes.MEMORY_KIND, "'swap'", "pinned_host"):
        compile_program(program.replace('"pinned_host"', '"swap"'))


# -- callbacks

SEND = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_bool, ctypes.c_void_p
)
RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
MAKE_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


def exchange(on_send, on_receive, channels: tuple[int, int] = (1, 2)) -> np.ndarray:
    """Runs the program with callbacks; returns what it received."""
    send, receive = SEND(on_send), RECEIVE(on_receive)
    sends = structure("SendCallbackInfo")(
        channel_id=channels[0], user_arg=5, send_callback=ctypes.cast(send, ctypes.c_void_p).value
    )
    receives = structure("RecvCallbackInfo")(
        channel_id=channels[1], user_arg=6, recv_callback=ctypes.cast(receive, ctypes.c_void_p).value
    )
    rows = [(ctypes.c_uint64 * 1)(ctypes.addressof(one)) for one in (sends, receives)]
    buffer = buffer_of(np.arange(4, dtype=np.float32))
    try:
        ((result,),) = execute(
            compile_program(EXCHANGE),
            [buffer],
            send_callbacks=ctypes.addressof(rows[0]),
            recv_callbacks=ctypes.addressof(rows[1]),
            num_send_ops=1,
            num_recv_ops=1,
        )
    finally:
        destroy(buffer)
    array = array_of(result)
    destroy(result)
    return array


def add_chunk(stream: int, data: np.ndarray) -> None:
    deleted: list[int] = []
    delete = DELETE(lambda data, argument: deleted.append(argument))
    chunk = structure("Chunk")(
        data=data.ctypes.data, size=data.nbytes, deleter=ctypes.cast(delete, ctypes.c_void_p).value, deleter_arg=9
    )
    added = call("CopyToDeviceStream_AddChunk", stream=stream, chunk=ctypes.addressof(chunk))
    assert deleted == [9]
    await_event(added.transfer_complete)


def test_a_launch_calls_back_for_its_sends_and_receives():
    seen: list[np.ndarray] = []

    def on_send(chunk, callback_error, total, done, argument):
        given = structure("Chunk").from_address(chunk)
        seen.append(np.frombuffer(read_bytes(given.data, given.size), np.float32))
        assert (total, done, argument) == (16, True, 5)
        DELETE(given.deleter)(given.data, given.deleter_arg)

    def fill(stream):
        assert call("CopyToDeviceStream_TotalBytes", stream=stream).total_bytes == 16
        assert call("CopyToDeviceStream_GranuleSize", stream=stream).granule_size_in_bytes == 1
        add_chunk(stream, seen[0][:1] * 10)
        assert call("CopyToDeviceStream_CurrentBytes", stream=stream).current_bytes == 4
        with raises(PjrtError, codes.BUFFER_SIZE, "16 bytes", "has 4"):
            add_chunk(stream, seen[0])
        add_chunk(stream, seen[0][1:] * 10)
        with raises(PjrtError, codes.BUFFER_SIZE, "16 bytes"):
            add_chunk(stream, seen[0])
        call("CopyToDeviceStream_Destroy", stream=stream)

    threads: list[threading.Thread] = []

    def on_receive(stream, argument):
        assert argument == 6
        threads.append(threading.Thread(target=fill, args=(stream,)))
        threads[0].start()

    assert exchange(on_send, on_receive).tolist() == [0, 10, 20, 30]
    threads[0].join()
    assert seen[0].tolist() == [0, 1, 2, 3]


def test_errors_of_callbacks_fail_the_launch():
    def refuse(chunk, callback_error, total, done, argument):
        given = structure("Chunk").from_address(chunk)
        DELETE(given.deleter)(given.data, given.deleter_arg)
        make = ctypes.c_uint64.from_address(callback_error).value
        return MAKE_ERROR(make)(11, b"not in range", 12)

    with raises(PjrtError, running_codes.FOREIGN_ERROR, "not in range"):
        exchange(refuse, lambda stream, argument: None)

    def accept(chunk, callback_error, total, done, argument):
        given = structure("Chunk").from_address(chunk)
        DELETE(given.deleter)(given.data, given.deleter_arg)

    def give_up(stream, argument):
        add_chunk(stream, ONES[:1])
        call("CopyToDeviceStream_Destroy", stream=stream)

    with raises(PjrtError, codes.STREAM_END, "12 bytes"):
        exchange(accept, give_up)
    with raises(PjrtError, codes.HOST_CHANNEL, "channel 7"):
        exchange(accept, give_up, (1, 7))


# -- donation


@pytest.fixture
def donating() -> Iterator[tuple[int, threading.Event, threading.Event]]:
    """A program that Python launches, with a donated argument; events that it sets when it runs, and that it awaits."""
    begun, goes_on = threading.Event(), threading.Event()

    def wait(array: np.ndarray) -> np.ndarray:
        begun.set()
        assert goes_on.wait(20)
        return array.copy()

    register_custom_call_target("test_execute_wait", wait)
    yield compile_program(DONATING), begun, goes_on
    unregister_custom_call_target("test_execute_wait")


def test_a_refused_launch_in_python_gives_donated_buffers_back(donating):
    executable, *_ = donating
    donated, deleted = buffer_of(ONES), buffer_of(np.ones(3, np.int32))
    call("Buffer_Delete", buffer=deleted)
    with raises(PjrtError, calls_codes.DELETED_BUFFER):
        execute(executable, [donated, deleted])
    assert not call("Buffer_IsDeleted", buffer=donated).is_deleted
    assert array_of(donated).tolist() == [1.0] * 4
    destroy(donated, deleted)


def test_a_launch_in_python_takes_donated_buffers_before_it_runs(donating):
    executable, begun, goes_on = donating
    donated, other = buffer_of(ONES), buffer_of(np.ones(3, np.int32))
    results: list[int] = []
    first = threading.Thread(target=lambda: results.extend(execute(executable, [donated, other])[0]))
    first.start()
    assert begun.wait(20)
    assert call("Buffer_IsDeleted", buffer=donated).is_deleted
    with raises(PjrtError, calls_codes.DELETED_BUFFER):
        execute(executable, [donated, other])
    goes_on.set()
    first.join()
    assert array_of(results[0]).tolist() == [2.0] * 4
    with raises(PjrtError, calls_codes.DELETED_BUFFER):
        array_of(donated)
    destroy(donated, other, *results)


def test_options_of_an_older_api_have_no_callbacks():
    executable, buffer = compile_program(DOUBLE), buffer_of(ONES)
    size = structure("ExecuteOptions").launch_id.offset + 4
    ((result,),) = execute(executable, [buffer], struct_size=size)
    assert array_of(result).tolist() == [2.0] * 4
    destroy(buffer, result)
