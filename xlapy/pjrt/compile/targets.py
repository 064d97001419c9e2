"""Native custom-call targets that are registered with JAX: for this platform, or for its CPU, whose rules are ours.

Owns: the way from JAX's registry into xlapy's. Must not know: how targets are called.
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
    """What `jax.ffi.register_ffi_target` calls for this platform: api_version 1 is the typed interface."""
    version = CustomCallApiVersion.TYPED_FFI if api_version else CustomCallApiVersion.ORIGINAL
    register_custom_call_target(name, target, api_version=version)


def register_type(name: str, registration: Any) -> None:
    """What `jax.ffi.register_ffi_type` calls for this platform."""
    register_custom_call_type(name, registration["type_id"], registration.get("type_info"))


def adopt_targets(module: Module) -> None:
    """Registers those targets of a module's calls that are known to JAX's CPU only."""
    for instruction in module.instructions():
        if instruction.op is opcodes.CUSTOM_CALL and find_target(instruction.custom_call_target, _CPU) is None:
            try:
                custom_call_rule(instruction, _CPU)
            except UnsupportedError:
                _adopt(instruction.custom_call_target)


def registered_targets(module: Module) -> list[str]:
    """The names of targets that a module calls and that somebody has registered."""
    names = {one.custom_call_target for one in module.instructions() if one.op is opcodes.CUSTOM_CALL}
    return sorted(name for name in names if find_target(name, _CPU) is not None)


def adopt_named(names: Iterable[str]) -> None:
    """Registers those of the targets with these names that are known to JAX's CPU only."""
    for name in names:
        if find_target(name, _CPU) is None:
            _adopt(name)


def _adopt(name: str) -> None:
    target = xla_client.custom_call_targets(_CPU).get(name)
    if target is not None:
        register_custom_call_target(name, target, api_version=CustomCallApiVersion.TYPED_FFI)
        return
    # JAX keeps what is registered before its CPU client is made.
    waiting = xla_client._custom_callback.get(xla_client.xla_platform_names[_CPU], ())
    for known, function, api_version, _ in waiting:
        if known == name:
            register_target(name, function, _CPU, api_version)
