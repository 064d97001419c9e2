"""Builds one HLO computation from StableHLO operations.

Responsible for `ComputationBuilder`: it imports operations in order, binds their results, emits instructions and turns
regions into called computations. Does not depend on particular operations (see `rules`) or on how functions and modules
are imported (see `module_importer`); it reaches both through `ModuleContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.error_codes.formats import stablehlo_text as text_codes
from xlapy.base.errors import ShapeError, UnsupportedError, XlaError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.movement import BroadcastAttributes, DimensionsAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ConstantAttributes, ParameterAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.annotations import Annotations
from xlapy.stablehlo.importing.core.constant_evaluation import ConstantEvaluator
from xlapy.stablehlo.importing.core.failure import ImportFailure
from xlapy.stablehlo.importing.core.locations import LocationImporter
from xlapy.stablehlo.importing.core.types import is_compatible, known_shape, type_text

_ALWAYS_CLONED = frozenset({opcodes.CONSTANT, opcodes.IOTA})
"""Opcodes that are cloned into a called computation instead of becoming one of its operands."""


class ModuleContext(Protocol):
    """The services of the module importer that builders and import rules use. `ModuleImporter` implements them."""

    module: Module
    locations: LocationImporter
    constants: ConstantEvaluator
    annotations: Annotations

    def literal_of(self, value: ir.ElementsAttribute, shape: Shape) -> Literal:
        """Returns the elements of an attribute as a literal; the same for all operations that have the attribute."""
        ...

    def nested(self) -> AbstractContextManager[None]:
        """Enters a region or an inlined function. Raises `UnsupportedError` if they nest too deep."""
        ...

    def count_instruction(self) -> None:
        """Counts an instruction. Raises `UnsupportedError` if a program becomes far more of them than it is long."""
        ...

    def count_repetitions(self, count: int) -> None:
        """Counts inlined operations and captured values. Raises `UnsupportedError` if there are too many."""
        ...

    def apply_rule(self, builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
        """Emits an operation by its import rule and returns one instruction per result."""
        ...

    def call(
        self,
        builder: ComputationBuilder,
        name: str,
        operands: Sequence[Instruction],
        composite: Mapping[str, str] | None = None,
    ) -> list[Instruction]:
        """Emits a call of a function and returns one instruction per result."""
        ...

    def computation(self, name: str) -> Computation:
        """Returns the computation that a function is imported as."""
        ...


class ComputationBuilder:
    """A computation under construction.

    `values` maps the StableHLO values that are visible in the computation to their instructions. `metadata`, `name` and
    `frontend_attributes` belong to the operation that is being imported; every instruction emitted for it gets them.
    """

    def __init__(self, context: ModuleContext, name: str) -> None:
        self.context = context
        self.computation = Computation(name)
        self.values: dict[ir.Value, Instruction] = {}
        self.metadata: OpMetadata | None = None
        self.name: str | None = None
        self.frontend_attributes: dict[str, str] | None = None
        self._copies: dict[Instruction, Instruction] = {}

    # -- operations

    def import_block(self, block: ir.Block) -> list[Instruction]:
        """Imports the operations of a block and returns the operands of its terminator."""
        if not block.operations:
            raise ShapeError(codes.REGION_BLOCK, "its body is empty")
        self.import_operations(block.operations[:-1])
        terminator = block.operations[-1]
        if terminator.results or not terminator.name.endswith("return"):
            raise ShapeError(codes.REGION_BLOCK, f"its body ends in {terminator.name}, not in a return")
        try:
            return self.operands(terminator)
        except XlaError as error:
            raise ImportFailure(terminator, error) from error

    def import_operations(self, operations: Sequence[ir.Operation]) -> None:
        """Imports the operations of a region or of an inlined function. Bounds the nesting of both."""
        with self.context.nested():
            for operation in operations:
                self.import_operation(operation)

    def import_operation(self, operation: ir.Operation) -> None:
        """Emits the instructions of an operation and binds its results to them."""
        context = self.context
        metadata, name, frontend = self.metadata, self.name, self.frontend_attributes
        try:
            self.metadata, self.name = context.locations.metadata_and_name(operation.location)
            if operation.attributes and context.annotations.has_annotations(operation):
                self.frontend_attributes = context.annotations.frontend_attributes(operation)
                results = context.apply_rule(self, operation)
                # A result that is one of the operands is not annotated: it belongs to another operation.
                if not any(self.values.get(operand) in results for operand in operation.operands):
                    context.annotations.annotate(operation, results)
            else:
                results = context.apply_rule(self, operation)
            self._bind_results(operation, results)
        except XlaError as error:
            raise ImportFailure(operation, error) from error
        self.metadata, self.name, self.frontend_attributes = metadata, name, frontend

    def _bind_results(self, operation: ir.Operation, results: Sequence[Instruction]) -> None:
        if len(results) != len(operation.results):
            raise ShapeError(
                codes.OPERATION_COUNTS, f"it has {len(results)} results, but declares {len(operation.results)}"
            )
        for value, instruction in zip(operation.results, results, strict=True):
            if not is_compatible(instruction.shape, value.type):
                declared = type_text(value.type)
                raise ShapeError(
                    codes.DECLARED_RESULT,
                    f"its result is {instruction.shape.to_text(layout=False)}, but is declared {declared}",
                )
            self.values[value] = instruction

    def value(self, value: ir.Value) -> Instruction:
        """Returns the instruction of a value. Raises `ShapeError` if the value is not defined yet."""
        found = self.values.get(value)
        if found is None:
            raise ShapeError(
                text_codes.UNDEFINED_NAME, f"value %{value.name or value.index} is not defined before it is used"
            )
        return found

    def operands(self, operation: ir.Operation) -> list[Instruction]:
        """Returns the instructions of an operation's operands."""
        values = self.values
        try:
            return [values[operand] for operand in operation.operands]
        except KeyError:
            return [self.value(operand) for operand in operation.operands]

    # -- instructions

    def emit(
        self,
        op: OpDef,
        operands: Sequence[Instruction] = (),
        attributes: Attributes | None = None,
        computations: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """Adds an instruction. A given shape is verified by the opcode; without one, the opcode infers the shape."""
        if shape is not None:
            programs = [called.program_shape for called in computations]
            given = op.attributes.make() if attributes is None else attributes
            op.verify(shape, [operand.shape for operand in operands], given, programs)
        else:
            op.check_arity(len(operands))
        self.context.count_instruction()
        instruction = edit.create(
            self.computation,
            op,
            operands,
            attributes,
            computations,
            shape=shape,
            name=self.name,
            metadata=self.metadata,
        )
        if self.frontend_attributes is not None:
            instruction.frontend_attributes = self.frontend_attributes
        return instruction

    def parameter(self, number: int, shape: Shape, name: str | None = None) -> Instruction:
        """Adds a parameter. Parameters without a name are called `Arg_0`, `Arg_1`, ..., as in XLA."""
        attributes = ParameterAttributes.make(number=number)
        self.context.count_instruction()
        return edit.create(
            self.computation, opcodes.PARAMETER, (), attributes, shape=shape, name=name or f"Arg_{number}"
        )

    def constant(self, array: Array, shape: Shape | None = None) -> Instruction:
        """Adds a constant with the elements of an array."""
        return self.literal(Literal.array_of(array, shape))

    def literal(self, literal: Literal) -> Instruction:
        """Adds a constant."""
        self.context.count_instruction()
        instruction = edit.create(
            self.computation, opcodes.CONSTANT, (), ConstantAttributes.make(literal=literal), shape=literal.shape
        )
        instruction.metadata = self.metadata
        return instruction

    def scalar(self, value: Any, element_type: PrimitiveType) -> Instruction:
        """Adds a constant of rank 0."""
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(value).astype(element_type.dtype))

    def full(self, value: Any, shape: Shape) -> Instruction:
        """Returns an array with the same value in every element: a broadcast of a scalar constant."""
        return self.broadcast(self.scalar(value, shape.element_type), shape)

    def broadcast(self, operand: Instruction, shape: Shape, dimensions: Sequence[int] = ()) -> Instruction:
        """Adds HLO's broadcast: dimension i of the operand becomes dimension `dimensions[i]`, with the same size."""
        if not shape.rank:
            return operand
        return self.emit(
            opcodes.BROADCAST, (operand,), BroadcastAttributes.make(dimensions=tuple(dimensions)), shape=shape
        )

    def broadcast_in_dim(self, operand: Instruction, shape: Shape, dimensions: Sequence[int]) -> Instruction:
        """Adds StableHLO's broadcast_in_dim, which also expands dimensions of size 1.

        Example: f32[1,3] to f32[2,4,3] along dimensions (1, 2) becomes a reshape to f32[3] and a broadcast of it along
        dimension 2.
        """
        given = operand.shape
        if len(dimensions) != given.rank:
            raise ShapeError(
                operation_codes.BROADCAST_DIMENSIONS,
                f"broadcast_dimensions has {len(dimensions)} entries for an operand {given.to_text(layout=False)}",
            )
        if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < shape.rank for d in dimensions):
            raise ShapeError(
                operation_codes.BROADCAST_DIMENSIONS,
                f"broadcast_dimensions {list(dimensions)} are not distinct dimensions of {shape.to_text(layout=False)}",
            )
        kept = [
            source
            for source, target in enumerate(dimensions)
            if given.dimensions[source] != 1 or shape.dimensions[target] == 1
        ]
        if len(kept) < given.rank:
            operand = self.reshape(operand, [given.dimensions[source] for source in kept])
        targets = [dimensions[source] for source in kept]
        if targets == list(range(shape.rank)) and operand.shape.compatible(shape):
            return operand
        if targets != sorted(targets):
            order = sorted(range(len(targets)), key=targets.__getitem__)
            operand = self.transpose(operand, order)
            targets.sort()
        return self.broadcast(operand, shape, targets)

    def reshape(self, operand: Instruction, dimensions: Sequence[int]) -> Instruction:
        """Returns the operand with other dimensions; the operand itself if it has them already."""
        if operand.shape.dimensions == tuple(dimensions):
            return operand
        return self.emit(opcodes.RESHAPE, (operand,), shape=Shape.array(operand.shape.element_type, dimensions))

    def transpose(self, operand: Instruction, permutation: Sequence[int]) -> Instruction:
        """Returns the operand with permuted dimensions; the operand itself for the identity."""
        if list(permutation) == list(range(operand.shape.rank)):
            return operand
        return self.emit(opcodes.TRANSPOSE, (operand,), DimensionsAttributes.make(dimensions=tuple(permutation)))

    def convert(self, operand: Instruction, element_type: PrimitiveType) -> Instruction:
        """Returns the operand converted to an element type; the operand itself if it has that type."""
        if operand.shape.element_type is element_type:
            return operand
        return self.emit(opcodes.CONVERT, (operand,), shape=operand.shape.with_element_type(element_type))

    def get_tuple_element(self, operand: Instruction, index: int) -> Instruction:
        """Returns an element of a tuple, without a get-tuple-element if the operand is a `tuple` instruction."""
        if operand.op is opcodes.TUPLE:
            return operand.operands[index]
        return self.emit(opcodes.GET_TUPLE_ELEMENT, (operand,), GetTupleElementAttributes.make(index=index))

    def unpack(self, operand: Instruction, count: int) -> list[Instruction]:
        """Returns the values of an instruction with `count` results: itself for one, else its tuple elements."""
        if count == 1:
            return [operand]
        return [self.get_tuple_element(operand, index) for index in range(count)]

    def pack(self, values: Sequence[Instruction]) -> Instruction:
        """Returns the only value as it is, and any other number of values as a tuple. The reverse of `unpack`."""
        return values[0] if len(values) == 1 else self.emit(opcodes.TUPLE, values)

    def inline(self, computation: Computation, operands: Sequence[Instruction]) -> Instruction:
        """Clones the instructions of a computation into this one and returns the clone of its root.

        The clones carry the metadata of the operation that is being imported.
        """
        clones: dict[Instruction, Instruction] = {}
        for instruction in post_order(computation):
            if instruction.op is opcodes.PARAMETER:
                clones[instruction] = operands[instruction.parameter_number]
                continue
            inputs = [clones[operand] for operand in instruction.operands]
            self.context.count_instruction()
            clone = clones[instruction] = edit.clone_instruction(instruction, self.computation, inputs)
            clone.metadata = self.metadata
            clone.frontend_attributes = self.frontend_attributes
        return clones[computation.root_instruction]

    # -- types

    def declared_shape(self, value: ir.Value, fallback: Callable[[], Shape] | None = None) -> Shape:
        """Returns the shape of a result from its declared type, or from `fallback` if the type has unknown sizes."""
        known = known_shape(value.type)
        if known is not None:
            return known
        if fallback is None:
            raise UnsupportedError(
                codes.KNOWN_SIZES,
                f"the sizes of its result {type_text(value.type)} are unknown; "
                "give the shapes of the arguments (argument_shapes)",
            )
        return fallback()

    # -- regions

    def import_region(self, region: ir.Region, shapes: Sequence[Shape], name: str = "region") -> Computation:
        """Imports a region as a computation with one parameter per block argument.

        Several results are returned as a tuple. The computation cannot capture values: those that the region reads from
        outside must be constant, and are cloned into the computation.
        """
        block = single_block(region)
        if len(block.arguments) != len(shapes):
            raise ShapeError(
                codes.REGION_SIGNATURE, f"its region takes {len(block.arguments)} values, but got {len(shapes)}"
            )
        inner = ComputationBuilder(self.context, name)
        for number, (argument, shape) in enumerate(zip(block.arguments, shapes, strict=True)):
            _check_argument(argument, shape)
            inner.values[argument] = inner.parameter(number, shape)
        captured = captured_values((region,))
        self.context.count_repetitions(len(captured))
        for value in captured:
            inner.values[value] = inner.copy_constant(self.value(value))
        return inner.finish(inner.pack(inner.import_block(block)))

    def split_captures(self, regions: Sequence[ir.Region]) -> tuple[list[ir.Value], list[ir.Value]]:
        """Splits the values that regions capture into values to pass as operands and constants to clone."""
        passed: list[ir.Value] = []
        cloned: list[ir.Value] = []
        captured = captured_values(regions)
        self.context.count_repetitions(len(captured))
        for value in captured:
            (cloned if self._is_constant(self.value(value)) else passed).append(value)
        return passed, cloned

    def nested_builder(self, name: str, cloned: Sequence[ir.Value]) -> ComputationBuilder:
        """Returns the builder of a computation called from this one, with clones of the given constants."""
        inner = ComputationBuilder(self.context, name)
        for value in cloned:
            inner.values[value] = inner.copy_constant(self.value(value))
        return inner

    def finish(self, root: Instruction) -> Computation:
        """Sets the root and adds the computation to the module."""
        if (
            root.op is opcodes.PARAMETER
            and len(self.computation.instructions) > 1
            and root.parent is not self.computation
        ):
            raise AssertionError("the root of a computation is one of its instructions")
        edit.set_root(self.computation, root)
        edit.add_built_computation(self.context.module, self.computation)
        return self.computation

    def _is_constant(self, instruction: Instruction) -> bool:
        return instruction.op in _ALWAYS_CLONED or self.context.constants.value_of(instruction) is not None

    def copy_constant(self, outer: Instruction) -> Instruction:
        """Returns a copy, in this computation, of a constant of an outer computation; makes the copy only once."""
        copy = self._copies.get(outer)
        if copy is None:
            copy = self._copies[outer] = self._make_copy(outer)
        return copy

    def _make_copy(self, outer: Instruction) -> Instruction:
        if outer.op in _ALWAYS_CLONED:
            self.context.count_instruction()
            return edit.clone_instruction(outer, self.computation, ())
        value = self.context.constants.value_of(outer)
        if value is None:
            raise UnsupportedError(
                codes.CAPTURED_VALUE,
                f"its region reads {outer.name} {outer.shape.to_text(layout=False)} from outside, "
                "but an HLO computation can read a value that is not constant only as a parameter",
            )
        return self.constant(value, outer.shape)


def single_block(region: ir.Region) -> ir.Block:
    """Returns the only block of a region. Raises `ShapeError` if the region does not have exactly one."""
    if len(region.blocks) != 1:
        raise ShapeError(codes.REGION_BLOCK, f"its region has {len(region.blocks)} blocks, but must have one")
    return region.blocks[0]


def captured_values(regions: Sequence[ir.Region]) -> list[ir.Value]:
    """Returns the values that regions use but do not define, each once, in order of their first use."""
    inner: set[ir.Value] = set()
    read: dict[ir.Value, None] = {}
    pending = list(regions)
    while pending:
        for block in pending.pop().blocks:
            inner.update(block.arguments)
            for operation in block.operations:
                read.update(dict.fromkeys(operation.operands))
                inner.update(operation.results)
                pending.extend(operation.regions)
    return [value for value in read if value not in inner]


def _check_argument(argument: ir.Value, shape: Shape) -> None:
    if not is_compatible(shape, argument.type):
        raise ShapeError(
            codes.REGION_SIGNATURE,
            f"its region takes {type_text(argument.type)}, but got {shape.to_text(layout=False)}",
        )
