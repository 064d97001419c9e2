"""Programs of cpu that were compiled before, by this process or another: a file each in a directory of the user's own.

The flag `cache_dir` names the directory, `cache_size` bounds it. A file's name is the digest of everything that its
program depends on. Files are written under another name first, so readers never see halves, and there are no locks: who
finds no file, or a damaged one, compiles and writes it anew. The time of a file is when it was last used; the ones not
used for longest go when there are too many.

To load a program is to run its code: the directory must be the user's, and closed to others.

Owns: names, times and number of those files. Must not know: how programs are compiled, what their bytes mean.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.container import pack, unpack
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.base.literal import Literal
from xlapy.base.logging import logger
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.llvm.jit import host_features, host_name
from xlapy.cpu.serialization.executable import LoadedProgram, compiler_identity, image_of, load_image
from xlapy.cpu.serialization.source_digest import preset_source_digest, source_digest, source_files_state
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.text import PrintOptions, print_module

KIND = "cache entry"
_ENDING, _UNFINISHED = ".xla", ".unfinished"

_ABANDONED = 3600.0
"""Seconds after which a file that nobody finished is taken for one of a process that was killed."""

_WITHOUT_EFFECT = frozenset({
    "cache_dir", "cache_limit", "cache_size", "check_infs", "check_nans", "collective_timeout", "dump_to",
    "failure_dir", "num_threads", "rng_seed",
})  # fmt: skip
"""Flags that change no machine code. Any other is taken to."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. used: seconds since the epoch."""

    path: Path
    size: int
    used: float

    @property
    def key(self) -> str:
        return self.path.name.removesuffix(_ENDING)


class CompileCache:
    """The programs in a directory, which is made if it is not there; `limit` is in bytes.

    `InvalidArgumentError` if others than the user own it, read it or write to it; `OSError` if it cannot be made.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder)

    def get(self, key: str) -> bytes | None:
        """The program with a key, which counts as used now; `InvalidArgumentError` for a damaged file."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        entry = unpack(KIND, data)
        if entry.header.get("key") != key or len(entry.sections) != 1:
            raise InvalidArgumentError(f"the {KIND} is that of {entry.header.get('key')}")
        with suppress(OSError):
            os.utime(path)
        return bytes(entry.sections[0])

    def put(self, key: str, name: str, image: bytes) -> None:
        """Keeps a program, in the place of one that has the key; `OSError` if there is no room."""
        data = pack(KIND, {"key": key, "name": name}, [image])
        if len(data) > self.limit:
            return
        _write_whole(self._path(key), data)
        self._shrink()

    def entries(self) -> list[Entry]:
        """All programs, the last used first."""
        found = [entry for entry in self._files() if entry.path.name.endswith(_ENDING)]
        return sorted(found, key=lambda entry: -entry.used)

    def name_of(self, entry: Entry) -> str:
        """The name of an entry's program."""
        try:
            return str(unpack(KIND, entry.path.read_bytes()).header.get("name"))
        except (InvalidArgumentError, OSError) as error:
            return f"({error})"

    def clear(self) -> int:
        """Forgets all programs; how many there were."""
        entries = self.entries()
        for entry in entries:
            entry.path.unlink(missing_ok=True)
        return len(entries)

    def _shrink(self) -> None:
        size = 0
        for entry in self.entries():
            size += entry.size
            if size > self.limit:
                entry.path.unlink(missing_ok=True)
        for entry in self._files():
            if entry.path.name.endswith(_UNFINISHED) and entry.used < time.time() - _ABANDONED:
                entry.path.unlink(missing_ok=True)

    def _files(self) -> Iterator[Entry]:
        """Other processes may remove them at any time."""
        for file in os.scandir(self.folder):
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield Entry(Path(file.path), status.st_size, status.st_mtime)

    def _path(self, key: str) -> Path:
        return self.folder / (key + _ENDING)


