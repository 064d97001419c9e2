"""Fits a program to a limit of memory: computes values again until its assigned buffers take no more.

Responsible for the difference between the estimate that guides rematerialization and the memory that the program gets,
and for the warning if the limit is not met. Does not depend on which values are computed again.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.base.logging import logger
from xlapy.cpu.program.memory_report import memory_peak, program_bytes
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.transforms.rematerialization.rematerialize import Rematerialize, estimated_peak
from xlapy.hlo import edit
from xlapy.hlo.module import Module

MAX_ATTEMPTS = 4
"""The largest number of limits that are tried for the estimate, each lower than the one before."""

LISTED_BUFFERS = 5
"""The number of buffers that the warning lists."""


def fit_memory(
    module: Module,
    program: NativeProgram,
    limit: int,
    donated: frozenset[int],
    lower: Callable[[Module], NativeProgram],
) -> tuple[Module, NativeProgram]:
    """Returns a module and its program that need at most `limit` bytes, or as few as possible and logs a warning.

    program: the program of the module, which needs more. donated: the numbers of the donated arguments. lower: returns
    the program of a module.
    """
    size = program_bytes(program)
    target = estimated_peak(module, donated) - (size - limit)
    for _ in range(MAX_ATTEMPTS):
        changed = edit.clone_module(module)
        if not Rematerialize(max(0, target), donated).run(changed):
            break
        made = lower(changed)
        excess = program_bytes(made) - limit
        if program_bytes(made) < size:
            module, program, size = changed, made, program_bytes(made)
        if excess <= 0 or target <= 0:
            break
        target -= excess
    if size > limit:
        _warn(program, size, limit)
    else:
        logger.info("%s needs %s bytes of memory, at most %s are allowed", program.name, f"{size:,}", f"{limit:,}")
    return module, program


def _warn(program: NativeProgram, size: int, limit: int) -> None:
    peak = memory_peak(program)
    largest = [
        f"{slice_.name} {slice_.shape.to_text(layout=False)} of {slice_.size:,} bytes"
        for slice_ in peak.live[:LISTED_BUFFERS]
    ]
    logger.warning(
        "%s needs %s bytes of memory, more than the limit of %s bytes; %s bytes of temporaries and results are live "
        "in %s, the largest: %s",
        program.name,
        f"{size:,}",
        f"{limit:,}",
        f"{peak.bytes:,}",
        peak.label,
        ", ".join(largest),
    )
