"""Links the entries of the plugin: native entries, trampolines to the entries in Python, and the function table.

Once the interpreter is shutting down, entries in Python do nothing; native entries keep working then.

Responsible for the library and its function table. Does not depend on how entries are implemented.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlapy.cpu.llvm.jit import Code, compile_unoptimized
from xlapy.pjrt.c_api.structs import (
    API_VERSION,
    ENTRIES,
    EXTENSION_HEADER_BYTES,
    EXTENSIONS,
    HEADER_BYTES,
    PROFILER,
    PROFILER_ENTRIES,
)
from xlapy.pjrt.native import buffers, events, executables, execute
from xlapy.pjrt.native.implementations import ALL_ENTRIES, guard_of, implementations_text
from xlapy.pjrt.native.macros import expand_macros
from xlapy.runtime.engine.native_engine import NativeEngine, function_symbol, is_finalizing_symbol, leak

_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "set_element_size": (None, ctypes.c_int64, ctypes.c_int64),
    "set_row_major_layout": (None, ctypes.c_int64, ctypes.c_void_p),
    "malloc_bytes": (ctypes.c_void_p, ctypes.c_int64),
    "borrow_foreign_memory": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "LoadedExecutable_Execute": (ctypes.c_void_p, ctypes.c_void_p),
}
"""Native functions that Python calls besides those of the engine: the type of the result, then those of the
arguments."""

_BLOCKING = ("LoadedExecutable_Execute",)
"""The functions that run programs, so they release the interpreter's lock. The others are short and keep it."""

_CALLED_BY_FRAMEWORKS = (
    "no_op",
    "start_copy_to_host",
    "complete_dependency",
    "callback_error",
    "free_chunk",
    "free_bytes",
)
"""Native functions whose addresses are passed to frameworks."""

_COMMON = """
@context = internal global [1 x i64] zeroinitializer

define ptr @ExecuteContext_Create(ptr %args) {
  put ptr @context ExecuteContext_Create.context of %args
  ret ptr null
}

define ptr @Device_ClearMemoryStats(ptr %args) {
  call void @reset_peak_memory()
  ret ptr null
}

define ptr @malloc_bytes(i64 %size) {
  %made = call ptr @malloc(i64 %size)
  ret ptr %made
}

define void @free_bytes(ptr %data) {
  call void @free(ptr %data)
  ret void
}

define ptr @no_op(ptr %args) {
  ret ptr null
}

declare i32 @Py_IsFinalizing()
declare ptr @call_python(ptr, ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
"""

_DEFINED = re.compile(r"^(?:define|declare)[^@]*@(\w+)\(", re.MULTILINE)
"""The functions that a text defines or declares."""

NativeEntry = Callable[[int], int]
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class NativeLibrary:
    """The entries and the function table; the engine's functions, too, are attributes. There is one per process, which
    lives as long as the process.

    python: entries in Python by name, as functions from the address of the arguments to that of an error, or 0.
    """

    def __init__(self, python: Mapping[str, NativeEntry], engine: NativeEngine) -> None:
        self._thunks = {name: _ENTRY(function) for name, function in python.items()}
        imports = {f"{name}_function": function_symbol(thunk) for name, thunk in self._thunks.items()}
        imports["Py_IsFinalizing"] = is_finalizing_symbol()
        exports = [*_FUNCTIONS, *map(guard_of, ALL_ENTRIES), *_CALLED_BY_FRAMEWORKS]
        text = module_text(python)
        imports |= engine.symbols()
        text = f"{engine.declarations(_DEFINED.findall(text))}\n{text}"
        self._code = compile_unoptimized(text, sorted(set(exports)), imports)
        own = {name: _function(self._code, name, *types) for name, types in _FUNCTIONS.items()}
        self._functions = {**engine.functions, **own}
        self._addresses = {**engine.addresses, **self._code.addresses}
        self._extensions = _extensions(self._code)
        self._api = _table(self._code, self._extensions)
        leak(self._code, self._thunks, self._functions, self._extensions, self._api)

    @property
    def table(self) -> int:
        """The address of the function table."""
        return ctypes.addressof(self._api)

    def address(self, name: str) -> int:
        """The address of a native function."""
        return self._addresses[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(name) from None


def module_text(python: Mapping[str, Any]) -> str:
    """The LLVM text of all entries. It calls functions of the engine, which it does not declare."""
    pieces = [*(module.TEXT for module in (events, buffers, executables, execute)), _COMMON]
    return expand_macros("\n".join([*pieces, implementations_text(python)]))


def _function(code: Code, name: str, result: Any, *arguments: Any) -> Any:
    kind = ctypes.CFUNCTYPE if name in _BLOCKING else ctypes.PYFUNCTYPE
    return kind(result, *arguments)(code.addresses[name])


def _extensions(code: Code) -> list[Any]:
    """The extensions of the function table, as a linked list that starts at the last one."""
    made = [_profiler_extension(code)]
    for number, names in EXTENSIONS.items():
        before = ctypes.addressof(made[-1])
        addresses = [code.addresses[guard_of(name)] for name in names]
        size = EXTENSION_HEADER_BYTES + 8 * len(names)
        made.append((ctypes.c_int64 * (size // 8))(size, number, before, *addresses))
    return made


def _profiler_extension(code: Code) -> Any:
    """The profiler extension, followed by its function table, to which it points."""
    size, words = 2 + len(PROFILER_ENTRIES), EXTENSION_HEADER_BYTES // 8 + 2
    made = (ctypes.c_int64 * (words + size))(8 * words, PROFILER, 0)
    made[words - 2], made[words] = ctypes.addressof(made) + 8 * words, 8 * size
    made[words + 2 :] = [code.addresses[guard_of(entry)] for entry in PROFILER_ENTRIES]
    return made


def _table(code: Code, extensions: Sequence[Any]) -> Any:
    words = HEADER_BYTES // 8
    table = (ctypes.c_int64 * (words + len(ENTRIES)))()
    major, minor = API_VERSION
    version = (ctypes.c_int32 * 2).from_buffer(table, HEADER_BYTES - 8)
    table[0], table[1], table[2] = ctypes.sizeof(table), ctypes.addressof(extensions[-1]), 24
    version[0], version[1] = major, minor
    for number, entry in enumerate(ENTRIES):
        table[words + number] = code.addresses[guard_of(entry)]
    return table
