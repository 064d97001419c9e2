"""Replaces topk by a sort where a kernel of its own (`codegen/emitters/sort/top_k_buffer.py`) would be slower.

Responsible for which topk instructions are sorted. Does not depend on the kernel or on how sorts are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.emitters.sort.top_k_buffer import has_top_k_kernel
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.sorting import TopKAttributes
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class SortTopK:
    """Replaces topk by a sort if k is large, absolutely or for the length of a row, or if the length is dynamic."""

    name: ClassVar[str] = "sort-top-k"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if (
                    instruction.op is opcodes.TOPK
                    and not _has_kernel(instruction)
                    and not instruction.has_control_edges
                ):
                    replace_with_new(instruction, EXPANSIONS.find(opcodes.TOPK)(Writer(instruction), instruction))
                    changed = True
        return update_schedule(module, changed)


def _has_kernel(instruction: Instruction) -> bool:
    shape = instruction.operands[0].shape
    return not shape.is_dynamic and has_top_k_kernel(shape, instruction.attributes_as(TopKAttributes).k)
