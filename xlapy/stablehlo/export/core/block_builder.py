"""Builds a StableHLO block from the instructions of a computation.

Responsible for `BlockBuilder`: the values of each instruction, the emitted operations with their locations and
annotations, and the blocks of regions. Does not depend on particular opcodes (see `rules`) or on how functions and the
module are exported (see `module_exporter`); it reaches both through `ModuleContext`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError, XlaError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.annotations import annotation_attributes
from xlapy.stablehlo.export.core.dropped import DroppedInformation
from xlapy.stablehlo.export.core.locations import LocationExporter
from xlapy.stablehlo.export.core.types import leaves, type_of, types_of
from xlapy.stablehlo.export.core.value_tree import ValueTree, flatten, unflatten

_MAX_NESTING_DEPTH = 100
"""The deepest nesting of computations. The export is recursive: more could exhaust the stack."""


_MAX_COPIED_INSTRUCTIONS = 1 << 15
_MAX_COPIES_PER_INSTRUCTION = 32
"""Instructions of a program, as a number and for each instruction of the module. A computation is written once for each
instruction that calls it, so computations that share double with each level."""
_INSTRUCTIONS_PER_BLOCK = 4
"""What a block counts as besides its instructions."""


class ExportFailure(UnsupportedError):
    """An instruction that cannot be exported. The message begins with the instruction's name."""


class ModuleContext(Protocol):
    """The services of the module exporter that builders and export rules use. `ModuleExporter` implements them."""

    module: Module
    locations: LocationExporter
    dropped: DroppedInformation
    instructions_left: int

    def apply_rule(self, builder: BlockBuilder, instruction: Instruction) -> ValueTree:
        """Emits the operations of an instruction by its export rule and returns the values of its result."""
        ...

    def function_name(self, computation: Computation) -> str:
        """Returns the name of the function that a called computation is exported as."""
        ...

    def decomposition(self, instruction: Instruction) -> Computation:
        """Returns a computation of simpler instructions that computes an elementwise instruction."""
        ...

    def is_in_signature(self, instruction: Instruction, attribute: str) -> bool:
        """Returns whether an annotation of an instruction is part of the entry function's signature."""
        ...


