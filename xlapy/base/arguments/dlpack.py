"""Reads arrays of other libraries in place, through the array protocols of NumPy and through DLPack.

Responsible for the element types that DLPack has and NumPy lacks: BF16 and the 8-bit floating-point types. Does not
depend on who takes the arrays.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

_UNSIGNED = 1
"""The type code of unsigned integers in DLPack."""

_FLOATS: dict[tuple[int, int], Any] = {
    (4, 16): ml_dtypes.bfloat16,
    (7, 8): ml_dtypes.float8_e3m4,
    (8, 8): ml_dtypes.float8_e4m3,
    (9, 8): ml_dtypes.float8_e4m3b11fnuz,
    (10, 8): ml_dtypes.float8_e4m3fn,
    (11, 8): ml_dtypes.float8_e4m3fnuz,
    (12, 8): ml_dtypes.float8_e5m2,
    (13, 8): ml_dtypes.float8_e5m2fnuz,
    (14, 8): ml_dtypes.float8_e8m0fnu,
}
"""The NumPy types of DLPack's type codes and bits, for types that NumPy does not read from DLPack."""


class _Tensor(ctypes.Structure):
    """The first fields of DLPack's `DLManagedTensor`, up to the element type."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


_pointer_of: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""A prototype of its own: anyone may change the types of `ctypes.pythonapi.PyCapsule_GetPointer`."""


class _Exporter:
    """An object that exports a capsule which exists."""

    def __init__(self, capsule: object, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def array_of(value: Any) -> np.ndarray[Any, Any]:
    """Returns an object with `__array__` or `__dlpack__` as an array on the same memory, if the object permits that.

    Raises the error of the object or of NumPy: a TypeError, ValueError, BufferError or RuntimeError.
    """
    if not hasattr(value, "__array__"):
        return _from_dlpack(value)
    try:
        return np.asarray(value)
    except TypeError as error:  # PyTorch has no NumPy array of BF16, but a DLPack tensor
        if not hasattr(value, "__dlpack__"):
            raise
        try:
            return _from_dlpack(value)
        except (TypeError, ValueError, BufferError, RuntimeError):
            raise error from None


def _from_dlpack(value: Any) -> np.ndarray[Any, Any]:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        array = _float_array(value)
        if array is None:
            raise error from None
        return array


def _float_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Returns an array of one of the types `_FLOATS`; None if the object has another one.

    NumPy reads the elements as unsigned integers: the capsule is this function's own, and says so.
    """
    capsule = value.__dlpack__()
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    dtype = _FLOATS.get((tensor.type_code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        return None
    tensor.type_code = _UNSIGNED
    return np.from_dlpack(_Exporter(capsule, value.__dlpack_device__())).view(dtype)
