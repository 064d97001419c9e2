"""JAX may tell the client about other processes, which it refuses to run with."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.pjrt.c_api.calls import PjrtError, call
from tests.raising import raises
from xlapy.base.error_codes.execution.devices import PROCESSES
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.platform import platform

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


@pytest.mark.parametrize("processes", [2, 1 << 40])
def test_several_processes_are_refused(processes):
    with raises(PjrtError, PROCESSES, f"num_processes={processes}") as raised:
        create_client(node_id=0, num_nodes=processes)
    assert raised.value.status == 12


def test_the_states_of_processes_are_accepted():
    """jaxlib ends the process if this entry returns an error."""
    call("Client_UpdateGlobalProcessInfo", client=platform().handle, process_infos=0, num_process_infos=0)
