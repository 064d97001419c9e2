"""The memory that this process can still have.

Responsible for asking the operating system. Imports nothing of xlapy, because the command line bounds its memory first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def format_bytes(size: int) -> str:
    """`3.7 GB`"""
    amount, units = float(size), ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{amount:.1f} {units[0]}" if units[0] != "bytes" else f"{size} bytes"


def available_bytes() -> int:
    """The memory that can still be had: of the machine, of the control group, of the process's own limit.

    What the platform does not tell counts as unlimited.
    """
    return min(_free_in_machine(), _free_in_group(), _free_in_process())


def limit_memory() -> None:
    """Bounds this process to the memory that is there, so that too large a demand is a MemoryError and not the end of
    the process at the hands of the operating system. For processes of our own only."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        available = available_bytes()
        if available < sys.maxsize:
            resource.setrlimit(resource.RLIMIT_AS, (_virtual_size() + available, hard))


def _free_in_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return sys.maxsize


def _free_in_group() -> int:
    for limit, usage in _GROUP_FILES:
        with suppress(OSError, ValueError):
            return max(0, int(Path(limit).read_text()) - int(Path(usage).read_text()))
    return sys.maxsize


_GROUP_FILES: Sequence[tuple[str, str]] = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def _free_in_process() -> int:
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            return max(0, soft - _virtual_size())
    return sys.maxsize


def _virtual_size() -> int:
    """Bytes of address space in use."""
    import resource

    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
