"""The cost of an instruction, a computation or a kernel, and the time that follows from it on a machine.

Responsible for these records. Does not depend on how costs are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from xlapy.analysis.cost.reference_machine import (
    CYCLES_PER_MICROSECOND,
    F32_LANES,
    MEMORY_BYTES_PER_CYCLE,
    SHARED_CACHE_BYTES_PER_CYCLE,
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What one thread of a machine does in a microsecond: typical of compiled kernels, not peaks.

    The defaults are those of the reference machine.
    """

    flops: float = F32_LANES / 2 * CYCLES_PER_MICROSECOND
    """Elementwise operations of f32: about half a vector in a cycle."""
    transcendentals: float = F32_LANES / 80 * CYCLES_PER_MICROSECOND
    """Transcendental functions of f32: about a fifth of one in a cycle, with 16 lanes."""
    bytes_accessed: float = float(MEMORY_BYTES_PER_CYCLE * CYCLES_PER_MICROSECOND)
    """Bytes of memory."""
    products: float = F32_LANES * 2 * CYCLES_PER_MICROSECOND
    """Operations of matrix multiplications, convolutions and Fourier transforms: one fused multiply-add of vectors in a
    cycle, half of the peak."""
    cached_bytes: float = float(SHARED_CACHE_BYTES_PER_CYCLE * CYCLES_PER_MICROSECOND)
    """Bytes of data that fit into the last cache."""
    cache_bytes: int = 1 << 24
    """The size of what fits into the last cache."""
    threads: int = 1
    """The number of threads that share the work of a kernel."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an instruction or computation. operands: bytes read of operand 0, 1 ...; result: bytes written;
    products: the part of `flops` that matrix multiplications, convolutions and Fourier transforms do."""

    flops: int = 0
    transcendentals: int = 0
    operands: tuple[int, ...] = ()
    result: int = 0
    products: int = 0

    @property
    def bytes_accessed(self) -> int:
        """Bytes read and written."""
        return sum(self.operands) + self.result

    def __add__(self, other: Cost) -> Cost:
        pairs = zip_longest(self.operands, other.operands, fillvalue=0)
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            tuple(one + two for one, two in pairs),
            self.result + other.result,
            self.products + other.products,
        )

    def microseconds(self, rates: Rates) -> float:
        """Returns the time of one thread. Arithmetic and memory accesses overlap: the longer of both counts."""
        computed = (self.flops - self.products) / rates.flops + self.products / rates.products
        computed += self.transcendentals / rates.transcendentals
        is_cached = self.bytes_accessed <= rates.cache_bytes
        return max(computed, self.bytes_accessed / (rates.cached_bytes if is_cached else rates.bytes_accessed))

    def properties(self) -> dict[str, float]:
        """Returns the cost under XLA's names: `flops`, `bytes accessed`, `bytes accessed0{}` of operand 0 and so on."""
        parts = {f"bytes accessed{n}{{}}": float(size) for n, size in enumerate(self.operands) if size}
        return {
            "flops": float(self.flops),
            "transcendentals": float(self.transcendentals),
            "bytes accessed": float(self.bytes_accessed),
            **parts,
            "bytes accessedout{}": float(self.result),
        }
