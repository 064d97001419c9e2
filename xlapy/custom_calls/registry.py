"""The registry of custom-call targets: the code that users register, by platform and name.

Responsible for the table of targets. Does not depend on instructions or on how a target is called.
"""

from __future__ import annotations

import ctypes
import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xlapy.base.arguments.checking import checked_arguments
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.custom_calls.ffi.calls import check_version
from xlapy.custom_calls.ffi.objects import FfiError, register_type
from xlapy.custom_calls.ffi.structures import Stage, TypeInfo
from xlapy.custom_calls.native_code import address_of, require_memory
from xlapy.opcodes.custom import CustomCallApiVersion

PLATFORMS = ("interpreter", "cpu")

_API_VERSION_OF_NUMBER = dict(enumerate(CustomCallApiVersion))
"""The numbers of the versions in the proto."""


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """A Python function, and the keyword arguments that it accepts (None: all)."""

    function: Callable[..., Any]
    keywords: frozenset[str] | None
    api_version: CustomCallApiVersion | None
    """The only API version of the calls that it accepts, None for any."""


@dataclass(frozen=True, slots=True)
class NativeTarget:
    """Native code at an address; `owner` keeps it alive."""

    address: int
    api_version: CustomCallApiVersion
    owner: object


@dataclass(frozen=True, slots=True)
class TypedTarget:
    """Native code of API_VERSION_TYPED_FFI: the addresses of its handlers; `owner` keeps them alive."""

    handlers: dict[Stage, int]
    owner: object
    api_version: CustomCallApiVersion = CustomCallApiVersion.TYPED_FFI


Target = PythonTarget | NativeTarget | TypedTarget

_TARGETS: dict[tuple[str, str], Target] = {}
_changes = 0


@checked_arguments
def register_custom_call_target(
    name: str,
    target: Any,
    platform: str | None = None,
    api_version: CustomCallApiVersion | int | None = None,
) -> None:
    """Registers `target` for custom calls of the target `name`; a later registration replaces it.

    `platform` is "interpreter" or "cpu", None for both.

    A Python function is called as `target(*operands)` with one read-only NumPy array per operand (a tuple for a tuple,
    None for a token) and returns an array of exactly the declared shape and element type, or a tuple of them. If it has
    `**info`, or keyword-only parameters of these names, it also receives `opaque` (str), `shape` (the declared
    `Shape`), `attributes`, `frontend_attributes`, `instruction_name`, `replica_id`, `partition_id`, and `computations`
    (the called computations, as functions of arrays). In calls of API_VERSION_TYPED_FFI, a keyword-only parameter
    `ffi_attributes` receives the attributes in `opaque`, as a dictionary of NumPy scalars, arrays, bytes and
    dictionaries. The function accepts calls of every API version, unless `api_version` is given. If it has an attribute
    `bind`, this is called with the keyword arguments instead, once for a custom call of a compiled program, and returns
    the function that is called with the operands.

    Native code is a ctypes function, an address or a PyCapsule, with the signature of `api_version` (also as a number
    from 1 to 4): API_VERSION_ORIGINAL (the default) `void f(void* out, const void** in)`, API_VERSION_STATUS_RETURNING
    `void f(void* out, const void** in, XlaCustomCallStatus*)`, API_VERSION_STATUS_RETURNING_UNIFIED
    `void f(void* out, const void** in, const char* opaque, size_t opaque_len, XlaCustomCallStatus*)`. `in` has a
    pointer for each array of the operands; `out` is the result, or has a pointer for each array of a tuple. In
    API_VERSION_TYPED_FFI it is an `XLA_FFI_Handler`, whose interface version is checked now, or a dictionary of
    handlers by stage: `execute`, and optionally `instantiate`, `prepare` and `initialize`. Native code with another
    signature, or that writes outside its results, may crash the process.

    Raises InvalidArgumentError for an invalid name, target, platform or version.
    Source: CustomCall of the specification; XLA Custom Calls.

    >>> xla.register_custom_call_target("example_twice", lambda x: 2 * x)
    >>> text = 'ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] custom-call(x), custom_call_target="example_twice" }'
    >>> xla.Client().compile(text)(np.float32([1, 2]))
    Buffer(f32[2], [2. 4.])
    >>> xla.unregister_custom_call_target("example_twice")
    """
    _check_name(name, platform)
    version = _version(name, api_version)
    address = address_of(f"target {name!r}", target)
    registered: Target
    if address is not None:
        registered = _native(name, address, target, version)
    elif isinstance(target, Mapping):
        registered = _staged_target(name, target, version)
    elif callable(target):
        registered = PythonTarget(target, _keywords(target), version)
    else:
        raise InvalidArgumentError(
            codes.TARGET_CODE,
            f"target {name!r} must be a Python function, a ctypes function, an address, a PyCapsule or a dictionary "
            f"of handlers by stage, given {type(target).__name__}",
        )
    for where in _platforms(platform):
        _TARGETS[where, name] = registered
    _note_change()


