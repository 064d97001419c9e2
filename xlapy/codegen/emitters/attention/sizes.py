"""The blocks of attention, and the sizes of its scratch memory.

A task computes one or more blocks of queries. With several blocks, it packs the keys, and the values if they fit, once
for all of them. No choice of this module affects the bits of a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlapy.base.element_types import F32, F64
from xlapy.codegen.emitters.attention.problem import AttentionProblem
from xlapy.codegen.emitters.matmul.micro_kernel import choose_micro_tile
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.codegen.region import kernel_builder
from xlapy.loops import I16, ScalarType
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.ir import tile_shape
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import components, register_type, storage_type

FACTORS_PER_BLOCK = 128
"""The largest number of factors of a weighted sum that are added up in registers."""

MIN_BLOCK_QUERIES = 8
"""The smallest number of queries of a block; the scores of longer rows do not fit into the cache."""

BLOCK_QUERIES = 64
"""The largest preferred number of queries of a block whose keys are packed for several blocks. With 32 as with 64
queries, attention of 1024 keys takes the same time (benchmarks.transformers)."""

MIN_TASK_QUERIES = 32
"""The smallest number of queries for which a task packs keys and values of its own only to give each processor a task:
with 256 keys, 32 queries take 1.15x, 64 take 1.07x of the time per query that 256 take."""

TASKS_PER_PROCESSOR = 4
"""The smallest preferred number of tasks of a processor, so that processors finish at about the same time."""


_ROW_VARIANTS = 2
"""How often the code of a row's reductions is there, each with scratch memory of its own: for all keys, and for those
that a mask does not hide."""


@dataclass(frozen=True, slots=True)
class AttentionParameters:
    """The blocks of queries."""

    block_queries: int = parameter(1)
    """The queries whose scores a task computes at a time."""
    blocks_per_task: int = parameter(1)
    """The blocks of queries of a task, which share packed keys and values."""


class AttentionSizes:
    """The tiles, and the sizes of packed blocks and of the scratch memory. A size counts factors, unless it is named
    otherwise."""

    def __init__(self, problem: AttentionProblem, parameters: AttentionParameters) -> None:
        target, builder = problem.region.target, kernel_builder(problem.region.name, problem.region.target)
        length, width, wanted = problem.length, problem.width, parameters.block_queries
        self.score_tile = choose_micro_tile(target, builder, problem.score_type, wanted, length)
        self.mixing_tile = choose_micro_tile(target, builder, problem.mixing_type, wanted, width)
        self.rows = max(-(-wanted // tile.rows) * tile.rows for tile in (self.score_tile, self.mixing_tile))
        self.pitch = -(-length // self.score_tile.columns) * self.score_tile.columns + target.cache_line_bytes // 4
        """The elements from one row of scores to the next one."""
        self.terms = -(-problem.terms // problem.score_factors.terms)
        """The factors of a score."""
        _, side = tile_shape(builder.vector_bytes, F32.byte_size)  # a transposition writes whole tiles
        padded_terms = -(-self.terms // side) * side
        self.term_pitch = padded_terms + target.cache_line_bytes // 4
        self.key_panels = -(-length // self.score_tile.columns)
        self.key_panel = padded_terms * self.score_tile.columns
        mixing_terms = problem.mixing_factors.terms
        self.key_groups = -(-length // mixing_terms)
        """The factors of an element of the result."""
        self.block = balanced_size(self.key_groups, FACTORS_PER_BLOCK // mixing_terms)
        """The factors that are added up in registers."""
        self.value_blocks = -(-self.key_groups // self.block)
        self.value_panels = -(-width // self.mixing_tile.columns)
        self.value_panel = self.block * self.mixing_tile.columns
        self.value_block = self.value_panels * self.value_panel
        self.sums = self.rows * self.value_panels * self.mixing_tile.columns
        self.weight_type = weight_type(problem)
        self.key_slots = self.key_panels if parameters.blocks_per_task > 1 else 1
        """The packed panels of keys that scratch memory holds."""
        self.value_slots = 1
        """The packed blocks of values that scratch memory holds."""
        row_caches = [i.shape.element_type for sweep in problem.plan.sweeps for i in sweep.cached]
        element_bytes = storage_type(problem.scores.shape.element_type).byte_size
        element_bytes += self.weight_type.byte_size if self.weight_type else 0
        self.scratch_bytes = (
            F32.byte_size * ((self.rows + self.score_tile.columns) * self.term_pitch + self.sums)
            + F32.byte_size * (self.key_slots * self.key_panel + self.value_slots * self.value_block)
            + F32.byte_size * (self.key_panels + 2 * self.value_blocks)
            + element_bytes * self.rows * self.pitch
            + _ROW_VARIANTS * sum(length * components(t) * storage_type(t).byte_size for t in row_caches)
            + 2 * F64.byte_size
        )
        more_values = F32.byte_size * (self.value_blocks - 1) * self.value_block
        if self.key_slots > 1 and self.scratch_bytes + more_values <= MAX_SCRATCH_BYTES:
            self.value_slots = self.value_blocks
            self.scratch_bytes += more_values


def weight_type(problem: AttentionProblem) -> ScalarType | None:
    """The type of the weights in scratch memory; None if they replace the scores."""
    if problem.mixing_factors.group is not None:
        return I16
    t = register_type(problem.mixing_type)
    return None if t is storage_type(problem.scores.shape.element_type) else t


def most_queries(problem: AttentionProblem) -> int:
    """The largest number of queries of a block whose scores fit into scratch memory."""
    return MAX_SCRATCH_BYTES // 4 // (F32.byte_size * problem.length)


def preferred_parameters(problem: AttentionProblem) -> AttentionParameters:
    """The preferred blocks: several in a task if their packed keys fit into scratch memory and tasks are many.

    The scores of a block alone in its task fill a quarter of the level-2 cache: then packing, which is done for each
    block, takes as little time as possible. They are fewer if processors would have no task otherwise.
    """
    target = problem.region.target
    cached = max(MIN_BLOCK_QUERIES, target.l2_bytes // 4 // (F32.byte_size * problem.length))
    outer = math.prod(problem.scores.shape.dimensions[d] for d in problem.outer_dimensions)
    shared_out = max(MIN_TASK_QUERIES, -(-problem.row_count * outer // target.processors))
    alone = balanced_size(problem.row_count, min(cached, shared_out, most_queries(problem)))
    rows = balanced_size(problem.row_count, min(BLOCK_QUERIES, most_queries(problem)))
    blocks = -(-problem.row_count // rows)
    most = min(blocks, outer * blocks // (target.processors * TASKS_PER_PROCESSOR))
    if most > 1:
        shared = AttentionParameters(rows, balanced_size(blocks, most))
        if shared.blocks_per_task > 1 and AttentionSizes(problem, shared).scratch_bytes <= MAX_SCRATCH_BYTES:
            return shared
    return AttentionParameters(alone, 1)


def check_parameters(problem: AttentionProblem, parameters: AttentionParameters) -> None:
    """Raises `ImpossibleParameterError` for blocks that the kernel cannot have."""
    most = most_queries(problem)
    if parameters.block_queries > most:
        raise ImpossibleParameterError("block_queries", f"it is {parameters.block_queries}, but must be at most {most}")
    size = AttentionSizes(problem, parameters).scratch_bytes
    if size > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError(
            "blocks_per_task", f"packed keys and scores of {size} bytes exceed {MAX_SCRATCH_BYTES}"
        )
