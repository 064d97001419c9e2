"""DLPack: arrays of this platform for other libraries, and theirs for it, without copies.

JAX knows by the name of a platform whether its memory is the host's. Ours is: what leaves goes as an array of JAX's CPU
that shows the same memory; what comes is a view.

Owns: these changes to JAX. Must not know: handles.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax._src import array, dlpack

from xlapy.pjrt.platform_name import PLATFORM_NAME

_to = dlpack._to_dlpack
_device = array.ArrayImpl.__dlpack_device__


def prepare_interchange(is_default: bool) -> None:
    """is_default: what comes from the host's memory is for this platform, not for JAX's CPU."""
    dlpack._to_dlpack = to_dlpack
    array.ArrayImpl.__dlpack_device__ = device_of
    if is_default:
        dlpack._DL_DEVICE_TO_PLATFORM[dlpack.DLDeviceType.kDLCPU] = PLATFORM_NAME


def device_of(given: Any) -> tuple[Any, int]:
    """Which memory an array is in, as DLPack says it."""
    return (dlpack.DLDeviceType.kDLCPU, 0) if given.platform() == PLATFORM_NAME else _device(given)


def to_dlpack(
    given: Any, stream: Any = None, src_device: Any = None, device: Any = None, copy: bool | None = None
) -> object:
    """A capsule. `ValueError` if it would show other memory though `copy` is False."""
    if given.platform() != PLATFORM_NAME or (device is not None and device.platform != PLATFORM_NAME):
        return _to(given, stream, src_device, device, copy)
    shown = jax.device_put(np.asarray(given), jax.devices("cpu")[0])
    if copy is False and shown.unsafe_buffer_pointer() != given.unsafe_buffer_pointer():
        raise ValueError(f"{given.shape} of {given.dtype} must be copied for DLPack, and copy=False")
    return _to(shown, stream, None, None, copy)
