"""Custom calls that each device runs on its local arrays.

Either the target of the call is declared to run on each device, or a front end defines its partitioning, as JAX's
`custom_partitioning` does: a custom partitioner gets the shardings of the operands and of the results, chooses
shardings, and returns the program that each device runs.

Responsible for the operands of these calls and for copying the programs of custom partitioners. Does not depend on JAX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlapy import opcodes
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.spmd.array_sharding import (
    ArraySharding,
    array_sharding_of,
    hlo_sharding_of,
    uneven_dimensions,
)
from xlapy.spmd.context import CustomPartition
from xlapy.spmd.partitioned_values import PartitionedValues, local_value_shape, requested_shardings
from xlapy.spmd.resharding import PartitionedArray


def _even_sharding(leaf: PartitionedArray) -> ArraySharding:
    """Returns the sharding of an array without partial sums and without tiles that are not full."""
    sharding = leaf.sharding.with_partial_sums(None)
    for dimension in uneven_dimensions(leaf.whole_shape, sharding) if leaf.instruction.shape.is_array else ():
        sharding = sharding.with_tiling(dimension, None)
    return sharding


def add_per_device_call(partitioned: PartitionedValues, instruction: Instruction) -> None:
    """Writes a custom call without results that each device runs on its own local operands."""
    operands = partitioned.resharded_operands(instruction.operands, _even_sharding)
    new = edit.clone_instruction(instruction, partitioned.write.computation, operands)
    new.attributes = new.attributes.replace(operand_layout_constraints=None)
    new.sharding = None
    partitioned.values[instruction] = []


def custom_partition_of(partitioned: PartitionedValues, instruction: Instruction) -> CustomPartition | None:
    """Returns how a custom partitioner partitions a custom call; None if it does not."""
    partitioner = partitioned.context.custom_partitioner
    leaves = [partitioned.values[operand] for operand in instruction.operands]
    if partitioner is None or not all(len(one) == 1 for one in leaves):
        return None
    operands = [hlo_sharding_of(_even_sharding(leaf), partitioned.devices) for (leaf,) in leaves]
    requested = requested_shardings(instruction, partitioned.devices) if instruction.sharding is not None else None
    if requested is None:
        return partitioner(instruction, operands, None)
    results = [hlo_sharding_of(each.with_partial_sums(None), partitioned.devices) for each in requested]
    return partitioner(instruction, operands, results)


def add_custom_call(partitioned: PartitionedValues, instruction: Instruction, custom: CustomPartition) -> None:
    """Writes a call of the program that a custom partitioner returned."""
    leaves = [partitioned.values[operand][0] for operand in instruction.operands]
    shardings = [
        array_sharding_of(sharding, operand.shape, partitioned.devices)
        for sharding, operand in zip(custom.operands, instruction.operands, strict=True)
    ]
    operands = partitioned.resharded(leaves, shardings)
    results = [
        array_sharding_of(sharding, leaf, partitioned.devices)
        for sharding, (_, leaf) in zip(custom.results, instruction.shape.leaves(), strict=True)
    ]
    program = _copy_program(custom.program, partitioned.context.module, instruction, partitioned.context.channels)
    local = [leaf for _, leaf in local_value_shape(instruction.shape, results).leaves()]
    _check_local_shapes(instruction, program, [operand.shape for operand in operands], local)
    new = partitioned.write.add(opcodes.CALL, *operands, computations=[program])
    partitioned.define(instruction, new, results, partitioned.manual_axes_of(instruction))


def _copy_program(program: Module, into: Module, source: Instruction, channels: Iterator[int]) -> Computation:
    """Appends the computations of a program to a module, with new channel numbers; returns its entry computation.

    source: the instruction that calls it. Copies have its metadata, because stack frames are numbered by module.
    """
    copies: dict[Computation, Computation] = {}
    for computation in computation_post_order(program):
        copy = copies[computation] = edit.clone_computation(computation, into, copies)
        for instruction in copy:
            instruction.sharding, instruction.metadata = None, source.metadata
            if getattr(instruction.attributes, "channel_id", None) is not None:
                instruction.attributes = instruction.attributes.replace(channel_id=next(channels))
    return copies[program.entry_computation]


def _check_local_shapes(
    call: Instruction, entry: Computation, operands: Sequence[Shape], results: Sequence[Shape]
) -> None:
    """Raises `UnsupportedError` unless a program's parameters and results are the local arrays of a custom call."""
    parameters = [parameter.shape for parameter in entry.parameters]
    returned = [leaf for _, leaf in entry.root_instruction.shape.leaves()]
    for what, found, expected in (("operands", parameters, operands), ("results", returned, results)):
        if len(found) == len(expected) and all(a.compatible(b) for a, b in zip(found, expected, strict=True)):
            continue
        raise UnsupportedError(
            codes.CUSTOM_PARTITION_SHAPES,
            f"{describe_instruction(call)}, target {call.custom_call_target}: the local {what} are "
            f"{_listed(expected)}, its custom partitioner returned a program with {_listed(found)}",
        )


def _listed(shapes: Sequence[Shape]) -> str:
    return f"({', '.join(shape.to_text(layout=False) for shape in shapes)})"
