"""LLVM's lock across forks: llvmlite lets one thread at a time call LLVM.

A fork waits for that lock, as for xlapy's own (`forking`). If a thread stays in LLVM for too long, the fork goes on
without the lock, and LLVM's data may be half changed in the child, which then refuses to compile.

Responsible for that state. Does not depend on what is compiled.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from xlapy.base.concurrency.forking import register_lock
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError

_lost: list[str] = []
"""Why this process cannot use LLVM; empty if it can."""


def check_usable() -> None:
    """Raises `UnsupportedError` in a child that was forked while another thread was in LLVM."""
    if _lost:
        raise UnsupportedError(codes.FORKED_COMPILER, _lost[0])


def _lose() -> None:
    _lost.append(
        "this process was forked while another thread compiled, and LLVM cannot go on from there: it runs programs "
        "that ran before, but compiles no others. Start processes that compile by 'spawn' or 'forkserver', or fork "
        "before threads compile"
    )


register_lock(llvm.ffi.lib._lock._lock, _lose)
