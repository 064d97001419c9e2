"""Runs an instruction with a maximal sharding: on one device only, from which the others receive its results.

The instruction becomes a branch of a conditional on the partition id; the other branch returns zeros.

Responsible for that conditional and its branches. Does not depend on how arrays are distributed.
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
from xlapy.hlo.named_sharding import NamedForm
from xlapy.hlo.sharding import ShardingKind
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.passes.expand.blocks import compare, new_computation
from xlapy.passes.rewrite import Writer
from xlapy.passes.signature import leaves_of, nest_leaves
from xlapy.spmd.resharding import Resharder


def maximal_device(instruction: Instruction) -> int | None:
    """Returns the device that alone runs an instruction according to its sharding; None without such a sharding."""
    sharding = instruction.sharding
    if sharding is not None and sharding.elements:
        sharding = sharding.elements[0]
    if sharding is not None and sharding.named is not None and sharding.named.form is NamedForm.DEVICE:
        return sharding.named.mesh.device_ids()[0]
    return sharding.device if sharding is not None and sharding.kind is ShardingKind.MAXIMAL else None


def run_on_one_device(
    resharder: Resharder, instruction: Instruction, operands: Sequence[Instruction], device: int
) -> list[Instruction]:
    """Writes an instruction that runs on one device; returns the leaves of its result, which all devices hold.

    operands: replicated.
    """
    write = resharder.write
    argument = write.add(opcodes.TUPLE, *operands)
    number = write.constant(Literal.array_of(np.asarray(device, np.uint32)))
    is_device = compare(write, resharder.partition_id(), number, ComparisonDirection.EQ)
    branches = [
        _instruction_branch(write, instruction, argument.shape),
        _zeros_branch(write, instruction, argument.shape),
    ]
    result = write.add(opcodes.CONDITIONAL, is_device, argument, argument, computations=branches)
    return resharder.broadcast_from(device, leaves_of(write, result))


def _instruction_branch(write: Writer, instruction: Instruction, argument: Shape) -> Computation:
    """Returns a computation of the instruction, the parameter of which is a tuple of the operands."""

    def body(into: Writer, parameters: list[Instruction]) -> Instruction:
        operands = [into.get_tuple_element(parameters[0], number) for number in range(len(instruction.operands))]
        clone = edit.clone_instruction(instruction, into.computation, operands)
        clone.sharding = None
        return clone

    return new_computation(write, "alone", [argument], body)


def _zeros_branch(write: Writer, instruction: Instruction, argument: Shape) -> Computation:
    """Returns a computation of zeros in the shape of the instruction's result."""

    def body(into: Writer, _: list[Instruction]) -> Instruction:
        leaves = [
            into.add(opcodes.AFTER_ALL) if leaf.is_token else into.splat(0, leaf)
            for _, leaf in instruction.shape.leaves()
        ]
        return nest_leaves(into, iter(leaves), instruction.shape)

    return new_computation(write, "idle", [argument], body)
