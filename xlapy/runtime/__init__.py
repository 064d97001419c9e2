"""Clients, executables, buffers, devices and platforms: compiling and running programs.

The names below load on first use, so that a module of the package costs no more than what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlapy.runtime.backend import Backend, Program, load_backend, platform_names, register_backend
    from xlapy.runtime.buffer import Buffer, block_until_ready
    from xlapy.runtime.client import Client
    from xlapy.runtime.device import Device
    from xlapy.runtime.executable import Executable

__all__ = [
    "Backend",
    "Buffer",
    "Client",
    "Device",
    "Executable",
    "Program",
    "block_until_ready",
    "load_backend",
    "platform_names",
    "register_backend",
]

_MODULES = {
    "Backend": "xlapy.runtime.backend",
    "Buffer": "xlapy.runtime.buffer",
    "Client": "xlapy.runtime.client",
    "Device": "xlapy.runtime.device",
    "Executable": "xlapy.runtime.executable",
    "Program": "xlapy.runtime.backend",
    "block_until_ready": "xlapy.runtime.buffer",
    "load_backend": "xlapy.runtime.backend",
    "platform_names": "xlapy.runtime.backend",
    "register_backend": "xlapy.runtime.backend",
}
"""The module that defines each name."""


if not TYPE_CHECKING:  # type checkers read the imports above, and report unknown names

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value