def _note_change() -> None:
    global _changes
    _changes += 1


def registry_generation() -> int:
    """Returns a number that changes whenever a target is registered or unregistered."""
    return _changes


def _platforms(platform: str | None) -> tuple[str, ...]:
    return PLATFORMS if platform is None else (platform,)


def _version(name: str, given: object) -> CustomCallApiVersion | None:
    if given is None:
        return None
    version = _API_VERSION_OF_NUMBER.get(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if not isinstance(version, CustomCallApiVersion):
        raise InvalidArgumentError(
            codes.API_VERSION,
            f"target {name!r}: api_version is a CustomCallApiVersion or a number from 1 to 4, given {given!r}",
        )
    if version is CustomCallApiVersion.UNSPECIFIED:
        raise InvalidArgumentError(
            codes.API_VERSION, f"target {name!r}: api_version must not be API_VERSION_UNSPECIFIED"
        )
    return version


@checked_arguments
def unregister_custom_call_target(name: str, platform: str | None = None) -> None:
    """Unregisters a target, on all platforms unless one is given; `InvalidArgumentError` if it is not registered."""
    _check_name(name, platform)
    chosen = _platforms(platform)
    found = [_TARGETS.pop((where, name), None) for where in chosen]
    _note_change()
    if not any(found):
        raise InvalidArgumentError(
            codes.TARGET_REGISTERED, f"no custom-call target {name!r} is registered for {' or '.join(chosen)}"
        )


def find_target(name: str, platform: str = "interpreter") -> Target | None:
    """Returns the target registered under a name, or None."""
    return _TARGETS.get((platform, name))


def unknown_target_message(name: str, built_in: tuple[str, ...], platform: str = "interpreter") -> str:
    """Returns the message for an unknown target: similar names, and all registered and built-in names."""
    registered = sorted(known for where, known in _TARGETS if where == platform)
    spellings = {known.casefold(): known for known in (*built_in, *registered)}
    near = [spellings[match] for match in difflib.get_close_matches(name[:100].casefold(), spellings, n=3)]
    hint = f" (did you mean {', '.join(map(repr, near))}?)" if near else ""
    there = ", ".join(map(repr, registered)) or "none"
    shown = dict.fromkeys("lapack_*_ffi" if known.startswith("lapack_") else known for known in built_in)
    return (
        f"no custom-call target {name!r} is registered for {platform}{hint}; registered: {there}; built in: "
        f"{', '.join(shown)}; xlapy.register_custom_call_target({name!r}, function) registers one"
    )


def _check_name(name: object, platform: str | None) -> None:
    if platform is not None and platform not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise InvalidArgumentError(
            codes.TARGET_PLATFORM, f"unknown platform {platform!r}; platforms with custom-call targets: {known}"
        )
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(codes.TARGET_NAME, f"a custom-call target needs a name, given {name!r}")


# -- native code


def _native(name: str, address: int, owner: object, version: CustomCallApiVersion | None) -> NativeTarget | TypedTarget:
    _require_code(name, address)
    if version is CustomCallApiVersion.TYPED_FFI:
        return _typed(name, {Stage.EXECUTE: address}, owner)
    return NativeTarget(address, CustomCallApiVersion.ORIGINAL if version is None else version, owner)


def _staged_target(name: str, handlers: Mapping[Any, Any], version: CustomCallApiVersion | None) -> TypedTarget:
    if version not in (None, CustomCallApiVersion.TYPED_FFI):
        raise InvalidArgumentError(
            codes.TARGET_STAGES,
            f"target {name!r} has handlers for stages, which are of API_VERSION_TYPED_FFI, given {version}",
        )
    stages = {stage.name.lower(): stage for stage in Stage}
    if unknown := [key for key in handlers if key not in stages]:
        known = ", ".join(stages)
        raise InvalidArgumentError(
            codes.TARGET_STAGES, f"target {name!r}: {unknown[0]!r} is not a stage of execution; stages are {known}"
        )
    if "execute" not in handlers:
        raise InvalidArgumentError(
            codes.TARGET_STAGES, f"target {name!r} has no handler for the stage execute, which every target needs"
        )
    addresses: dict[Stage, int] = {}
    for key, handler in handlers.items():
        address = address_of(f"target {name!r}, stage {key}", handler)
        if address is None:
            raise InvalidArgumentError(
                codes.TARGET_CODE,
                f"target {name!r}: the handler for {key} must be a ctypes function, an address or a PyCapsule, given "
                f"{type(handler).__name__}",
            )
        _require_code(name, address)
        addresses[stages[key]] = address
    return _typed(name, addresses, dict(handlers))


def _typed(name: str, handlers: dict[Stage, int], owner: object) -> TypedTarget:
    check_version(name, handlers[Stage.EXECUTE])
    if Stage.INSTANTIATE in handlers:
        check_version(name, handlers[Stage.INSTANTIATE])
    return TypedTarget(handlers, owner)


def _require_code(name: str, address: int) -> None:
    if address <= 0:
        raise InvalidArgumentError(
            codes.TARGET_ADDRESS, f"target {name!r} has the address {address}, which is not a code address"
        )
    require_memory(f"target {name!r}", address, 1, "rx")


# -- types


@checked_arguments
def register_custom_call_type(name: str, type_id: Any, type_info: Any = None) -> None:
    """Registers a type of the state that native targets of API_VERSION_TYPED_FFI keep between stages.

    `type_id` is the target's `XLA_FFI_TypeId` and `type_info` its `XLA_FFI_TypeInfo`, which has the deleter; each is an
    address or a PyCapsule. An id of 0 is replaced by a free one. Call this before the target is registered. Raises
    `InvalidArgumentError` if the name is registered with another id, or an argument is not an address.
    """
    number = ctypes.c_int64.from_address(_data_address(f"the id of type {name!r}", type_id, 8, "rw"))
    deleter = 0
    if type_info is not None:
        address = _data_address(f"the info of type {name!r}", type_info, ctypes.sizeof(TypeInfo), "r")
        deleter = TypeInfo.from_address(address).deleter or 0
        if deleter:
            require_memory(f"the deleter of type {name!r}", deleter, 1, "rx")
    try:
        number.value = register_type(name, number.value, deleter)
    except FfiError as error:
        raise InvalidArgumentError(codes.REGISTERED_TYPE, str(error)) from error


def _data_address(what: str, given: Any, size: int, access: str) -> int:
    address = address_of(what, given)
    if address is None or address <= 0:
        raise InvalidArgumentError(codes.TARGET_ADDRESS, f"{what} must be an address or a PyCapsule, given {given!r}")
    require_memory(what, address, size, access)
    return address


# -- Python functions


def _keywords(function: Callable[..., Any]) -> frozenset[str] | None:
    """Returns the keyword-only parameters of a function, None if it accepts any, and an empty set if unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
