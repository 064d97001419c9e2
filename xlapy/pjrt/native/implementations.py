"""How each entry is implemented, and the LLVM text of those that are the same but for their names.

An entry is one of: a getter, which copies fields of a record; a function in LLVM text; a function in Python, which is
called through a trampoline; a function that does nothing; or a refusal, which returns an error that says why. A guard
in front of each checks the size of the arguments.

Responsible for the choice. Does not depend on what entries in LLVM text or Python do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.pjrt.c_api.structs import API_VERSION, ENTRIES, EXTENSIONS, PROFILER_ENTRIES, fields, least_size

GETTERS: Mapping[str, str] = {
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

RECORD_FIELDS: Mapping[tuple[str, str], str] = {
    ("Buffer_UnpaddedDimensions", "unpadded_dims"): "dims",
    ("Buffer_DynamicDimensionIndices", "dynamic_dim_indices"): "dims",
    ("Buffer_DynamicDimensionIndices", "num_dynamic_dims"): "zero",
    ("Executable_OutputMemoryKinds", "memory_kinds"): "output_memory_kinds",
    ("Executable_OutputMemoryKinds", "memory_kind_sizes"): "output_memory_kind_sizes",
    ("Layouts_Executable_GetOutputLayouts", "layouts"): "output_layouts",
    ("Layouts_Executable_GetParameterLayouts", "layouts"): "parameter_layouts",
}
"""The record's field for an argument field of a different name."""

ADDRESSABLE_ONLY: Mapping[str, str] = {"Device_DefaultMemory": "memory"}
"""Getters of devices whose field is 0 for the devices of other processes: they return an error then."""

NO_OPS = (
    "Plugin_Initialize",
    "Client_Destroy",
    "Client_UpdateGlobalProcessInfo",
    "ExecuteContext_Destroy",
    "Error_ForEachPayload",
    "Layouts_MemoryLayout_Destroy",
)
"""Entries that do nothing: what they would free lives as long as the process, and the states of other processes, which
JAX follows itself, have no effect on launches."""

