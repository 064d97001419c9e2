"""Linear algebra by custom calls to LAPACK: targets like `lapack_sgetrf_ffi`, which JAX makes on CPU."""

from xlapy.custom_calls.lapack.calls import (
    FINITE_ONLY,
    LapackCall,
    is_lapack_target,
    lapack_call,
    lapack_targets,
    target_of,
)
from xlapy.custom_calls.lapack.rules import check_lapack, computed_by_lapack, lapack

__all__ = [
    "FINITE_ONLY",
    "LapackCall",
    "check_lapack",
    "computed_by_lapack",
    "is_lapack_target",
    "lapack",
    "lapack_call",
    "lapack_targets",
    "target_of",
]
