"""The native library without JAX: memory, events, buffers, errors."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest

from tests.raising import raises
from tests.threads import run_in_threads
from xlapy.base.container import pack
from xlapy.base.element_types import F32, S32
from xlapy.base.error_codes.execution.calls import DELETED_BUFFER
from xlapy.base.error_codes.execution.devices import DEVICE_NUMBER
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.native.ir import NativeTypeError
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import ENTRIES, EXTENSION_HEADER_BYTES, EXTENSIONS, HEADER_BYTES, structure
from xlapy.pjrt.compile.serialized import KIND
from xlapy.pjrt.native.macros import expand_macros, offset
from xlapy.pjrt.objects import buffers
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import Record, read_bytes, read_words

ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
WAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def call(name: str, **values: int):
    """Calls an entry through the table, as a framework does; returns its arguments, or the error's code and message."""
    entry = read_words(native().table + HEADER_BYTES + 8 * ENTRIES.index(name), 1)[0]
    args = structure(name)(**{"struct_size": ctypes.sizeof(structure(name)), **values})
    error = ENTRY(entry)(ctypes.addressof(args))
    if error is None:
        return args
    code, message = Record("error", error)["code"], Record("error", error)
    text = read_bytes(message["message"], message["message_size"]).decode()
    assert call("Error_Destroy", error=error)
    return code, text


def extension(name: str, **values: int):
    """Calls an entry of an extension."""
    number, names = next(item for item in EXTENSIONS.items() if name in item[1])
    at = read_words(native().table + 8, 1)[0]
    while read_words(at, 2)[1] != number:
        at = read_words(at, 3)[2]
    size, *_ = read_words(at, 1)
    assert size == EXTENSION_HEADER_BYTES + 8 * len(names)
    args = structure(name)(struct_size=ctypes.sizeof(structure(name)), **values)
    assert ENTRY(read_words(at + EXTENSION_HEADER_BYTES, len(names))[names.index(name)])(ctypes.addressof(args)) is None
    return args


def host_buffer(array: np.ndarray, semantics: int = 0, layout: int = 0):
    dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    strides = (ctypes.c_int64 * max(1, array.ndim))(*array.strides)
    return call(
        "Client_BufferFromHostBuffer",
        client=platform().handle,
        data=array.__array_interface__["data"][0],
        type=11 if array.dtype == np.float32 else 4,
        dims=ctypes.addressof(dims),
        num_dims=array.ndim,
        byte_strides=ctypes.addressof(strides),
        num_byte_strides=array.ndim,
        host_buffer_semantics=semantics,
        memory=platform().devices[0].memories["device"],
        device_layout=layout,
    )


def elements(handle: int) -> np.ndarray:
    with buffers.arrays_of([handle]) as (array,):
        return array.copy()


def test_entries_in_python_check_their_arguments():
    null = f" is null [{codes.NULL_POINTER}]"
    assert call("Executable_GetCostAnalysis") == (3, f"PJRT_Executable_GetCostAnalysis: executable{null}")
    assert call("Client_Compile", client=platform().handle) == (3, f"PJRT_Client_Compile: program{null}")
    refused = (3, f"unknown host buffer semantics 4 [{codes.SEMANTICS}]")
    assert host_buffer(np.ones(3, np.float32), semantics=4) == refused
    executable = platform().handle  # any record: its options are checked first
    assert call("LoadedExecutable_Execute", executable=executable) == (
        3,
        f"PJRT_LoadedExecutable_Execute: options{null}",
    )
    for entry in ("Buffer_Destroy", "Event_Destroy", "Executable_Destroy"):
        assert not isinstance(call(entry), tuple)


def test_field_access_macros():
    text = expand_macros(
        "  %d = get ptr buffer.data of %b\n  put i64 0 view_callback.data of %c\n  %p = at view_callback.callback of %c"
    )
    assert f"getelementptr inbounds i8, ptr %b, i64 {offset('buffer', 'data')}" in text
    assert "store i64 0, ptr %at1" in text and "%p = getelementptr inbounds i8, ptr %c, i64 8" in text


