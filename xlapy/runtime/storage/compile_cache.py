"""The compile cache: compiled programs of the platform cpu, one file each, in a private directory of the user.

The flag `cache_dir` names the directory, `cache_size` limits its size. A file's name is the digest of everything that
the program depends on. Files are written under a temporary name first, so readers never see partial files, and there
are no locks: a process that finds no file, or a damaged one, compiles the program and writes the file. A file's
modification time is that of its last use; the least recently used files are deleted when the cache is full.

Loading a program runs its code, so the directory must belong to the user and be closed to others.

Responsible for the names, times and number of the files. Does not depend on how programs are compiled or serialized.
"""

from __future__ import annotations

import fcntl
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

from xlapy.analysis.fingerprint import update_digest
from xlapy.base import flags
from xlapy.base.concurrency.single_flight import Flights, SingleFlight
from xlapy.base.container import pack, unpack
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.base.logging import logger
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.llvm.processor import target_processor
from xlapy.cpu.serialization.executable import LoadedProgram, compiler_identity, deserialize_program, serialize_program
from xlapy.cpu.serialization.source_digest import preset_source_digest, source_digest, source_files_state
from xlapy.cpu.tuned_plans import tuned_plans
from xlapy.hlo import edit
from xlapy.hlo.module import Module

KIND, TEXT_KIND = "cache entry", "text of a cache entry"
_ENDING, _TEXT_ENDING, _UNFINISHED = ".xla", ".text", ".unfinished"

_MIN_ABANDONED_SECONDS = 10.0
"""Age in seconds from which an unfinished file that no process has locked belongs to one that was killed. A process
locks a file just after it has made it."""

_FLAGS_WITHOUT_EFFECT = frozenset({
    "cache_dir", "cache_limit", "cache_size", "check_infs", "check_nans", "collective_timeout", "compile_memory",
    "compile_timeout", "dump_to", "failure_dir", "rng_seed", "tuning_file",
})  # fmt: skip
"""Flags that do not affect machine code, or do so by the contents of a file. All other flags are part of the key."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A file of the cache. used: time of the last use in seconds since the epoch."""

    path: Path
    size: int
    used: float

    @property
    def key(self) -> str:
        return self.path.name.removesuffix(_ENDING)


class CompileCache:
    """The programs in a directory, which is created if it does not exist; `limit` is in bytes.

    `InvalidArgumentError` if the directory belongs to another user or others can read or write it; `OSError` if it
    cannot be created.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder)

    def get(self, key: str) -> bytes | None:
        """Returns the program with a key, and marks it as used now; `InvalidArgumentError` for a damaged file."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        entry = unpack(KIND, data)
        if entry.header.get("key") != key or len(entry.sections) != 1:
            raise InvalidArgumentError(codes.SERIALIZED_BYTES, f"the {KIND} is that of {entry.header.get('key')}")
        with suppress(OSError):
            os.utime(path)
        return bytes(entry.sections[0])

    def put(self, key: str, name: str, program: bytes) -> None:
        """Stores a program, replacing one with the same key; `OSError` if the disk is full."""
        data = pack(KIND, {"key": key, "name": name}, [program])
        if len(data) > self.limit:
            return
        _write_whole(self._path(key), data)
        self._shrink()

    def get_text(self, key: str) -> Mapping[str, Any] | None:
        """Returns what is known of a text that was compiled (`texts`); `InvalidArgumentError` for a damaged file."""
        path = self.folder / (key + _TEXT_ENDING)
        try:
            header = unpack(TEXT_KIND, path.read_bytes()).header
        except FileNotFoundError:
            return None
        if header.get("key") != key:
            raise InvalidArgumentError(codes.SERIALIZED_BYTES, f"the {TEXT_KIND} is that of {header.get('key')}")
        with suppress(OSError):
            os.utime(path)
        return header

    def put_text(self, key: str, header: Mapping[str, Any]) -> None:
        """Stores what is known of a text that was compiled; `OSError` if the disk is full."""
        _write_whole(self.folder / (key + _TEXT_ENDING), pack(TEXT_KIND, {**header, "key": key}, []))

    def entries(self) -> list[CacheEntry]:
        """All programs, most recently used first."""
        return self._entries(_ENDING)

    def _entries(self, *endings: str) -> list[CacheEntry]:
        entries = [entry for entry in self._files() if entry.path.name.endswith(endings)]
        return sorted(entries, key=lambda entry: -entry.used)

    def name_of(self, entry: CacheEntry) -> str:
        """The name of an entry's program."""
        try:
            return str(unpack(KIND, entry.path.read_bytes()).header.get("name"))
        except (InvalidArgumentError, OSError) as error:
            return f"({error})"

    def clear(self) -> int:
        """Deletes all programs; returns their number."""
        entries = self.entries()
        for entry in [*entries, *self._entries(_TEXT_ENDING)]:
            entry.path.unlink(missing_ok=True)
        return len(entries)

    def _shrink(self) -> None:
        size = 0
        for entry in self._entries(_ENDING, _TEXT_ENDING):
            size += entry.size
            if size > self.limit:
                entry.path.unlink(missing_ok=True)
        for entry in self._files():
            if entry.path.name.endswith(_UNFINISHED) and entry.used < time.time() - _MIN_ABANDONED_SECONDS:
                _remove_if_abandoned(entry.path)

    def _files(self) -> Iterator[CacheEntry]:
        """Yields the files of the directory. Other processes may delete them at any time."""
        for file in os.scandir(self.folder):
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield CacheEntry(Path(file.path), status.st_size, status.st_mtime)

    def _path(self, key: str) -> Path:
        return self.folder / (key + _ENDING)


