"""Buffers that the host fills later, events that it sets, and copies that wait for them."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from tests.pjrt.c_api.calls import (
    F32,
    S32,
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
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.pjrt.c_api.structs import least_size, structure
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import read_bytes

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
FUTURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DOUBLE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def manager_of(*dimensions: tuple[int, ...], type: int = F32) -> int:
    rows = [(ctypes.c_int64 * max(1, len(row)))(*row) for row in dimensions]
    specs = (structure("ShapeSpec") * len(rows))()
    for spec, row, sizes in zip(specs, rows, dimensions, strict=True):
        spec.struct_size, spec.dims, spec.num_dims = least_size("ShapeSpec"), ctypes.addressof(row), len(sizes)
        spec.element_type = type
    made = call(
        "Client_CreateBuffersForAsyncHostToDevice",
        client=platform().handle,
        shape_specs=ctypes.addressof(specs),
        num_shape_specs=len(specs),
        memory=default_memory(),
    )
    return int(made.transfer_manager)


def manager_call(name: str, manager: int, number: int = 0, **values: int):
    given = {} if name in ("Device", "BufferCount", "Destroy", "AddMetadata") else {"buffer_index": number}
    return call(f"AsyncHostToDeviceTransferManager_{name}", transfer_manager=manager, **given, **values)


def transfer(manager: int, data: np.ndarray, offset: int = 0, is_last: bool = False, number: int = 0) -> None:
    sent = manager_call(
        "TransferData",
        manager,
        number,
        data=data.ctypes.data,
        offset=offset,
        transfer_size=data.nbytes,
        is_last_transfer=is_last,
    )
    await_event(sent.done_with_h2d_transfer)


def is_ready(buffer: int) -> bool:
    event = call("Buffer_ReadyEvent", buffer=buffer).event
    found = bool(call("Event_IsReady", event=event).is_ready)
    call("Event_Destroy", event=event)
    return found


def test_a_buffer_is_filled_by_pieces_in_any_order():
    manager = manager_of((2, 4), (3,))
    assert manager_call("BufferCount", manager).buffer_count == 2
    assert [manager_call("BufferSize", manager, number).buffer_size for number in range(2)] == [32, 12]
    assert manager_call("Device", manager).device_out == platform().devices[0].handle
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    data = np.arange(8, dtype=np.float32)
    transfer(manager, data[4:], 16)
    assert not is_ready(buffer)
    transfer(manager, data[:4], 0, is_last=True)
    assert is_ready(buffer) and np.array_equal(array_of(buffer), data.reshape(2, 4))
    manager_call("AddMetadata", manager)
    manager_call("Destroy", manager)
    destroy(buffer)


def test_transfers_of_threads_fill_one_buffer():
    manager = manager_of((64, 1000))
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    rows = np.arange(64_000, dtype=np.float32).reshape(64, 1000)
    threads = [
        threading.Thread(target=lambda first: [transfer(manager, rows[row], 4000 * row) for row in first], args=(part,))
        for part in (range(32), range(32, 64))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transfer(manager, rows[:0], 0, is_last=True)
    assert np.array_equal(array_of(buffer), rows)
    manager_call("Destroy", manager)
    destroy(buffer)


def test_a_literal_fills_a_buffer_in_its_layout():
    manager = manager_of((2, 3))
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    dims, order = (ctypes.c_int64 * 2)(2, 3), (ctypes.c_int64 * 2)(0, 1)
    layout = structure("MemoryLayout")(minor_to_major=ctypes.addressof(order), minor_to_major_size=2)
    given = {"data": data.ctypes.data, "shape_dims": ctypes.addressof(dims), "shape_num_dims": 2}
    with raises(PjrtError, codes.BUFFER_SIZE, "F32[2, 3]", "S32[2, 3]"):
        manager_call("TransferLiteral", manager, shape_element_type=S32, **given)
    manager_call("TransferLiteral", manager, shape_element_type=F32, shape_layout=ctypes.addressof(layout), **given)
    assert np.array_equal(array_of(buffer), data.T)
    manager_call("Destroy", manager)
    destroy(buffer)


def test_invalid_transfers_are_refused():
    manager = manager_of((4,))
    data = np.zeros(4, np.float32)
    with raises(PjrtError, codes.BUFFER_SIZE, "16 bytes", "from 8", "buffer 0", "has 16"):
        transfer(manager, data, 8)
    with raises(PjrtError, codes.BUFFER_SIZE, "16 bytes", "from -4"):
        transfer(manager, data, -4 & (1 << 64) - 1)
    with raises(PjrtError, codes.BUFFER_SIZE, "1 buffers", "no 1"):
        transfer(manager, data, number=1)
    transfer(manager, data, is_last=True)
    with raises(PjrtError, codes.BUFFER_STATE, "buffer 0 of the transfer manager is complete already"):
        transfer(manager, data)
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    with raises(PjrtError, codes.BUFFER_STATE, "was retrieved before"):
        manager_call("RetrieveBuffer", manager)
    manager_call("Destroy", manager)
    with raises(PjrtError, codes.HANDLE, "is not a transfer manager, or was destroyed"):
        manager_call("BufferCount", manager)
    destroy(buffer)


def test_the_error_of_a_buffer_reaches_its_readers():
    manager = manager_of((4,), (4,))
    failed, unfinished = (manager_call("RetrieveBuffer", manager, number).buffer_out for number in range(2))
    kept, message, size = bytes_at(b"the file ended early")
    manager_call("SetBufferError", manager, error_code=15, error_message=message, error_message_size=size)
    manager_call("Destroy", manager)
    with pytest.raises(PjrtError, match="the file ended early") as raised:
        ready(failed)
    assert raised.value.status == 15 and kept
    with raises(PjrtError, codes.CLIENT_FAILURE, "the transfer manager was destroyed before it had all data"):
        array_of(unfinished)
    executable = compile_program(DOUBLE)
    ((result,),) = execute(executable, [failed])
    with pytest.raises(PjrtError, match="the file ended early") as raised:
        array_of(result)
    assert raised.value.status == 15
    destroy(failed, unfinished, result)


def test_buffers_with_an_error_fail_launches():
    kept, message, size = bytes_at(b"no such shard")
    dims = (ctypes.c_int64 * 1)(4)
    given = {"shape_dims": ctypes.addressof(dims), "shape_num_dims": 1, "shape_element_type": F32}
    given |= {"client": platform().handle, "memory": default_memory(), "error_message": message}
    with raises(PjrtError, codes.ERROR_CODE, "0 is"):
        call("Client_CreateErrorBuffer", **given)
    buffer = call("Client_CreateErrorBuffer", error_code=5, error_message_size=size, **given).buffer
    ((result,),) = execute(compile_program(DOUBLE), [buffer])
    for one in (buffer, result):
        with pytest.raises(PjrtError) as raised:
            ready(one)
        assert (raised.value.status, raised.value.message) == (5, "no such shard")
    destroy(buffer, result)
    assert kept


def alias_of(*dimensions: int) -> tuple[int, int]:
    dims = (ctypes.c_int64 * len(dimensions))(*dimensions)
    made = call(
        "Client_CreateAliasBuffer",
        client=platform().handle,
        memory=default_memory(),
        shape_dims=ctypes.addressof(dims),
        shape_num_dims=len(dimensions),
        shape_element_type=F32,
    )
    return made.alias_buffer, made.fulfill_alias_buffer_cb


def test_an_alias_gets_the_elements_of_a_buffer_that_is_filled_later():
    manager = manager_of((4,))
    source = manager_call("RetrieveBuffer", manager).buffer_out
    alias, fulfill = alias_of(4)
    call("Client_FulfillAliasBuffer", client=platform().handle, buffer=source, fulfill_alias_buffer_cb=fulfill)
    assert not is_ready(alias)
    data = np.arange(4, dtype=np.float32)
    transfer(manager, data, is_last=True)
    assert np.array_equal(array_of(alias), data)
    with raises(PjrtError, codes.HANDLE, "alias of a buffer, still to be fulfilled, or was destroyed"):
        call("Client_FulfillAliasBuffer", client=platform().handle, buffer=source, fulfill_alias_buffer_cb=fulfill)
    manager_call("Destroy", manager)
    destroy(source, alias)


def test_an_alias_of_another_shape_is_refused():
    alias, fulfill = alias_of(2, 2)
    source = buffer_of(np.zeros(4, np.float32))
    given = {"client": platform().handle, "fulfill_alias_buffer_cb": fulfill}
    with raises(PjrtError, codes.BUFFER_SIZE, "16 bytes", "[2, 2]", "order (0, 1)", "[4]"):
        call("Client_FulfillAliasBuffer", buffer=source, **given)
    kept, message, size = bytes_at(b"lost")
    call("Client_FulfillAliasBuffer", status_code=14, error_message=message, error_message_size=size, **given)
    with pytest.raises(PjrtError, match="14: lost"):
        ready(alias)
    destroy(alias, source)
    assert kept


# -- launches


def test_a_launch_waits_for_the_host_without_blocking_its_caller():
    executable = compile_program(DOUBLE)
    manager = manager_of((4,))
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    ((first,),) = execute(executable, [buffer])
    ((second,),) = execute(executable, [first])
    ready_now = buffer_of(np.ones(4, np.float32))
    ((other,),) = execute(executable, [ready_now])
    assert array_of(other).tolist() == [2.0] * 4
    assert not is_ready(first) and not is_ready(second)
    destroy(buffer, first)
    call("LoadedExecutable_Destroy", executable=executable)
    transfer(manager, np.arange(4, dtype=np.float32), is_last=True)
    assert array_of(second).tolist() == [0.0, 4.0, 8.0, 12.0]
    manager_call("Destroy", manager)
    destroy(second, ready_now, other)


def test_an_alias_of_a_result_that_needs_the_alias_is_not_waited_for():
    """The framework makes the second launch's argument before the first launch, and says later what it is."""
    executable = compile_program(DOUBLE)
    alias, fulfill = alias_of(4)
    ((second,),), (event,) = execute_with_events(executable, [alias])
    source = buffer_of(np.ones(4, np.float32))
    ((first,),) = execute(executable, [source])
    call("Client_FulfillAliasBuffer", client=platform().handle, buffer=first, fulfill_alias_buffer_cb=fulfill)
    await_event(event)
    assert array_of(second).tolist() == [4.0] * 4
    destroy(alias, first, second, source)


