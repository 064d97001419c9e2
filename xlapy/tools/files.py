"""Reads programs and arrays from files, and writes arrays to files.

Responsible for file formats and their errors. Files are written under a temporary name and then renamed.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click
import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.runtime.storage.array_files import read_array_file
from xlapy.tools.formats import format_of, read_module
from xlapy.tools.reproducer import StandardInput

MAX_PROGRAM_BYTES = 1 << 30
_NUMBERED = re.compile(r"(.+)\.\d+")

Array = np.ndarray[Any, Any]


def read_program(path: str, *, verify: bool = True) -> Module:
    """Reads a program in any of the formats of `xlapy.tools.formats`; `-` is standard input."""
    return parse_program(path, read_bytes(path), verify=verify)


def read_bytes(path: str) -> bytes:
    """Returns the bytes of a file that holds a program; `-` is standard input."""
    data = _read_standard_input() if path == "-" else _read_file(path)
    if len(data) > MAX_PROGRAM_BYTES:
        raise InvalidArgumentError(codes.PROGRAM_FILE, f"{_shown(path)} is larger than {MAX_PROGRAM_BYTES} bytes")
    return data


def _shown(path: str) -> str:
    return "<stdin>" if path == "-" else path


def parse_program(path: str, data: bytes, *, verify: bool = True) -> Module:
    """Parses the contents of `path`; the name or the contents determine the format."""
    return read_module(_shown(path), data, format_of(path, data), verify)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_PROGRAM_BYTES + 1)


def _read_standard_input() -> bytes:
    if sys.stdin is None:
        raise InvalidArgumentError(codes.STANDARD_INPUT, "standard input is closed")
    data = sys.stdin.buffer.read(MAX_PROGRAM_BYTES + 1)
    context = click.get_current_context(silent=True)
    if context is not None and isinstance(context.obj, StandardInput):
        context.obj.data = data
    return data


# -- arguments


def read_arguments(paths: Sequence[str], program: ProgramShape) -> list[Any]:
    """Reads the arguments in .npy and .npz files: a .npy is one leaf; the entries of a .npz are matched by name or in
    order.

    A single .npz is read by name if it has an entry for each parameter. A parameter that was renamed to `x.1`, because
    another computation has an `x`, also matches the entry `x`. Tuple parameters take one array per leaf, in order.
    """
    leaves = [leaf for parameter in program.parameters for _, leaf in parameter.leaves() if leaf.is_array]
    loaded = [_load(path, leaves) for path in paths]
    if len(loaded) == 1 and isinstance(loaded[0], dict):
        ordered = _by_name(loaded[0], paths[0], program) or list(loaded[0].values())
    else:
        ordered = [array for one in loaded for array in (one.values() if isinstance(one, dict) else [one])]
    if len(ordered) != len(leaves):
        raise InvalidArgumentError(
            codes.INPUT_FILES,
            f"the program takes {len(leaves)} arrays, the input files hold {len(ordered)}: {program.to_text()}",
        )
    typed = iter([_with_type(array, leaf) for array, leaf in zip(ordered, leaves, strict=True)])
    return [_nest(parameter, typed) for parameter in program.parameters]


def read_infeeds(path: str, shapes: Sequence[Shape]) -> list[Any]:
    """Reads values for infeeds of the given shapes, which repeat cyclically: the arrays of a .npy or .npz file in
    order, one per leaf.
    """
    if not shapes:
        raise InvalidArgumentError(codes.INPUT_FILES, f"{path}: the program has no infeed")
    loaded = _load(path, [leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array])
    arrays = list(loaded.values()) if isinstance(loaded, dict) else [loaded]
    values: list[Any] = []
    for shape in itertools.cycle(shapes):
        leaves = [leaf for _, leaf in shape.leaves() if leaf.is_array]
        if not arrays:
            return values
        if len(arrays) < len(leaves) or not leaves:
            raise InvalidArgumentError(
                codes.INPUT_FILES,
                f"{path}: infeed {len(values)} takes {len(leaves)} arrays "
                f"({shape.to_text(layout=False)}), {len(arrays)} are left",
            )
        typed = iter([_with_type(array, leaf) for array, leaf in zip(arrays, leaves, strict=False)])
        values.append(_nest(shape, typed))
        del arrays[: len(leaves)]
    raise AssertionError("cycles have no end")


def _by_name(entries: Mapping[str, Array], path: str, program: ProgramShape) -> list[Array] | None:
    """Returns the entries in the order of the parameters; None if they are not named after the parameters."""
    names = list(program.parameter_names)
    for wanted in (names, [_written_name(name) for name in names]):
        given = [name for name in wanted if name in entries]
        if len(given) == len(set(wanted)) == len(wanted):
            return [entries[name] for name in wanted]
        if given and len(set(wanted)) == len(wanted):
            missing = ", ".join(name for name in wanted if name not in entries)
            raise InvalidArgumentError(
                codes.INPUT_FILES, f"{path} has no array named {missing}; it has {', '.join(entries)}"
            )
    return None


def _written_name(name: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return match[1] if match else name


_MAX_ELEMENT_BYTES = 16
"""Bytes of the widest element, c128: a file may hold elements of another type, which is an error of its own."""
_MIN_ARRAY_BYTES = 1 << 20


def _load(path: str, shapes: Sequence[Shape]) -> Array | dict[str, Array]:
    """Reads the arrays in a file. shapes: those that the program takes, which bound the size of each array."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    largest = max((shape.size for shape in shapes), default=0) * _MAX_ELEMENT_BYTES
    return read_array_file(path, max(largest, _MIN_ARRAY_BYTES))


def _with_type(array: Array, shape: Shape) -> Array:
    """Restores types that NumPy's file format does not support (bfloat16, float8 ...), which are stored as raw bytes.

    The byte order of the file does not matter.
    """
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == shape.dtype.itemsize:
        return array.view(shape.dtype)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _nest(shape: Shape, leaves: Iterator[Array]) -> Any:
    if shape.is_tuple:
        return tuple(_nest(element, leaves) for element in shape.tuple_shapes)
    return next(leaves) if shape.is_array else None


# -- results


def check_writable(path: str) -> None:
    """Raises `OSError` if a file with this name cannot be written, so that a long run does not end in vain."""
    target = Path(path).resolve()
    if _is_special(path):
        place = Path(path)
    elif target.parent.is_dir():
        place = target.parent
    else:
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", path)
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _is_special(path: str) -> bool:
    """Whether the path is a device, a pipe or the like: `/dev/null` must not be replaced by a file."""
    return os.path.exists(path) and not os.path.isfile(path)


def write_file(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Writes a file atomically. Special files (a pipe, /dev/null) are written directly."""
    check_writable(path)
    if _is_special(path):
        whole = io.BytesIO()  # some writers seek
        write(whole)
        with open(path, "wb") as file:
            file.write(whole.getvalue())
        return
    target = Path(path).resolve()
    handle, temporary = tempfile.mkstemp(prefix=".xlapy-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _mode(target: Path) -> int:
    """Returns the permissions of the file that is replaced, or those of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def save_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Saves arrays as .npz; types unknown to NumPy's format are stored as raw bytes of the same width."""
    raw: dict[str, Any] = {name: _storable(array) for name, array in arrays.items()}
    write_file(path, lambda file: np.savez(file, **raw))


def _storable(array: Array) -> Array:
    return array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}")