def _write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that readers see either the old contents or all of the new ones."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(data)
            file.flush()
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _remove_if_abandoned(path: Path) -> None:
    """Deletes an unfinished file whose process has ended. The system frees the locks of processes that are killed."""
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        path.unlink()


def _check_private(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise InvalidArgumentError(
            codes.CACHE_FOLDER,
            f"cache directory {folder} belongs to user {status.st_uid}, not to {os.geteuid()}, which runs this "
            "process: programs in it could run anything",
        )
    if status.st_mode & 0o077:
        raise InvalidArgumentError(
            codes.CACHE_FOLDER,
            f"cache directory {folder} has mode {status.st_mode & 0o777:04o}: others could read or change programs in "
            f"it; chmod 700 {folder}",
        )


def named_cache(folder: str) -> CompileCache:
    """The cache in a directory, `~` meaning the home directory, with the size limit that the flags set."""
    return CompileCache(Path(folder).expanduser(), int(flags.get("cache_size")) << 20)


# -- compiling


def compile_cached(
    module: Module, choices: Mapping[str, Any], compile_new: Callable[[], Compiled]
) -> Compiled | LoadedProgram:
    """Returns the program of a verified module from the cache, or compiles it and stores it there.

    choices: what the program depends on besides the module, as JSON. Modules that are dumped, and programs that check
    bounds, are always compiled.
    Problems with the cache are logged, never raised.
    """
    cache = current_cache()
    if cache is None:
        return compile_new()
    key = cache_key(module, choices)
    return _programs.run(
        (cache.folder, key), lambda: _load(cache, key, module), lambda: _store(cache, key, compile_new())
    )


def current_cache() -> CompileCache | None:
    """Returns the cache that programs are taken from now; None if they are compiled."""
    folder = str(flags.get("cache_dir"))
    cache = _open_cache(folder) if folder and not (flags.get("dump_to") or flags.get("check_bounds")) else None
    if cache is not None:
        _recall_sources(cache.folder)
    return cache


_programs = Flights("the compile cache ")
"""The programs that threads of this process load or compile now. Other processes may compile the same ones."""


def _open_cache(folder: str) -> CompileCache | None:
    try:
        return named_cache(folder)
    except (InvalidArgumentError, OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        _warn_once(f"programs are compiled without a cache: {error}")
        return None


@SingleFlight
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


_SOURCES = ".sources"
"""The file that caches the digest of the compiler's source files, with the state for which it is valid."""


@SingleFlight
def _recall_sources(folder: Path) -> None:
    """Reuses the digest of the compiler's source files if they have not changed since another process computed it."""
    state, path = source_files_state(), folder / _SOURCES
    with suppress(OSError, ValueError):
        known, digest = path.read_text().split()
        if known == state:
            preset_source_digest(digest)
            return
    with suppress(OSError):
        _write_whole(path, f"{state} {source_digest()}\n".encode())


def _load(cache: CompileCache, key: str, module: Module) -> Compiled | LoadedProgram:
    """Loads a program; `KeyError` if there is none that can be used."""
    try:
        program = cache.get(key)
        if program is None:
            raise KeyError(key)
        compiled = edit.clone_module(module)  # users may modify their module
        loaded = deserialize_program(program, lambda: compiled)
        loaded.cache_key = key
    except (XlaError, OSError) as error:
        logger.warning("%s is compiled again, %s cannot be used: %s", module.name, cache.folder / key, error)
        raise KeyError(key) from error
    logger.info("%s was compiled before: %s", module.name, key)
    return loaded


def _store(cache: CompileCache, key: str, compiled: Compiled) -> Compiled:
    name = compiled.program.name
    try:
        cache.put(key, name, serialize_program(compiled))
        compiled.cache_key = key
    except OSError as error:
        logger.warning("%s could not be stored in %s: %s", name, cache.folder, error)
    return compiled


# -- keys


def cache_key(module: Module, choices: Mapping[str, Any]) -> str:
    """The digest of everything a program depends on: module, choices, flags, processor, compiler.

    Source locations of instructions are excluded. Constants count by their bytes: text does not distinguish all NaNs,
    and printing large constants is slow.
    """
    digest = hashlib.sha256(json.dumps({"choices": choices, **compile_environment()}, sort_keys=True).encode())
    update_digest(digest, module)
    return digest.hexdigest()


def compile_environment() -> dict[str, Any]:
    """What every program depends on, as JSON: flags, the plans of the tuning file, the processor, the compiler."""
    processor = target_processor()
    return {
        "flags": {flag.name: flags.get(flag.name) for flag in flags.TABLE if flag.name not in _FLAGS_WITHOUT_EFFECT},
        "tuned plans": tuned_plans().digest,
        "processor": [processor.name, sorted(processor.features)],
        "compiler": dict(compiler_identity()),
    }
