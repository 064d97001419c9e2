"""Links the entries of the plugin: native entries, trampolines to the entries in Python, and the function table.

Once the interpreter is shutting down, entries in Python do nothing; native entries keep working then.

Responsible for which entries are native, and for the function table. Does not depend on what entries in Python do.
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
    fields,
)
from xlapy.pjrt.native import buffers, events, executables, execute
from xlapy.pjrt.native.macros import expand_macros
from xlapy.runtime.engine.native_engine import NativeEngine, function_address, is_finalizing_address, leak

_GETTERS: Mapping[str, str] = {
    "Error_Message": "error",
    "Error_GetCode": "error",
    "Client_PlatformName": "client",
    "Client_ProcessIndex": "client",
    "Client_PlatformVersion": "client",
    "Client_TopologyDescription": "client",
    "Client_Devices": "client",
    "Client_AddressableDevices": "client",
    "Client_AddressableMemories": "client",
    "DeviceDescription_Id": "description",
    "DeviceDescription_ProcessIndex": "description",
    "DeviceDescription_Attributes": "description",
    "DeviceDescription_Kind": "description",
    "DeviceDescription_DebugString": "description",
    "DeviceDescription_ToString": "description",
    "Device_GetDescription": "device",
    "Device_IsAddressable": "device",
    "Device_LocalHardwareId": "device",
    "Device_AddressableMemories": "device",
    "Device_DefaultMemory": "device",
    "Device_GetAttributes": "device",
    "Memory_Id": "memory",
    "Memory_Kind": "memory",
    "Memory_Kind_Id": "memory",
    "Memory_DebugString": "memory",
    "Memory_ToString": "memory",
    "Memory_AddressableByDevices": "memory",
    "TopologyDescription_PlatformName": "topology",
    "TopologyDescription_PlatformVersion": "topology",
    "TopologyDescription_GetDeviceDescriptions": "topology",
    "TopologyDescription_Attributes": "topology",
    "Executable_Name": "executable",
    "Executable_NumReplicas": "executable",
    "Executable_NumPartitions": "executable",
    "Executable_NumOutputs": "executable",
    "Executable_SizeOfGeneratedCodeInBytes": "executable",
    "Executable_Fingerprint": "executable",
    "Executable_OutputElementTypes": "executable",
    "Executable_OutputDimensions": "executable",
    "Executable_ParameterMemoryKinds": "executable",
    "Executable_OutputMemoryKinds": "executable",
    "LoadedExecutable_AddressableDevices": "executable",
    "LoadedExecutable_AddressableDeviceLogicalIds": "executable",
    "LoadedExecutable_Fingerprint": "executable",
    "LoadedExecutable_IsDeleted": "executable",
    "Buffer_ElementType": "buffer",
    "Buffer_Dimensions": "buffer",
    "Buffer_UnpaddedDimensions": "buffer",
    "Buffer_DynamicDimensionIndices": "buffer",
    "Buffer_OnDeviceSizeInBytes": "buffer",
    "Buffer_IsOnCpu": "buffer",
    "Buffer_Device": "buffer",
    "Buffer_Memory": "buffer",
    "Layouts_MemoryLayout_Serialize": "layout",
    "Layouts_Buffer_MemoryLayout": "buffer",
    "Layouts_Executable_GetOutputLayouts": "executable",
    "Layouts_Executable_GetParameterLayouts": "executable",
}
"""Entries that return fields of a record, and the record's kind."""

_RECORD_FIELDS: Mapping[tuple[str, str], str] = {
    ("Buffer_UnpaddedDimensions", "unpadded_dims"): "dims",
    ("Buffer_DynamicDimensionIndices", "dynamic_dim_indices"): "dims",
    ("Buffer_DynamicDimensionIndices", "num_dynamic_dims"): "zero",
    ("Executable_OutputMemoryKinds", "memory_kinds"): "output_memory_kinds",
    ("Executable_OutputMemoryKinds", "memory_kind_sizes"): "output_memory_kind_sizes",
    ("Layouts_Executable_GetOutputLayouts", "layouts"): "output_layouts",
    ("Layouts_Executable_GetParameterLayouts", "layouts"): "parameter_layouts",
}
"""The record's field for an argument field of a different name."""

_NO_OPS = (
    "Plugin_Initialize",
    "Client_Destroy",
    "TopologyDescription_Destroy",
    "ExecuteContext_Destroy",
    "Error_ForEachPayload",
    "Layouts_MemoryLayout_Destroy",
)
"""Entries that do nothing, because what they would free lives as long as the process."""

_NATIVE = (
    "Error_Destroy",
    "Event_Destroy",
    "Event_IsReady",
    "Event_Error",
    "Event_Await",
    "Event_OnReady",
    "Client_BufferFromHostBuffer",
    "Buffer_Destroy",
    "Buffer_Delete",
    "Buffer_IsDeleted",
    "Buffer_ReadyEvent",
    "Buffer_IncreaseExternalReferenceCount",
    "Buffer_DecreaseExternalReferenceCount",
    "Buffer_OpaqueDeviceMemoryDataPointer",
    "Buffer_UnsafePointer",
    "Buffer_ToHostBuffer",
    "Device_ClearMemoryStats",
    "ExecuteContext_Create",
    "LoadedExecutable_Execute",
    "LoadedExecutable_GetExecutable",
    "Executable_Destroy",
    "LoadedExecutable_Destroy",
    "Layouts_Client_GetDefaultLayout",
    "Layouts_Topology_GetDefaultLayout",
)
"""Entries that are written in LLVM text."""