def test_a_launch_that_waits_takes_its_donated_arguments():
    program = DOUBLE.replace("tensor<4xf32>)", "tensor<4xf32> {tf.aliasing_output = 0 : i32})", 1)
    executable = compile_program(program)
    manager = manager_of((4,), (4,))
    buffers = [manager_call("RetrieveBuffer", manager, number).buffer_out for number in range(2)]
    results = [execute(executable, [buffer])[0][0] for buffer in buffers]
    assert all(call("Buffer_IsDeleted", buffer=buffer).is_deleted for buffer in buffers)
    with raises(PjrtError, calls_codes.DELETED_BUFFER):
        execute(executable, [buffers[0]])
    transfer(manager, np.ones(4, np.float32), is_last=True)
    kept, message, size = bytes_at(b"lost the rest")
    manager_call("SetBufferError", manager, 1, error_code=15, error_message=message, error_message_size=size)
    assert array_of(results[0]).tolist() == [2.0] * 4
    with raises(PjrtError, running_codes.FOREIGN_ERROR, "lost the rest") as raised:
        array_of(results[1])
    assert raised.value.status == 15 and kept
    manager_call("Destroy", manager)
    destroy(*buffers, *results)


def test_a_refused_launch_that_would_wait_gives_its_donated_arguments_back():
    program = """module @m {
      func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
        %z = stablehlo.add %x, %y : tensor<4xf32>
        return %z : tensor<4xf32>
      }
    }"""
    executable = compile_program(program)
    manager = manager_of((4,))
    pending = manager_call("RetrieveBuffer", manager).buffer_out
    deleted, one = buffer_of(np.ones(4, np.float32)), buffer_of(np.ones(4, np.float32))
    call("Buffer_Delete", buffer=deleted)
    with raises(PjrtError, calls_codes.DELETED_BUFFER):
        execute(executable, [pending, deleted])
    assert not call("Buffer_IsDeleted", buffer=pending).is_deleted
    ((result,),) = execute(executable, [pending, one])
    transfer(manager, np.ones(4, np.float32), is_last=True)
    assert array_of(result).tolist() == [2.0] * 4
    manager_call("Destroy", manager)
    destroy(pending, deleted, one, result)