@pytest.mark.parametrize(
    "access, reason",
    [
        ("%s = get ptr buffer.storage of %b", "Buffer.storage is guarded"),
        ("put ptr null buffer.storage of %b", "Buffer.storage is guarded"),
        ("%s = at buffer.lock of %b", "Buffer.lock is lock"),
        ("%s = get i64 storage.owners of %b", "Storage.owners is atomic"),
        ("%s = get i64 executable.runs_natively of %b", "Executable.runs_natively is atomic"),
        ("%s = get ptr event.error of %b", "Event.error is owned"),
        ("put i64 0 buffer.type of %b", "Buffer.type is final"),
    ],
)
def test_text_does_not_access_what_threads_share(access, reason):
    with pytest.raises(NativeTypeError, match=f"{reason}; text only loads final fields"):
        expand_macros(f"  {access}")


def test_python_does_not_access_what_threads_share():
    record = Record("executable")
    assert record["shared_bytes"] == 0 and record["is_deleted"] == 0
    for field in ("owners", "instrumented", "runs_natively"):
        with pytest.raises(NativeTypeError, match=f"no field {field} that Python may access"):
            record[field] = 1


def test_loop_macros():
    text = expand_macros("  for %n below 3 as row\n  call void @f(i64 %n)\n  end row\n  ret i64 %n")
    assert "%n = phi i64 [ 0, %row.from ], [ %row.following, %row.next ]" in text
    assert text.endswith("  %row.following = add i64 %n, 1\n  br label %row.header\nrow.end:\n  ret i64 %n")


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 4), (100, 100)])
def test_arrays_round_trip(shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    buffer = host_buffer(array).buffer
    assert np.array_equal(elements(buffer), array)
    answer = call("Buffer_Dimensions", buffer=buffer)
    assert tuple(read_words(answer.dims, answer.num_dims)) == shape
    assert call("Buffer_OnDeviceSizeInBytes", buffer=buffer).on_device_size_in_bytes == array.nbytes
    assert call("Buffer_Destroy", buffer=buffer)


def test_strides_of_either_sign():
    array = np.arange(24, dtype=np.int32).reshape(4, 6)[::-1, ::2]
    buffer = host_buffer(array).buffer
    assert np.array_equal(elements(buffer), array)
    assert buffers.element_type_of(Record("buffer", buffer)) is S32
    call("Buffer_Destroy", buffer=buffer)


def test_host_memory_is_borrowed_until_the_buffer_is_deleted():
    array = np.arange(40_000, dtype=np.float32)
    made = host_buffer(array, semantics=2)
    happened: list[int] = []
    wake = WAKE(lambda error, argument: happened.append(argument or 0))
    event = {"event": made.done_with_host_buffer}
    assert not call("Event_IsReady", **event).is_ready
    call("Event_OnReady", **event, callback=ctypes.cast(wake, ctypes.c_void_p).value, user_arg=7)
    pointer = call("Buffer_UnsafePointer", buffer=made.buffer).buffer_pointer
    assert pointer == array.__array_interface__["data"][0] and happened == []
    call("Buffer_Delete", buffer=made.buffer)
    assert happened == [7] and call("Event_IsReady", **event).is_ready
    call("Event_Destroy", **event)
    call("Buffer_Destroy", buffer=made.buffer)


def test_deleted_buffers_are_errors():
    buffer = host_buffer(np.ones(3, np.float32)).buffer
    call("Buffer_Delete", buffer=buffer)
    call("Buffer_Delete", buffer=buffer)
    assert call("Buffer_IsDeleted", buffer=buffer).is_deleted
    assert call("Buffer_UnsafePointer", buffer=buffer) == (3, f"the buffer has been deleted. [{DELETED_BUFFER}]")
    with raises(InvalidArgumentError, DELETED_BUFFER):
        elements(buffer)
    call("Buffer_Destroy", buffer=buffer)


def test_host_layouts():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = host_buffer(array).buffer
    order = (ctypes.c_int64 * 2)(0, 1)
    layout = (ctypes.c_int64 * 10)(80, 0, 56, 0, ctypes.addressof(order), 2, 0, 0, 0, 0)
    target = np.zeros(6, np.float32)
    call(
        "Buffer_ToHostBuffer",
        src=buffer,
        host_layout=ctypes.addressof(layout),
        dst=target.ctypes.data,
        dst_size=target.nbytes,
    )
    assert target.tolist() == [0, 3, 1, 4, 2, 5]
    code, message = call("Buffer_ToHostBuffer", src=buffer, dst=target.ctypes.data, dst_size=8)
    assert code == 3 and "24 bytes" in message and "room for 8" in message
    call("Buffer_Destroy", buffer=buffer)


def layout_of(order: tuple[int, ...]) -> tuple[ctypes.Array, ctypes.Array]:
    """A PJRT_Buffer_MemoryLayout and the array that it points to."""
    minor_to_major = (ctypes.c_int64 * max(1, len(order)))(*order[::-1])
    words = (ctypes.c_int64 * 10)(80, 0, 56, 0, ctypes.addressof(minor_to_major), len(order), 0, 0, 0, 0)
    return words, minor_to_major


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 2), (1, 1, 5)])
def test_buffers_have_their_layout(shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    layout, kept = layout_of((2, 0, 1))
    buffer = host_buffer(array, layout=ctypes.addressof(layout)).buffer
    assert np.array_equal(elements(buffer), array)
    raw = np.zeros(array.size, np.float32)
    call("Buffer_ToHostBuffer", src=buffer, dst=raw.ctypes.data, dst_size=raw.nbytes)
    assert raw.tolist() == array.transpose(2, 0, 1).ravel().tolist()
    answer = call("Buffer_GetMemoryLayout", buffer=buffer)
    assert read_words(answer.minor_to_major, answer.minor_to_major_size) == [1, 0, 2] and answer.layout_type == 0
    text = extension(
        "Layouts_MemoryLayout_Serialize", layout=extension("Layouts_Buffer_MemoryLayout", buffer=buffer).layout
    )
    assert read_bytes(text.serialized_bytes, text.serialized_bytes_size) == b"{1,0,2}"
    copy = call("Buffer_CopyToMemory", buffer=buffer, dst_memory=platform().devices[0].memories["pinned_host"])
    assert np.array_equal(elements(copy.dst_buffer), array)
    assert Record("buffer", copy.dst_buffer)["layout"] == Record("buffer", buffer)["layout"]
    for one in (buffer, copy.dst_buffer):
        call("Buffer_Destroy", buffer=one)
    assert len(kept) == 3


def test_invalid_layouts_are_rejected():
    layout, kept = layout_of((1, 1))
    code, message = host_buffer(np.zeros((2, 3), np.float32), layout=ctypes.addressof(layout))
    assert code == 3 and "order (1, 1) is not one of 2 dimensions" in message
    layout[9] = 1
    code, message = host_buffer(np.zeros((2, 3), np.float32), layout=ctypes.addressof(layout))
    assert code == 12 and "layouts by strides" in message and len(kept) == 2


@pytest.mark.parametrize("rank", [0, 3, 63, 64, 70])
def test_default_layouts_of_every_rank(rank):
    dims = (ctypes.c_int64 * max(1, rank))(*[1] * rank)
    given = {"type": 11, "dims": ctypes.addressof(dims), "num_dims": rank}
    layout = extension("Layouts_Client_GetDefaultLayout", client=platform().handle, **given).layout
    topology = Record("client", platform().handle)["topology"]
    assert layout == extension("Layouts_Topology_GetDefaultLayout", topology=topology, **given).layout
    text = extension("Layouts_MemoryLayout_Serialize", layout=layout)
    written = read_bytes(text.serialized_bytes, text.serialized_bytes_size).decode()
    assert written == "{" + ",".join(map(str, reversed(range(rank)))) + "}"


def test_unknown_element_types_are_rejected():
    handle = platform().devices[0].memories["device"]
    given = {"client": platform().handle, "memory": handle}
    code, message = call("Client_CreateUninitializedBuffer", shape_element_type=99, **given)
    assert code == 12 and "99" in message
    with raises(UnsupportedError, codes.BUFFER_TYPE, "type 0"):
        buffers.type_of(0)


def test_large_blocks_are_cached_and_trimmed():
    platform()  # sets the limit of the cache
    storage = native().allocate(1_100_000)
    native().release(storage)
    assert native().allocate(1_090_000) == storage
    native().release(storage)
    assert native().trim() >= 1_100_000
    assert native().trim() == 0


def test_memory_in_use_is_counted():
    device = {"device": platform().devices[0].handle}
    before = call("Device_MemoryStats", **device).bytes_in_use
    handle, _ = buffers.new_buffer(F32, (1000, 1000), platform().devices[0].memories["device"])
    stats = call("Device_MemoryStats", **device)
    assert stats.bytes_in_use - before >= 4_000_000 and stats.peak_bytes_in_use >= stats.bytes_in_use
    assert not stats.bytes_limit_is_set
    call("Buffer_Destroy", buffer=handle)
    assert call("Device_MemoryStats", **device).bytes_in_use == before


def test_many_threads_delete_and_read_the_same_buffers():
    """Catches a deletion that frees memory under a reader: three threads read each buffer until it is deleted, and the
    fourth deletes it, and reuses its memory, once each of them has read it."""
    handles = [host_buffer(np.full(20_000, number, np.float32)).buffer for number in range(30)]
    reads = [[0] * len(handles) for _ in range(3)]
    others: list[int] = []

    def delete(_: int) -> None:
        for number, handle in enumerate(handles):
            while not all(counts[number] for counts in reads):
                time.sleep(0)
            call("Buffer_Delete", buffer=handle)
            others.append(host_buffer(np.full(20_000, -1, np.float32)).buffer)

    def read(thread: int) -> None:
        for number, handle in enumerate(handles):
            while True:
                try:
                    found = elements(handle)
                except InvalidArgumentError as error:
                    assert error.code == DELETED_BUFFER and reads[thread][number]
                    break
                assert (found == number).all()
                reads[thread][number] += 1

    run_in_threads(4, lambda thread: read(thread) if thread < 3 else delete(thread))
    assert all(call("Buffer_IsDeleted", buffer=handle).is_deleted for handle in handles)
    assert all((elements(handle) == -1).all() for handle in others)


def test_unknown_devices():
    code, message = call("Client_LookupDevice", client=platform().handle, id=5)
    assert code == 3 and message == f"there is no device 5: xlapy has 4 [{DEVICE_NUMBER}]"


def test_executables_that_cannot_be_read():
    for data, message in ((b"rubbish", "not the bytes of an executable"), (pack(KIND, {}, [b""]), "cannot be read")):
        text = ctypes.create_string_buffer(data, len(data))
        given = {"serialized_executable": ctypes.addressof(text), "serialized_executable_size": len(data)}
        code, answer = call("Executable_DeserializeAndLoad", client=platform().handle, **given)
        assert code == 3 and message in answer


def test_programs_that_cannot_be_read():
    text = ctypes.create_string_buffer(b"rubbish")
    format = ctypes.create_string_buffer(b"mlir")
    program = structure("Program")(code=ctypes.addressof(text), code_size=7, format=ctypes.addressof(format))
    program.format_size = 4
    code, message = call("Client_Compile", client=platform().handle, program=ctypes.addressof(program))
    assert code == 3 and message.startswith("the program cannot be read as StableHLO")
    program.format_size = 3
    code, message = call("Client_Compile", client=platform().handle, program=ctypes.addressof(program))
    assert code == 12 and "'mli'" in message