NATIVE = (
    "Event_Create",
    "Event_Set",
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

ALL_ENTRIES = tuple(
    dict.fromkeys((*ENTRIES, *(name for names in EXTENSIONS.values() for name in names), *PROFILER_ENTRIES))
)
"""The entries of the function table, of its extensions, and of the profiler's table."""


_REFUSALS: Mapping[str, str] = {
    "launches of a device have no numbers by which they can be found": "Device_PoisonExecution",
}

REFUSED: Mapping[str, str] = {name: reason for reason, names in _REFUSALS.items() for name in names.split()}
"""Entries that return the error UNIMPLEMENTED, and why."""

_WITHOUT_RESULT = ("Error_Destroy", "Error_Message")
"""Entries that return nothing, so they cannot report that their arguments are malformed."""

_INVALID_ARGUMENT, _UNIMPLEMENTED = 3, 12


class Implementation(Enum):
    """How an entry is implemented. The values are what a table of all entries shows."""

    GETTER = "field"
    NATIVE = "native"
    PYTHON = "Python"
    NO_OP = "nothing to do"
    REFUSED = "refused"


def implementation_of(entry: str, python: Collection[str]) -> Implementation:
    """How an entry is implemented. python: the entries in Python, of which native ones call some on their slow path.

    `ValueError` unless there is exactly one way.
    """
    found = [
        kind
        for kind, names in (
            (Implementation.GETTER, GETTERS),
            (Implementation.NATIVE, NATIVE),
            (Implementation.NO_OP, NO_OPS),
            (Implementation.REFUSED, REFUSED),
            (Implementation.PYTHON, [] if entry in NATIVE else python),
        )
        if entry in names
    ]
    if len(found) != 1:
        raise ValueError(f"PJRT_{entry} has {len(found)} implementations, not 1: {', '.join(map(str, found))}")
    return found[0]


def function_of(entry: str, python: Collection[str]) -> str:
    """The native function that implements an entry."""
    match implementation_of(entry, python):
        case Implementation.NO_OP:
            return "no_op"
        case Implementation.PYTHON:
            return f"{entry}_in_python"
        case Implementation.REFUSED:
            return f"{entry}_is_refused"
        case _:
            return entry


def guard_of(entry: str) -> str:
    """The native function in the table: it checks the size of the arguments, then calls the implementation."""
    return f"{entry}_entry"


def implementations_text(python: Collection[str]) -> str:
    """LLVM text of guards, getters, trampolines to Python, and refusals, with macros."""
    pieces = [_getter_text(name, kind) for name, kind in GETTERS.items()]
    pieces += [_trampoline_text(name) for name in python]
    pieces += [_refusal_text(name, reason) for name, reason in REFUSED.items()]
    pieces += [_guard_text(name, function_of(name, python)) for name in ALL_ENTRIES]
    return "\n".join(pieces)


def _getter_text(entry: str, kind: str) -> str:
    handle, *rest = fields(entry)
    lines = [f"define ptr @{entry}(ptr %args) {{", f"  %record = need {entry}.{handle} of %args"]
    for field in rest:
        lines.append(f"  %{field} = get i64 {kind}.{RECORD_FIELDS.get((entry, field), field)} of %record")
        lines.append(f"  put i64 %{field} {entry}.{field} of %args")
    if entry not in ADDRESSABLE_ONLY:
        return "\n".join([*lines, "  ret ptr null", "}"])
    message = f"PJRT_{entry}: the device belongs to another process [{device_codes.ADDRESSABLE_DEVICE}]"
    refusal = make_error_text(f"{entry}_other", message, _INVALID_ARGUMENT)
    return "\n".join(
        [
            error_text(f"{entry}_other", message),
            *lines,
            f"  %is_other = icmp eq i64 %{ADDRESSABLE_ONLY[entry]}, 0",
            "  br i1 %is_other, label %refuse, label %return",
            f"return:\n  ret ptr null\nrefuse:\n{refusal}}}",
        ]
    )


def _trampoline_text(entry: str) -> str:
    return (
        f"declare ptr @{entry}_function(ptr)\n"
        f"define ptr @{entry}_in_python(ptr %args) {{\n"
        f"  %error = call ptr @call_python(ptr @{entry}_function, ptr %args)\n  ret ptr %error\n}}"
    )


def _refusal_text(entry: str, reason: str) -> str:
    message = f"PJRT_{entry} is not supported: {reason} [{codes.UNSUPPORTED_ENTRY}]"
    return (
        f"{error_text(f'{entry}_refusal', message)}\n"
        f"define ptr @{entry}_is_refused(ptr %args) {{\n"
        f"{make_error_text(f'{entry}_refusal', message, _UNIMPLEMENTED)}}}"
    )


def _guard_text(entry: str, function: str) -> str:
    major, minor = API_VERSION
    least = 0 if entry.startswith("Profiler_") else least_size(entry)  # jaxlib does not set the sizes of these
    message = (
        f"PJRT_{entry}: struct_size is less than {least}, the size in API {major}.{minor} [{codes.STRUCTURE_SIZE}]"
    )
    refusal = make_error_text(f"{entry}_size", message, _INVALID_ARGUMENT)
    return f"""{error_text(f"{entry}_size", message)}
define ptr @{guard_of(entry)}(ptr %args) {{
entry:
  %none = icmp eq ptr %args, null
  br i1 %none, label %refuse, label %measure
measure:
  %size = load i64, ptr %args
  %is_short = icmp ult i64 %size, {least}
  br i1 %is_short, label %refuse, label %run
run:
  %result = call ptr @{function}(ptr %args)
  ret ptr %result
refuse:
{"  ret ptr null" if entry in _WITHOUT_RESULT else refusal}
}}"""


def error_text(name: str, message: str) -> str:
    """LLVM text of the constant that holds the message of an error."""
    return f'@{name}_text = internal constant [{len(message)} x i8] c"{message}"'


def make_error_text(name: str, message: str, code: int) -> str:
    """LLVM text that returns an error with such a message."""
    return (
        f"  %{name}_error = call ptr @make_error(i64 {code}, ptr @{name}_text, i64 {len(message)})\n"
        f"  ret ptr %{name}_error\n"
    )
