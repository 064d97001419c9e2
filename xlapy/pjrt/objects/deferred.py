"""Launches whose arguments the host fills later: calls return pending results, and the launch follows in a thread.

No stream may wait for the host, because launches that the host needs first may be queued behind. Each such launch
therefore has a thread, which awaits the arguments, makes the call and passes its results on.

Responsible for these launches. Does not depend on how programs run.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from xlapy.base.element_types import TOKEN
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import least_size, structure
from xlapy.pjrt.c_api.types import number_of
from xlapy.pjrt.objects.buffers import (
    PendingBuffer,
    await_buffer,
    dimensions_of,
    pending_buffer,
    record_on_storage,
)
from xlapy.pjrt.objects.layouts import logical, order_at, row_major
from xlapy.pjrt.objects.loaded_executable import LoadedExecutable, result_leaves
from xlapy.pjrt.objects.records import Record, read_words
from xlapy.pjrt.objects.transfers import hold
from xlapy.runtime.engine.launch_errors import error_record, take_error


def waits_for_host(handles: Sequence[int]) -> bool:
    """Whether a buffer is pending that no queued launch writes."""
    for handle in handles:
        if native().is_event_complete(Record("buffer", handle)["event"]):
            continue
        storage = native().acquire_hold(handle)
        if storage is None:
            continue
        is_written = native().is_queued(storage)
        native().release(storage)
        if not is_written:
            return True
    return False


def may_be_deferred(loaded: LoadedExecutable) -> bool:
    """Whether the results can be described before the program has run."""
    return not any(shape.is_dynamic for shape in result_leaves(loaded.executable))


class DeferredLaunch:
    """A launch that waits for the host. rows: for each device, the buffers of its arguments, which the launch owns."""

    def __init__(
        self, loaded: LoadedExecutable, rows: Sequence[Sequence[int]], donated: Sequence[int], retained: Sequence[int]
    ) -> None:
        # Refused arguments raise before the launch owns anything.
        self._rows = _own_rows(rows, donated)
        self._executable = loaded.record.address
        # The caller may destroy the executable before the launch begins.
        self._handle = (loaded.root or loaded).record.address
        native().retain_executable(self._handle)
        self._retained = (ctypes.c_int64 * max(1, len(retained)))(*retained)
        self._retained_count = len(retained)
        self._results = [_pending_results(loaded, device) for device in range(len(rows))]
        self._events = [int(native().new_event(2)) for _ in rows]

    def return_results(self, args: Any) -> None:
        """Returns the pending results, and the events of the devices if they are requested."""
        lists = read_words(args.output_lists, len(self._results)) if any(self._results) else []
        for address, row in zip(lists, self._results, strict=False):
            outputs: Any = (ctypes.c_uint64 * len(row)).from_address(address)
            outputs[:] = [one.handle for one in row]
        if args.device_complete_events:
            events: Any = (ctypes.c_uint64 * len(self._events)).from_address(args.device_complete_events)
            events[:] = self._events
        else:
            for event in self._events:
                native().release_event(event)

    def start(self) -> None:
        """Lets a thread make the call. If that is impossible, the results fail."""
        try:
            threading.Thread(target=self._run, name="xlapy: launch that waits for the host", daemon=True).start()
        except RuntimeError as error:
            self._finish(error)

    def _run(self) -> None:
        try:
            for row in self._rows:
                for handle in row:
                    await_buffer(handle)
            self._pass_on(*self._call())
        except BaseException as error:
            self._finish(error)
        else:
            self._finish(None)

    def _call(self) -> tuple[list[list[int]], list[int]]:
        """Makes the call; returns the buffers of the results of each device, and the devices' events."""
        options = structure("ExecuteOptions")(
            struct_size=least_size("ExecuteOptions"),
            non_donatable_input_indices=ctypes.addressof(self._retained),
            num_non_donatable_input_indices=self._retained_count,
        )
        arguments = [(ctypes.c_uint64 * max(1, len(row)))(*row) for row in self._rows]
        outputs = [(ctypes.c_uint64 * max(1, len(row)))() for row in self._results]
        argument_lists = (ctypes.c_uint64 * len(arguments))(*map(ctypes.addressof, arguments))
        output_lists = (ctypes.c_uint64 * len(outputs))(*map(ctypes.addressof, outputs))
        events = (ctypes.c_uint64 * len(outputs))()
        call = structure("LoadedExecutable_Execute")(
            struct_size=least_size("LoadedExecutable_Execute"),
            executable=self._executable,
            options=ctypes.addressof(options),
            argument_lists=ctypes.addressof(argument_lists),
            num_devices=len(arguments),
            num_args=len(self._rows[0]),
            output_lists=ctypes.addressof(output_lists),
            device_complete_events=ctypes.addressof(events),
        )
        error = native().LoadedExecutable_Execute(ctypes.addressof(call))
        if error is not None:
            raise take_error(native(), error)
        rows = [list(row)[: len(results)] for row, results in zip(outputs, self._results, strict=True)]
        return rows, list(events)

    def _pass_on(self, rows: list[list[int]], events: list[int]) -> None:
        """Copies results to the pending ones when they are ready."""
        pending_rows, self._results = self._results, []
        pending_events, self._events = self._events, []
        for row, pending_row in zip(rows, pending_rows, strict=True):
            for handle, pending in zip(row, pending_row, strict=True):
                record, storage = Record("buffer", handle), hold(handle)
                size = record["on_device_size_in_bytes"]
                native().fill_when_ready(
                    record["event"], record["data"], storage, size, pending.data, pending.storage, pending.event
                )
                native().destroy_buffer(handle)
        for event, pending_event in zip(events, pending_events, strict=True):
            native().fill_when_ready(event, None, None, 0, None, None, pending_event)
            native().release_event(event)

    def _finish(self, error: BaseException | None) -> None:
        """Fails what is still pending, and gives up the arguments."""
        for row in self._results:
            for pending in row:
                pending.complete(error_record(native(), error) if error is not None else None)
        for event in self._events:
            native().complete_host_event(event, error_record(native(), error) if error is not None else None, None)
        self._results, self._events = [], []
        for handles in self._rows:
            for handle in handles:
                native().destroy_buffer(handle)
        self._rows = []
        native().release_executable(self._handle)