def _write_whole(path: Path, data: bytes) -> None:
    """Readers see the file as it was, or all of it."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _check_private(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise InvalidArgumentError(
            f"cache directory {folder} belongs to user {status.st_uid}, not to {os.geteuid()} who runs this: "
            "programs in it could run anything"
        )
    if status.st_mode & 0o077:
        raise InvalidArgumentError(
            f"cache directory {folder} has mode {status.st_mode & 0o777:04o}: others could read or change programs in "
            f"it; chmod 700 {folder}"
        )


def named_cache(folder: str) -> CompileCache:
    """The cache in a directory, `~` for the home directory, as large as the flags allow."""
    return CompileCache(Path(folder).expanduser(), int(flags.get("cache_size")) << 20)


# -- compiling


def compiled_before(
    module: Module, choices: Mapping[str, Any], compile_anew: Callable[[], Compiled]
) -> Compiled | LoadedProgram:
    """The program of a verified module from the cache, if there is one and it has it, else a new one, which it keeps.

    choices: what the program depends on besides the module, as JSON can say it. What is dumped is compiled anew. No
    trouble with the cache is an error: the log tells.
    """
    folder = str(flags.get("cache_dir"))
    cache = _usable(folder) if folder and not flags.get("dump_to") else None
    if cache is None:
        return compile_anew()
    _recall_sources(cache.folder)
    key = cache_key(module, choices)
    return _loaded(cache, key, module) or _kept(cache, key, compile_anew())


def _usable(folder: str) -> CompileCache | None:
    try:
        return named_cache(folder)
    except (InvalidArgumentError, OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        _warn_once(f"programs are compiled without a cache: {error}")
        return None


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


_SOURCES = ".sources"
"""The file with the state of the compiler's files, and their digest then."""


@functools.cache
def _recall_sources(folder: Path) -> None:
    """Spares reading the compiler's files where nothing has changed since some process did."""
    state, path = source_files_state(), folder / _SOURCES
    with suppress(OSError, ValueError):
        known, digest = path.read_text().split()
        if known == state:
            preset_source_digest(digest)
            return
    with suppress(OSError):
        _write_whole(path, f"{state} {source_digest()}\n".encode())


def _loaded(cache: CompileCache, key: str, module: Module) -> LoadedProgram | None:
    try:
        image = cache.get(key)
        if image is None:
            return None
        compiled = edit.clone_module(module)  # users may change theirs
        loaded = load_image(image, lambda: compiled)
    except (XlaError, OSError) as error:
        logger.warning("%s is compiled anew, %s cannot be used: %s", module.name, cache.folder / key, error)
        return None
    logger.info("%s was compiled before: %s", module.name, key)
    return loaded


def _kept(cache: CompileCache, key: str, compiled: Compiled) -> Compiled:
    name = compiled.program.name
    try:
        cache.put(key, name, image_of(compiled))
    except OSError as error:
        logger.warning("%s could not be kept in %s: %s", name, cache.folder, error)
    return compiled


# -- keys

_TEXT = PrintOptions(print_metadata=False)


def cache_key(module: Module, choices: Mapping[str, Any]) -> str:
    """The digest of what a program depends on: module, choices, flags, the processor, the compiler.

    Where instructions come from in a source is not part of it. Constants count by their bytes: text does not tell all
    NaNs apart, and is slow for large ones.
    """
    digest = hashlib.sha256(json.dumps({"choices": choices, **surroundings()}, sort_keys=True).encode())
    digest.update(print_module(module, _TEXT).encode("utf-8", "surrogateescape"))
    for instruction in module.instructions():
        if instruction.op is opcodes.CONSTANT:
            for array in _arrays(instruction.literal):
                digest.update(array)
    return digest.hexdigest()


def surroundings() -> dict[str, Any]:
    """What every program depends on, as JSON can say it: flags, the processor, the compiler."""
    return {
        "flags": {flag.name: flags.get(flag.name) for flag in flags.TABLE if flag.name not in _WITHOUT_EFFECT},
        "processor": [host_name(), sorted(name for name, has in host_features().items() if has)],
        "compiler": dict(compiler_identity()),
    }


def _arrays(literal: Literal) -> Iterator[bytes]:
    if literal.shape.is_array:
        yield literal.to_bytes()
    for element in literal.elements if literal.shape.is_tuple else ():
        yield from _arrays(element)
