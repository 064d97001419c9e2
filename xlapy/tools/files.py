"""Reading programs and arrays from files, and writing arrays to them.

Owns: file forms and their errors. Writing goes to a temporary file first, which then takes the name.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo

MAX_PROGRAM_BYTES = 1 << 30


def read_program(path: str, *, verify: bool = True) -> Module:
    """Parses a file of HLO text; `-` is standard input."""
    name = "<stdin>" if path == "-" else path
    if path == "-":
        data = sys.stdin.buffer.read(MAX_PROGRAM_BYTES + 1)
    else:
        with open(path, "rb") as file:
            data = file.read(MAX_PROGRAM_BYTES + 1)
    if len(data) > MAX_PROGRAM_BYTES:
        raise InvalidArgumentError(f"{name} is larger than {MAX_PROGRAM_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{name} is not HLO text: byte {error.start} is not UTF-8") from error
    return parse_hlo(text, verify=verify, filename=name)


def read_arguments(paths: Sequence[str], program: ProgramShape) -> list[Any]:
    """The arguments that .npy and .npz files hold, a .npy one leaf, the entries of a .npz by name or in order.

    Entries of a .npz named after all parameters are matched by name. Tuple parameters take one array a leaf.
    """
    named: dict[str, np.ndarray[Any, Any]] = {}
    ordered: list[np.ndarray[Any, Any]] = []
    for path in paths:
        loaded = _load(path)
        if isinstance(loaded, np.ndarray):
            ordered.append(loaded)
        elif not ordered and set(program.parameter_names) <= set(loaded) and program.parameter_names:
            named.update(loaded)
        else:
            ordered.extend(loaded.values())
    if named:
        ordered = [named[name] for name in program.parameter_names] + ordered
    leaves = [leaf for parameter in program.parameters for _, leaf in parameter.leaves() if leaf.is_array]
    if len(ordered) != len(leaves):
        raise InvalidArgumentError(
            f"the program takes {len(leaves)} arrays, the input files hold {len(ordered)}: {program.to_text()}"
        )
    typed = iter([_with_type(array, leaf) for array, leaf in zip(ordered, leaves, strict=True)])
    return [_nest(parameter, typed) for parameter in program.parameters]


def _load(path: str) -> np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]]:
    try:
        loaded = np.load(path, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidArgumentError(f"{path} is not a .npy or .npz file of plain arrays: {error}") from error


def _with_type(array: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """Types that NumPy's file format does not know (bfloat16, float8 ...) come back as raw bytes; give them their type."""
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == shape.dtype.itemsize:
        return array.view(shape.dtype)
    return array


def _nest(shape: Shape, leaves: Any) -> Any:
    if shape.is_tuple:
        return tuple(_nest(element, leaves) for element in shape.tuple_shapes)
    return next(leaves) if shape.is_array else None


def write_file(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Writes a file whole or not at all."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=target.name + ".", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_arrays(path: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Saves arrays as .npz; types unknown to NumPy's format are stored as raw bytes of their width."""
    raw: dict[str, Any] = {name: _storable(array) for name, array in arrays.items()}
    write_file(path, lambda file: np.savez(file, **raw))


def _storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}")
