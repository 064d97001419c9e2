"""Custom calls to LAPACK: targets like `lapack_sgetrf_ffi`, which JAX uses on CPU."""

from xlapy.custom_calls.lapack.calls import (
    FINITE_ONLY,
    LapackCall,
    is_lapack_target,
    lapack_call,
    lapack_target_name,
    lapack_targets,
)

__all__ = [
    "FINITE_ONLY",
    "LapackCall",
    "is_lapack_target",
    "lapack_call",
    "lapack_targets",
    "lapack_target_name",
]
