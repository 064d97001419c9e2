"""Emits scatters of many integers into few targets: several copies of the targets, which are then combined.

As a histogram: each task combines its part of the updates with copies of its own, in turn, so that an update seldom
waits for the one before it. Another kernel combines the copies with the operand. Integers may be combined in any order.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

from xlapy.base.element_types import PRED
from xlapy.codegen.emitters.loop_nest import block_extent, flat_loops
from xlapy.codegen.emitters.scatter import ScatterEmitter, ScatterKernels, scatter_kernel
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_of, monoid
from xlapy.loops import I64, Affine, AxisKind, Buffer, Kernel, Value
from xlapy.lower import load_element, storage_type, store_element
from xlapy.lower.core import linear

COPIES = 4
"""The copies of a task, which it updates in turn: a load of what was stored just before takes about five cycles."""

MAX_COPY_BYTES = 1 << 18
"""The largest size of all copies of a task, which stay in the level-2 cache."""

MIN_UPDATES_PER_ELEMENT = 4
"""The smallest number of updates for each element of all copies: each is initialized and read once."""

MAX_TASKS = 16
"""The largest number of tasks."""


def scatter_kernels(instruction: Instruction, target: Target) -> ScatterKernels:
    """Returns the kernels that combine the updates with the targets."""
    return _copied_scatter(instruction, target) or ScatterKernels((scatter_kernel(instruction, target),))


def _copied_scatter(instruction: Instruction, target: Target) -> ScatterKernels | None:
    """Returns the kernels of a scatter of the kind above; None for another one."""
    count = len(instruction.operands) // 2
    operand, update = instruction.operands[0].shape, instruction.operands[-1].shape
    t = operand.element_type
    is_exact = t.is_integral and t is not PRED and t.bits >= 8 and monoid(instruction.to_apply) is not None
    if count != 1 or not is_exact or not operand.size:
        return None
    tasks = min(target.processors, MAX_TASKS)
    size = COPIES * operand.size
    if size * t.byte_size > MAX_COPY_BYTES or update.size < MIN_UPDATES_PER_ELEMENT * size * tasks:
        return None
    emitters = [_CopiedScatter(instruction, target, tasks) for _ in range(2)]
    if not emitters[0].has_single_elements:
        return None
    return ScatterKernels((emitters[0].update_copies(), emitters[1].combine_copies()), (tasks * size * t.byte_size,))


class _CopiedScatter(ScatterEmitter):
    def __init__(self, instruction: Instruction, target: Target, tasks: int) -> None:
        super().__init__(instruction, target)
        self.tasks = tasks
        self.type = self.operands[0].shape.element_type
        self.size = self.operands[0].shape.size
        self.copies: Buffer = self.builder.buffer(
            "copies", storage_type(self.type), tasks * COPIES * self.size, written=True
        )

    @property
    def has_single_elements(self) -> bool:
        """Whether each window is an element."""
        return math.prod(self.window) == 1 and self.fits

    def update_copies(self) -> Kernel:
        """Combines the updates of each task with its copies."""
        builder, count = self.builder, math.prod(self.rows)
        block = -(-count // (self.tasks * COPIES)) * COPIES
        self.targets[0].written = False
        with builder.loop(-(-count // block), AxisKind.PARALLEL) as task:
            own = task * (COPIES * self.size)
            with builder.loop(COPIES * self.size, AxisKind.VECTOR, width=builder.lanes(self.copies.type)) as entry:
                identity = builder.constant(self.copies.type, identity_of(self.instruction.to_apply))
                builder.store(self.copies, own + entry, identity)
            first = task * block
            updates = block_extent(builder, first, count, block)
            extent = builder.constant(I64, updates) if isinstance(updates, int) else updates
            groups = builder.binary("lshr", extent, builder.constant(I64, COPIES.bit_length() - 1))
            groups.range = (0, block // COPIES)
            with builder.loop(groups) as group:
                for copy in range(COPIES):
                    self.update_copy(own + copy * self.size, first + group * COPIES + copy)
            rest = builder.binary("and", extent, builder.constant(I64, COPIES - 1))
            rest.range = (0, COPIES - 1)
            with builder.loop(rest) as position:
                self.update_copy(own, first + Affine.of(groups) * COPIES + position)
        return builder.kernel

    def update_copy(self, copy: Affine, row: Affine) -> None:
        """Combines an update with an element of a copy."""
        builder, batch = self.builder, self.batch(row)
        starts, condition = self.starts(batch, self.sizes)
        # indices that are known to be in bounds, as masked ones, have no condition
        with nullcontext() if condition is None else builder.branch(condition):
            place = copy + linear(tuple(starts), self.shape)
            update = self.lowering.value(self.updates[0], self.update_index(batch, (Affine(),) * len(self.window)))
            self.store(place, self.apply(self.load(place), update))

    def combine_copies(self) -> Kernel:
        """Combines the operand with all copies."""
        builder, target = self.builder, self.targets[0]
        with flat_loops(builder, builder.lanes(self.copies.type), self.size) as position:
            value = load_element(builder, target, position, self.type)
            assert isinstance(value, Value)
            for copy in range(self.tasks * COPIES):
                value = self.apply(value, self.load(position + copy * self.size))
            store_element(builder, target, position, value, self.type)
        return builder.kernel

    def load(self, place: Affine) -> Value:
        found = load_element(self.builder, self.copies, place, self.type)
        assert isinstance(found, Value)
        return found

    def store(self, place: Affine, value: Value) -> None:
        store_element(self.builder, self.copies, place, value, self.type)

    def apply(self, left: Value, right: Value) -> Value:
        result: Value = self.lowering.apply(self.instruction.to_apply, [left, right])
        return result
