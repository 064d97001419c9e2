"""Describes the machine that kernels are generated for: vector registers, dot instructions, caches, processors.

Kernel emitters read every property of the machine from a `Target`. Each back end creates its own; the CPU back end
does so in `xlapy.cpu.target`. Does not depend on any back end or on LLVM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from xlapy.analysis.cost import Rates
from xlapy.analysis.cost.reference_machine import F32_LANES
from xlapy.base.element_types import F32
from xlapy.loops.dot_instructions import DotInstruction

_MAX_THREADS_WITH_BANDWIDTH = 8
"""The largest number of threads for which estimates assume that each has its own share of the memory's bandwidth."""


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of a machine that the choice and the shape of loops depend on."""

    vector_bytes: int
    """The size in bytes of a vector register."""
    vector_registers: int
    """The number of vector registers that a kernel may use. A matrix-multiplication micro-kernel accumulates in half of
    them."""
    dot_instructions: frozenset[DotInstruction] = frozenset()
    """The dot instructions that kernels may use, for vectors of every width."""
    tile_instructions: frozenset[DotInstruction] = frozenset()
    """The dot instructions that kernels may use for tiles (`MatrixProduct`)."""
    cache_line_bytes: int = 64
    """The size in bytes of a cache line."""
    l1_bytes: int = 1 << 15
    """The size in bytes of the level-1 data cache of a processor core."""
    l1_way_bytes: int = 1 << 12
    """The distance in bytes of addresses that share a set of the level-1 data cache: the size of a page, because the
    processor looks a set up before it has translated an address. A set holds `l1_bytes` / `l1_way_bytes` lines."""
    l2_bytes: int = 1 << 18
    """The size in bytes of the level-2 cache of a processor core."""
    l3_bytes: int = 1 << 25
    """The size in bytes of the level-3 cache, which processor cores share."""
    processors: int = 8
    """The number of processor cores for which work is divided. Neither it nor a cache size may affect the bits of a
    result."""

    def lanes(self, element_bytes: int) -> int:
        """The lanes of a vector register of elements."""
        return max(1, self.vector_bytes // element_bytes)

    def lines_in_l1(self, distance_bytes: int) -> int:
        """The number of cache lines at equal distances that stay in the level-1 data cache beside a stream of others.

        One line of each set is left to the stream. Example: of lines at distances of 8 KiB, which share a set of eight
        lines, seven.
        """
        sets = self.l1_way_bytes // math.gcd(self.l1_way_bytes, max(distance_bytes, self.cache_line_bytes))
        return max(1, self.l1_bytes // self.l1_way_bytes - 1) * sets

    @property
    def prefetched_bytes(self) -> int:
        """The size in bytes from which on arrays are prefetched, because they hardly stay in the level-3 cache beside
        others: a quarter of it.

        Transposes of 16 MiB and more reach 0.7 to 1.0x of the rate of a copy, and 0.6 to 0.7x without; depthwise
        convolutions of 13 to 38 MB take 0.55 to 0.8x the time. Transposes of 2 MiB and convolutions of 4 MB would take
        1.1x the time (two processors, 32 MiB of level-3 cache).
        """
        return self.l3_bytes // 4

    @property
    def streamed_bytes(self) -> int:
        """The size in bytes from which on results are stored past the caches: half of the level-3 cache, but no more
        than 64 MiB. Machines with larger caches share them among many processors, or virtual machines.

        With 300 MiB of level-3 cache by its description, sums of arrays of 64 MiB take 0.6x, and fills of 256 MiB 0.4x
        of the time. Those of 16 MiB would gain, too, but a scatter into a result of 32 MiB then takes twice the time.
        """
        return min(self.l3_bytes // 2, 1 << 26)

    @property
    def rates(self) -> Rates:
        """What one thread does in a microsecond: the rates of the reference machine, in proportion to vector widths."""
        reference, scale = Rates(), self.lanes(F32.byte_size) / F32_LANES
        return replace(
            reference,
            flops=scale * reference.flops,
            transcendentals=scale * reference.transcendentals,
            products=scale * reference.products,
            cache_bytes=self.l3_bytes,
            threads=min(self.processors, _MAX_THREADS_WITH_BANDWIDTH),
        )
