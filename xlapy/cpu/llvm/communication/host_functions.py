"""The host's native functions for the memory that devices share: its ends of queues, and reading and ending waits.

Python accesses shared words only through them. They are compiled on first use.

Responsible for linking these functions and for calling them from Python. Does not depend on what they do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.communication import infeeds, process_rendezvous, queues, waits
from xlapy.cpu.llvm.jit import Code, compile_unoptimized
from xlapy.native.function import NativeFunction
from xlapy.native.llvm import library_text

_WORD, _COUNT, _POINTER = ctypes.c_int64, ctypes.c_uint32, ctypes.c_void_p

_SIGNATURES: Final[Mapping[NativeFunction[Any, Any], tuple[Any, ...]]] = {
    infeeds.join_feed: (None, _POINTER),
    infeeds.add_infeed: (None, _POINTER, _POINTER, _POINTER),
    infeeds.taken_count: (_COUNT, _POINTER),
    infeeds.leave_infeed: (None, _POINTER),
    queues.take_message: (_POINTER, _POINTER),
    queues.clear_queue: (None, _POINTER),
    queues.notify: (None, _POINTER),
    queues.sent_count: (_COUNT, _POINTER),
    queues.await_message: (ctypes.c_bool, _POINTER, _COUNT, _WORD),
    process_rendezvous.has_exchange_failed: (ctypes.c_bool, _POINTER, _WORD),
    process_rendezvous.is_exchange_pending: (ctypes.c_bool, _POINTER, _WORD),
    waits.cancel_waits: (None, _POINTER, _POINTER, _WORD),
    waits.read_wait: (None, _POINTER, _WORD, _POINTER),
    waits.read_word: (_COUNT, _POINTER),
}
"""The functions: the type of the result, then those of the arguments."""

_BLOCKING = frozenset({infeeds.leave_infeed, queues.await_message})
"""The functions that wait for native code, so they release the interpreter's lock."""


class HostFunctions:
    """The functions, as attributes."""

    def __init__(self) -> None:
        names = [function.name for function in _SIGNATURES]
        self._code: Code = compile_unoptimized(library_text(list(_SIGNATURES), names), names, {})
        self._functions = {
            function.name: self._function(function, result, arguments)
            for function, (result, *arguments) in _SIGNATURES.items()
        }

    def _function(self, function: NativeFunction[Any, Any], result: Any, arguments: list[Any]) -> Any:
        kind = ctypes.CFUNCTYPE if function in _BLOCKING else ctypes.PYFUNCTYPE
        return kind(result, *arguments)(self._code.addresses[function.name])

    def __getattr__(self, name: str) -> Any:
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(name) from None


@SingleFlight
def host_functions() -> HostFunctions:
    """Returns the functions."""
    return HostFunctions()
