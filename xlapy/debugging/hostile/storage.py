"""Serialized executables, entries of the compile cache, array files, and configurations of custom calls.

An executable's machine code can do anything, so damage to it must be found by the checksum. Everything else in an
executable is also damaged behind a correct checksum.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xlapy.runtime.storage.serialized as serialized_executable
from xlapy.base.container import compress, expand, pack, unpack
from xlapy.base.errors import XlaError
from xlapy.cpu.serialization import executable as cpu_program
from xlapy.cpu.serialization.executable import deserialize_program
from xlapy.custom_calls.ffi.attributes import read_attributes
from xlapy.debugging.hostile.formats import HostileFormat
from xlapy.debugging.hostile.mutations import BYTE_MUTATIONS, TEXT_MUTATIONS, Mutation, mutated
from xlapy.debugging.hostile.use import use_module
from xlapy.runtime import Client
from xlapy.runtime.storage import compile_cache
from xlapy.runtime.storage.array_files import read_arrays
from xlapy.runtime.storage.serialized import platform_and_device_count
from xlapy.text import parse_hlo

_PROGRAMS = (
    "HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }",
    "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
    "ENTRY e { p = (f32[4]) parameter(0)  g = f32[4] get-tuple-element(p), index=0\n"
    "c = f32[4] constant({1, 2, 3, 4})  ROOT n = f32[4] add(g, c) }".replace("(0, {}", "(0, {0}"),
    "HloModule m, replica_count=2\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
    "ENTRY e { p = f32[2,3] parameter(0)  ROOT r = f32[2,3] all-reduce(p), replica_groups={}, to_apply=add }",
    "HloModule m\nENTRY e { p = f32[3] parameter(0)  t = token[] after-all()  o = token[] outfeed(p, t), "
    "outfeed_shape=f32[3]  ROOT n = f32[3] negate(p) }",
)
_BOMB_BYTES = 300 << 20
_MAX_ARRAY_BYTES = 1 << 20


# -- executables


def _client() -> Client:
    return Client("cpu", devices=4)


@cache
def _executables() -> list[bytes]:
    return [_client().compile(text).serialize() for text in _PROGRAMS]


def _damaged_executable(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = rng.choice(corpus)
    if rng.random() < 0.2:
        return mutated(data, rng, corpus, BYTE_MUTATIONS)  # only the checksum can tell
    container = unpack(serialized_executable.KIND, data)
    text, program = map(bytes, container.sections)
    header: Any = dict(container.header)
    way = rng.randrange(5)
    if way == 0:
        text = _damaged_module(text, rng)
    elif way == 1:
        header = _damaged_header(header, rng)
    elif way == 2:
        program = _damaged_program(program, rng)
    elif way == 3:
        program = bytes(unpack(serialized_executable.KIND, rng.choice(corpus)).sections[1])
    else:
        return _packed(
            rng.choice(("executable", "cpu program", "cache entry")), header, [text, program][: rng.randrange(3)]
        )
    return _packed(serialized_executable.KIND, header, [text, program])


def _damaged_program(data: bytes, rng: random.Random) -> bytes:
    """Damages a program of cpu, but not its object files."""
    container = unpack(cpu_program.KIND, data)
    sections = [*map(bytes, container.sections)]
    if rng.random() < 0.2:
        sections[0] = _damaged_module(sections[0], rng)
        return _packed(cpu_program.KIND, dict(container.header), sections)
    return _packed(cpu_program.KIND, _damaged_header(dict(container.header), rng), sections)


def _damaged_module(compressed: bytes, rng: random.Random) -> bytes:
    way = rng.randrange(4)
    if way == 0:
        return mutated(compressed, rng, [compressed], BYTE_MUTATIONS)
    if way == 1:
        return _bomb()
    return compress(mutated(expand(compressed, "the module"), rng, [b"add(p)"], TEXT_MUTATIONS))


@cache
def _bomb() -> bytes:
    """A stream of zlib that expands to much more than it may."""
    compressor = zlib.compressobj(9)
    piece = b" " * (1 << 20)
    return b"".join([*(compressor.compress(piece) for _ in range(_BOMB_BYTES >> 20)), compressor.flush()])


def _damaged_header(header: Any, rng: random.Random) -> Any:
    """Changes a value somewhere in JSON, or its text. Import names and checksums of other files stay."""
    text = json.dumps(header)
    for _ in range(10):
        with suppress(ValueError, RecursionError):
            return json.loads(mutated(text.encode(), rng, [text.encode()], TEXT_MUTATIONS))
    place: Any = header
    values: tuple[Any, ...] = (None, -1, 0, 2**31, 2**63, 2**64, 1e308, "", "f32[4]", "x" * 1000, [], [[]], {}, True)
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(list(keys))
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        place[key] = rng.choice(values)
        return header


def _packed(kind: str, header: Any, sections: Sequence[bytes]) -> bytes:
    with suppress(ValueError, TypeError):
        return pack(kind, header, sections)
    return pack(kind, {"header": header}, sections)  # it became something else than an object


def _consume_executable(data: bytes) -> None:
    platform_and_device_count(data)
    executable = _client().deserialize(data)
    use_module(executable.module)


# -- the compile cache


_KEY = "k" * 64


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="xlapy-hostile-")


def _entries() -> list[bytes]:
    programs = [bytes(unpack(serialized_executable.KIND, data).sections[1]) for data in _executables()]
    return [pack(compile_cache.KIND, {"key": _KEY, "name": "m"}, [program]) for program in programs]


def _damaged_entry(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = rng.choice(corpus)
    if rng.random() < 0.4:
        return mutated(data, rng, corpus, BYTE_MUTATIONS)
    entry = unpack(compile_cache.KIND, data)
    (program,) = map(bytes, entry.sections)
    if rng.random() < 0.5:
        return _packed(compile_cache.KIND, _damaged_header(dict(entry.header), rng), [program])
    return _packed(compile_cache.KIND, dict(entry.header), [_damaged_program(program, rng)])


def _consume_entry(data: bytes) -> None:
    cache_ = compile_cache.CompileCache(Path(_folder().name), 1 << 30)
    Path(_folder().name, f"{_KEY}.xla").write_bytes(data)
    program = cache_.get(_KEY)
    assert program is not None
    deserialize_program(program, lambda: parse_hlo(_PROGRAMS[0]))


# -- array files


def _array_files() -> list[bytes]:
    arrays: list[np.ndarray[Any, Any]] = [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        np.array(2.0),
        np.zeros((0, 3), np.int8),
        np.arange(4, dtype=np.uint16).view("V2"),
        np.array([1 + 2j]),
        np.array([True]),
    ]
    return [
        *(_saved(lambda stream, array=array: np.save(stream, array)) for array in arrays),
        _saved(lambda stream: np.savez(stream, x=arrays[0], y=arrays[1])),
        _saved(lambda stream: np.savez_compressed(stream, *arrays)),
        _saved(lambda stream: np.savez_compressed(stream, zeros=np.zeros(10_000))),
        _saved(lambda stream: np.save(stream, np.array([{}, 1], dtype=object), allow_pickle=True)),
        _saved(lambda stream: np.savez(stream, allow_pickle=True, x=np.array([print], dtype=object))),
    ]


def _saved(write: Any) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def _damaged_array_file(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = rng.choice(corpus)
    if rng.random() < 0.4:
        return mutated(data, rng, corpus, BYTE_MUTATIONS)
    if data.startswith(b"PK"):
        return _damaged_archive(data, rng, corpus)
    return _damaged_array(data, rng, corpus)


def _damaged_array(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Changes the text of a header and corrects its length."""
    length = int.from_bytes(data[8:10], "little")
    mutations: Sequence[Mutation] = BYTE_MUTATIONS if rng.random() < 0.1 else TEXT_MUTATIONS
    header = mutated(data[10 : 10 + length], rng, [data[10 : 10 + length]], mutations, 65_000)[:65_535]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + length :]


