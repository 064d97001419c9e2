"""The reference machine: the cycles that one core of it takes, of which every estimate of time is composed.

| estimate | where | for |
|---|---|---|
| cycles of the statements of a kernel | `loops.cost` | the work of a thread, safepoint polls, `thunks.txt` |
| cycles of a region by a strategy | `codegen.kernel_cost`, `codegen.emitters.matmul.cost` | kernel plans, `explain` |
| cost of an element, in additions | `elements` | what fusion computes again instead of storing it |
| time of an instruction | `model`, with the rates of `codegen.target` | whether a launch is asynchronous |

The figures are those of cores with AVX-512 that execute two vector operations in a cycle (Zen 4, Cascade Lake). They do
not depend on the machine that runs a program: strategies decide the order of additions, which no cache and no clock may
change. Estimates for strategies take the width and the number of vector registers from `Target`; the time of an
instruction, which decides no bits, also the size of the level-3 cache and the number of processors. Does not depend on
kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CYCLES_PER_MICROSECOND: Final = 2500
"""The clock of a core under load."""

# -- one vector register

F32_LANES: Final = 16
"""The lanes of a vector register of f32."""

OPERATION_CYCLES: Final = 0.5
"""A vector operation, also a fused multiply-add, a shuffle, or a load from the level-1 cache: a core starts two of each
in a cycle."""

STORE_CYCLES: Final = 1.0
"""A store of a vector register."""

LONG_OPERATION_CYCLES: Final[Mapping[str, float]] = {"div": 5.0, "sqrt": 6.0, "any": 2.0}
"""Operations of loop IR that are not fully pipelined."""

LATENCY_CYCLES: Final = 4
"""From the start of a multiply-add or an addition to its result: a loop with fewer sums waits for it."""

LANE_CYCLES: Final = 1.0
"""A load or store of one lane, where lanes access elements that are not contiguous. Measured: 1.0 for rows of f32 at
distances of 8 elements, 1.8 for a gather with its checks of bounds."""

INTEGER_DIVISION_CYCLES: Final = 4.0
"""A division of integers, which vectors compute lane by lane."""

TILE_GROUPS_PER_CYCLE: Final = 256.0
"""The products of groups of terms of tile instructions in a cycle: one instruction of 16 x 16 x 16 groups takes 16."""

SELECTED_POSITION_CYCLES: Final = 0.5
"""A position for which an integer is compared, and which is stored next to the last one that was chosen."""

# -- loops

ITERATION_CYCLES: Final = 1.0
"""The end of an iteration: the next position, a comparison and a jump."""

MIN_PARALLEL_CYCLES: Final = 8 * CYCLES_PER_MICROSECOND
"""The smallest work that several threads share, and the work of a chunk, about: eight microseconds. Handing out a chunk
and waiting for the last one takes one microsecond."""

# -- memory

L1_BYTES: Final = 1 << 15
"""The size of a core's level-1 data cache."""

L2_BYTES: Final = 1 << 20
"""The size of a core's level-2 cache."""

L3_BYTES: Final = 1 << 25
"""The size of the level-3 cache, which cores share."""

CACHED_BYTES_PER_CYCLE: Final = 32
"""The bytes that a core loads and stores in a cycle, of arrays in its level-2 cache."""

SHARED_CACHE_BYTES_PER_CYCLE: Final = 16
"""The same for a cache that cores share."""

MEMORY_BYTES_PER_CYCLE: Final = 4
"""The same for main memory."""

TRANSPOSED_BYTES_PER_CYCLE: Final = 16
"""The bytes that are transposed in registers, from one array in a cache to another."""
