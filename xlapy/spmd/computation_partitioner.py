"""Partitions one computation: writes what each device does for each of its instructions.

XLA's counterpart is SpmdPartitioningVisitor. An operation is split along the dimensions that its sharding names or that
its operands are split along, if a factor of its sharding rule covers them; operands are resharded to fit. Anything else
is computed by every device from replicated operands. Inside manual regions, arrays are local along the manual axes and
are split along other axes only. Two rules keep the results those of the whole program:
- Only linear operations (`partial_sums.py`) read partial sums. All others, and the index of a conditional and the
  condition of a loop, read the sum.
- Only deterministic instructions are executed by every device. Random draws, calls with side effects and instructions
  with a maximal sharding run once (`single_execution.py`).

Responsible for values, tuples, loops and branches, region boundaries and single operations. Does not depend on which
dimensions may be split (`sharding_rules`), which strategy is chosen (`strategy.py`) or how arrays are resharded
(`resharding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeAlias

from xlapy import opcodes
from xlapy.analysis.effects import calls_collectives
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.expand.blocks import reducer_computation
from xlapy.passes.rewrite import Writer
from xlapy.passes.signature import leaves_of
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.rules import SPLIT_RULES
from xlapy.spmd.array_sharding import (
    ArraySharding,
    Tiling,
    are_independent,
    array_sharding_of,
    hlo_sharding_of,
    local_shape,
    refines,
    replica_groups_along,
    replicated,
    uneven_dimensions,
)
from xlapy.spmd.context import InspectSharding, PartitioningContext
from xlapy.spmd.custom_calls import CustomPartition, check_local_shapes, copy_program
from xlapy.spmd.halo.concatenations import concatenates_ranges, expand_concatenation
from xlapy.spmd.halo.local_windows import LOCAL_WINDOW_RULES
from xlapy.spmd.local_operations import LOCAL_OPERATION_RULES, LocalOperation, local_iota
from xlapy.spmd.manual_regions import (
    FULL_TO_SHARD,
    SHARD_TO_FULL,
    ManualAxes,
    axes_without,
    boundary_shardings,
    manual_axes_of_boundary,
    manual_axes_of_uses,
    union_of_axes,
)
from xlapy.spmd.partial_sums import DEFERRABLE_OPS
from xlapy.spmd.reshapes import reshaped_tile
from xlapy.spmd.resharding import PartitionedArray, Resharder
from xlapy.spmd.sharding_rules.local_attributes import local_attributes
from xlapy.spmd.sharding_rules.rules import sharding_factors
from xlapy.spmd.single_execution import Executions, executions_of, is_deterministic, run_once
from xlapy.spmd.strategy import Strategy, choose_strategy
from xlapy.spmd.uneven_tiles import with_identities

_SHARDING_CONSTRAINT, _INSPECT_SHARDING = "Sharding", "InspectSharding"
_UNSUPPORTED_OPS = frozenset({opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV})

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


def partition_computation(
    context: PartitioningContext,
    old: Computation,
    parameters: Sequence[Placements],
    results: Placements,
    manual_axes: ManualAxes = (),
) -> Computation:
    """Returns a new computation on local arrays.

    parameters, results: the placements of the parameters and of the root. manual_axes: the manual axes of the region
    that calls the computation.
    """
    new = edit.add_computation(context.module, old.name)
    partitioner = _ComputationPartitioner(context, Writer(old.root_instruction, new), old, manual_axes)
    for parameter, placements in zip(old.parameters, parameters, strict=True):
        partitioner.add_parameter(parameter, placements)
    for instruction in post_order(old):
        if instruction.op is not opcodes.PARAMETER:
            partitioner.add(instruction)
    root = old.root_instruction
    partitioner.write.source = root
    leaves = partitioner.resharded(partitioner.values[root], results)
    edit.set_root(new, partitioner.with_leaves(root.shape, leaves))
    return new


def _local_shape(shape: Shape, placements: Sequence[ArraySharding]) -> Shape:
    """Returns the shape of what a device holds of a value."""
    rest = iter(placements)

    def local(one: Shape) -> Shape:
        return Shape.tuple(map(local, one.tuple_shapes)) if one.is_tuple else local_shape(one, next(rest))

    return local(shape)


def _even_sharding(leaf: PartitionedArray) -> ArraySharding:
    """Returns the sharding of an array without partial sums and without tiles that are not full."""
    sharding = leaf.sharding.with_partial_sums(None)
    for dimension in uneven_dimensions(leaf.whole_shape, sharding) if leaf.instruction.shape.is_array else ():
        sharding = sharding.with_tiling(dimension, None)
    return sharding


def _with_leaves(write: Writer, leaves: Iterator[Instruction], shape: Shape) -> Instruction:
    if not shape.is_tuple:
        return next(leaves)
    return write.add(opcodes.TUPLE, *[_with_leaves(write, leaves, element) for element in shape.tuple_shapes])


class _ComputationPartitioner:
    """One partitioned computation under construction.

    values: the partitioned leaves of each value of the old computation. manual_axes: those of the region that calls
    the computation.
    """

    def __init__(self, context: PartitioningContext, write: Writer, old: Computation, manual_axes: ManualAxes) -> None:
        self.context = context
        self.devices = context.devices
        self.write = write
        self.manual_axes = manual_axes
        self.manual_axes_of_uses = manual_axes_of_uses(old, context.devices)
        self.resharder = Resharder(write, context.devices, context.channels)
        self.values: dict[Instruction, list[PartitionedArray]] = {}
        self.equal_operations: dict[Hashable, Instruction] = {}

    # -- values

    def add_parameter(self, parameter: Instruction, placements: Placements) -> None:
        """Writes the parameter on local arrays."""
        shape = _local_shape(parameter.shape, placements)
        attributes = ParameterAttributes.make(number=parameter.parameter_number)
        new = edit.create(
            self.write.computation, opcodes.PARAMETER, attributes=attributes, shape=shape, name=parameter.name
        )
        self._define(parameter, new, placements, self.manual_axes)

    def _define(
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

    def _operands(
        self, operands: Sequence[Instruction], sharding_of: Callable[[PartitionedArray], ArraySharding]
    ) -> list[Instruction]:
        """Returns operands with their leaves resharded as a function of each leaf says."""
        return [
            self.with_leaves(
                o.shape, [self.resharder.reshard(leaf, sharding_of(leaf)).instruction for leaf in self.values[o]]
            )
            for o in operands
        ]

    def _replicated(self, operands: Sequence[Instruction]) -> list[Instruction]:
        return self._operands(operands, lambda leaf: replicated(leaf.instruction.shape))

    def _manual_axes_of(self, instruction: Instruction) -> ManualAxes:
        """Returns the manual axes of the region that an instruction is in.

        They are those of its operands, or of the calling region. Without either, an instruction whose result differs
        from device to device in a region takes those of the regions that use it.
        """
        found = union_of_axes([leaf.manual_axes for operand in instruction.operands for leaf in self.values[operand]])
        if found or self.manual_axes:
            return found or self.manual_axes
        differs = not is_deterministic(instruction) or calls_collectives(instruction)
        return self.manual_axes_of_uses[instruction] if differs else ()

    # -- instructions

    def add(self, instruction: Instruction) -> None:
        """Writes what a device does for an instruction."""
        self.write.source = instruction
        if instruction.op in _UNSUPPORTED_OPS:
            raise UnsupportedError(
                codes.PARTITIONED_OPERATION,
                f"{describe_instruction(instruction)} is not supported in programs for several devices",
            )
        target = instruction.custom_call_target if instruction.op is opcodes.CUSTOM_CALL else ""
        if instruction.op is opcodes.TUPLE:
            self.values[instruction] = [leaf for operand in instruction.operands for leaf in self.values[operand]]
        elif instruction.op is opcodes.GET_TUPLE_ELEMENT:
            self._get_tuple_element(instruction)
        elif target in (_SHARDING_CONSTRAINT, FULL_TO_SHARD, SHARD_TO_FULL):
            self._constraint_or_boundary(instruction)
        elif target == _INSPECT_SHARDING and self.context.inspect is not None:
            self._inspect(instruction, self.context.inspect)
        elif instruction.op is opcodes.WHILE:
            self._while(instruction)
        elif instruction.op in (opcodes.CONDITIONAL, opcodes.CALL):
            self._conditional_or_call(instruction)
        elif target in self.context.per_device_targets:
            self._per_device_call(instruction)
        elif instruction.op is opcodes.OPT_BARRIER:
            self._barrier(instruction)
        elif target and (custom := self._custom_partition(instruction)) is not None:
            self._custom_call(instruction, custom)
        elif executions := executions_of(instruction, self.devices, self._manual_axes_of(instruction)):
            self._run_once(instruction, executions)
        elif (equal := self._equal_operation(instruction)) is not instruction:
            self.values[instruction] = self.values[equal]
        else:
            self._operation(instruction)

    def _get_tuple_element(self, instruction: Instruction) -> None:
        (operand,) = instruction.operands
        counts = [len(list(shape.leaves())) for shape in operand.shape.tuple_shapes]
        start, index = sum(counts[: instruction.tuple_index]), instruction.tuple_index
        self.values[instruction] = self.values[operand][start : start + counts[index]]

    def _barrier(self, instruction: Instruction) -> None:
        leaves = [leaf for operand in instruction.operands for leaf in self.values[operand]]
        new = self.write.add(opcodes.OPT_BARRIER, *self._operands(instruction.operands, lambda leaf: leaf.sharding))
        self._define(instruction, new, [leaf.sharding for leaf in leaves], self._manual_axes_of(instruction))

    # -- sharding constraints, boundaries of manual regions

    def _constraint_or_boundary(self, instruction: Instruction) -> None:
        (operand,) = self.values[instruction.operands[0]]
        if instruction.custom_call_target == FULL_TO_SHARD:
            found = self._full_to_shard(instruction, operand)
        elif instruction.custom_call_target == SHARD_TO_FULL:
            found = self._shard_to_full(instruction, operand)
        else:
            found = self._constrained(instruction, operand)
        self.values[instruction] = [found]

    def _constrained(self, instruction: Instruction, operand: PartitionedArray) -> PartitionedArray:
        """Reshards as the constraint requests; partial sums stay unreduced for a single user, which may defer them."""
        if instruction.sharding is None:
            return operand
        (requested,) = requested_shardings(instruction, self.devices, allow_uneven=True)
        if requested.partial_sums is None and len(instruction.users) == 1:
            deferred = requested.with_partial_sums(operand.sharding.partial_sums)
            is_possible = are_independent([*deferred.all_tilings, *operand.manual_axes])
            requested = deferred if is_possible else requested
        return self.resharder.reshard(operand, requested)

    def _full_to_shard(self, instruction: Instruction, operand: PartitionedArray) -> PartitionedArray:
        outside, inside = boundary_shardings(instruction, self.devices)
        manual_axes = manual_axes_of_boundary(instruction, self.devices)
        local = self.resharder.reshard(operand, outside)
        return PartitionedArray(local.instruction, inside, union_of_axes([operand.manual_axes, manual_axes]))

    def _shard_to_full(self, instruction: Instruction, operand: PartitionedArray) -> PartitionedArray:
        outside, inside = boundary_shardings(instruction, self.devices)
        manual_axes = manual_axes_of_boundary(instruction, self.devices)
        local = self.resharder.reshard(operand, inside)
        return PartitionedArray(local.instruction, outside, axes_without(operand.manual_axes, manual_axes))

    def _inspect(self, instruction: Instruction, inspect: InspectSharding) -> None:
        """Reports the sharding of a value; one that is still unreduced is reported as it will be when reduced."""
        (operand,) = self.values[instruction.operands[0]]
        sharding = hlo_sharding_of(operand.sharding.with_partial_sums(None), self.devices)
        inspect(instruction, Sharding(ShardingKind.MANUAL) if operand.manual_axes else sharding)
        self.values[instruction] = [operand]

    # -- loops and branches

    def _while(self, instruction: Instruction) -> None:
        """Partitions a loop; its state has the placements that the loop's sharding requests, from start to end."""
        placements = requested_shardings(instruction, self.devices, allow_uneven=True)
        condition, body = instruction.computations
        (state,) = instruction.operands
        manual_axes = self._manual_axes_of(instruction)
        decision = [replicated(condition.root_instruction.shape)]
        called = [
            partition_computation(self.context, condition, [placements], decision, manual_axes),
            partition_computation(self.context, body, [placements], placements, manual_axes),
        ]
        start = self.with_leaves(state.shape, self.resharded(self.values[state], placements))
        new = self.write.add(opcodes.WHILE, start, attributes=instruction.attributes, computations=called)
        self._define(instruction, new, placements, manual_axes)

    def _conditional_or_call(self, instruction: Instruction) -> None:
        """Partitions a conditional or call; arguments keep their placements, results get the requested ones."""
        placements = requested_shardings(instruction, self.devices, allow_uneven=True)
        is_call = instruction.op is opcodes.CALL
        arguments = instruction.operands if is_call else instruction.operands[1:]
        given = [[leaf.sharding for leaf in self.values[argument]] for argument in arguments]
        per_computation = [given] if is_call else [[one] for one in given]
        manual_axes = self._manual_axes_of(instruction)
        called = [
            partition_computation(self.context, computation, parameters, placements, manual_axes)
            for computation, parameters in zip(instruction.computations, per_computation, strict=True)
        ]
        index = self._replicated(() if is_call else instruction.operands[:1])
        operands = [*index, *self._operands(arguments, lambda leaf: leaf.sharding)]
        new = self.write.add(instruction.op, *operands, attributes=instruction.attributes, computations=called)
        self._define(instruction, new, placements, manual_axes)

    # -- operations

    def _equal_operation(self, instruction: Instruction) -> Instruction:
        """Returns the first operation with the same operands, attributes and sharding, the results of which are equal.

        A later pass cannot merge them, once they have collectives.
        """
        if instruction.computations or instruction.has_control_edges or instruction.op.family == "collectives":
            return instruction
        if not instruction.operands or instruction.op is opcodes.CUSTOM_CALL:
            return instruction
        key = (instruction.op, instruction.operands, instruction.attributes, instruction.shape, instruction.sharding)
        return self.equal_operations.setdefault(key, instruction)

    def _operation(self, instruction: Instruction) -> None:
        """Writes an operation on local operands as far as its strategy splits it, else on replicated ones."""
        if (along := self._along_split_dimension(instruction)) is not None:
            self.values[instruction] = along
            return
        strategy = self._strategy(instruction)
        if strategy is not None and instruction.op is opcodes.RESHAPE:
            (operand,) = self.values[instruction.operands[0]]
            (wanted,) = requested_shardings(instruction, self.devices, allow_uneven=True)
            reshaped = reshaped_tile(self.write, instruction, operand, strategy.operands[0], wanted)
            if reshaped is not None:
                self.values[instruction] = [reshaped]
                return
        manual_axes = self._manual_axes_of(instruction)
        if strategy is None or not strategy.is_split:
            operands = self._replicated(instruction.operands)
            new = self._whole_operation(instruction, operands)
            self._define(instruction, new, [replicated(leaf) for _, leaf in instruction.shape.leaves()], manual_axes)
            return
        new = self._local_operation(instruction, strategy, manual_axes)
        self._define(instruction, new, strategy.results, manual_axes)
        (first, *_) = requested = requested_shardings(instruction, self.devices, allow_uneven=True)
        if first.partial_sums is None and len(instruction.users) != 1 and not instruction.is_root:
            pairs = zip(self.values[instruction], requested, strict=True)
            self.values[instruction] = [self._reduced(leaf, sharding) for leaf, sharding in pairs]

    def _whole_operation(self, instruction: Instruction, operands: Sequence[Instruction]) -> Instruction:
        """Writes an operation that each device computes as a whole."""
        if concatenates_ranges(instruction):
            return expand_concatenation(self.write, instruction, operands)
        new = edit.clone_instruction(instruction, self.write.computation, operands)
        new.sharding = None
        return new

    def _along_split_dimension(self, instruction: Instruction) -> list[PartitionedArray] | None:
        """Returns the results of an operation along a dimension that is split; None if no rule applies."""
        rule = SPLIT_RULES.get(instruction.op)
        shapes = [*instruction.operand_shapes, *(leaf for _, leaf in instruction.shape.leaves())]
        if rule is None or not all(shape.is_array and not shape.is_dynamic for shape in shapes):
            return None
        operands = [self.values[operand][0] for operand in instruction.operands]
        requested: Placements = []
        if instruction.sharding is not None:
            requested = requested_shardings(instruction, self.devices, allow_uneven=True)
        manual_axes = self._manual_axes_of(instruction)
        return rule(SplitOperation(self.resharder, instruction, operands, requested, manual_axes))

    def _strategy(self, instruction: Instruction) -> Strategy | None:
        """Returns the strategy of an operation; None if an operand or result is not an array."""
        shapes = [operand.shape for operand in instruction.operands] + [leaf for _, leaf in instruction.shape.leaves()]
        if not all(shape.is_array for shape in shapes):
            return None
        operands = [self.values[operand][0] for operand in instruction.operands]
        placements = requested_shardings(instruction, self.devices, allow_uneven=True)
        kept = placements[0].partial_sums if placements else None
        requested = placements if instruction.sharding is not None else [None] * len(placements)
        factors = sharding_factors(instruction)
        return choose_strategy(instruction, factors, requested, operands, kept or self._deferred(instruction))

    def _deferred(self, instruction: Instruction) -> Tiling | None:
        """Returns the partial sums that an operation may leave unreduced: those that only it uses."""
        if instruction.op not in DEFERRABLE_OPS:
            return None
        found = {leaf.sharding.partial_sums for operand in instruction.operands for leaf in self.values[operand]}
        is_only_user = all(len(operand.users) == 1 for operand in instruction.operands)
        return found.pop() if is_only_user and len(found) == 1 else None

    def _local_operation(self, instruction: Instruction, strategy: Strategy, manual_axes: ManualAxes) -> Instruction:
        operands = [
            self.resharder.reshard(self.values[operand][0], sharding).instruction
            for operand, sharding in zip(instruction.operands, strategy.operands, strict=True)
        ]
        shape = _local_shape(instruction.shape, strategy.results)
        if instruction.op is opcodes.IOTA:
            return local_iota(self.resharder, instruction, shape, strategy.results[0])
        attributes = local_attributes(instruction, [operand.shape for operand in operands], shape)
        local = LocalOperation(
            self.resharder, instruction, operands, attributes, shape, strategy.operands, strategy.results, manual_axes
        )
        local = with_identities(local, strategy)
        rules = LOCAL_WINDOW_RULES if instruction.op in LOCAL_WINDOW_RULES else LOCAL_OPERATION_RULES
        rule = rules.get(instruction.op, LocalOperation.write)
        new = rule(local)
        for factor in strategy.all_reduced:
            others = [tiling for other, tiling in strategy.factor_tilings.items() if other is not factor]
            groups = replica_groups_along(strategy.factor_tilings[factor], [*others, *manual_axes])
            combine = instruction.computations[0] if instruction.computations else None
            new = self.resharder.all_reduce(
                new, combine or reducer_computation(self.write, opcodes.ADD, shape.element_type), groups
            )
        return new

    def _reduced(self, leaf: PartitionedArray, requested: ArraySharding) -> PartitionedArray:
        """Adds up partial sums that have several users, once, and splits the sum as requested where that is free."""
        if leaf.sharding.partial_sums is None:
            return leaf
        target = leaf.sharding.with_partial_sums(None)
        for dimension, tiling in enumerate(requested.tilings):
            split = target.with_tiling(dimension, tiling)
            is_independent = are_independent([*split.all_tilings, *leaf.manual_axes])
            if refines(tiling, target.tilings[dimension]) and is_independent:
                target = split
        return self.resharder.reshard(leaf, target)

    # -- what each device, or one device, does by itself

    def _per_device_call(self, instruction: Instruction) -> None:
        """Writes a custom call without results that each device runs on its own local operands."""
        operands = self._operands(instruction.operands, _even_sharding)
        new = edit.clone_instruction(instruction, self.write.computation, operands)
        new.attributes = new.attributes.replace(operand_layout_constraints=None)
        new.sharding = None
        self.values[instruction] = []

    def _custom_partition(self, instruction: Instruction) -> CustomPartition | None:
        """Returns how a custom partitioner partitions a custom call; None if it does not."""
        partitioner = self.context.custom_partitioner
        leaves = [self.values[operand] for operand in instruction.operands]
        if partitioner is None or not all(len(one) == 1 for one in leaves):
            return None
        operands = [hlo_sharding_of(_even_sharding(leaf), self.devices) for (leaf,) in leaves]
        requested = requested_shardings(instruction, self.devices) if instruction.sharding is not None else None
        if requested is None:
            return partitioner(instruction, operands, None)
        results = [hlo_sharding_of(each.with_partial_sums(None), self.devices) for each in requested]
        return partitioner(instruction, operands, results)

    def _custom_call(self, instruction: Instruction, custom: CustomPartition) -> None:
        """Writes a call of the program that a custom partitioner returned."""
        leaves = [self.values[operand][0] for operand in instruction.operands]
        shardings = [
            array_sharding_of(sharding, operand.shape, self.devices)
            for sharding, operand in zip(custom.operands, instruction.operands, strict=True)
        ]
        operands = self.resharded(leaves, shardings)
        results = [
            array_sharding_of(sharding, leaf, self.devices)
            for sharding, (_, leaf) in zip(custom.results, instruction.shape.leaves(), strict=True)
        ]
        program = copy_program(custom.program, self.context.module, instruction, self.context.channels)
        local = [leaf for _, leaf in _local_shape(instruction.shape, results).leaves()]
        check_local_shapes(instruction, program, [operand.shape for operand in operands], local)
        new = self.write.add(opcodes.CALL, *operands, computations=[program])
        self._define(instruction, new, results, self._manual_axes_of(instruction))

    def _run_once(self, instruction: Instruction, executions: Executions) -> None:
        leaves = run_once(self.resharder, instruction, self._replicated(instruction.operands), executions)
        manual_axes = self._manual_axes_of(instruction)
        self.values[instruction] = [
            PartitionedArray(leaf, replicated(shape), manual_axes)
            for leaf, (_, shape) in zip(leaves, instruction.shape.leaves(), strict=True)
        ]
