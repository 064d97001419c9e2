"""Every entry of the function table and of its extensions: it answers, or refuses by name; none crashes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.pjrt.c_api import entries_page
from tests.pjrt.c_api.calls import (
    PjrtError,
    buffer_of,
    call,
    call_with,
    compile_program,
    default_memory,
    raise_error,
)
from tests.raising import raises
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import ENTRIES, EXTENSIONS, HEADER_BYTES, fields, least_size
from xlapy.pjrt.native.implementations import REFUSED, implementation_of
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import Record, read_words

ALL = (*ENTRIES, *(name for names in EXTENSIONS.values() for name in names))
WITHOUT_RESULT = ("Error_Destroy", "Error_Message")
ADD = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def executable() -> int:
    return compile_program(ADD)


def test_the_table_has_every_entry_of_the_header():
    table = read_words(native().table + HEADER_BYTES, len(ENTRIES))
    assert len(ENTRIES) == len(set(ENTRIES)) == 138
    assert all(table)
    assert read_words(native().table, 1) == [HEADER_BYTES + 8 * 138]


def test_the_page_lists_every_entry():
    """`python -m tests.pjrt.c_api.entries_page` writes it."""
    assert entries_page.PAGE.read_text() == entries_page.page()


def test_an_entry_has_one_implementation():
    with pytest.raises(ValueError, match="PJRT_Buffer_Compress has 0 implementations, not 1"):
        implementation_of("Buffer_Compress", ())
    with pytest.raises(ValueError, match="PJRT_Client_Devices has 2 implementations, not 1"):
        implementation_of("Client_Devices", {"Client_Devices"})


@pytest.mark.parametrize("name", ALL)
def test_null_arguments_are_refused(name):
    error = call_with(name, 0)
    if name in WITHOUT_RESULT:
        assert error is None
        return
    with raises(PjrtError, codes.STRUCTURE_SIZE) as raised:
        raise_error(error)
    assert raised.value.status == 3 and raised.value.message.startswith(f"PJRT_{name}: struct_size is less than")


@pytest.mark.parametrize("name", ALL)
def test_arguments_of_an_older_api_are_refused(name):
    size = least_size(name)
    words = (ctypes.c_uint64 * (size // 8 + 1))(size - 1, *[0xDEAD] * (size // 8))
    error = call_with(name, ctypes.addressof(words))
    assert list(words) == [size - 1, *[0xDEAD] * (size // 8)]
    if name not in WITHOUT_RESULT:
        with raises(PjrtError, codes.STRUCTURE_SIZE, f"PJRT_{name}", f"less than {size}"):
            raise_error(error)


@pytest.mark.parametrize("name", ALL)
def test_null_handles_are_refused_or_destroyed(name):
    """Entries without a handle answer; those that destroy something accept null, as the header says."""
    if name == "Error_Message":
        return
    try:
        call(name)
    except PjrtError as error:
        assert 1 <= error.status <= 16
        assert error.message
        assert not name.endswith("_Destroy") or name in REFUSED


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_entries_say_why(name):
    with raises(PjrtError, codes.UNSUPPORTED_ENTRY) as raised:
        call(name)
    assert raised.value.status == 12
    assert raised.value.message == f"PJRT_{name} is not supported: {REFUSED[name]}"


@pytest.mark.parametrize("name", [name for name in ALL if not name.endswith(("_Destroy", "_Delete", "Error_Message"))])
def test_entries_with_a_handle_and_nothing_else(name, executable):
    """All arguments but the handle are zero: each entry answers, or reports an error."""
    handles = {
        "client": platform().handle,
        "device": platform().devices[0].handle,
        "device_description": Record("device", platform().devices[0].handle)["device_description"],
        "memory": default_memory(),
        "topology": Record("client", platform().handle)["topology"],
        "executable": executable,
        "loaded_executable": executable,
        "buffer": buffer_of(np.ones(4, np.float32)),
        "src": buffer_of(np.ones(4, np.float32)),
        "event": native().ready_event_handle(),
        "layout": Record("buffer", buffer_of(np.ones(4, np.float32)))["layout"],
    }
    first = fields(name)[:1]
    try:
        call(name, **{field: handles[field] for field in first if field in handles})
    except PjrtError as error:
        assert 1 <= error.status <= 16
        assert error.message
