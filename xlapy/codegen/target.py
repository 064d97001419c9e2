"""Describes the machine that kernels are generated for: vector registers and cache lines.

Kernel emitters read every property of the machine from a `Target`. Each back end creates its own; the CPU back end
does so in `xlapy.cpu.target`. Does not depend on any back end or on LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of a machine that the choice and the shape of loops depend on."""

    vector_bytes: int
    """The size in bytes of a vector register."""
    vector_registers: int
    """The number of vector registers that a kernel may use. A matrix-multiplication micro-kernel accumulates in half of
    them."""
    cache_line_bytes: int = 64
    """The size in bytes of a cache line."""