def _own_rows(rows: Sequence[Sequence[int]], donated: Sequence[int]) -> list[list[int]]:
    """Buffers of the launch for the arguments of all devices. If one was deleted, the caller keeps all others."""
    made: list[list[int]] = []
    try:
        for row in rows:
            made.append([])
            for number, handle in enumerate(row):
                made[-1].append(_own_buffer(handle, number in donated))
    except BaseException:
        for row, own_row in zip(rows, made, strict=False):
            for number, (handle, own) in enumerate(zip(row, own_row, strict=False)):
                if number in donated:
                    native().give_storage_back(handle, native().acquire_hold(own))
                native().destroy_buffer(own)
        raise
    return made


def _own_buffer(handle: int, is_donated: bool) -> int:
    """A buffer of the launch that shares the memory of an argument, or takes it."""
    record = Record("buffer", handle)
    storage = native().take_storage(handle) if is_donated else native().acquire_hold(handle)
    if storage is None:
        raise InvalidArgumentError(codes.DELETED_BUFFER, "the buffer has been deleted or donated")
    event = record["event"]
    native().retain_event(event)
    order = order_at(record["layout"])
    return record_on_storage(
        record["type"], dimensions_of(record), record["memory"], order, storage, record["data"], event
    )


def _pending_results(loaded: LoadedExecutable, device: int) -> list[PendingBuffer]:
    memories = loaded.devices[device].memories
    made: list[PendingBuffer] = []
    for number, shape in enumerate(result_leaves(loaded.executable)):
        memory, type = memories[loaded.memory_kind(number)], number_of(shape.element_type)
        if shape.element_type is TOKEN:
            made.append(pending_buffer(type, (0,), memory, row_major(1)))
            continue
        order = loaded.result_orders[number]
        made.append(pending_buffer(type, logical(shape.dimensions, order), memory, order))
    return made
