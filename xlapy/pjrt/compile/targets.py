"""Native custom-call targets registered with JAX, for this platform or for JAX's CPU, whose lowering rules xlapy
shares.

Responsible for copying targets from JAX's registry to xlapy's. Does not depend on how targets are called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxlib import xla_client

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.custom_calls.registry import find_target, register_custom_call_target, register_custom_call_type
from xlapy.hlo.module import Module
from xlapy.interpreter.custom import custom_call_rule
from xlapy.opcodes.custom import CustomCallApiVersion

_CPU = "cpu"


def register_target(name: str, target: Any, platform: str, api_version: int = 0, traits: Any = None) -> None:
    """Handler of `jax.ffi.register_ffi_target` for this platform. api_version 1 is the typed FFI."""
    version = CustomCallApiVersion.TYPED_FFI if api_version else CustomCallApiVersion.ORIGINAL
    register_custom_call_target(name, target, api_version=version)


def register_type(name: str, registration: Any) -> None:
    """Handler of `jax.ffi.register_ffi_type` for this platform."""
    register_custom_call_type(name, registration["type_id"], registration.get("type_info"))


def adopt_targets(module: Module) -> None:
    """Registers the targets of a module's custom calls that only JAX's CPU knows."""
    for instruction in module.instructions():
        if instruction.op is opcodes.CUSTOM_CALL and find_target(instruction.custom_call_target, _CPU) is None:
            try:
                custom_call_rule(instruction, _CPU)
            except UnsupportedError:
                _adopt(instruction.custom_call_target)


def registered_targets(module: Module) -> list[str]:
    """The names of registered targets that a module calls."""
    names = {one.custom_call_target for one in module.instructions() if one.op is opcodes.CUSTOM_CALL}
    return sorted(name for name in names if find_target(name, _CPU) is not None)


def adopt_named(names: Iterable[str]) -> None:
    """Registers the targets with these names that only JAX's CPU knows."""
    for name in names:
        if find_target(name, _CPU) is None:
            _adopt(name)


def _adopt(name: str) -> None:
    target = xla_client.custom_call_targets(_CPU).get(name)
    if target is not None:
        register_custom_call_target(name, target, api_version=CustomCallApiVersion.TYPED_FFI)
        return
    # JAX queues targets that are registered before its CPU client exists.
    queued = xla_client._custom_callback.get(xla_client.xla_platform_names[_CPU], ())
    for known, function, api_version, _ in queued:
        if known == name:
            register_target(name, function, _CPU, api_version)