# -- events


def test_an_event_is_set_once_from_any_thread():
    event = call("Event_Create").event
    seen: list[int | None] = []
    on_ready = CALLBACK(lambda error, argument: seen.append(argument))
    pointer = ctypes.cast(on_ready, ctypes.c_void_p).value
    call("Event_OnReady", event=event, callback=pointer, user_arg=7)
    assert not call("Event_IsReady", event=event).is_ready and seen == []
    setter = threading.Timer(0.01, lambda: call("Event_Set", event=event))
    setter.start()
    call("Event_Await", event=event)
    call("Event_OnReady", event=event, callback=pointer, user_arg=8)
    setter.join()  # callbacks run after the threads that await the event have been woken
    assert sorted(seen, key=int) == [7, 8]
    with raises(PjrtError, running_codes.EVENT_STATE, "PJRT_Event_Create") as raised:
        call("Event_Set", event=event)
    assert raised.value.status == 9
    call("Event_Destroy", event=event)


def test_an_event_keeps_its_error():
    event = call("Event_Create").event
    kept, message, size = bytes_at(b"the host gave up")
    call("Event_Set", event=event, error_code=10, error_message=message, error_message_size=size)
    for name in ("Event_Error", "Event_Await"):
        with pytest.raises(PjrtError, match="10: the host gave up"):
            call(name, event=event)
    call("Event_Destroy", event=event)
    assert kept


