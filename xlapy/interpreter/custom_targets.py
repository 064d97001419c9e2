"""Which code stands behind the target of a custom call: the targets that users register, by platform and name.

Owns: the table of targets. Must not know: instructions, how a target is called.
"""

from __future__ import annotations

import ctypes
import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.ops.custom import CustomCallApiVersion

PLATFORMS = ("interpreter",)

NATIVE_VERSIONS = (
    CustomCallApiVersion.ORIGINAL,
    CustomCallApiVersion.STATUS_RETURNING,
    CustomCallApiVersion.STATUS_RETURNING_UNIFIED,
)
"""The calling conventions in which native code can be called."""


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """A Python function, and what else than the operands it wants to know (None: everything)."""

    function: Callable[..., Any]
    keywords: frozenset[str] | None
    api_version: CustomCallApiVersion | None
    """The only version of calls that it takes, None for any."""


@dataclass(frozen=True, slots=True)
class NativeTarget:
    """Native code at an address; `owner` keeps it alive."""

    address: int
    api_version: CustomCallApiVersion
    owner: object


Target = PythonTarget | NativeTarget

_TARGETS: dict[tuple[str, str], Target] = {}


def register_custom_call_target(
    name: str,
    target: Any,
    platform: str = "interpreter",
    api_version: CustomCallApiVersion | None = None,
) -> None:
    """Lets custom calls named `name` run `target`; a later registration of the same name takes its place.

    A Python function is called as `target(*operands)` with a read-only NumPy array an operand (a tuple for a tuple,
    None for a token) and returns an array of exactly the declared shape and element type, or a tuple of them. If it
    has `**info`, or keyword-only parameters of these names, it is also given `opaque` (str), `shape` (the declared
    `Shape`), `attributes`, `frontend_attributes`, `instruction_name`, `replica_id`, `partition_id`, and `computations`
    (the called ones, as functions of arrays). It takes calls of every api_version unless one is given here.

    Native code is a ctypes function, an address or a PyCapsule, with the signature of `api_version`:
    API_VERSION_ORIGINAL (the default) `void f(void* out, const void** in)`, API_VERSION_STATUS_RETURNING
    `void f(void* out, const void** in, XlaCustomCallStatus*)`, API_VERSION_STATUS_RETURNING_UNIFIED
    `void f(void* out, const void** in, const char* opaque, size_t opaque_len, XlaCustomCallStatus*)`. `in` has a
    pointer for each array of the operands; `out` is the result, or has a pointer for each array of a tuple. Native
    code with another signature, or that writes outside of its results, may end the process.

    Raises InvalidArgumentError for a name, target or platform that is none, UnsupportedError for native code of
    API_VERSION_TYPED_FFI. Source: CustomCall of the specification; XLA Custom Calls.
    """
    _check_name(name, platform)
    if api_version is CustomCallApiVersion.UNSPECIFIED:
        raise InvalidArgumentError(f"target {name!r}: api_version must not be API_VERSION_UNSPECIFIED")
    address = _address(name, target)
    if address is not None:
        _TARGETS[platform, name] = _native(name, address, target, api_version)
    elif callable(target):
        _TARGETS[platform, name] = PythonTarget(target, _keywords(target), api_version)
    else:
        raise InvalidArgumentError(
            f"target {name!r} must be a Python function, a ctypes function, an address or a PyCapsule, "
            f"given {type(target).__name__}"
        )


def unregister_custom_call_target(name: str, platform: str = "interpreter") -> None:
    """Forgets a target; `InvalidArgumentError` if there is none of that name."""
    _check_name(name, platform)
    if _TARGETS.pop((platform, name), None) is None:
        raise InvalidArgumentError(f"no custom-call target {name!r} is registered for {platform}")


def find_target(name: str, platform: str = "interpreter") -> Target | None:
    """The target registered under a name, if there is one."""
    return _TARGETS.get((platform, name))


def unknown_target(name: str, built_in: tuple[str, ...], platform: str = "interpreter") -> str:
    """Says that no target has a name, which names are near it, and which there are."""
    registered = sorted(known for where, known in _TARGETS if where == platform)
    spellings = {known.casefold(): known for known in (*built_in, *registered)}
    near = [spellings[match] for match in difflib.get_close_matches(name[:100].casefold(), spellings, n=3)]
    hint = f" (did you mean {', '.join(map(repr, near))}?)" if near else ""
    there = ", ".join(map(repr, registered)) or "none"
    return (
        f"no custom-call target {name!r} is registered for {platform}{hint}; registered: {there}; built in: "
        f"{', '.join(built_in)}; xlapy.register_custom_call_target({name!r}, function) registers one"
    )


def _check_name(name: object, platform: str) -> None:
    if platform not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise InvalidArgumentError(f"unknown platform {platform!r}; platforms with custom-call targets: {known}")
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"a custom-call target needs a name, given {name!r}")


# -- native code


def _native(name: str, address: int, owner: object, api_version: CustomCallApiVersion | None) -> NativeTarget:
    version = CustomCallApiVersion.ORIGINAL if api_version is None else api_version
    if version not in NATIVE_VERSIONS:
        known = ", ".join(known.value for known in NATIVE_VERSIONS)
        raise UnsupportedError(
            f"target {name!r} is native code of {version.value}, which cannot be called; it can in {known}, and a "
            f"Python target takes calls of every version"
        )
    if address <= 0:
        raise InvalidArgumentError(f"target {name!r} has the address {address}, where no code can be")
    return NativeTarget(address, version, owner)


_CFUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]
"""The class of all functions of ctypes, loaded from libraries or not."""


def _address(name: str, target: Any) -> int | None:
    """Where native code lies; None for what is no native code."""
    if isinstance(target, _CFUNCTION):
        return ctypes.cast(target, ctypes.c_void_p).value or 0
    if isinstance(target, int) and not isinstance(target, bool):
        return target
    if type(target).__name__ == "PyCapsule":
        return _capsule_address(name, target)
    return None


def _capsule_address(name: str, capsule: object) -> int:
    try:
        label = _capsule_name(capsule)
        address: int | None = _capsule_pointer(capsule, label)
    except ValueError as error:
        raise InvalidArgumentError(f"target {name!r} is no usable PyCapsule: {error}") from error
    return address or 0


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


# -- Python functions


def _keywords(function: Callable[..., Any]) -> frozenset[str] | None:
    """The keyword-only parameters of a function, None if it takes any; none at all where they cannot be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
