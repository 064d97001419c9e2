"""What one device does, and the others get from it.

Owns: the branches that tell that device. Must not know: how arrays lie on devices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.passes.expand.blocks import compare, function
from xlapy.passes.rewrite import Writer
from xlapy.passes.signature import leaves_of, nested
from xlapy.spmd.moving import Mover


def run_alone(
    mover: Mover, instruction: Instruction, operands: Sequence[Instruction], device: int
) -> list[Instruction]:
    """The leaves of what an instruction gives on a device, on all of them; operands are whole."""
    write = mover.write
    given = write.add(opcodes.TUPLE, *operands)
    here = write.literal(Literal.array_of(np.asarray(device, np.uint32)))
    is_here = compare(write, mover.number(), here, ComparisonDirection.EQ)
    called = [_alone(write, instruction, given.shape), _idle(write, instruction, given.shape)]
    made = write.add(opcodes.CONDITIONAL, is_here, given, given, computations=called)
    return mover.sent_by(device, leaves_of(write, made))


def _alone(write: Writer, instruction: Instruction, given: Shape) -> Computation:
    """The instruction, with a tuple of its operands for a parameter."""

    def body(into: Writer, parameters: list[Instruction]) -> Instruction:
        operands = [into.element(parameters[0], number) for number in range(len(instruction.operands))]
        made = edit.clone_instruction(instruction, into.computation, operands)
        made.sharding = None
        return made

    return function(write, "alone", [given], body)


def _idle(write: Writer, instruction: Instruction, given: Shape) -> Computation:
    """Zeros like what the instruction gives."""

    def body(into: Writer, _: list[Instruction]) -> Instruction:
        leaves = [
            into.add(opcodes.AFTER_ALL) if leaf.is_token else into.filled(0, leaf)
            for _, leaf in instruction.shape.leaves()
        ]
        return nested(into, iter(leaves), instruction.shape)

    return function(write, "idle", [given], body)
