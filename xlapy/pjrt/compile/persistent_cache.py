"""JAX's persistent compilation cache (jax_compilation_cache_dir) for this platform.

JAX keeps programs of platforms whose names it knows. Everything it needs is here as well (executables as bytes, a
fingerprint of what they depend on), so it is asked as for its CPU.

Owns: these two changes to JAX. Must not know: what the bytes are.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
from jax._src import compilation_cache

from xlapy.base.logging import logger
from xlapy.pjrt.platform_name import PLATFORM_NAME

_is_used = compilation_cache.is_cache_used
_put = compilation_cache.put_executable_and_time


def prepare_cache() -> None:
    """Has JAX keep programs of this platform, where it keeps any."""
    compilation_cache.is_cache_used = is_cache_used
    compilation_cache.put_executable_and_time = put_executable_and_time


def is_cache_used(backend: Any) -> bool:
    if backend.platform == PLATFORM_NAME:
        backend = SimpleNamespace(platform="cpu", supports_executable_serialization=True)
    return _is_used(backend)


def put_executable_and_time(cache_key: str, module_name: str, executable: Any, backend: Any, compile_time: int) -> None:
    """What calls Python is not kept, as JAX does not keep it on its CPU."""
    try:
        _put(cache_key, module_name, executable, backend, compile_time)
    except jax.errors.JaxRuntimeError as error:
        if backend.platform != PLATFORM_NAME or not str(error).startswith("UNIMPLEMENTED"):
            raise
        logger.info("%s is not kept: %s", module_name, error)