def _damaged_archive(data: bytes, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            contents = old.read(name)
            if rng.random() < 0.7:
                contents = _damaged_array(contents, rng, corpus) if rng.random() < 0.8 else rng.choice(corpus)
            elif rng.random() < 0.1:
                contents = b"\x93NUMPY\x01\x00v\x00" + (
                    b"{'descr': '<f4', 'fortran_order': False, 'shape': (70000000,), }".ljust(117)
                    + b"\n"
                    + bytes(280_000_000)
                )
            method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
            entry = zipfile.ZipInfo(name)  # without the time, so that equal seeds give equal inputs
            new.writestr(entry, contents, zipfile.ZIP_DEFLATED if len(contents) > 1 << 20 else method)
    return stream.getvalue()


def _consume_array_file(data: bytes) -> None:
    read_arrays(io.BytesIO(data), "data", _MAX_ARRAY_BYTES)


# -- configurations of custom calls


def _configurations() -> list[bytes]:
    texts = (
        "{}",
        '{alpha = 2 : i32, eps = 1.0e-5 : f32, on = true, name = "x\\0A", sizes = array<i64: 2, 3>}',
        "{a = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, b = {n = 7, m = {f = 0x7F800000 : f32}}}",
        '{d = dense<1.5> : tensor<100xf64>, e = dense<"0x01000000"> : tensor<1xi32>, f = -1 : i64, u = 255 : ui8}',
        "{left = 76 : ui8, uplo = 85 : ui8, trans_x = 78 : ui8, diag = 78 : ui8}",
        '{"n": [1, {"m": null}], "s": "x", "f": 1e5}',
    )
    return [text.encode() for text in texts]


def _damaged_text(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    return mutated(rng.choice(corpus), rng, corpus, TEXT_MUTATIONS)


def _consume_configuration(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    for target, config in (("lapack_strsm_ffi", text), ("annotate", text), ("annotate", f'"{quoted}"')):
        with suppress(XlaError):
            use_module(
                parse_hlo(
                    "ENTRY e { p = f32[4,4] parameter(0)  ROOT c = f32[4,4] custom-call(p, p), "
                    f'custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI, backend_config={config} }}'
                )
            )
    read_attributes(text)


FORMATS = (
    HostileFormat("executable", _executables, _damaged_executable, _consume_executable),
    HostileFormat("cache-entry", _entries, _damaged_entry, _consume_entry),
    HostileFormat("array-file", _array_files, _damaged_array_file, _consume_array_file),
    HostileFormat("custom-call-config", _configurations, _damaged_text, _consume_configuration),
)
