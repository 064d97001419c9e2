"""The digest of the compiler's own files: programs compiled by other sources are not loaded.

To read all files takes a while. Who keeps digests from process to process (`compile_cache`) may tell one that was made
when the files had the same state: their names, sizes and times of change, which the system sets whenever a file is
written or put in the place of another.

Owns: which files count. Must not know: where digests are kept.
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
"""The digest, once it is known: the process has read the files by then, what is written later is not part of it."""


def source_digest() -> str:
    """The digest of what the files of the compiler hold."""
    if not _known:
        _known.append(_digest())
    return _known[0]


def source_files_state() -> str:
    """The digest of the names, sizes and times of the files."""
    digest = hashlib.sha256()
    for place, entry in _files():
        status = entry.stat()
        row = (place, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
        digest.update(repr(row).encode())
    return digest.hexdigest()


def preset_source_digest(digest: str) -> None:
    """Spares reading the files, for who knows that they still have the state in which this was their digest."""
    if not _known:
        _known.append(digest)


def _digest() -> str:
    digest = hashlib.sha256()
    for place, entry in _files():
        digest.update(f"{place}\0".encode())
        digest.update(hashlib.sha256(Path(entry.path).read_bytes()).digest())
    return digest.hexdigest()


def _files() -> list[tuple[str, os.DirEntry[str]]]:
    """The files with their places in the package, in the order of these."""
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
