"""A block of StableHLO that is being filled with the instructions of a computation.

Owns: what each instruction gave, the operations made for it with their location and annotations, blocks of regions.
Must not know: particular ops, and functions (`program`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlapy.base.errors import UnsupportedError, XlaError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.annotations import said_by
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.types import leaves, type_of, types_of

if TYPE_CHECKING:
    from xlapy.stablehlo.export.core.program import Program

_DEEPEST = 100


class ExportFailure(UnsupportedError):
    """An instruction that has no form; the message begins with its name."""


class Scope:
    """The block of one function or region. `values`: what each instruction gave; `given`: what the parameters are."""

    def __init__(self, program: Program, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise UnsupportedError(f"StableHLO is not written for computations nested more than {_DEEPEST} deep")
        self.program = program
        self.depth = depth
        self.block = ir.Block()
        self.values: dict[Instruction, Structure] = {}
        self.given: Sequence[Structure] = ()
        self._current: Instruction | None = None

    # -- blocks

    def argument(self, type_: ir.Type, name: str) -> ir.Value:
        """A further argument of the block."""
        value = ir.Value(type_, self.block, len(self.block.arguments), name)
        self.block.arguments.append(value)
        return value

    def arguments(self, parameter: Instruction) -> Structure:
        """Arguments for all that a parameter holds."""
        names = _names(parameter.name, len(leaves(parameter.shape)))
        try:
            types = types_of(parameter.shape)
        except UnsupportedError as error:
            raise ExportFailure(f"{parameter.name}: {error}") from error
        values = [self.argument(type_, name) for type_, name in zip(types, names, strict=True)]
        return structured(parameter.shape, values)

    def run(self, computation: Computation, operands: Sequence[Structure]) -> Structure:
        """The computation's operations in this block; what its root gives."""
        self.given = operands
        for instruction in post_order(computation):
            self.values[instruction] = self._export(instruction)
        return self.values[computation.root_instruction]

    def _export(self, instruction: Instruction) -> Structure:
        if instruction.op not in RULES:
            reason = RULES.refusals.get(instruction.op, "no form")
            raise ExportFailure(f"{instruction.name}: {instruction.op.name} is not written as StableHLO: {reason}")
        outer, self._current = self._current, instruction
        made = len(self.block.operations)
        try:
            structure = RULES.find(instruction.op)(self, instruction)
        except ExportFailure:
            raise
        except XlaError as error:
            raise ExportFailure(f"{instruction.name}: {error}") from error
        self._annotate(instruction, self.block.operations[made:])
        self._current = outer
        return structure

    def in_place(self, computation: Computation, operands: Sequence[Structure]) -> Structure:
        """A computation's operations among those of this block; what its root gives."""
        inner = Scope(self.program, self.depth + 1)
        inner.block = self.block
        return inner.run(computation, operands)

    def _annotate(self, instruction: Instruction, made: Sequence[ir.Operation]) -> None:
        """Sharding, frontend attributes and accuracy go on the last operation made for an instruction."""
        self.program.losses.look_at(instruction)
        said = said_by(instruction)
        if made:
            made[-1].attributes.update(said)
            return
        for what in said:
            if not self.program.signs(instruction, what):
                self.program.losses.note(what, instruction.name)

    def finish(self, name: str, results: Structure) -> ir.Block:
        """Ends the block with a return."""
        self.block.operations.append(ir.Operation(name, flat(results)))
        return self.block

    # -- operations

    def operands(self, instruction: Instruction) -> list[ir.Value]:
        """What all operands hold, flat."""
        return [value for operand in instruction.operands for value in flat(self.values[operand])]

    def value(self, instruction: Instruction) -> ir.Value:
        """What an instruction that gives no tuple gave."""
        structure = self.values[instruction]
        assert isinstance(structure, ir.Value)
        return structure

    def emit(
        self,
        name: str,
        operands: Iterable[ir.Value],
        types: Sequence[ir.Type],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[ir.Block] = (),
    ) -> list[ir.Value]:
        """Adds an operation; its results, named after the instruction that it is made for."""
        operation = ir.Operation(name, list(operands), attributes=dict(attributes or {}))
        operation.regions = [ir.Region([block]) for block in regions]
        current = self._current
        base = current.name if current is not None else ""
        operation.results = [ir.Value(type_, operation, index, base) for index, type_ in enumerate(types)]
        if current is not None:
            operation.location = self.program.locations.of(current.metadata)
        self.block.operations.append(operation)
        return operation.results

    def one(
        self,
        name: str,
        operands: Iterable[ir.Value],
        shape: Shape,
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[ir.Block] = (),
    ) -> ir.Value:
        """Adds an operation of one result of a shape."""
        return self.emit(name, operands, [type_of(shape)], attributes, regions)[0]

    def all(
        self,
        name: str,
        instruction: Instruction,
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[ir.Block] = (),
        operands: Iterable[ir.Value] | None = None,
    ) -> Structure:
        """Adds the operation of an instruction: with all it is given, it gives all of the instruction's shape."""
        given = self.operands(instruction) if operands is None else operands
        results = self.emit(name, given, types_of(instruction.shape), attributes, regions)
        return structured(instruction.shape, results)

    # -- regions

    def inside(self) -> Scope:
        """The scope of a region of the operation that comes next."""
        inner = Scope(self.program, self.depth + 1)
        inner._current = self._current
        return inner

    def region(self, computation: Computation) -> ir.Block:
        """A region whose arguments are the computation's parameters."""
        inner = self.inside()
        operands = [inner.arguments(parameter) for parameter in computation.parameters]
        return inner.finish("stablehlo.return", inner.run(computation, operands))

    def branch(self, computation: Computation, operand: Structure) -> ir.Block:
        """A region without arguments, which sees what is around it: the computation's one parameter."""
        inner = self.inside()
        results = inner.run(computation, [operand][: len(computation.parameters)])
        return inner.finish("stablehlo.return", results)


def flat(structure: Structure) -> list[ir.Value]:
    """The values in a structure, in order."""
    if isinstance(structure, ir.Value):
        return [structure]
    return [value for element in structure for value in flat(element)]


def structured(shape: Shape, values: Sequence[ir.Value]) -> Structure:
    """Values in the structure of a shape."""
    pending = iter(values)

    def build(part: Shape) -> Structure:
        return tuple(build(element) for element in part.tuple_shapes) if part.is_tuple else next(pending)

    return build(shape)


def _names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}.{index}" for index in range(count)]
