"""Reads the arrays in .npy and .npz files that may come from anywhere.

Pickled objects are refused. Memory is allocated for elements that are in the file, not for those that a header claims:
the sizes of a header are compared with the size of the file or archive entry before anything is read. An entry of an
archive may be a thousand times larger than its compressed form, so the caller bounds the size of an array.

Responsible for the file formats. Does not depend on what the arrays are for.
"""

from __future__ import annotations

import ast
import os
import zipfile
import zlib
from math import prod
from typing import IO, Any

import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.system_memory import available_bytes

Array = np.ndarray[Any, Any]

_ZIP_MAGIC = b"PK"
_NPY_ENDING = ".npy"
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
"""The size of the field that holds the length of the header, by version."""
_MAX_HEADER_BYTES = 10_000
_PIECE_BYTES = 1 << 20
_MALFORMED = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error,
    ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, SyntaxError,
    TypeError, ValueError,
)  # fmt: skip
"""What Python's readers of archives and literals and NumPy's reader of element types raise for malformed data."""


def read_array_file(path: str, max_bytes: int) -> Array | dict[str, Array]:
    """Reads the array of a .npy file, or the arrays of a .npz file by name, in order.

    max_bytes: the largest size of an array in bytes. Raises `OSError` if the file cannot be read, and
    `InvalidArgumentError` if it is not a .npy or .npz file of plain arrays, or an array in it is too large.
    """
    with open(path, "rb") as file:
        return read_arrays(file, path, max_bytes)


def read_arrays(file: IO[bytes], name: str, max_bytes: int) -> Array | dict[str, Array]:
    """Reads an open file, as `read_array_file`; errors call it `name`."""
    try:
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        magic = file.read(len(_ZIP_MAGIC))
        file.seek(start)
        return _archive(file, max_bytes) if magic == _ZIP_MAGIC else _array(file, size, max_bytes)
    except MemoryError as error:
        raise InvalidArgumentError(codes.ARRAY_FILE, f"{name} does not fit in memory: {error}") from error
    except _MALFORMED as error:
        raise InvalidArgumentError(
            codes.ARRAY_FILE, f"{name} is not a .npy or .npz file of plain arrays: {error}"
        ) from error
    except _TooLargeError as error:
        raise InvalidArgumentError(codes.ARRAY_FILE, f"{name} does not fit in memory: {error}") from error


class _TooLargeError(Exception):
    """An array is larger than the caller or the machine allows."""


def _archive(file: IO[bytes], max_bytes: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(
                    f"{entry.filename} is compressed by method {entry.compress_type}, which NumPy does not use"
                )
            with archive.open(entry) as stream:
                arrays[entry.filename.removesuffix(_NPY_ENDING)] = _array(stream, entry.file_size, max_bytes)
    return arrays


def _array(stream: IO[bytes], size: int, max_bytes: int) -> Array:
    """Reads an array from a stream that holds `size` bytes, header included."""
    shape, is_fortran, dtype = _header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"the sizes {shape} are negative")
    count = prod(shape)
    length = count * dtype.itemsize
    if length > size:
        raise ValueError(f"its header claims {length} bytes of elements in {size} bytes")
    if length > max_bytes:
        raise _TooLargeError(f"an array takes {length} bytes, arrays of the program at most {max_bytes}")
    if length > available_bytes():
        raise _TooLargeError(f"an array takes {length} bytes, {available_bytes()} are available")
    flat = _elements(stream, length).view(dtype) if count else np.empty(0, dtype)
    return flat.reshape(shape[::-1]).transpose() if is_fortran else flat.reshape(shape)


def _elements(stream: IO[bytes], length: int) -> Array:
    """Reads bytes piece by piece, since an archive holds all that is read at once in memory twice."""
    data = np.empty(length, np.uint8)
    view, done = data.data, 0
    while done < length:
        piece = stream.read(min(_PIECE_BYTES, length - done))
        if not piece:
            raise ValueError(f"it has {done} bytes of elements, its header says {length}")
        view[done : done + len(piece)] = piece
        done += len(piece)
    return data


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads a header: the sizes, whether the first dimension is the minor-most, and the element type.

    NumPy's own reader first looks for integers as Python 2 writes them, in time that grows with the square of a header.
    """
    version = np.lib.format.read_magic(stream)
    if version not in _LENGTH_BYTES:
        raise ValueError(f"version {version[0]}.{version[1]} of the format is not supported")
    length = int.from_bytes(stream.read(_LENGTH_BYTES[version]), "little")
    if length > _MAX_HEADER_BYTES:
        raise ValueError(f"its header has {length} bytes, at most {_MAX_HEADER_BYTES} are read")
    text = stream.read(length)
    if len(text) != length:
        raise ValueError(f"it ends within its header of {length} bytes")
    try:
        fields = ast.literal_eval(text.decode("latin1").strip())
    except (MemoryError, RecursionError) as error:  # what Python's parser raises for deep nesting
        raise ValueError("its header is nested too deeply") from error
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header is not a dictionary of 'descr', 'fortran_order' and 'shape'")
    shape, is_fortran = fields["shape"], fields["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise ValueError(f"its 'shape' is not a tuple of integers: {shape!r:.80}")
    if not isinstance(is_fortran, bool):
        raise ValueError(f"its 'fortran_order' is not True or False: {is_fortran!r:.80}")
    return shape, is_fortran, np.lib.format.descr_to_dtype(fields["descr"])
