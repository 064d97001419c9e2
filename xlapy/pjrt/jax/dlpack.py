"""DLPack exchange between arrays of this platform and other libraries, without copies.

JAX decides by the platform's name whether its memory is the host's, and does not know this platform. An exported array
therefore goes out as an array of JAX's CPU on the same memory, and an imported array becomes a view.

Responsible for these patches of JAX. Does not depend on handles.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax._src import array as jax_array
from jax._src import dlpack

from xlapy.pjrt.platform_name import PLATFORM_NAME

_original_to_dlpack = dlpack._to_dlpack
_original_device = jax_array.ArrayImpl.__dlpack_device__


def patch_dlpack(is_default: bool) -> None:
    """Patches JAX. is_default: whether imported host arrays become arrays of this platform rather than of JAX's CPU."""
    dlpack._to_dlpack = to_dlpack
    jax_array.ArrayImpl.__dlpack_device__ = device_of
    if is_default:
        dlpack._DL_DEVICE_TO_PLATFORM[dlpack.DLDeviceType.kDLCPU] = PLATFORM_NAME


def device_of(array: Any) -> tuple[Any, int]:
    """The DLPack device of an array."""
    return (dlpack.DLDeviceType.kDLCPU, 0) if array.platform() == PLATFORM_NAME else _original_device(array)


def to_dlpack(
    array: Any, stream: Any = None, src_device: Any = None, device: Any = None, copy: bool | None = None
) -> object:
    """Exports an array as a DLPack capsule. `ValueError` if that needs a copy although `copy` is False."""
    if array.platform() != PLATFORM_NAME or (device is not None and device.platform != PLATFORM_NAME):
        return _original_to_dlpack(array, stream, src_device, device, copy)
    view = jax.device_put(np.asarray(array), jax.local_devices(backend="cpu")[0])
    if copy is False and view.unsafe_buffer_pointer() != array.unsafe_buffer_pointer():
        raise ValueError(f"{array.shape} of {array.dtype} must be copied for DLPack, and copy=False")
    return _original_to_dlpack(view, stream, None, None, copy)