def test_events_of_the_client_cannot_be_set():
    manager = manager_of((4,))
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    event = call("Buffer_ReadyEvent", buffer=buffer).event
    with raises(PjrtError, running_codes.EVENT_STATE, "PJRT_Event_Create"):
        call("Event_Set", event=event)
    assert not call("Event_IsReady", event=event).is_ready
    manager_call("Destroy", manager)
    with raises(PjrtError, codes.CLIENT_FAILURE, "destroyed"):
        await_event(event)
    destroy(buffer)


# -- copies


def test_parts_of_a_pending_buffer_are_copied_when_it_is_ready():
    manager = manager_of((8,))
    buffer = manager_call("RetrieveBuffer", manager).buffer_out
    target, later = np.zeros(4, np.float32), np.zeros(2, np.float32)
    first = call("Buffer_CopyRawToHost", buffer=buffer, dst=target.ctypes.data, offset=8, transfer_size=16)
    future = call("Buffer_CopyRawToHostFuture", buffer=buffer, offset=24, transfer_size=8)
    copy = call("Buffer_CopyToMemory", buffer=buffer, dst_memory=platform().devices[0].memories["pinned_host"])
    data = np.arange(8, dtype=np.float32)
    transfer(manager, data, is_last=True)
    await_event(first.event)
    assert target.tolist() == [2, 3, 4, 5]
    assert not call("Event_IsReady", event=future.event).is_ready
    args = structure("Buffer_CopyRawToHostFuture_Callback")(callback_data=future.callback_data, dst=later.ctypes.data)
    FUTURE(future.future_ready_callback)(ctypes.addressof(args))
    await_event(future.event)
    assert later.tolist() == [6, 7] and np.array_equal(array_of(copy.dst_buffer), data)
    with raises(PjrtError, codes.BUFFER_SIZE, "16 bytes", "from 20", "32 bytes"):
        call("Buffer_CopyRawToHost", buffer=buffer, dst=target.ctypes.data, offset=20, transfer_size=16)
    manager_call("Destroy", manager)
    destroy(buffer, copy.dst_buffer)


def test_a_copy_to_the_host_can_be_given_up():
    buffer = buffer_of(np.zeros(4, np.float32))
    future = call("Buffer_CopyRawToHostFuture", buffer=buffer, offset=0, transfer_size=16)
    kept, message, size = bytes_at(b"no memory")
    args = structure("Buffer_CopyRawToHostFuture_Callback")(
        callback_data=future.callback_data, error_code=8, error_message=message, error_message_size=size
    )
    FUTURE(future.future_ready_callback)(ctypes.addressof(args))
    with pytest.raises(PjrtError, match="8: no memory"):
        await_event(future.event)
    destroy(buffer)
    assert kept


