"""Asks the kernel for the tile registers of x86-64 (AMX), which a process may use only with its permission.

Linux keeps the 8 KiB of tile registers of a thread only for processes that ask for them (since version 5.16). The
permission holds for all threads and for children by fork.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_ARCH_PRCTL: Final = 158
"""The number of the system call on x86-64."""

_REQUEST_PERMISSION: Final = 0x1023
"""ARCH_REQ_XCOMP_PERM."""

_TILE_DATA: Final = 18
"""The state component of the tile registers."""


def permit_tiles() -> bool:
    """Asks for the tile registers; returns whether this process may use them.

    The kernel refuses if a thread has an alternate signal stack that cannot hold them.
    """
    if sys.platform != "linux":
        return False
    arguments = (ctypes.c_long(_REQUEST_PERMISSION), ctypes.c_long(_TILE_DATA))
    return ctypes.CDLL(None).syscall(ctypes.c_long(_ARCH_PRCTL), *arguments) == 0
