"""Propagates shardings through a program: gives a sharding to values without one, from their operands and users.

XLA's counterpart is ShardingPropagation, Shardy's its propagation passes. A value that an annotation names keeps that
sharding; other values are open, and take the tilings of the dimensions that a sharding rule puts into one factor with
theirs. Elementwise operations and movement come first, because they compute nothing that could be split otherwise; then
products, reductions and the like. Values of loops, branches and tuples are propagated through: the state of a loop has
one sharding from start to end.

A result is a proposal. `strategy.py` decides, operation by operation, and takes it as the request of later users.

Responsible for the shardings of values. Does not depend on costs. Programs with manual regions are left as they are:
JAX has propagated their shardings already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.hlo.traverse import post_order
from xlapy.spmd.array_sharding import ArraySharding, array_sharding_of, divides_evenly, hlo_sharding_of
from xlapy.spmd.manual_regions import FULL_TO_SHARD
from xlapy.spmd.sharding_rules.factors import Factor
from xlapy.spmd.sharding_rules.rules import sharding_factors
from xlapy.spmd.tiling import Tiling, are_independent, tile_count

MAX_ROUNDS: Final = 16
"""The largest number of times that the program is gone through; each goes forwards and backwards. Programs whose loops
are nested deeper than that keep open values, which are then sharded operation by operation."""

_PASSED_ON: Final = frozenset({opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.OPT_BARRIER})
_MOVEMENT: Final = frozenset(
    {
        opcodes.BITCAST_CONVERT, opcodes.BROADCAST, opcodes.COPY, opcodes.PAD, opcodes.RESHAPE, opcodes.REVERSE,
        opcodes.SLICE, opcodes.TRANSPOSE,
    }
)  # fmt: skip


@dataclass(eq=False, slots=True)
class _Array:
    """An array of the program; several values may be the same array, as the states of a loop are.

    is_open: whether no annotation names its sharding. tilings: those known so far, one for each dimension.
    """

    shape: Shape
    is_open: bool = True
    tilings: list[Tiling | None] = field(default_factory=list[Tiling | None])
    merged_into: _Array | None = None

    def find(self) -> _Array:
        """Returns the array that stands for this one and all that are the same."""
        found = self
        while found.merged_into is not None:
            found = found.merged_into
        return found

    def propose(self, dimension: int, tiling: Tiling) -> bool:
        """Splits a dimension of an open array that is not split yet, if it is possible; returns whether it was."""
        if not self.is_open or self.tilings[dimension] is not None:
            return False
        if not divides_evenly(self.shape.dimensions[dimension], tiling):
            return False
        if not are_independent([tiling, *self.tilings]):
            return False
        self.tilings[dimension] = tiling
        return True


def propagate_shardings(module: Module, devices: int) -> None:
    """Gives shardings to the instructions of a module that have none, where those of other instructions suggest one."""
    instructions = list(module.instructions())
    if any(i.op is opcodes.CUSTOM_CALL and i.custom_call_target == FULL_TO_SHARD for i in instructions):
        return
    if all(instruction.sharding is None for instruction in instructions):
        return
    propagation = _Propagation(module, devices)
    propagation.run()
    propagation.write()


class _Propagation:
    """The arrays of a module, and what is known of their shardings."""

    def __init__(self, module: Module, devices: int) -> None:
        self.module = module
        self.devices = devices
        self.arrays: dict[Instruction, list[_Array]] = {}
        self.orders = {computation: post_order(computation) for computation in module.computations}
        self.rules: dict[Computation, list[tuple[Instruction, bool, list[Factor]]]] = {}
        for order in self.orders.values():
            for instruction in order:
                self.arrays[instruction] = self._arrays_of(instruction)
        for order in self.orders.values():
            for instruction in order:
                self._merge_with_called(instruction)
        for order in self.orders.values():
            for instruction in order:
                self._annotate(instruction)
        self._close_entry(module.entry_computation)
        for computation, order in self.orders.items():
            self.rules[computation] = list(self._rules_of(order))

    # -- the arrays of the program

    def _arrays_of(self, instruction: Instruction) -> list[_Array]:
        if instruction.op is opcodes.TUPLE:
            return [array for operand in instruction.operands for array in self.arrays[operand]]
        if instruction.op is opcodes.GET_TUPLE_ELEMENT:
            (operand,) = instruction.operands
            counts = [len(list(shape.leaves())) for shape in operand.shape.tuple_shapes]
            start = sum(counts[: instruction.tuple_index])
            return self.arrays[operand][start : start + counts[instruction.tuple_index]]
        if instruction.op is opcodes.OPT_BARRIER:
            return [array for operand in instruction.operands for array in self.arrays[operand]]
        return [
            _Array(leaf, tilings=[None] * leaf.rank if leaf.is_array else []) for _, leaf in instruction.shape.leaves()
        ]

    def _merge_with_called(self, instruction: Instruction) -> None:
        """Merges the values that a loop, a branch or a call passes to its computations and gets from them."""
        op, own = instruction.op, self.arrays[instruction]
        called = instruction.computations
        if op is opcodes.WHILE:
            condition, body = called
            states = [instruction.operands[0], condition.parameters[0], body.parameters[0], body.root_instruction]
            for state in states:
                self._merge(own, self.arrays[state])
        elif op is opcodes.CONDITIONAL:
            for branch, argument in zip(called, instruction.operands[1:], strict=True):
                self._merge(own, self.arrays[branch.root_instruction])
                self._merge(self.arrays[argument], self.arrays[branch.parameters[0]])

    def _merge(self, some: Sequence[_Array], others: Sequence[_Array]) -> None:
        for one, other in zip(some, others, strict=True):
            first, second = one.find(), other.find()
            if first is not second:
                second.merged_into = first

    def _annotate(self, instruction: Instruction) -> None:
        """Closes the arrays of an instruction with a sharding; of arrays with several annotations, the first counts."""
        sharding, arrays = instruction.sharding, self.arrays[instruction]
        if sharding is None or instruction.op in _PASSED_ON:
            return
        parts = sharding.elements or (sharding,) * len(arrays)
        if len(parts) != len(arrays):
            return
        for part, array in zip(parts, arrays, strict=True):
            known = array.find()
            if known.is_open:
                known.tilings = list(array_sharding_of(part, known.shape, self.devices).tilings)
                known.is_open = False

    def _close_entry(self, entry: Computation) -> None:
        """Closes the parameters and the result of the program, which are whole unless they may be propagated to."""
        config = self.module.config
        to_parameters = config.allow_spmd_sharding_propagation_to_parameters
        for number, parameter in enumerate(entry.parameters):
            if not (to_parameters[number] if number < len(to_parameters) else to_parameters[-1]):
                self._close(parameter)
        root = entry.root_instruction
        if root.op not in _PASSED_ON and not all(config.allow_spmd_sharding_propagation_to_output):
            self._close(root)

    def _close(self, instruction: Instruction) -> None:
        for array in self.arrays[instruction]:
            array.find().is_open = False

    # -- propagation

    def _rules_of(self, order: Iterable[Instruction]) -> Iterator[tuple[Instruction, bool, list[Factor]]]:
        """Yields each operation on arrays with its factors, and whether it is elementwise or movement."""
        for instruction in order:
            op = instruction.op
            if (
                op in _PASSED_ON
                or op.family == "collectives"
                or instruction.op in (opcodes.PARAMETER, opcodes.CONSTANT)
            ):
                continue
            operands = [operand.shape for operand in instruction.operands]
            if not all(shape.is_array for shape in (*operands, *(leaf for _, leaf in instruction.shape.leaves()))):
                continue
            is_constraint = op is opcodes.CUSTOM_CALL and instruction.custom_call_target == "Sharding"
            if is_constraint:
                factors = [Factor((dimension,), (dimension,)) for dimension in range(instruction.shape.rank)]
            else:
                factors = sharding_factors(instruction)
            if factors:
                yield instruction, op.elementwise or op in _MOVEMENT or is_constraint, factors

    def run(self) -> None:
        """Propagates until nothing changes."""
        for _ in range(MAX_ROUNDS):
            while self._sweep(only_movement=True):
                pass
            if not self._sweep(only_movement=False):
                return

    def _sweep(self, only_movement: bool) -> bool:
        """Goes through all operations, forwards and backwards; returns whether a sharding changed."""
        changed = False
        for rules in self.rules.values():
            for sequence in (rules, reversed(rules)):
                for instruction, is_movement, factors in sequence:
                    if is_movement or not only_movement:
                        changed |= self._propagate(instruction, factors)
        return changed

    def _propagate(self, instruction: Instruction, factors: Sequence[Factor]) -> bool:
        """Splits all dimensions of a factor as the one is that is split into most tiles; the result comes first."""
        results = [array.find() for array in self.arrays[instruction]]
        operands = [self.arrays[operand][0].find() for operand in instruction.operands]
        changed = False
        for factor in factors:
            places = [
                (array, dimension)
                for array, dimension in (
                    *zip(results, factor.results, strict=True), *zip(operands, factor.operands, strict=True),
                )
                if dimension is not None
            ]  # fmt: skip
            tiling = max([array.tilings[dimension] for array, dimension in places], key=tile_count, default=None)
            if tiling is not None:
                for array, dimension in places:
                    changed |= array.propose(dimension, tiling)
        return changed

    # -- the result

    def write(self) -> None:
        """Gives the instructions without a sharding the one that was found, if it splits anything."""
        for order in self.orders.values():
            for instruction in order:
                if instruction.sharding is None and instruction.op not in _PASSED_ON:
                    instruction.sharding = self._found(instruction)
        root = self.module.entry_computation.root_instruction
        if root.sharding is None and all(self.module.config.allow_spmd_sharding_propagation_to_output):
            root.sharding = self._found(root)

    def _found(self, instruction: Instruction) -> Sharding | None:
        arrays = [array.find() for array in self.arrays[instruction]]
        if not any(tiling for array in arrays for tiling in array.tilings):
            return None
        found = [hlo_sharding_of(ArraySharding(tuple(array.tilings)), self.devices) for array in arrays]
        if not instruction.shape.is_tuple:
            return found[0]
        return Sharding(ShardingKind.TUPLE, elements=tuple(found))