class BlockBuilder:
    """The block of a function or region under construction.

    `values` holds the values of each instruction's result, `parameters` those of the computation's parameters.
    """

    def __init__(self, context: ModuleContext, depth: int = 0) -> None:
        if depth > _MAX_NESTING_DEPTH:
            raise UnsupportedError(
                codes.EXPORTED_SIZE, f"computations nested more than {_MAX_NESTING_DEPTH} deep cannot become StableHLO"
            )
        self.context = context
        self.depth = depth
        self.block = ir.Block()
        self.values: dict[Instruction, ValueTree] = {}
        self.parameters: Sequence[ValueTree] = ()
        self._current: Instruction | None = None

    # -- blocks

    def _add_argument(self, type_: ir.Type, name: str) -> ir.Value:
        value = ir.Value(type_, self.block, len(self.block.arguments), name)
        self.block.arguments.append(value)
        return value

    def add_arguments(self, parameter: Instruction) -> ValueTree:
        """Adds a block argument for each leaf of a parameter's shape and returns the arguments."""
        names = _names(parameter.name, len(leaves(parameter.shape)))
        try:
            types = types_of(parameter.shape)
        except UnsupportedError as error:
            raise ExportFailure(error.code, f"{describe_instruction(parameter)}: {error.message}") from error
        values = [self._add_argument(type_, name) for type_, name in zip(types, names, strict=True)]
        return unflatten(parameter.shape, values)

    def export_computation(self, computation: Computation, operands: Sequence[ValueTree]) -> ValueTree:
        """Emits the operations of a computation into this block and returns the values of its root."""
        self._count_instructions(computation)
        self.parameters = operands
        for instruction in post_order(computation):
            self.values[instruction] = self._export_instruction(instruction)
        return self.values[computation.root_instruction]

    def _count_instructions(self, computation: Computation) -> None:
        self.context.instructions_left -= len(computation.instructions) + _INSTRUCTIONS_PER_BLOCK
        if self.context.instructions_left < 0:
            limit = most_instructions(self.context.module)
            raise UnsupportedError(
                codes.EXPORTED_SIZE,
                f"{computation.name}: StableHLO has a copy of a computation for each of its callers, and these copies "
                f"have more than {limit:,} instructions",
            )

    def _export_instruction(self, instruction: Instruction) -> ValueTree:
        outer, self._current = self._current, instruction
        first_operation = len(self.block.operations)
        try:
            tree = self.context.apply_rule(self, instruction)
        except ExportFailure:
            raise
        except XlaError as error:
            raise ExportFailure(error.code, f"{describe_instruction(instruction)}: {error.message}") from error
        self._annotate(instruction, self.block.operations[first_operation:])
        self._current = outer
        return tree

    def inline(self, computation: Computation, operands: Sequence[ValueTree]) -> ValueTree:
        """Emits the operations of a called computation into this block and returns the values of its root."""
        inner = BlockBuilder(self.context, self.depth + 1)
        inner.block = self.block
        return inner.export_computation(computation, operands)

    def _annotate(self, instruction: Instruction, operations: Sequence[ir.Operation]) -> None:
        """Sets an instruction's sharding, frontend attributes and accuracy on the last operation emitted for it."""
        self.context.dropped.check_instruction(instruction)
        attributes = annotation_attributes(instruction)
        if operations:
            operations[-1].attributes.update(attributes)
            return
        for attribute in attributes:
            if not self.context.is_in_signature(instruction, attribute):
                self.context.dropped.add(attribute, instruction.name)

    def finish(self, terminator: str, results: ValueTree) -> ir.Block:
        """Adds the terminator of the block and returns the block."""
        self.block.operations.append(ir.Operation(terminator, flatten(results)))
        return self.block

    # -- operations

    def operands(self, instruction: Instruction) -> list[ir.Value]:
        """Returns the values of all operands of an instruction, with tuples flattened."""
        return [value for operand in instruction.operands for value in flatten(self.values[operand])]

    def value(self, instruction: Instruction) -> ir.Value:
        """Returns the value of an instruction whose shape is not a tuple."""
        tree = self.values[instruction]
        assert isinstance(tree, ir.Value)
        return tree

    def emit(
        self,
        name: str,
        operands: Iterable[ir.Value],
        types: Sequence[ir.Type],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[ir.Block] = (),
    ) -> list[ir.Value]:
        """Adds an operation and returns its results, named after the instruction that is being exported."""
        operation = ir.Operation(name, list(operands), attributes=dict(attributes or {}))
        operation.regions = [ir.Region([block]) for block in regions]
        current = self._current
        base = current.name if current is not None else ""
        operation.results = [ir.Value(type_, operation, index, base) for index, type_ in enumerate(types)]
        if current is not None:
            operation.location = self.context.locations.location_of(current.metadata)
        self.block.operations.append(operation)
        return operation.results

    def emit_single(
        self,
        name: str,
        operands: Iterable[ir.Value],
        shape: Shape,
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[ir.Block] = (),
    ) -> ir.Value:
        """Adds an operation with one result, which has the given shape, and returns the result."""
        return self.emit(name, operands, [type_of(shape)], attributes, regions)[0]

    def emit_for(
        self,
        name: str,
        instruction: Instruction,
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[ir.Block] = (),
        operands: Iterable[ir.Value] | None = None,
    ) -> ValueTree:
        """Adds the operation that corresponds to an instruction and returns its results in the instruction's shape.

        The operation has all operands of the instruction, unless `operands` replaces them.
        """
        given = self.operands(instruction) if operands is None else operands
        results = self.emit(name, given, types_of(instruction.shape), attributes, regions)
        return unflatten(instruction.shape, results)

    # -- regions

    def _nested_builder(self) -> BlockBuilder:
        """Returns the builder of a region of the operation that is emitted next."""
        inner = BlockBuilder(self.context, self.depth + 1)
        inner._current = self._current
        return inner

    def region(self, computation: Computation) -> ir.Block:
        """Exports a computation as a region with one block argument per leaf of its parameters."""
        inner = self._nested_builder()
        operands = [inner.add_arguments(parameter) for parameter in computation.parameters]
        return inner.finish("stablehlo.return", inner.export_computation(computation, operands))

    def branch_region(self, computation: Computation, operand: ValueTree) -> ir.Block:
        """Exports the computation of a branch as a region without arguments, which captures the operand's values."""
        inner = self._nested_builder()
        results = inner.export_computation(computation, [operand][: len(computation.parameters)])
        return inner.finish("stablehlo.return", results)


def most_instructions(module: Module) -> int:
    """Returns the largest number of instructions that are exported for a module."""
    return _MAX_COPIED_INSTRUCTIONS + _MAX_COPIES_PER_INSTRUCTION * module.instruction_count


def _names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}.{index}" for index in range(count)]
