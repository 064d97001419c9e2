"""The engine's native code, linked once per process: memory, events, buffers, streams and launches.

The front ends, which are xlapy's own API and the PJRT plugin, share it. At the end of the interpreter, it waits for
running launches; a fork finds its locks free.

Responsible for linking the engine, for calling it from Python, and for the ends of processes. Does not depend on
programs.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.jit import Symbol, compile_unoptimized
from xlapy.native.llvm import declaration_text
from xlapy.runtime.engine.core import python_calls, python_dispatch, python_objects
from xlapy.runtime.engine.core.library import FUNCTIONS, engine_text
from xlapy.runtime.engine.records import Record

_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p

_SIGNATURES: Final[Mapping[str, tuple[Any, ...]]] = {
    "make_error": (_POINTER, _WORD, ctypes.c_char_p, _WORD),
    "free_error": (None, _POINTER),
    "cancel_launch_of_event": (None, _POINTER),
    "new_event": (_POINTER, _WORD),
    "failed_event": (_POINTER, _POINTER),
    "ready_event_handle": (_POINTER,),
    "retain_event": (None, _POINTER),
    "release_event": (None, _POINTER),
    "is_event_complete": (ctypes.c_bool, _POINTER),
    "await_event": (_POINTER, _POINTER),
    "event_error": (_POINTER, _POINTER),
    "allocate": (_POINTER, _WORD),
    "release": (None, _POINTER),
    "is_queued": (ctypes.c_bool, _POINTER),
    "trim": (_WORD,),
    "set_cache_limit": (None, _WORD),
    "memory_usage": (None, _POINTER, _POINTER),
    "new_buffer": (_POINTER, _WORD, _POINTER, _WORD, _WORD, *[_POINTER] * 6),
    "complete_host_event": (None, _POINTER, _POINTER, _POINTER),
    "fill_when_ready": (None, _POINTER, _POINTER, _POINTER, _WORD, _POINTER, _POINTER, _POINTER),
    "prepare_fill": (_POINTER, _POINTER, _POINTER, _POINTER, _WORD, _POINTER, _POINTER, _POINTER),
    "acquire_hold": (_POINTER, _POINTER),
    "take_storage": (_POINTER, _POINTER),
    "give_storage_back": (None, _POINTER, _POINTER),
    "delete_buffer": (None, _POINTER),
    "destroy_buffer": (None, _POINTER),
    "await_destroyed": (_POINTER,),
    "take_destroyed": (_POINTER,),
    "free_spare_memory": (None, _POINTER),
    "retain_executable": (None, _POINTER),
    "release_executable": (None, _POINTER),
    "set_instrumented": (None, _POINTER, _POINTER),
    "instrumented_executable": (_POINTER, _POINTER),
    "allow_native_calls": (None, _POINTER, _WORD),
    "pending_launches": (_WORD, _POINTER),
    "set_trace_id": (None, _POINTER, _WORD),
    "is_deleted": (ctypes.c_bool, _POINTER),
    "storage_capsule": (ctypes.py_object, _POINTER),
    "owned_storage": (ctypes.py_object, _POINTER),
    "filled_buffer": (ctypes.py_object, _POINTER, _POINTER),
    "buffer_of_storage": (ctypes.py_object, _POINTER, _POINTER),
    "await_briefly": (ctypes.c_bool, _POINTER, _WORD),
    "count_readable": (ctypes.py_object, ctypes.py_object, _WORD),
    "call_executable": (ctypes.py_object, _POINTER, ctypes.py_object, _POINTER, _WORD, _WORD),
    "initialize_streams": (None,),
    "initialize_stream": (None, _POINTER, _POINTER),
    "active_launches": (_WORD, _POINTER, _WORD),
    "device_states": (None, _POINTER, _POINTER),
    "release_launch": (None, _POINTER),
    "request_deadlock_check": (ctypes.c_int32, _WORD),
    "fail_launch": (None, _POINTER, _POINTER),
    "stop_streams": (None,),
    "are_streams_idle": (_WORD,),
    "is_stream_running": (ctypes.c_bool, _POINTER),
    "has_free_slot": (ctypes.c_bool, _POINTER),
    "may_queue": (ctypes.c_bool,),
    "is_memory_canceled": (ctypes.c_bool, _POINTER),
    "set_canceled": (None, _WORD),
    "restart_in_child": (None,),
    "ticks": (_WORD,),
    "set_time_table": (None, _POINTER),
    "recorded_times": (_WORD, _POINTER, _POINTER),
    "request_count": (_WORD, _POINTER),
    "clear_times": (None, _POINTER),
}
"""Native functions that Python calls: the type of the result, then those of the arguments."""

_BLOCKING = frozenset({"await_destroyed", "await_event", "await_briefly", "complete_host_event", "fill_when_ready"})
"""The functions that block, copy, or call back, so they release the interpreter's lock. The others are short and keep
it."""

_DEFINED = re.compile(r"^(?:define|declare)[^@]*@(\w+)\(", re.MULTILINE)
"""The functions that a text defines or declares."""

_ONE_ARGUMENT = 0x0008
"""METH_O of Python's C API."""

