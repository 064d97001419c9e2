"""Broken .npy and .npz files give one clear error without a traceback, and pickled objects are never loaded."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.tools.programs import AXPY
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.runtime.storage.array_files import read_array_file
from xlapy.tools.command_line import invoke
from xlapy.tools.files import read_arguments

SHAPE = Shape.parse("f32[3]")
ONE = ProgramShape([SHAPE], SHAPE, ["x"])


def file_bytes(write: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


ARRAY = np.arange(3, dtype=np.float32)
NPY = file_bytes(lambda stream: np.save(stream, ARRAY))
NPZ = file_bytes(lambda stream: np.savez(stream, x=ARRAY))
COMPRESSED = file_bytes(lambda stream: np.savez_compressed(stream, x=ARRAY))
OBJECTS = file_bytes(lambda stream: np.save(stream, np.array([{}, 1], dtype=object), allow_pickle=True))
OBJECTS_INSIDE = file_bytes(lambda stream: np.savez(stream, allow_pickle=True, x=np.array([os.system], dtype=object)))
HUGE = NPY.replace(b"(3,)", b"(9" + b"0" * 14 + b",)").replace(b" " * 14 + b"\n", b"\n")


def with_header(text: str) -> bytes:
    """A file of the array with another header."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1") + ARRAY.tobytes()


BROKEN = {
    "empty": b"",
    "text": b"HloModule m",
    "zeros": bytes(1000),
    "objects": OBJECTS,
    "objects in an archive": OBJECTS_INSIDE,
    "truncated array": NPY[:-3],
    "truncated header": NPY[:40],
    "truncated archive": NPZ[:-30],
    "an archive of nonsense": NPZ.replace(b"NUMPY", b"numpy"),
    "more elements than memory": HUGE,
    "header with spaces and no end": with_header("{'descr': '<f4', 'shape': (3" + " " * 9000),
    "header of 60,000 bytes": with_header("{}" + " " * 60_000),
    "deeply nested header": with_header("(" * 9000),
    "header without sizes": with_header("{'descr': '<f4', 'fortran_order': False}"),
    "sizes that are not integers": with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 'x')}"),
    "order that is not a flag": with_header("{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str):
    (tmp_path / "axpy.hlo").write_text(AXPY)
    (tmp_path / "broken.npz").write_bytes(BROKEN[kind])
    assert invoke(["run", str(tmp_path / "axpy.hlo"), "--input", str(tmp_path / "broken.npz")]) == 1
    message = capsys.readouterr().err
    start = f"xlapy: {tmp_path}/broken.npz "
    assert message.startswith(
        (f"{start}is not a .npy or .npz file of plain arrays: ", f"{start}does not fit in memory: ")
    )


def test_valid_files(tmp_path: Path):
    for data in (NPY, NPZ, COMPRESSED):
        (tmp_path / "sound").write_bytes(data)
        (array,) = read_arguments([str(tmp_path / "sound")], ONE)
        assert np.array_equal(array, ARRAY)


@pytest.mark.parametrize("array", [ARRAY, np.asfortranarray(np.ones((3, 4))), np.array(5), np.zeros((0, 3), "i1")])
def test_versions_of_the_format(tmp_path: Path, array: np.ndarray):
    for version in ((1, 0), (2, 0)):
        data = file_bytes(lambda stream, version=version: np.lib.format.write_array(stream, array, version))
        (tmp_path / "x.npy").write_bytes(data)
        read = read_array_file(str(tmp_path / "x.npy"), 1 << 20)
        assert isinstance(read, np.ndarray)
        assert (read.dtype, read.shape) == (array.dtype, array.shape)
        assert read.flags.f_contiguous == array.flags.f_contiguous
        assert np.array_equal(read, array)


def test_missing_files_and_directories(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read_arguments([str(tmp_path / "none.npy")], ONE)
    with pytest.raises(IsADirectoryError):
        read_arguments([str(tmp_path)], ONE)


def test_mutated_files(tmp_path: Path):
    rng = random.Random(3)
    refused = 0
    for _ in range(400):
        data = bytearray(rng.choice((NPY, NPZ, COMPRESSED)))
        for _ in range(rng.choice((1, 1, 2, 5))):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        path = tmp_path / "mutated"
        path.write_bytes(data)
        try:
            read_arguments([str(path)], ONE)
        except InvalidArgumentError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 200


def test_arrays_larger_than_a_piece_are_read_whole(tmp_path: Path):
    """Archives are read piece by piece."""
    values = np.random.default_rng(3)
    arrays = {
        "x": values.integers(-30000, 30000, 700_001, np.int16),
        "y": np.asfortranarray(values.random((1000, 701), np.float32)),
        "z": np.empty((3, 0), np.float64),
    }
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **arrays)
    read = read_array_file(str(path), 1 << 22)
    assert isinstance(read, dict)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
