"""Computes a digest of the compiler's own source files: programs compiled by other sources are not loaded.

Reading all files takes time. A caller that keeps digests from process to process (`compile_cache`) can recognize one
that was computed when the files had the same state: their names, sizes and modification times, which the system sets
whenever a file is written or replaced.

Responsible for which files count. Does not depend on where digests are stored.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
"""The folder `xlapy`."""

_OTHER_PARTS = frozenset({"builder", "pjrt", "stablehlo", "testing", "tools"})
"""Packages that no compiled program depends on."""

_known: list[str] = []
"""The digest, once it is known. By then the process has read the files, so later changes are not part of it."""


def source_digest() -> str:
    """Returns the digest of the contents of the compiler's files."""
    if not _known:
        _known.append(_digest())
    return _known[0]


def source_files_state() -> str:
    """Returns the digest of the names, sizes and times of the files."""
    digest = hashlib.sha256()
    for place, entry in _files():
        status = entry.stat()
        row = (place, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
        digest.update(repr(row).encode())
    return digest.hexdigest()


def preset_source_digest(digest: str) -> None:
    """Sets the digest without reading the files; the caller knows that the files are still in the same state."""
    if not _known:
        _known.append(digest)


def _digest() -> str:
    digest = hashlib.sha256()
    for place, entry in _files():
        digest.update(f"{place}\0".encode())
        digest.update(hashlib.sha256(Path(entry.path).read_bytes()).digest())
    return digest.hexdigest()


def _files() -> list[tuple[str, os.DirEntry[str]]]:
    """Returns the files with their paths in the package, sorted by path."""
    found: list[tuple[str, os.DirEntry[str]]] = []
    pending = [(str(_PACKAGE), "")]
    while pending:
        folder, place = pending.pop()
        for entry in os.scandir(folder):
            if entry.name.endswith(".py"):
                found.append((place + entry.name, entry))
            elif _may_hold_files(place + entry.name) and entry.is_dir():
                pending.append((entry.path, f"{place}{entry.name}/"))
    return sorted(found, key=lambda row: row[0])


def _may_hold_files(place: str) -> bool:
    return place not in _OTHER_PARTS and not place.endswith("__pycache__") and "." not in place
