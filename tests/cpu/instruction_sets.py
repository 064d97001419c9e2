"""Compiles for a chosen instruction set, on any processor.

A test of the shape of kernels calls `compile_for` and does not run the code, which this processor may be unable to. A
test of results uses `limited_to`, which chooses among the instruction sets of this processor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from xlapy.base import flags
from xlapy.cpu import target
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.cpu.llvm import processor
from xlapy.text import parse_hlo

ISAS = ("AVX512", "AVX2")
"""The instruction sets with vectors of 64 and of 32 bytes."""


def compile_for(isa: str, text: str) -> Compiled:
    """Compiles a module for two cores that have an instruction set of `processor.LEVELS` and nothing beyond it."""
    with processor_of(isa):
        return compile_module(parse_hlo(text))


def stages_for(isa: str, text: str) -> dict[str, str]:
    """Returns all intermediate forms of a module that is compiled for such a processor."""
    with processor_of(isa):
        return compile_module(parse_hlo(text)).stages()


_CACHES = {1: 1 << 15, 2: 1 << 20, 3: 1 << 25}
"""The sizes of the caches of that processor by their level, which blocks and prefetches depend on."""


@contextlib.contextmanager
def processor_of(isa: str) -> Iterator[None]:
    """Generates code in this context for such a processor, without running it."""
    compute = vars(target._target)["__wrapped__"]
    with (
        mock.patch.object(processor, "_limited", lambda _: processor.LEVELS[isa]),
        mock.patch.object(target, "_target", compute),
        mock.patch.object(target, "host_caches", lambda: _CACHES),
        mock.patch.object(target, "thread_count", lambda: 2),
    ):
        yield


@contextlib.contextmanager
def limited_to(isa: str) -> Iterator[None]:
    """Compiles everything in this context with the flag `max_isa`."""
    values = flags.current().replace(max_isa=isa)
    with mock.patch.object(flags, "current", lambda: values):
        yield