_new_function: Any = ctypes.PYFUNCTYPE(ctypes.py_object, _POINTER, ctypes.py_object, _POINTER)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef of Python's C API."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", _POINTER),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_POLL_SECONDS = 0.001
"""Seconds between polls for running launches at interpreter exit."""
EXIT_SECONDS = 2.0
"""The time that launches have to finish when the interpreter exits, before they are canceled."""

EngineCallback = Callable[[int], int]
_CALLBACK = ctypes.CFUNCTYPE(_POINTER, _POINTER)


class NativeEngine:
    """The native functions of the engine, as attributes. There is one per process, which lives as long as the
    process."""

    def __init__(self, check_deadlocks: EngineCallback, run_host_launch: EngineCallback) -> None:
        """Both functions are called by threads of the engine.

        check_deadlocks: fails the launches that can never finish. Its argument has no meaning, and it returns 0.
        run_host_launch: runs the program of a launch frame that calls the host. Its argument is the address of the
        frame, and it returns that of an error, or 0.
        """
        callbacks = _CALLBACK(check_deadlocks), _CALLBACK(run_host_launch)
        called = (*python_objects.FUNCTIONS_OF_PYTHON, *python_dispatch.FUNCTIONS_OF_PYTHON)
        names = [*python_calls.PYTHON_FUNCTIONS, *(function.name for function in called)]
        imports = {name: function_symbol(getattr(ctypes.pythonapi, name)) for name in names}
        imports["Py_IsFinalizing"] = is_finalizing_symbol()
        imports["check_deadlocks_function"], imports["host_launch_function"] = map(function_symbol, callbacks)
        exports = sorted({*(function.name for function in FUNCTIONS), *_SIGNATURES, "call_python"})
        defined = _DEFINED.findall(python_calls.TEXT)
        text = f"{engine_text(exports, defined)}\n{python_calls.TEXT}"
        self._code = compile_unoptimized(text, exports, imports)
        self.addresses: Mapping[str, int] = self._code.addresses
        """The address of each native function."""
        self.functions: Mapping[str, Any] = {name: self._function(name, *types) for name, types in _SIGNATURES.items()}
        self._definitions: dict[str, _MethodDefinition] = {}
        leak(self._code, callbacks, self.functions, self._definitions)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        kind = ctypes.CFUNCTYPE if name in _BLOCKING else ctypes.PYFUNCTYPE
        return kind(result, *arguments)(self.addresses[name])

    def python_function(self, name: str, owner: Any = None) -> Any:
        """A native function as a function of Python with one parameter, whose calls cost no conversions.

        owner: the native function's first argument. The native function takes and returns objects of Python, and holds
        the interpreter's lock.
        """
        definition = self._definitions.setdefault(
            name, _MethodDefinition(name.encode(), self.addresses[name], _ONE_ARGUMENT, None)
        )
        return _new_function(ctypes.addressof(definition), owner, None)

    def symbols(self) -> dict[str, Symbol]:
        """Every native function, for other machine code to import."""
        return {name: self._code.symbol(name) for name in self.addresses}

    def declarations(self, defined: list[str]) -> str:
        """Declarations of the engine's functions for another LLVM module, without those that it defines or declares
        itself."""
        return declaration_text(one for one in FUNCTIONS if one.name not in defined)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.functions[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(slots=True)
class EngineCallbacks:
    """The functions that the engine calls in Python, see `NativeEngine`, and those for the end of the process.

    cancel_starving: cancels the launches that wait for the host, which will feed nothing more. note_canceled: tells the
    host's parts of launches that were canceled natively.
    """

    check_deadlocks: EngineCallback = lambda _: 0
    run_host_launch: EngineCallback = lambda _: 0
    cancel_starving: Callable[[], None] = lambda: None
    note_canceled: Callable[[], None] = lambda: None


callbacks: Final = EngineCallbacks()
"""Set by the modules that know programs, before the first launch."""


@SingleFlight
def engine() -> NativeEngine:
    """Returns the engine; links it on first use."""
    linked = NativeEngine(
        lambda argument: callbacks.check_deadlocks(argument), lambda frame: callbacks.run_host_launch(frame)
    )
    linked.set_cache_limit(int(flags.get("cache_limit")) << 20)
    linked.initialize_streams()
    atexit.register(_finish_launches, linked)
    _register_at_fork(linked)
    return linked


@SingleFlight
def device_stream(number: int, client: int) -> int:
    """The record of the stream of a device. number: of the device among those of this process. client: see
    `Device.client_number`; devices of the same two numbers share a stream."""
    record = Record("stream").address
    engine().initialize_stream(record, device_stream(0, client) if number else record)
    return record


def _register_at_fork(linked: NativeEngine) -> None:
    """Makes forks acquire the engine's locks, and release them in both processes.

    The C library calls these functions within `fork`. Handlers of Python would not do: between them and the fork,
    another thread may run Python and wait for one of the locks while it holds the interpreter's.
    """
    library = ctypes.CDLL(None)
    names = ("before_fork", "after_fork", "after_fork_in_child")
    before, after, after_in_child = (_POINTER(linked.addresses[name]) for name in names)
    register = getattr(library, "__register_atfork", None)
    if register is None:  # musl
        failed = library.pthread_atfork(before, after, after_in_child)
    else:
        failed = register(before, after, after_in_child, None)
    assert not failed, "there is no memory"
    os.register_at_fork(after_in_child=linked.restart_in_child)


def _finish_launches(linked: NativeEngine) -> None:
    """Waits for running launches at interpreter exit; cancels them after `EXIT_SECONDS`, or at once on Ctrl-C.

    Programs may be endless, and no thread can read their results any more. Those that wait for a feed of the host are
    canceled at once, because nothing can feed them. A launch that does not end although it is canceled, because a
    custom call does not return, goes on until the process ends.
    """
    linked.stop_streams()
    begin = time.monotonic()
    is_canceled = False
    while not linked.are_streams_idle():
        seconds = time.monotonic() - begin
        is_due = seconds > EXIT_SECONDS
        if seconds > 2 * EXIT_SECONDS:
            return
        try:
            callbacks.cancel_starving()
            time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            is_due = True
        if is_due and not is_canceled:
            linked.set_canceled(1)
            callbacks.note_canceled()
            is_canceled = True
    linked.set_canceled(0)


def leak(*values: Any) -> None:
    """Keeps objects alive beyond the interpreter's end, because native code still uses them then."""
    for value in values:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def function_symbol(function: Any) -> Symbol:
    """A C function, for machine code to import."""
    return Symbol(int(ctypes.cast(function, _POINTER).value or 0), function)


def is_finalizing_symbol() -> Symbol:
    """The function `Py_IsFinalizing`, which is private before Python 3.13."""
    name = "Py_IsFinalizing" if hasattr(ctypes.pythonapi, "Py_IsFinalizing") else "_Py_IsFinalizing"
    return function_symbol(getattr(ctypes.pythonapi, name))
