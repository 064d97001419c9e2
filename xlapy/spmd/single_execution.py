"""Runs an instruction once: on one device, from which the others receive its results.

A partitioned program must compute what the whole program computes. So devices may execute an instruction each for
itself, and take its result as replicated, only if equal operands give equal results on all of them. A random draw and a
call with side effects do not: they run once for the whole program. Inside a manual region they run once for each
coordinate along the manual axes, because there devices compute values of their own. The program itself may also name
one device, by a maximal sharding.

The instruction becomes a branch of a conditional; the other branch returns zeros. A broadcast from the device that ran
the instruction follows.

Responsible for which instructions run once and on which devices, and for that conditional and its branches. Does not
depend on how arrays are distributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.effects import draws_random_numbers
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.named_sharding import NamedForm
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.replica_groups import GroupList, ReplicaGroups
from xlapy.opcodes.registry import Effect
from xlapy.passes.expand.blocks import new_computation
from xlapy.passes.rewrite import Writer
from xlapy.passes.signature import leaves_of, nest_leaves
from xlapy.spmd.manual_regions import ManualAxes
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.tiling import Tiling, each_device, replica_groups_along, rest_of_tiling, tiling_of_numbers


@dataclass(frozen=True)
class Executions:
    """Which devices execute an instruction: the first of each group, for all of its group.

    runs_here: devices on tile 0 of this tiling are the first of their groups.
    """

    groups: ReplicaGroups
    runs_here: Tiling | None


def executions_of(instruction: Instruction, devices: int, manual_axes: ManualAxes) -> Executions | None:
    """Returns the devices for which an instruction runs once; None if each device executes it for itself.

    manual_axes: those of the region that the instruction is in.
    """
    if not manual_axes and (device := _maximal_device(instruction)) is not None:
        others = [other for other in range(devices) if other != device]
        runs_here = tiling_of_numbers([int(other != device) for other in range(devices)])
        return Executions(GroupList(((device, *others),)), runs_here)
    if is_deterministic(instruction) or _first_sharding(instruction).kind is ShardingKind.MANUAL:
        return None
    every = each_device(devices)
    rest = rest_of_tiling(every, manual_axes)
    return None if rest is None or every is None else Executions(replica_groups_along(every, manual_axes), rest)


def is_deterministic(instruction: Instruction) -> bool:
    """Returns whether equal operands give equal results, however often and on whichever devices an instruction runs.

    Random draws, also those in called computations, and custom calls with side effects are not deterministic.
    """
    is_call = instruction.op is opcodes.CUSTOM_CALL
    has_side_effect = is_call and instruction.op.effect_of(instruction.attributes) is Effect.SIDE_EFFECT
    return not has_side_effect and not draws_random_numbers(instruction)


def _first_sharding(instruction: Instruction) -> Sharding:
    """Returns the sharding of the first array of an instruction; a replicated one if it has none."""
    sharding = instruction.sharding or Sharding(ShardingKind.REPLICATED)
    return sharding.elements[0] if sharding.elements else sharding


def _maximal_device(instruction: Instruction) -> int | None:
    """Returns the device that alone runs an instruction according to its sharding; None without such a sharding."""
    sharding = _first_sharding(instruction)
    if sharding.named is not None and sharding.named.form is NamedForm.DEVICE:
        return sharding.named.mesh.device_ids()[0]
    return sharding.device if sharding.kind is ShardingKind.MAXIMAL else None


def run_once(
    resharder: Resharder, instruction: Instruction, operands: Sequence[Instruction], executions: Executions
) -> list[Instruction]:
    """Writes an instruction that the first device of each group runs; returns the leaves of its result on all devices.

    operands: replicated in each group.
    """
    write = resharder.write
    argument = write.add(opcodes.TUPLE, *operands)
    runs_here = resharder.is_on_first_tile(executions.runs_here)
    branches = [
        _instruction_branch(write, instruction, argument.shape),
        _zeros_branch(write, instruction, argument.shape),
    ]
    result = write.add(opcodes.CONDITIONAL, runs_here, argument, argument, computations=branches)
    return resharder.broadcast_from_first(executions.groups, leaves_of(write, result))


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
