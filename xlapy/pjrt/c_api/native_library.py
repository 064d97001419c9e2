"""The native library of the plugin, linked once per process, with the entries that are implemented in Python.

Responsible for when it is linked. Does not depend on what the entries do.
"""

from __future__ import annotations

import importlib

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.pjrt.c_api.entries import native_entries
from xlapy.pjrt.native.link import NativeLibrary
from xlapy.runtime.engine.native_engine import engine

_ENTRY_MODULES = (
    "xlapy.pjrt.objects.platform",
    "xlapy.pjrt.objects.layouts",
    "xlapy.pjrt.objects.topologies",
    "xlapy.pjrt.objects.transfers",
    "xlapy.pjrt.objects.host_filled",
    "xlapy.pjrt.objects.tracking",
    "xlapy.pjrt.objects.executable",
    "xlapy.pjrt.objects.compilation",
    "xlapy.pjrt.objects.execute",
    "xlapy.pjrt.compile.serialized",
    "xlapy.pjrt.profiler.profiler",
)
"""The modules whose import registers entries that are implemented in Python."""


@SingleFlight
def native() -> NativeLibrary:
    """Returns the native library; links it on first use."""
    for name in _ENTRY_MODULES:
        importlib.import_module(name)
    return NativeLibrary(native_entries(native), engine())