@pytest.mark.parametrize("code", [0, 4])
def test_a_donated_buffer_waits_for_its_dependency(code):
    data = np.arange(4, dtype=np.float32)
    buffer = buffer_of(data)
    pointer = call("Buffer_UnsafePointer", buffer=buffer).buffer_pointer
    donated = call("Buffer_DonateWithControlDependency", buffer=buffer)
    assert call("Buffer_IsDeleted", buffer=buffer).is_deleted
    assert call("Buffer_UnsafePointer", buffer=donated.out_buffer).buffer_pointer == pointer
    assert not is_ready(donated.out_buffer)
    kept, message, size = bytes_at(b"too late")
    args = structure("Buffer_DonateWithControlDependency_Callback")(
        callback_data=donated.callback_data, error_code=code, error_message=message, error_message_size=size
    )
    FUTURE(donated.dependency_ready_callback)(ctypes.addressof(args))
    if code:
        with pytest.raises(PjrtError, match="4: too late"):
            array_of(donated.out_buffer)
    else:
        assert np.array_equal(array_of(donated.out_buffer), data)
    with raises(PjrtError, calls_codes.DELETED_BUFFER):
        call("Buffer_DonateWithControlDependency", buffer=buffer)
    destroy(buffer, donated.out_buffer)
    assert kept


def test_a_bitcast_shares_the_memory():
    buffer = buffer_of(np.array([1.0, 2.0], np.float32))
    dims = (ctypes.c_int64 * 2)(2, 1)
    given = {"buffer": buffer, "element_type": S32, "dims": ctypes.addressof(dims)}
    cast = call("Buffer_Bitcast", num_dims=2, **given).out_buffer
    pointers = {call("Buffer_UnsafePointer", buffer=one).buffer_pointer for one in (buffer, cast)}
    assert len(pointers) == 1
    destroy(buffer)
    assert array_of(cast).tolist() == [[0x3F800000], [0x40000000]]
    one = (ctypes.c_int64 * 1)(1)
    with raises(PjrtError, codes.BUFFER_SIZE, "8 bytes", "of 4", "S32[1]"):
        call("Buffer_Bitcast", buffer=cast, element_type=S32, dims=ctypes.addressof(one), num_dims=1)
    destroy(cast)


def test_a_deleted_buffer_has_a_failed_event():
    buffer = buffer_of(np.zeros(4, np.float32))
    before = call("Buffer_ReadyEvent", buffer=buffer).event
    call("Buffer_Delete", buffer=buffer)
    await_event(before)
    with raises(PjrtError, calls_codes.DELETED_BUFFER, "3: "):
        ready(buffer)
    destroy(buffer)


# -- references from outside


def test_external_references_keep_the_memory_and_prevent_its_reuse():
    buffer = buffer_of(np.arange(4, dtype=np.float32))
    for _ in range(2):
        call("Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    address = call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=buffer).device_memory_ptr
    assert address == call("Buffer_UnsafePointer", buffer=buffer).buffer_pointer
    call("Buffer_Delete", buffer=buffer)
    assert np.frombuffer(read_bytes(address, 16), np.float32).tolist() == [0, 1, 2, 3]
    for name in (
        "Buffer_IncreaseExternalReferenceCount",
        "Buffer_OpaqueDeviceMemoryDataPointer",
        "Buffer_UnsafePointer",
    ):
        with raises(PjrtError, calls_codes.DELETED_BUFFER, "3: "):
            call(name, buffer=buffer)
    for _ in range(2):
        call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    with raises(PjrtError, codes.BUFFER_REFERENCES, "9: "):
        call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    destroy(buffer)


def test_ranges_of_memory_are_mapped_once():
    data = np.zeros(64, np.uint8)
    given = {"client": platform().handle, "data": data.ctypes.data}
    call("Client_DmaMap", size=64, **given)
    with raises(PjrtError, codes.MAPPED_MEMORY, "64 bytes"):
        call("Client_DmaMap", client=platform().handle, data=data.ctypes.data + 32, size=64)
    call("Client_DmaUnmap", **given)
    with raises(PjrtError, codes.MAPPED_MEMORY):
        call("Client_DmaUnmap", **given)
    with raises(PjrtError, codes.MAPPED_MEMORY, "0 bytes"):
        call("Client_DmaMap", **given)


def test_tracking_events():
    kept, description, size = bytes_at(b"checkpoint")
    given = {"device": platform().devices[0].handle, "description": description, "description_size": size}
    event = call("Device_CreateAsyncTrackingEvent", **given).event
    assert event and kept
    call("AsyncTrackingEvent_Destroy", event=event)
    call("AsyncTrackingEvent_Destroy", event=event)
