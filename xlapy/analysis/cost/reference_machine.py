"""The reference machine: the cycles that one core of it takes, of which every estimate of time is composed.

| estimate | where | for |
|---|---|---|
| cycles of the statements of a kernel | `loops.cost` | the work of a thread, safepoint polls, `thunks.txt` |
| cycles of a region by a strategy | `codegen.kernel_cost`, `emitters.matmul.cost` there | kernel plans, `explain` |
| cost of an element, in additions | `elements` | what fusion computes again instead of storing it |
| time of an instruction | `model`, with the rates of `codegen.target` | whether a launch is asynchronous |

The figures are those of cores with AVX-512 that execute two vector operations in a cycle (Zen 4, Cascade Lake). They do
not depend on the machine that runs a program: strategies decide the order of additions, which no cache and no clock may
change. Only widths of vectors come from `Target`. Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CYCLES_PER_MICROSECOND: Final = 2500
"""The clock of a core under load."""

# -- one vector register

OPERATION_CYCLES: Final = 0.5
"""A vector operation, also a fused multiply-add, a shuffle, or a load from the level-1 cache: a core starts two of each
in a cycle."""

STORE_CYCLES: Final = 1.0

LONG_OPERATION_CYCLES: Final[Mapping[str, float]] = {"div": 5.0, "sqrt": 6.0, "any": 2.0}
"""Operations of loop IR that are not fully pipelined."""

LATENCY_CYCLES: Final = 4
"""From the start of a multiply-add or an addition to its result: a loop with fewer sums waits for it."""

LANE_CYCLES: Final = 1.0
"""A load or store of one lane, where lanes access elements that are not contiguous. Measured: 1.0 for rows of f32 at
distances of 8 elements, 1.8 for a gather with its checks of bounds."""

INTEGER_DIVISION_CYCLES: Final = 4.0
"""A division of integers, which vectors compute lane by lane."""

# -- loops

ITERATION_CYCLES: Final = 1.0
"""The end of an iteration: the next position, a comparison and a jump."""

MIN_PARALLEL_CYCLES: Final = 8 * CYCLES_PER_MICROSECOND
"""The work from which on several threads share it: eight microseconds, of which handing out a task and waiting for the
last one takes one."""

# -- memory

CACHED_BYTES_PER_CYCLE: Final = 32
"""The bytes that a core loads and stores in a cycle, of arrays in its level-2 cache."""

SHARED_CACHE_BYTES_PER_CYCLE: Final = 16
"""The same for a cache that cores share."""

MEMORY_BYTES_PER_CYCLE: Final = 4
"""The same for main memory."""

TRANSPOSED_BYTES_PER_CYCLE: Final = 16
"""The bytes that are transposed in registers, from one array in a cache to another."""
