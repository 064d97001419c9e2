"""The values of a computation that is being partitioned: the local arrays that hold them, and their shardings.

Responsible for the placements that shardings request, for tuples of local arrays, for operands resharded to other
placements, and for the manual axes of each value. Does not depend on how single instructions are split
(`computation_partitioner.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from xlapy import opcodes
from xlapy.analysis.effects import calls_collectives
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.rewrite import Writer
from xlapy.passes.signature import leaves_of
from xlapy.spmd.array_sharding import ArraySharding, array_sharding_of, local_shape, replicated
from xlapy.spmd.context import PartitioningContext
from xlapy.spmd.manual_regions import ManualAxes, manual_axes_of_uses, union_of_axes
from xlapy.spmd.resharding import PartitionedArray, Resharder
from xlapy.spmd.single_execution import is_deterministic

Placements: TypeAlias = list[ArraySharding]
"""How the arrays of a value are distributed: a sharding for each leaf of its shape."""


def requested_shardings(instruction: Instruction, devices: int, allow_uneven: bool = False) -> Placements:
    """Returns the placements that the sharding of an instruction names; replicated leaves if it has none.

    allow_uneven: whether dimensions may be split that do not divide evenly. Those of parameters and results of a
    program are not.
    """
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    sharding = instruction.sharding
    shardings = sharding.elements if sharding is not None and sharding.elements else (sharding,) * len(leaves)
    if len(shardings) != len(leaves):
        shardings = (None,) * len(leaves)
    pairs = zip(shardings, leaves, strict=True)
    return [array_sharding_of(one, leaf, devices, allow_uneven) for one, leaf in pairs]


def local_value_shape(shape: Shape, placements: Sequence[ArraySharding]) -> Shape:
    """Returns the shape of the part of a value that a device holds."""
    rest = iter(placements)

    def local(one: Shape) -> Shape:
        return Shape.tuple(map(local, one.tuple_shapes)) if one.is_tuple else local_shape(one, next(rest))

    return local(shape)


def _with_leaves(write: Writer, leaves: Iterator[Instruction], shape: Shape) -> Instruction:
    if not shape.is_tuple:
        return next(leaves)
    return write.add(opcodes.TUPLE, *[_with_leaves(write, leaves, element) for element in shape.tuple_shapes])


class PartitionedValues:
    """The values of a computation whose instructions are partitioned one after another.

    context: the state of the module's partitioning. write: appends instructions to the new computation. values: the
    partitioned leaves of each value of the old computation. manual_axes: the manual axes of the region that calls the
    computation.
    """

    def __init__(self, context: PartitioningContext, write: Writer, old: Computation, manual_axes: ManualAxes) -> None:
        self.context = context
        self.devices = context.devices
        self.write = write
        self.manual_axes = manual_axes
        self.manual_axes_of_uses = manual_axes_of_uses(old, context.devices)
        self.resharder = Resharder(write, context.devices, context.channels)
        self.values: dict[Instruction, list[PartitionedArray]] = {}

    def add_parameter(self, parameter: Instruction, placements: Placements) -> None:
        """Writes the parameter on local arrays."""
        shape = local_value_shape(parameter.shape, placements)
        attributes = ParameterAttributes.make(number=parameter.parameter_number)
        new = edit.create(
            self.write.computation, opcodes.PARAMETER, attributes=attributes, shape=shape, name=parameter.name
        )
        self.define(parameter, new, placements, self.manual_axes)

    def define(
        self, old: Instruction, new: Instruction, placements: Sequence[ArraySharding], manual_axes: ManualAxes = ()
    ) -> None:
        """Records which new instruction computes the value of an old one, and how its leaves are distributed."""
        leaves = leaves_of(self.write, new)
        shapes = [shape for _, shape in old.shape.leaves()]
        self.values[old] = [
            PartitionedArray(leaf, sharding, manual_axes, shape if shape.is_array else None)
            for leaf, sharding, shape in zip(leaves, placements, shapes, strict=True)
        ]

    def resharded(self, leaves: Sequence[PartitionedArray], placements: Sequence[ArraySharding]) -> list[Instruction]:
        """Returns leaves with other placements."""
        pairs = zip(leaves, placements, strict=True)
        return [self.resharder.reshard(leaf, sharding).instruction for leaf, sharding in pairs]

    def with_leaves(self, shape: Shape, leaves: Sequence[Instruction]) -> Instruction:
        """Returns a value with these leaves in nested tuples of the given shape."""
        return _with_leaves(self.write, iter(leaves), shape)

    def resharded_operands(
        self, operands: Sequence[Instruction], sharding_of: Callable[[PartitionedArray], ArraySharding]
    ) -> list[Instruction]:
        """Returns operands with their leaves resharded as a function of each leaf says."""
        return [
            self.with_leaves(
                o.shape, [self.resharder.reshard(leaf, sharding_of(leaf)).instruction for leaf in self.values[o]]
            )
            for o in operands
        ]

    def replicated_operands(self, operands: Sequence[Instruction]) -> list[Instruction]:
        """Returns operands whose arrays every device holds as a whole, with partial sums added up."""
        return self.resharded_operands(operands, lambda leaf: replicated(leaf.instruction.shape))

    def manual_axes_of(self, instruction: Instruction) -> ManualAxes:
        """Returns the manual axes of the region that an instruction is in.

        They are those of its operands, or of the calling region. Without either, an instruction whose result differs
        from device to device in a region takes those of the regions that use it.
        """
        found = union_of_axes([leaf.manual_axes for operand in instruction.operands for leaf in self.values[operand]])
        if found or self.manual_axes:
            return found or self.manual_axes
        differs = not is_deterministic(instruction) or calls_collectives(instruction)
        return self.manual_axes_of_uses[instruction] if differs else ()
