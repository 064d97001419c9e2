"""The plugin as JAX finds it: the entry point of the group `jax_plugins`.

JAX calls `initialize` of every plugin that is installed when it first needs a back end, whatever that is; so this
module imports nothing but what Python brings, and does nothing unless `JAX_PLATFORMS` names xlapy.

Owns: whether and how the platform is registered. Must not know: what the platform does.
"""

from __future__ import annotations

import ctypes

from xlapy.pjrt.platform_name import PLATFORM_NAME


def initialize() -> None:
    """Makes JAX know the platform `xlapy`, if `JAX_PLATFORMS` (or jax.config.jax_platforms) asks for it."""
    import jax

    asked = str(jax.config.jax_platforms or "").split(",")
    if PLATFORM_NAME not in asked:
        return
    register(is_default=asked[0] == PLATFORM_NAME)
    if "cpu" not in asked:  # where JAX puts what callbacks are given
        jax.config.update("jax_platforms", ",".join([*asked, "cpu"]))


def register(is_default: bool) -> None:
    """Registers the platform and what JAX has to know of it. is_default: whether it is the default of JAX."""
    from jax._src import xla_bridge
    from jax._src.lib import _profiler

    from xlapy.pjrt.c_api.native_library import native
    from xlapy.pjrt.compile.persistent_cache import prepare_cache
    from xlapy.pjrt.jax.dlpack import prepare_interchange
    from xlapy.pjrt.jax.lowering import prepare_jax

    xla_bridge._nonexperimental_plugins.add(PLATFORM_NAME)  # JAX would warn of every other
    table = _capsule(native().table)
    xla_bridge.register_plugin(PLATFORM_NAME, priority=-100, c_api=table)
    _profiler.register_plugin_profiler(table)
    prepare_jax()
    prepare_cache()
    prepare_interchange(is_default)


def _capsule(address: int) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    made: object = new(address, _CAPSULE_NAME, None)
    return made


_CAPSULE_NAME = b"pjrt_c_api"
