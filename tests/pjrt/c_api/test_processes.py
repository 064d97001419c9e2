"""What JAX tells the client about other processes: options, the key-value store, and the device ids of each.

Tests that start processes are in `tests/pjrt/processes`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tests.pjrt.c_api.calls import PjrtError, call
from tests.raising import raises
from xlapy.base.error_codes.execution.devices import DEVICE_NUMBER, PROCESSES
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.platform import device_number, platform
from xlapy.pjrt.objects.processes import CallbackStore, FrameworkProcesses, join_framework
from xlapy.runtime.collectives.process_group import ProcessGroup, set_process_group

_INT64 = 1
"""PJRT_NamedValue_kInt64."""


def create_client(**options: int) -> Any:
    """Calls Client_Create with named numbers, as JAX passes those of jax.distributed."""
    rows = (structure("NamedValue") * len(options))()
    names = [ctypes.create_string_buffer(name.encode()) for name in options]
    for row, name, value in zip(rows, names, options.values(), strict=True):
        row.struct_size, row.name, row.name_size = ctypes.sizeof(row), ctypes.addressof(name), len(name) - 1
        row.type, row.value, row.value_size = _INT64, value, 1
    return call("Client_Create", create_options=ctypes.addressof(rows), num_options=len(options))


def test_a_client_of_one_process():
    assert call("Client_Create").client == platform().handle
    assert create_client(node_id=0, num_nodes=1).client == platform().handle
    assert call("Client_ProcessIndex", client=platform().handle).process_index == 0


@pytest.mark.parametrize("processes", [2, 1 << 40])
def test_a_client_cannot_be_that_of_other_processes(processes):
    create_client()
    with raises(PjrtError, PROCESSES, f"cannot be process 1 of {processes}") as raised:
        create_client(node_id=1, num_nodes=processes)
    assert raised.value.status == 3


def test_an_index_beyond_the_number_of_processes():
    with raises(PjrtError, PROCESSES, "given 2 of 2"):
        create_client(node_id=2, num_nodes=2)


def test_the_states_of_processes_are_accepted():
    """jaxlib ends the process if this entry returns an error."""
    call("Client_UpdateGlobalProcessInfo", client=platform().handle, process_infos=0, num_process_infos=0)


def test_ids_of_devices():
    assert [device_number(0, local, 1) for local in (0, 3)] == [0, 3]
    assert [device_number(process, local, 4) for process in (0, 3) for local in (0, 5)] == [0, 5, 6144, 6149]


def test_devices_by_id_and_by_local_number():
    for number, device in enumerate(platform().devices):
        assert call("Client_LookupDevice", client=platform().handle, id=number).device == device.handle
        found = call("Client_LookupAddressableDevice", client=platform().handle, local_hardware_id=number)
        assert found.addressable_device == device.handle
    with raises(PjrtError, DEVICE_NUMBER, "there is no device 2048"):
        call("Client_LookupDevice", client=platform().handle, id=2048)
    with raises(PjrtError, DEVICE_NUMBER, "there is no device -1"):
        call("Client_LookupAddressableDevice", client=platform().handle, local_hardware_id=-1)


# -- joining the group


class Group:
    """A process group in which every process gives what `indices` says."""

    def __init__(self, count: int, indices: list[int]) -> None:
        self.process_index, self.process_count, self._indices = 0, count, indices

    def allgather(self, value: Any, *, what: str, timeout: float | None = None) -> list[Any]:
        assert value == self._indices[0]
        return self._indices


def initialize_as(group: Group) -> Callable[..., None]:
    """What `xlapy.distributed.initialize` does: makes a group. Fails the test if it gets other arguments."""

    def initialize(*, num_processes: int, process_id: int, key_value_store: object) -> None:
        assert (num_processes, process_id, key_value_store) == (2, 1, None)
        set_process_group(cast(ProcessGroup, group))

    return initialize


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    set_process_group(None)


def test_the_group_may_count_processes_in_another_order():
    assert join_framework(FrameworkProcesses(1, 2), initialize_as(Group(2, [1, 0]))) == (1, 0)


def test_a_group_that_the_program_has_made_is_used():
    set_process_group(cast(ProcessGroup, Group(2, [1, 0])))

    def initialize(**_: object) -> None:
        raise AssertionError("there is a group")

    assert join_framework(FrameworkProcesses(1, 2), initialize) == (1, 0)


def test_under_mpirun_the_index_is_that_of_mpi(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")

    def initialize(*, num_processes: int) -> None:
        assert num_processes == 2
        set_process_group(cast(ProcessGroup, Group(2, [1, 0])))

    assert join_framework(FrameworkProcesses(1, 2), initialize) == (1, 0)


def test_mpi_connects_another_number_of_processes():
    with raises(InvalidArgumentError, PROCESSES, "JAX runs 2 processes", "MPI connects 3"):
        join_framework(FrameworkProcesses(1, 2), initialize_as(Group(3, [1, 0, 2])))
    set_process_group(None)
    with raises(InvalidArgumentError, PROCESSES, "JAX runs 2 processes", "MPI connects 1"):
        join_framework(FrameworkProcesses(1, 2), lambda **_: None)


def test_two_processes_with_one_index():
    with raises(InvalidArgumentError, PROCESSES, "given [1, 1]"):
        join_framework(FrameworkProcesses(1, 2), initialize_as(Group(2, [1, 1])))


def test_an_error_that_process_0_describes():
    def initialize(**_: object) -> None:
        raise SystemExit(1)

    with raises(InvalidArgumentError, PROCESSES, "the error of process 0 says why"):
        join_framework(FrameworkProcesses(1, 2), initialize)


# -- the key-value store


class Store:
    """A key-value store of a framework, as C functions."""

    def __init__(self) -> None:
        self.values: dict[bytes, Any] = {}
        self.freed: list[int] = []
        self.timeouts: list[int] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        self._get, self._put = kind(self.get), kind(self.put)
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.freed.append)

    def store(self) -> CallbackStore:
        get, put = (ctypes.cast(one, ctypes.c_void_p).value for one in (self._get, self._put))
        assert get is not None and put is not None
        return CallbackStore(get, 7, put, 8)

    def get(self, address: int) -> int | None:
        args = structure("KeyValueGetCallback").from_address(address)
        assert args.user_arg == 7
        self.timeouts.append(args.timeout_in_ms)
        value = self.values.get(ctypes.string_at(args.key, args.key_size))
        if value is None:
            return self.fail(args, 4, b"no such key")
        args.value, args.value_size = ctypes.addressof(value), len(value.raw)
        args.value_deleter_callback = ctypes.cast(self._free, ctypes.c_void_p).value
        return None

    def put(self, address: int) -> int | None:
        args = structure("KeyValuePutCallback").from_address(address)
        assert args.user_arg == 8
        key, value = ctypes.string_at(args.key, args.key_size), ctypes.string_at(args.value, args.value_size)
        if key in self.values:
            return self.fail(args, 6, b"it has a value")
        self.values[key] = ctypes.create_string_buffer(value, len(value))
        return None

    def fail(self, args: Any, code: int, message: bytes) -> int:
        make = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
        function = make(ctypes.c_void_p.from_address(args.callback_error).value or 0)
        return int(function(code, message, len(message)))


def test_values_of_the_store():
    framework = Store()
    store = framework.store()
    store.put("address", b"host\0:1234")
    assert list(framework.values) == [b"xlapy:address"]
    assert store.get("address", 2.5) == b"host\0:1234"
    assert framework.timeouts == [2500]
    assert framework.freed == [ctypes.addressof(framework.values[b"xlapy:address"])]


def test_errors_of_the_store():
    store = Store().store()
    with pytest.raises(XlaError, match=r"\(4\): no such key"):
        store.get("address", 1e9)
    store.put("address", b"1")
    with pytest.raises(XlaError, match=r"\(6\): it has a value"):
        store.put("address", b"2")
