"""The plugin that JAX finds through the entry-point group `jax_plugins`.

JAX calls `initialize` of every installed plugin when it first needs a back end. This module therefore imports next to
nothing, and does nothing unless `JAX_PLATFORMS` names xlapy.

Responsible for registering the platform. Does not depend on what the platform does.
"""

from __future__ import annotations

import ctypes

from xlapy.pjrt.platform_name import PLATFORM_NAME


def initialize() -> None:
    """Registers the platform `xlapy` with JAX if `JAX_PLATFORMS` (or jax.config.jax_platforms) requests it."""
    import jax

    requested = str(jax.config.jax_platforms or "").split(",")
    if PLATFORM_NAME not in requested:
        return
    register(is_default=requested[0] == PLATFORM_NAME)
    if "cpu" not in requested:  # JAX places the arguments of callbacks on its CPU
        jax.config.update("jax_platforms", ",".join([*requested, "cpu"]))


def register(is_default: bool) -> None:
    """Registers the platform and its extensions of JAX. is_default: whether it is JAX's default platform."""
    from jax._src import xla_bridge
    from jax._src.lib import _profiler

    from xlapy.base.garbage_collection import gc_paused

    with gc_paused():  # importing the compiler creates many objects that stay alive
        from xlapy.pjrt.c_api.native_library import native
        from xlapy.pjrt.compile.persistent_cache import patch_compilation_cache
        from xlapy.pjrt.jax.coordination import make_client
        from xlapy.pjrt.jax.dlpack import patch_dlpack
        from xlapy.pjrt.jax.lowering import register_lowering

        table = _capsule(native().table)
    xla_bridge._nonexperimental_plugins.add(PLATFORM_NAME)  # JAX warns about other plugins
    xla_bridge.register_plugin(PLATFORM_NAME, priority=-100, c_api=table, factory=make_client)
    _profiler.register_plugin_profiler(table)
    register_lowering()
    patch_compilation_cache()
    patch_dlpack(is_default)


def _capsule(address: int) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule: object = new(address, _CAPSULE_NAME, None)
    return capsule


_CAPSULE_NAME = b"pjrt_c_api"
