"""Partitions one computation: writes what each device does for each of its instructions.

XLA's counterpart is SpmdPartitioningVisitor. An operation is split along the dimensions that its sharding names or that
its operands are split along, if a factor of its sharding rule covers them; operands are resharded to fit. Anything else
is computed by every device from replicated operands. Inside manual regions, arrays are local along the manual axes and
are split along other axes only. Two rules keep the results those of the whole program:
- Only linear operations (`partial_sums.py`) read partial sums. All others, and the index of a conditional and the
  condition of a loop, read the sum.
- Only deterministic instructions are executed by every device. Random draws, calls with side effects and instructions
  with a maximal sharding run once (`single_execution.py`).

Responsible for tuples, loops, branches and single operations, and for which module writes other instructions. Does not
depend on which dimensions may be split (`sharding_rules`), which strategy is chosen (`strategy.py`) or how arrays are
resharded (`resharding.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xlapy import opcodes
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.traverse import post_order
from xlapy.passes.expand.blocks import reducer_computation
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.ragged_dots import local_ragged_dot
from xlapy.spmd.along_dimension.rules import SPLIT_RULES
from xlapy.spmd.array_sharding import ArraySharding, Tiling, are_independent, refines, replica_groups_along, replicated
from xlapy.spmd.collectives.loop_placements import loop_placements
from xlapy.spmd.constraints import add_constraint_or_boundary, add_inspection
from xlapy.spmd.context import PartitioningContext
from xlapy.spmd.custom_calls import add_custom_call, add_per_device_call, custom_partition_of
from xlapy.spmd.halo.concatenations import concatenates_ranges, expand_concatenation
from xlapy.spmd.halo.local_windows import LOCAL_WINDOW_RULES
from xlapy.spmd.local_operations import LOCAL_OPERATION_RULES, LocalOperation, local_iota
from xlapy.spmd.manual_regions import FULL_TO_SHARD, SHARD_TO_FULL, ManualAxes
from xlapy.spmd.partial_sums import DEFERRABLE_OPS
from xlapy.spmd.partitioned_values import PartitionedValues, Placements, local_value_shape, requested_shardings
from xlapy.spmd.reshapes import reshaped_array
from xlapy.spmd.resharding import PartitionedArray
from xlapy.spmd.sharding_rules.local_attributes import local_attributes
from xlapy.spmd.sharding_rules.rules import sharding_factors
from xlapy.spmd.single_execution import Executions, executions_of, run_once
from xlapy.spmd.strategy import Strategy, choose_strategy
from xlapy.spmd.uneven_tiles import with_identities

_SHARDING_CONSTRAINT, _INSPECT_SHARDING = "Sharding", "InspectSharding"
_UNSUPPORTED_OPS = frozenset({opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV})

_LOCAL_RULES = {**LOCAL_OPERATION_RULES, **LOCAL_WINDOW_RULES, opcodes.RAGGED_DOT: local_ragged_dot}
"""What each device writes for an operation whose local operation is not the operation on local operands."""


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


class _ComputationPartitioner(PartitionedValues):
    """One partitioned computation under construction.

    equal_operations: the first operation of each set of operations with equal results.
    """

    def __init__(self, context: PartitioningContext, write: Writer, old: Computation, manual_axes: ManualAxes) -> None:
        super().__init__(context, write, old, manual_axes)
        self.equal_operations: dict[Hashable, Instruction] = {}

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
            add_constraint_or_boundary(self, instruction)
        elif target == _INSPECT_SHARDING and self.context.inspect is not None:
            add_inspection(self, instruction, self.context.inspect)
        elif instruction.op is opcodes.WHILE:
            self._while(instruction)
        elif instruction.op in (opcodes.CONDITIONAL, opcodes.CALL):
            self._conditional_or_call(instruction)
        elif target in self.context.per_device_targets:
            add_per_device_call(self, instruction)
        elif instruction.op is opcodes.OPT_BARRIER:
            self._barrier(instruction)
        elif target and (custom := custom_partition_of(self, instruction)) is not None:
            add_custom_call(self, instruction, custom)
        elif executions := executions_of(instruction, self.devices, self.manual_axes_of(instruction)):
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
        operands = self.resharded_operands(instruction.operands, lambda leaf: leaf.sharding)
        new = self.write.add(opcodes.OPT_BARRIER, *operands)
        self.define(instruction, new, [leaf.sharding for leaf in leaves], self.manual_axes_of(instruction))

    # -- loops and branches

    def _while(self, instruction: Instruction) -> None:
        """Partitions a loop; its state has the same placements from start to end (`loop_placements.py`)."""
        condition, body = instruction.computations
        (state,) = instruction.operands
        manual_axes = self.manual_axes_of(instruction)
        requested = requested_shardings(instruction, self.devices, allow_uneven=True)
        placements = loop_placements(instruction, requested, manual_axes)
        decision = [replicated(condition.root_instruction.shape)]
        called = [
            partition_computation(self.context, condition, [placements], decision, manual_axes),
            partition_computation(self.context, body, [placements], placements, manual_axes),
        ]
        start = self.with_leaves(state.shape, self.resharded(self.values[state], placements))
        new = self.write.add(opcodes.WHILE, start, attributes=instruction.attributes, computations=called)
        self.define(instruction, new, placements, manual_axes)

    def _conditional_or_call(self, instruction: Instruction) -> None:
        """Partitions a conditional or call; arguments keep their placements, results get the requested ones."""
        placements = requested_shardings(instruction, self.devices, allow_uneven=True)
        is_call = instruction.op is opcodes.CALL
        arguments = instruction.operands if is_call else instruction.operands[1:]
        given = [[leaf.sharding for leaf in self.values[argument]] for argument in arguments]
        per_computation = [given] if is_call else [[one] for one in given]
        manual_axes = self.manual_axes_of(instruction)
        called = [
            partition_computation(self.context, computation, parameters, placements, manual_axes)
            for computation, parameters in zip(instruction.computations, per_computation, strict=True)
        ]
        index = self.replicated_operands(() if is_call else instruction.operands[:1])
        operands = [*index, *self.resharded_operands(arguments, lambda leaf: leaf.sharding)]
        new = self.write.add(instruction.op, *operands, attributes=instruction.attributes, computations=called)
        self.define(instruction, new, placements, manual_axes)

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
            reshaped = reshaped_array(self.resharder, instruction, operand, strategy, wanted)
            if reshaped is not None:
                self.values[instruction] = [reshaped]
                return
        manual_axes = self.manual_axes_of(instruction)
        if strategy is None or not strategy.is_split:
            operands = self.replicated_operands(instruction.operands)
            new = self._whole_operation(instruction, operands)
            self.define(instruction, new, [replicated(leaf) for _, leaf in instruction.shape.leaves()], manual_axes)
            return
        new = self._local_operation(instruction, strategy, manual_axes)
        self.define(instruction, new, strategy.results, manual_axes)
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
        manual_axes = self.manual_axes_of(instruction)
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
        shape = local_value_shape(instruction.shape, strategy.results)
        if instruction.op is opcodes.IOTA:
            return local_iota(self.resharder, instruction, shape, strategy.results[0])
        attributes = local_attributes(instruction, [operand.shape for operand in operands], shape)
        local = LocalOperation(
            self.resharder, instruction, operands, attributes, shape, strategy.operands, strategy.results, manual_axes
        )
        local = with_identities(local, strategy)
        rule = _LOCAL_RULES.get(instruction.op, LocalOperation.write)
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

    def _run_once(self, instruction: Instruction, executions: Executions) -> None:
        leaves = run_once(self.resharder, instruction, self.replicated_operands(instruction.operands), executions)
        manual_axes = self.manual_axes_of(instruction)
        self.values[instruction] = [
            PartitionedArray(leaf, replicated(shape), manual_axes)
            for leaf, (_, shape) in zip(leaves, instruction.shape.leaves(), strict=True)
        ]
