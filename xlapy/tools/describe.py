"""Descriptions for output: the role of a computation, and sizes in bytes."""

from __future__ import annotations

from xlapy.hlo.computation import Computation

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def kind_of(computation: Computation) -> str:
    """Returns the role of a computation: `entry`, or the slots in which it is called, such as `body of while`."""
    if computation.is_entry:
        return "entry"
    uses = dict.fromkeys(
        f"{key} of {caller.op.name}"
        for caller in computation.callers
        for key, called in zip(caller.computation_keys, caller.computations, strict=True)
        if called is computation
    )
    return ", ".join(uses) or "not called"


def byte_text(count: int) -> str:
    """Formats a number of bytes: `12 B`, `3.5 KiB`."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / (1 << 10 * power):.4g} {_UNITS[power]}"
