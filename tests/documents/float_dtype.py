"""Makes a NumPy dtype for a floating-point format of 8 bits, as ml_dtypes does in C++: for trying and testing formats
that the installed ml_dtypes does not have yet.

The dtype has conversions to and from every other dtype, comparisons, and `isnan`.
Everything is a table of the 256 values, which callbacks of NumPy's C interface look up.
"""

from __future__ import annotations

import ctypes
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:  # processes make the dtype before they import xlapy, whose table needs it
    from xlapy.base.float_formats import FloatFormat

_SIZE = ctypes.c_ssize_t
_POINTER = ctypes.c_void_p
_CAST = ctypes.PYFUNCTYPE(None, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER)
_GET = ctypes.PYFUNCTYPE(ctypes.py_object, _POINTER, _POINTER)
_SET = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, _POINTER, _POINTER)
_COPY_MANY = ctypes.PYFUNCTYPE(None, _POINTER, _SIZE, _POINTER, _SIZE, _SIZE, ctypes.c_int, _POINTER)
_COPY = ctypes.PYFUNCTYPE(None, _POINTER, _POINTER, ctypes.c_int, _POINTER)
_COMPARE = ctypes.PYFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, _POINTER)
_NONZERO = ctypes.PYFUNCTYPE(ctypes.c_ubyte, _POINTER, _POINTER)
_LOOP = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_POINTER), ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE), _POINTER)
_USE_GETITEM_NEEDS_PYAPI = 0x30
_BOOL, _NO_SCALAR_KIND = 0, -1

_keep: list[Any] = []
"""What NumPy refers to for the rest of the process."""


class _Functions(ctypes.Structure):
    """PyArray_ArrFuncs of NumPy 2."""

    _fields_ = (
        ("cast", _POINTER * 21),
        ("getitem", _GET),
        ("setitem", _SET),
        ("copyswapn", _COPY_MANY),
        ("copyswap", _COPY),
        ("compare", _COMPARE),
        ("argmax", _POINTER),
        ("dotfunc", _POINTER),
        ("scanfunc", _POINTER),
        ("fromstr", _POINTER),
        ("nonzero", _NONZERO),
        ("fill", _POINTER),
        ("fillwithscalar", _POINTER),
        ("sort", _POINTER * 3),
        ("argsort", _POINTER * 3),
        ("castdict", _POINTER),
        ("scalarkind", _POINTER),
        ("cancastscalarkindto", _POINTER),
        ("cancastto", _POINTER),
        ("unused", _POINTER * 3),
        ("argmin", _POINTER),
    )


class _Descriptor(ctypes.Structure):
    """PyArray_DescrProto."""

    _fields_ = (
        ("references", _SIZE),
        ("type", ctypes.py_object),
        ("typeobj", ctypes.py_object),
        ("kind", ctypes.c_char),
        ("character", ctypes.c_char),
        ("byteorder", ctypes.c_char),
        ("flags", ctypes.c_ubyte),
        ("type_num", ctypes.c_int),
        ("elsize", ctypes.c_int),
        ("alignment", ctypes.c_int),
        ("subarray", _POINTER),
        ("fields", _POINTER),
        ("names", _POINTER),
        ("f", ctypes.POINTER(_Functions)),
        ("metadata", _POINTER),
        ("c_metadata", _POINTER),
        ("hash", _SIZE),
    )