_ALL = (*ENTRIES, *(name for names in EXTENSIONS.values() for name in names), *PROFILER_ENTRIES)

_WORD = ctypes.c_int64

_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "set_element_size": (None, ctypes.c_int64, ctypes.c_int64),
    "set_row_major_layout": (None, ctypes.c_int64, ctypes.c_void_p),
    "new_record": (ctypes.c_void_p, _WORD, ctypes.c_void_p, _WORD, _WORD, ctypes.c_void_p, ctypes.c_void_p),
    "make_view": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "LoadedExecutable_Execute": (ctypes.c_void_p, ctypes.c_void_p),
}
"""Native functions that Python calls besides those of the engine: the type of the result, then those of the
arguments."""

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
        imports = {f"{name}_function": function_address(thunk) for name, thunk in self._thunks.items()}
        imports["Py_AddPendingCall"] = function_address(ctypes.pythonapi.Py_AddPendingCall)
        imports["Py_IsFinalizing"] = is_finalizing_address()
        exports = [*_FUNCTIONS, *[function_of(name, python) for name in _ALL]]
        text = module_text(python)
        imports |= engine.addresses
        text = f"{engine.declarations(_DEFINED.findall(text))}\n{text}"
        self._code = compile_unoptimized(text, sorted(set(exports)), imports)
        own = {name: _function(self._code, name, *types) for name, types in _FUNCTIONS.items()}
        self._functions = {**engine.functions, **own}
        self._addresses = {**engine.addresses, **self._code.addresses}
        self._extensions = _extensions(self._code, python)
        self._api = _table(self._code, python, self._extensions)
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


def function_of(entry: str, python: Mapping[str, Any]) -> str:
    """The native function that implements an entry."""
    if entry in _NO_OPS:
        return "no_op"
    if entry in _NATIVE or entry in _GETTERS:
        return entry
    return f"{entry}_in_python" if entry in python else f"{entry}_is_unknown"


def module_text(python: Mapping[str, Any]) -> str:
    """The LLVM text of all entries. It calls functions of the engine, which it does not declare."""
    pieces = [*(module.TEXT for module in (events, buffers, executables, execute)), _COMMON]
    pieces += [_getter_text(name, kind) for name, kind in _GETTERS.items()]
    pieces += [_trampoline_text(name) for name in python]
    pieces += [_unimplemented_text(name) for name in _ALL if function_of(name, python).endswith("_is_unknown")]
    return "\n".join(map(expand_macros, pieces))


def _getter_text(entry: str, kind: str) -> str:
    handle, *rest = fields(entry)
    lines = [f"define ptr @{entry}(ptr %args) {{", f"  %record = need {entry}.{handle} of %args"]
    for field in rest:
        lines.append(f"  %{field} = get i64 {kind}.{_RECORD_FIELDS.get((entry, field), field)} of %record")
        lines.append(f"  put i64 %{field} {entry}.{field} of %args")
    return "\n".join([*lines, "  ret ptr null", "}"])


def _trampoline_text(entry: str) -> str:
    return (
        f"declare ptr @{entry}_function(ptr)\n"
        f"define ptr @{entry}_in_python(ptr %args) {{\n"
        f"  %error = call ptr @call_python(ptr @{entry}_function, ptr %args)\n  ret ptr %error\n}}"
    )


def _unimplemented_text(entry: str) -> str:
    message = f"xlapy does not have PJRT_{entry}"
    return (
        f'@{entry}_text = internal constant [{len(message)} x i8] c"{message}"\n'
        f"define ptr @{entry}_is_unknown(ptr %args) {{\n"
        f"  %error = call ptr @make_error(i64 12, ptr @{entry}_text, i64 {len(message)})\n  ret ptr %error\n}}"
    )


def _function(code: Code, name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)(code.addresses[name])


def _extensions(code: Code, python: Mapping[str, Any]) -> list[Any]:
    """The extensions of the function table, as a linked list that starts at the last one."""
    made = [_profiler_extension(code, python)]
    for number, names in EXTENSIONS.items():
        before = ctypes.addressof(made[-1])
        addresses = [code.addresses[function_of(name, python)] for name in names]
        size = EXTENSION_HEADER_BYTES + 8 * len(names)
        made.append((ctypes.c_int64 * (size // 8))(size, number, before, *addresses))
    return made


def _profiler_extension(code: Code, python: Mapping[str, Any]) -> Any:
    """The profiler extension, followed by its function table, to which it points."""
    size, words = 2 + len(PROFILER_ENTRIES), EXTENSION_HEADER_BYTES // 8 + 2
    made = (ctypes.c_int64 * (words + size))(8 * words, PROFILER, 0)
    made[words - 2], made[words] = ctypes.addressof(made) + 8 * words, 8 * size
    made[words + 2 :] = [code.addresses[function_of(entry, python)] for entry in PROFILER_ENTRIES]
    return made


def _table(code: Code, python: Mapping[str, Any], extensions: Sequence[Any]) -> Any:
    words = HEADER_BYTES // 8
    table = (ctypes.c_int64 * (words + len(ENTRIES)))()
    major, minor = API_VERSION
    version = (ctypes.c_int32 * 2).from_buffer(table, HEADER_BYTES - 8)
    table[0], table[1], table[2] = ctypes.sizeof(table), ctypes.addressof(extensions[-1]), 24
    version[0], version[1] = major, minor
    for number, entry in enumerate(ENTRIES):
        table[words + number] = code.addresses[function_of(entry, python)]
    return table
