"""Clients, executables, buffers, devices and platforms: compiling and running programs."""

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