def _interface(module: Any, name: str) -> Any:
    """Returns the table of functions that a module of NumPy exports."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(getattr(module, name), None), ctypes.POINTER(_POINTER))


_array = _interface(np._core._multiarray_umath, "_ARRAY_API")  # type: ignore[attr-defined]
_ufunc = _interface(np._core._multiarray_umath, "_UFUNC_API")  # type: ignore[attr-defined]
_register_type = ctypes.PYFUNCTYPE(ctypes.c_int, _POINTER)(_array[192])
_register_cast = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int, _CAST)(_array[193])
_descriptor_of = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int)(_array[45])
_initialize = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Functions))(_array[195])
_register_loop = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.c_int, _LOOP, ctypes.POINTER(ctypes.c_int), _POINTER
)(_ufunc[2])


def add_stand_in(name: str, exponent_bits: int, mantissa_bits: int, bias: int, special_values: str) -> None:
    """Adds a dtype, with its `finfo`, to ml_dtypes if it has none of this name. Call it before xlapy is imported.

    special_values: the name of a member of `SpecialValues`.
    """
    if hasattr(ml_dtypes, name):
        return
    file = Path(__file__).parents[2] / "xlapy" / "base" / "float_formats.py"
    formats = runpy.run_path(str(file), run_name="xlapy.base.float_formats")  # importing it imports xlapy
    format_: FloatFormat = formats["FloatFormat"](
        exponent_bits, mantissa_bits, bias, formats["SpecialValues"][special_values]
    )
    scalar = make_dtype(name, format_)
    setattr(ml_dtypes, name, scalar)
    ml_dtypes.finfo._finfo_cache[np.dtype(scalar)] = SimpleNamespace(  # type: ignore[attr-defined]
        bits=8,
        nexp=exponent_bits,
        nmant=mantissa_bits,
        minexp=1 - bias,
        maxexp=format_.max_exponent + 1,
        max=format_.largest,
        min=-format_.largest if format_.is_signed else 0.0,
        eps=2.0**-mantissa_bits,
        smallest_normal=2.0 ** (1 - bias),
        smallest_subnormal=format_.smallest_subnormal,
    )


def values_of(format_: FloatFormat) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns the number of each code from 0 to 255."""
    values = np.zeros(256)
    for code in range(256):
        magnitude = code & format_.magnitude_mask
        exponent, mantissa = magnitude >> format_.mantissa_bits, magnitude & ((1 << format_.mantissa_bits) - 1)
        leading = (1 << format_.mantissa_bits) if exponent else 0
        size = (leading + mantissa) * 2.0 ** (max(exponent, 1) - format_.bias - format_.mantissa_bits)
        if magnitude > format_.largest_code:
            size = np.inf if format_.has_infinity and magnitude == format_.overflow_code else np.nan
        values[code] = -size if code & format_.sign_mask else size
    return values


