"""The native functions of the engine as one LLVM text.

Responsible for which functions other code may call by name. Must not know what they do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from xlapy.native.function import NativeFunction
from xlapy.native.llvm import library_text
from xlapy.runtime.engine.core import (
    buffers,
    events,
    executables,
    execute,
    forks,
    host_events,
    launch_times,
    launches,
    memory,
    python_objects,
    streams,
    watchdog,
)

FUNCTIONS: tuple[NativeFunction[Any, Any], ...] = (
    events.make_error,
    events.free_error,
    events.deleted_error,
    events.out_of_memory_error,
    events.event_set_error,
    events.canceled_error,
    events.new_event,
    events.ready_event_handle,
    events.retain_event,
    events.release_event,
    events.is_event_complete,
    events.is_event_successful,
    events.event_error,
    events.when_complete,
    events.await_event,
    memory.allocate,
    memory.borrow_host_memory,
    memory.release,
    memory.is_queued,
    memory.trim,
    memory.set_cache_limit,
    memory.memory_usage,
    memory.reset_peak_memory,
    buffers.new_buffer,
    buffers.delete_buffer,
    buffers.destroy_buffer,
    buffers.is_deleted,
    buffers.acquire_hold,
    buffers.take_storage,
    buffers.give_storage_back,
    buffers.add_external_reference,
    buffers.remove_external_reference,
    buffers.copy_when_ready,
    buffers.no_reference_error,
    host_events.new_host_event,
    host_events.set_host_event,
    host_events.failed_event,
    host_events.complete_host_event,
    host_events.prepare_fill,
    host_events.start_fill,
    host_events.fill_when_ready,
    python_objects.storage_capsule,
    python_objects.owned_storage,
    python_objects.filled_buffer,
    python_objects.buffer_of_storage,
    python_objects.await_briefly,
    python_objects.count_readable,
    python_objects.call_executable,
    executables.retain_executable,
    executables.release_executable,
    executables.await_destroyed,
    executables.take_destroyed,
    executables.free_spare_memory,
    executables.instrumented_executable,
    executables.set_instrumented,
    executables.allow_native_calls,
    executables.allows_native_calls,
    executables.pending_launches,
    executables.set_trace_id,
    execute.execute,
    launches.active_launches,
    launches.device_states,
    launches.is_memory_canceled,
    launches.release_launch,
    launches.fail_launch,
    streams.initialize_streams,
    streams.initialize_stream,
    streams.stop_streams,
    streams.are_streams_idle,
    streams.is_stream_running,
    streams.has_free_slot,
    streams.may_queue,
    streams.set_canceled,
    streams.cancel_launch_of_event,
    forks.before_fork,
    forks.after_fork,
    forks.after_fork_in_child,
    forks.restart_in_child,
    launch_times.set_time_table,
    launch_times.recorded_times,
    launch_times.request_count,
    launch_times.clear_times,
    watchdog.request_deadlock_check,
)
"""The functions that entries and Python call."""


def engine_text(exports: Collection[str], defined: Collection[str]) -> str:
    """The LLVM text of the engine. exports, defined: see `library_text`."""
    return library_text(FUNCTIONS, exports, defined)
