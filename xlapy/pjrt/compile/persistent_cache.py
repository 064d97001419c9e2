"""JAX's persistent compilation cache (jax_compilation_cache_dir) for this platform.

JAX caches programs of the platforms whose names it knows. xlapy implements everything that the cache needs (serialized
executables, a fingerprint of what they depend on), so JAX is made to treat it like its CPU.

Responsible for these two patches of JAX. Does not depend on the format of serialized executables.
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


def patch_compilation_cache() -> None:
    """Makes JAX cache programs of this platform, if it caches any."""
    compilation_cache.is_cache_used = is_cache_used
    compilation_cache.put_executable_and_time = put_executable_and_time


def is_cache_used(backend: Any) -> bool:
    if backend.platform == PLATFORM_NAME:
        backend = SimpleNamespace(platform="cpu", supports_executable_serialization=True)
    return _is_used(backend)


def put_executable_and_time(cache_key: str, module_name: str, executable: Any, backend: Any, compile_time: int) -> None:
    """Stores an executable, unless it calls Python, which JAX does not store for its CPU either."""
    try:
        _put(cache_key, module_name, executable, backend, compile_time)
    except jax.errors.JaxRuntimeError as error:
        if backend.platform != PLATFORM_NAME or not str(error).startswith("UNIMPLEMENTED"):
            raise
        logger.info("%s is not cached: %s", module_name, error)