def codes_of(numbers: Any, format_: FloatFormat, values: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Rounds numbers to the nearest value, ties to even codes; without sign bit, negative numbers are NaN."""
    numbers = np.asarray(numbers, np.float64)
    largest, nan = format_.largest_code, format_.nan_code
    finite = values[: largest + 1]
    size = np.abs(numbers)
    above = np.clip(np.searchsorted(finite, size), 1, largest)
    low, high = finite[above - 1], finite[above]
    is_high = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    codes = np.where(is_high, above, above - 1)
    limit = format_.largest + 2.0 ** (format_.max_exponent - format_.mantissa_bits - 1)
    codes = np.where((size >= limit) | np.isinf(size), format_.overflow_code, codes)
    assert nan is not None
    if format_.sign_mask:
        codes = codes | np.where(np.signbit(numbers), format_.sign_mask, 0)
    else:
        codes = np.where(numbers < 0, nan, codes)
    return np.where(np.isnan(numbers), nan, codes).astype(np.uint8)


def _view(address: int, count: int, dtype: np.dtype[Any], stride: int | None = None) -> Any:
    """Returns the memory at an address as an array."""
    step = dtype.itemsize if stride is None else stride
    length = max(1, (count - 1) * abs(step) + dtype.itemsize)
    buffer = (ctypes.c_ubyte * length).from_address(address)
    return np.ndarray((count,), dtype, buffer, strides=(step,))


class _Element:
    """An element that was read from an array."""

    dtype: np.dtype[Any]
    shape = ()
    ndim = 0
    size = 1
    itemsize = 1

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __repr__(self) -> str:
        return repr(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = np.empty((), self.dtype)
        array[()] = self.value
        return array if dtype is None else array.astype(dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__array__(), name)


def make_dtype(name: str, format_: FloatFormat) -> type[np.generic]:
    """Returns the scalar type of a new dtype."""
    values = values_of(format_)
    byte = np.dtype(np.uint8)

    element = type("Element", (_Element,), {})

    def number_at(address: int) -> float:
        return float(values[ctypes.c_ubyte.from_address(address).value])

    def read(address: int, _: Any) -> Any:
        return element(number_at(address))

    def write(value: Any, address: int, _: Any) -> int:
        ctypes.c_ubyte.from_address(address).value = int(codes_of(float(value), format_, values))
        return 0

    def copy_many(to: int, to_step: int, source: int, step: int, count: int, _: int, __: Any) -> None:
        if source and count:
            _view(to, count, byte, to_step)[:] = _view(source, count, byte, step).copy()

    def copy(to: int, source: int, _: int, __: Any) -> None:
        if source:
            ctypes.memmove(to, source, 1)

    def compare(a: int, b: int, _: Any) -> int:
        left, right = number_at(a), number_at(b)
        return (left > right) - (left < right)

    functions = _Functions()
    _initialize(functions)
    functions.getitem, functions.setitem = _GET(read), _SET(write)
    functions.copyswapn, functions.copyswap = _COPY_MANY(copy_many), _COPY(copy)
    functions.compare = _COMPARE(compare)
    functions.nonzero = _NONZERO(lambda address, _: int(number_at(address) != 0))

    def new(cls: type, value: Any = 0) -> Any:
        return np.asarray(value).astype(cls.dtype)[()]  # type: ignore[attr-defined]

    scalar = type(name, (np.generic,), {"__new__": new, "__slots__": (), "__module__": __name__})
    prototype = _Descriptor(
        references=1,
        type=np.dtype,
        typeobj=scalar,
        kind=b"V",
        character=b"8",
        byteorder=b"=",
        flags=_USE_GETITEM_NEEDS_PYAPI,
        elsize=1,
        alignment=1,
        f=ctypes.pointer(functions),
        hash=-1,
    )
    number = _register_type(ctypes.addressof(prototype))
    descriptor = _descriptor_of(number)
    scalar.dtype = element.dtype = descriptor  # type: ignore[attr-defined]
    _keep.extend([functions, prototype, scalar, descriptor])
    globals()[name] = scalar  # where pickle looks for it
    _add_casts(descriptor, number, format_, values)
    _add_loops(number, values)
    return scalar


def _add_casts(descriptor: Any, number: int, format_: FloatFormat, values: Any) -> None:
    """Registers the conversions to and from all other dtypes."""
    byte = np.dtype(np.uint8)
    natives = [np.dtype(c) for c in "?bBhHiIlLqQefdFD"]
    others = [np.dtype(getattr(ml_dtypes, each)) for each in dir(ml_dtypes) if each[-1].isdigit() or "fn" in each]

    def to_other(dtype: np.dtype[Any]) -> Callable[..., None]:
        def cast(source: int, to: int, count: int, _: Any, __: Any) -> None:
            with np.errstate(all="ignore"):
                numbers = values[_view(source, count, byte)]
                _view(to, count, dtype)[:] = numbers.astype(np.float32).astype(dtype)

        return cast

    def from_other(dtype: np.dtype[Any]) -> Callable[..., None]:
        def cast(source: int, to: int, count: int, _: Any, __: Any) -> None:
            numbers = _view(source, count, dtype)
            wide = numbers.real if dtype.kind == "c" else numbers
            _view(to, count, byte)[:] = codes_of(wide.astype(np.float64), format_, values)

        return cast

    for dtype in [*natives, *others]:
        there, back = _CAST(to_other(dtype)), _CAST(from_other(dtype))
        _keep.extend([there, back])
        assert _register_cast(descriptor, dtype.num, there) == 0
        assert _register_cast(dtype, number, back) == 0


def _add_loops(number: int, values: Any) -> None:
    """Registers comparisons, and `isnan`."""
    byte, boolean = np.dtype(np.uint8), np.dtype(np.bool_)

    def loop_of(function: Any, operands: int) -> Callable[..., None]:
        def loop(arguments: Any, sizes: Any, steps: Any, _: Any) -> None:
            count = sizes[0]
            given = [values[_view(arguments[k], count, byte, steps[k])] for k in range(operands)]
            _view(arguments[operands], count, boolean, steps[operands])[:] = function(*given)

        return loop

    for function in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan):
        operands = function.nin
        types = (ctypes.c_int * (operands + 1))(*[number] * operands, _BOOL)
        loop = _LOOP(loop_of(function, operands))
        _keep.append(loop)
        assert _register_loop(function, number, loop, types, None) == 0
