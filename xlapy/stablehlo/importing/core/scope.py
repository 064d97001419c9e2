"""One computation under construction: the values it has so far, and the ways to add instructions.

Owns: `Scope`: execution of operations in order, binding of their results, regions as computations with what they
capture. Must not know: particular operations (`rules.py` has the table), functions and modules (`program.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.errors import ShapeError, UnsupportedError, XlaError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.movement import BroadcastAttributes, DimensionsAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ConstantAttributes, ParameterAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.failure import ImportFailure
from xlapy.stablehlo.importing.core.rules import RULES, Rule
from xlapy.stablehlo.importing.core.types import agrees, known_shape, type_text

if TYPE_CHECKING:
    from xlapy.stablehlo.importing.core.program import Program

MOST_NESTED = 100
"""How deep regions and calls of functions that are put in place may nest."""

_CHEAP = frozenset({opcodes.CONSTANT, opcodes.IOTA})


class Scope:
    """A computation and the values that operations see in it."""

    def __init__(self, program: Program, name: str, depth: int = 0) -> None:
        if depth > MOST_NESTED:
            raise UnsupportedError(f"regions and calls nest deeper than {MOST_NESTED} levels")
        self.program = program
        self.computation = Computation(name)
        self.values: dict[ir.Value, Instruction] = {}
        self.depth = depth
        self.metadata: OpMetadata | None = None
        self.name: str | None = None
        self.frontend_attributes: dict[str, str] | None = None
        self._copies: dict[Instruction, Instruction] = {}

    # -- operations

    def run(self, block: ir.Block) -> list[Instruction]:
        """Executes a block; the values that its last operation hands on."""
        if not block.operations:
            raise ShapeError("its body is empty")
        for operation in block.operations[:-1]:
            self.execute(operation)
        last = block.operations[-1]
        if last.results or not last.name.endswith("return"):
            raise ShapeError(f"its body ends in {last.name}, not in a return")
        try:
            return self.operands(last)
        except XlaError as error:
            raise ImportFailure(last, error) from error

    def execute(self, operation: ir.Operation) -> None:
        """Makes HLO of one operation and binds its results."""
        metadata, name, frontend = self.metadata, self.name, self.frontend_attributes
        try:
            self.metadata, self.name = self.program.locations.note(operation.location)
            rule = self._rule(operation)
            if operation.attributes and self.program.annotations.concerns(operation):
                self.frontend_attributes = self.program.annotations.frontend_attributes(operation)
                results = self._results(rule, operation)
                if not any(self.values.get(operand) in results for operand in operation.operands):  # not handed on
                    self.program.annotations.annotate(operation, results)
            else:
                results = self._results(rule, operation)
            self._bind(operation, results)
        except XlaError as error:
            raise ImportFailure(operation, error) from error
        self.metadata, self.name, self.frontend_attributes = metadata, name, frontend

    def _rule(self, operation: ir.Operation) -> Rule:
        entry = RULES.get(operation.name)
        if entry is None:
            raise UnsupportedError("there is no such operation in StableHLO, CHLO or what else is imported")
        entry.check(operation)
        if self.program.has_quantized_types and not entry.stored:
            return self.program.meaning_of_quantized(entry.rule, operation)
        return entry.rule

    def _results(self, rule: Rule, operation: ir.Operation) -> Sequence[Instruction]:
        results = rule(self, operation)
        return (results,) if isinstance(results, Instruction) else results

    def _bind(self, operation: ir.Operation, results: Sequence[Instruction]) -> None:
        if len(results) != len(operation.results):
            raise ShapeError(f"it has {len(results)} results, declared are {len(operation.results)}")
        for value, instruction in zip(operation.results, results, strict=True):
            if not agrees(instruction.shape, value.type):
                declared = type_text(value.type)
                raise ShapeError(f"its result is {instruction.shape.to_text(layout=False)}, declared is {declared}")
            self.values[value] = instruction

    def value(self, value: ir.Value) -> Instruction:
        """The instruction of a value; `ShapeError` if nothing before gives it."""
        found = self.values.get(value)
        if found is None:
            raise ShapeError(f"value %{value.name or value.index} is not defined before it is used")
        return found

    def operands(self, operation: ir.Operation) -> list[Instruction]:
        """The instructions of an operation's operands."""
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
        """Adds an instruction; a declared shape is judged by the op's rule, without one the op infers it."""
        if shape is not None:
            programs = [called.program_shape for called in computations]
            given = op.attributes.make() if attributes is None else attributes
            op.verify(shape, [operand.shape for operand in operands], given, programs)
        else:
            op.check_arity(len(operands))
        made = edit.create(
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
            made.frontend_attributes = self.frontend_attributes
        return made

    def parameter(self, number: int, shape: Shape, name: str | None = None) -> Instruction:
        attributes = ParameterAttributes.make(number=number)
        return edit.create(
            self.computation, opcodes.PARAMETER, (), attributes, shape=shape, name=name or f"Arg_{number}"
        )

    def constant(self, array: Array, shape: Shape | None = None) -> Instruction:
        """A constant of the array's elements."""
        literal = Literal.array_of(array, shape)
        made = edit.create(
            self.computation, opcodes.CONSTANT, (), ConstantAttributes.make(literal=literal), shape=literal.shape
        )
        made.metadata = self.metadata
        return made

    def scalar(self, value: Any, element_type: PrimitiveType) -> Instruction:
        """A constant of rank 0."""
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(value).astype(element_type.dtype))

    def full(self, value: Any, shape: Shape) -> Instruction:
        """An array with one value everywhere."""
        return self.broadcast(self.scalar(value, shape.element_type), shape)

    def broadcast(self, operand: Instruction, shape: Shape, dimensions: Sequence[int] = ()) -> Instruction:
        """HLO's broadcast: `dimensions[i]` of the result runs along dimension i of the operand, of the same size."""
        if not shape.rank:
            return operand
        return self.emit(
            opcodes.BROADCAST, (operand,), BroadcastAttributes.make(dimensions=tuple(dimensions)), shape=shape
        )

    def broadcast_in_dim(self, operand: Instruction, shape: Shape, dimensions: Sequence[int]) -> Instruction:
        """A broadcast that also stretches dimensions of size 1.

        Example: f32[1,3] to f32[2,4,3] along dimensions (1, 2) is the reshape f32[3], broadcast along dimension 2.
        """
        given = operand.shape
        if len(dimensions) != given.rank:
            raise ShapeError(
                f"broadcast_dimensions has {len(dimensions)} entries for an operand {given.to_text(layout=False)}"
            )
        if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < shape.rank for d in dimensions):
            raise ShapeError(
                f"broadcast_dimensions {list(dimensions)} are not different dimensions of {shape.to_text(layout=False)}"
            )
        kept = [
            place
            for place, dimension in enumerate(dimensions)
            if given.dimensions[place] != 1 or shape.dimensions[dimension] == 1
        ]
        if len(kept) < given.rank:
            operand = self.reshape(operand, [given.dimensions[place] for place in kept])
        along = [dimensions[place] for place in kept]
        if along == list(range(shape.rank)) and operand.shape.compatible(shape):
            return operand
        if along != sorted(along):
            order = sorted(range(len(along)), key=along.__getitem__)
            operand = self.transpose(operand, order)
            along.sort()
        return self.broadcast(operand, shape, along)

    def reshape(self, operand: Instruction, dimensions: Sequence[int]) -> Instruction:
        """The elements in other dimensions."""
        if operand.shape.dimensions == tuple(dimensions):
            return operand
        return self.emit(opcodes.RESHAPE, (operand,), shape=Shape.array(operand.shape.element_type, dimensions))

    def transpose(self, operand: Instruction, permutation: Sequence[int]) -> Instruction:
        if list(permutation) == list(range(operand.shape.rank)):
            return operand
        return self.emit(opcodes.TRANSPOSE, (operand,), DimensionsAttributes.make(dimensions=tuple(permutation)))

    def convert(self, operand: Instruction, element_type: PrimitiveType) -> Instruction:
        if operand.shape.element_type is element_type:
            return operand
        return self.emit(opcodes.CONVERT, (operand,), shape=operand.shape.with_element_type(element_type))

    def element(self, operand: Instruction, index: int) -> Instruction:
        """An element of a tuple."""
        if operand.op is opcodes.TUPLE:
            return operand.operands[index]
        return self.emit(opcodes.GET_TUPLE_ELEMENT, (operand,), GetTupleElementAttributes.make(index=index))

    def elements(self, operand: Instruction, count: int) -> list[Instruction]:
        """The results of an instruction that has several, or one."""
        if count == 1:
            return [operand]
        return [self.element(operand, index) for index in range(count)]

    def packed(self, values: Sequence[Instruction]) -> Instruction:
        """One value as it is, several (or none) as a tuple."""
        return values[0] if len(values) == 1 else self.emit(opcodes.TUPLE, values)

    def put_in_place(self, computation: Computation, operands: Sequence[Instruction]) -> Instruction:
        """The result of a computation: copies of its instructions, which stand for the operation at hand."""
        made: dict[Instruction, Instruction] = {}
        for instruction in post_order(computation):
            if instruction.op is opcodes.PARAMETER:
                made[instruction] = operands[instruction.attributes.number]
                continue
            inputs = [made[operand] for operand in instruction.operands]
            copy = made[instruction] = edit.clone_instruction(instruction, self.computation, inputs)
            copy.metadata = self.metadata
            copy.frontend_attributes = self.frontend_attributes
        return made[computation.root_instruction]

    # -- types

    def declared(self, value: ir.Value, fallback: Callable[[], Shape] | None = None) -> Shape:
        """The shape of a result as it is declared; where sizes are not known, as `fallback` gives it."""
        known = known_shape(value.type)
        if known is not None:
            return known
        if fallback is None:
            raise UnsupportedError(
                f"the sizes of its result {type_text(value.type)} do not follow from what is known; "
                "give the shapes of the arguments (argument_shapes)"
            )
        return fallback()

    # -- regions

    def body(self, region: ir.Region, shapes: Sequence[Shape], name: str = "region") -> Computation:
        """A region whose block takes arrays or scalars of these shapes one by one; several results make a tuple.

        What it reads from outside must be constant, and is computed inside again.
        """
        block = only_block(region)
        if len(block.arguments) != len(shapes):
            raise ShapeError(f"its region takes {len(block.arguments)} values, given are {len(shapes)}")
        inner = Scope(self.program, name, self.depth + 1)
        for number, (argument, shape) in enumerate(zip(block.arguments, shapes, strict=True)):
            _check_argument(argument, shape)
            inner.values[argument] = inner.parameter(number, shape)
        for value in captured((region,)):
            inner.values[value] = inner.copy_in(self.value(value))
        return inner.finish(inner.packed(inner.run(block)))

    def capture(self, regions: Sequence[ir.Region]) -> tuple[list[ir.Value], list[ir.Value]]:
        """What regions read from outside: values to be handed in, and constants that are computed inside again."""
        handed: list[ir.Value] = []
        copied: list[ir.Value] = []
        for value in captured(regions):
            (copied if self._is_cheap(self.value(value)) else handed).append(value)
        return handed, copied

    def inside(self, name: str, copied: Sequence[ir.Value]) -> Scope:
        """A scope for a computation called from this one, with copies of constants."""
        inner = Scope(self.program, name, self.depth + 1)
        for value in copied:
            inner.values[value] = inner.copy_in(self.value(value))
        return inner

    def finish(self, root: Instruction) -> Computation:
        """Ends the computation and puts it into the module."""
        if (
            root.op is opcodes.PARAMETER
            and len(self.computation.instructions) > 1
            and root.parent is not self.computation
        ):
            raise AssertionError("the root of a computation is one of its instructions")
        edit.set_root(self.computation, root)
        edit.adopt(self.program.module, self.computation)
        return self.computation

    def _is_cheap(self, instruction: Instruction) -> bool:
        return instruction.op in _CHEAP or self.program.constants.value_of(instruction) is not None

    def copy_in(self, outer: Instruction) -> Instruction:
        """A constant of an outer computation, in this one."""
        found = self._copies.get(outer)
        if found is None:
            found = self._copies[outer] = self._copied(outer)
        return found

    def _copied(self, outer: Instruction) -> Instruction:
        if outer.op in _CHEAP:
            return edit.clone_instruction(outer, self.computation, ())
        value = self.program.constants.value_of(outer)
        if value is None:
            raise UnsupportedError(
                f"its region reads {outer.name} {outer.shape.to_text(layout=False)} from outside, "
                "which a computation of HLO takes only as a parameter"
            )
        return self.constant(value, outer.shape)


def only_block(region: ir.Region) -> ir.Block:
    """The one block of a region."""
    if len(region.blocks) != 1:
        raise ShapeError(f"its region has {len(region.blocks)} blocks, it must have one")
    return region.blocks[0]


def captured(regions: Sequence[ir.Region]) -> list[ir.Value]:
    """The values that regions read and do not define, each once, in order."""
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
    if not agrees(shape, argument.type):
        raise ShapeError(f"its region takes {type_text(argument.type)}, given is {shape.to_text(layout=False)}")
