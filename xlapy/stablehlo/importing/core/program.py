"""A whole StableHLO program as a module of HLO.

Owns: functions and their calls, the entry with its arguments and results, attributes of the module. Must not know:
particular operations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xlapy import opcodes
from xlapy.base.errors import ShapeError, UnsupportedError, XlaError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.opcodes.control import CallAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.annotations import Annotations
from xlapy.stablehlo.importing.core.constants import Constants, is_function
from xlapy.stablehlo.importing.core.entry import configure
from xlapy.stablehlo.importing.core.failure import ImportFailure
from xlapy.stablehlo.importing.core.locations import Locations
from xlapy.stablehlo.importing.core.rules import Rule
from xlapy.stablehlo.importing.core.scope import Scope, only_block
from xlapy.stablehlo.importing.core.types import agrees, is_quantized, known_shape, type_text
from xlapy.stablehlo.importing.dialects import quantization

ArgumentShapes = Sequence[Shape | None] | Mapping[int, Shape]

_MADE_UP = re.compile(r"(?:arg)?\d*")


class Program:
    """One program on its way into a module."""

    def __init__(self, root: ir.Operation) -> None:
        self.root = root
        name = root.attributes.get("sym_name")
        self.module = Module(name if isinstance(name, str) else "main")
        self.locations = Locations()
        self.constants = Constants()
        self.functions: dict[str, ir.Operation] = {}
        self.has_quantized_types = False
        self._survey()
        self.annotations = Annotations(root)
        self._computations: dict[str, Computation] = {}
        self._in_place: dict[str, bool] = {}
        self._open: set[str] = set()

    def _survey(self) -> None:
        for operation in ir.walk(self.root):
            if operation.name == "func.func":
                self.functions[str(operation.attributes.get("sym_name"))] = operation
            for region in operation.regions:
                for block in region.blocks:
                    self._look_at(block.arguments)
            self._look_at(operation.results)

    def _look_at(self, values: Sequence[ir.Value]) -> None:
        if not self.has_quantized_types:
            self.has_quantized_types = any(is_quantized(value.type) for value in values)

    def meaning_of_quantized(self, rule: Rule, operation: ir.Operation) -> Rule:
        """The rule for operands that stand for numbers, if any of an operation's operands or results is quantized."""
        return quantization.meaning(rule, operation)

    # -- the entry

    def build(self, argument_shapes: ArgumentShapes | None, verified: bool) -> Module:
        """Imports everything that the entry function needs; `verified` unless somebody else does that."""
        entry = self._entry_function()
        try:
            self._build_entry(entry, argument_shapes)
        except XlaError as error:
            raise ImportFailure(entry, error) from error
        if self.constants.were_asked:
            self._drop_what_sizes_were_computed_by()
        self.module.stack_frames = self.locations.frames()
        if verified:
            verify(self.module)
        return self.module

    def _drop_what_sizes_were_computed_by(self) -> None:
        """Removes what nobody reads once sizes are worked out."""
        for computation in self.module.computations:
            for instruction in reversed(computation.instructions):
                if is_function(instruction) and not instruction.has_users and not instruction.is_root:
                    edit.remove(instruction)

    def _entry_function(self) -> ir.Operation:
        """`@main`, or the only function, or the only one that is not private."""
        if "main" in self.functions:
            return self.functions["main"]
        found = list(self.functions.values())
        if len(found) > 1:
            found = [f for f in found if f.attributes.get("sym_visibility") != "private"]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"@{name}" for name in self.functions) or "none"
        error = ShapeError(f"it has no function @main, so nothing says where it begins; its functions are {names}")
        raise ImportFailure(self.root, error)

    def _build_entry(self, entry: ir.Operation, argument_shapes: ArgumentShapes | None) -> None:
        block = function_body(entry)
        scope = Scope(self, str(entry.attributes.get("sym_name")))
        self._open.add(scope.computation.name)
        shapes = _argument_shapes(block, argument_shapes)
        for number, (argument, shape) in enumerate(zip(block.arguments, shapes, strict=True)):
            metadata, name = self.locations.note(argument.location)
            parameter = scope.parameter(number, shape, name or _spelled(argument))
            parameter.metadata = metadata
            scope.values[argument] = parameter
        self.annotations.annotate_arguments(entry, [scope.values[argument] for argument in block.arguments])
        values = scope.run(block)
        _check_results(entry, values)
        scope.finish(self.annotations.result(entry, values, scope))
        self.module.entry = scope.computation
        program = scope.computation.program_shape
        self.module.config.entry_computation_layout = ProgramShape(
            program.parameters, program.result.with_default_order()
        )
        configure(self.module, self.root, entry, len(values))

    # -- functions

    def function(self, name: str) -> ir.Operation:
        """The function of a name; `ShapeError` if there is none."""
        found = self.functions.get(name)
        if found is None:
            raise ShapeError(f"there is no function @{name}")
        return found

    def call(
        self, scope: Scope, name: str, operands: Sequence[Instruction], composite: Mapping[str, str] | None = None
    ) -> list[Instruction]:
        """The results of a function: a call, or its operations in place where sizes must follow from the operands."""
        function = self.function(name)
        _check_operands(function, operands)
        if name in self._open:
            raise UnsupportedError(f"function @{name} calls itself, directly or through others")
        if self._must_be_in_place(name):
            return self._put_in_place(scope, name, operands)
        computation = self.computation(name, scope.depth)
        attributes = CallAttributes.make(is_composite=composite is not None)
        call = scope.emit(opcodes.CALL, operands, attributes, (computation,))
        if composite is not None:
            call.frontend_attributes = {**(call.frontend_attributes or {}), **composite}
        return scope.elements(call, len(_result_types(function)))

    def computation(self, name: str, depth: int = 0) -> Computation:
        """A function as a computation, made once."""
        if name not in self._computations:
            function = self.function(name)
            block = function_body(function)
            scope = Scope(self, name, depth + 1)
            self._open.add(name)
            for number, argument in enumerate(block.arguments):
                scope.values[argument] = scope.parameter(number, scope.declared(argument))
            results = scope.run(block)
            _check_results(function, results)
            self._computations[name] = scope.finish(scope.packed(results))
            self._open.discard(name)
        return self._computations[name]

    def _must_be_in_place(self, name: str) -> bool:
        """Whether some size in a function is not declared, so that it follows from those of the operands."""
        if name not in self._in_place:
            values: list[ir.Value] = []
            for operation in ir.walk(self.functions[name]):
                values += operation.results
                values += [a for region in operation.regions for block in region.blocks for a in block.arguments]
            self._in_place[name] = any(
                isinstance(value.type, ir.UnrankedTensorType | ir.TensorType | ir.OpaqueType)
                and known_shape(value.type) is None
                for value in values
            )
        return self._in_place[name]

    def _put_in_place(self, scope: Scope, name: str, operands: Sequence[Instruction]) -> list[Instruction]:
        block = function_body(self.functions[name])
        scope.values.update(zip(block.arguments, operands, strict=True))
        self._open.add(name)
        results = scope.run(block)
        self._open.discard(name)
        return results


def function_body(function: ir.Operation) -> ir.Block:
    """The block of a function; `ShapeError` if it is only declared."""
    if len(function.regions) != 1 or not function.regions[0].blocks:
        raise ShapeError(f"function @{function.attributes.get('sym_name')} has no body")
    return only_block(function.regions[0])


def _result_types(function: ir.Operation) -> Sequence[ir.Type]:
    type_ = function.attributes.get("function_type")
    if not isinstance(type_, ir.FunctionType):
        raise ShapeError(f"function @{function.attributes.get('sym_name')} has no type")
    return type_.results


def _check_operands(function: ir.Operation, operands: Sequence[Instruction]) -> None:
    types = [argument.type for argument in function_body(function).arguments]
    given = ", ".join(operand.shape.to_text(layout=False) for operand in operands)
    if len(types) != len(operands) or not all(
        agrees(operand.shape, type_) for operand, type_ in zip(operands, types, strict=True)
    ):
        name = function.attributes.get("sym_name")
        raise ShapeError(f"function @{name} takes ({', '.join(map(type_text, types))}), given are ({given})")


def _check_results(function: ir.Operation, results: Sequence[Instruction]) -> None:
    types = _result_types(function)
    given = ", ".join(result.shape.to_text(layout=False) for result in results)
    if len(types) != len(results) or not all(
        agrees(result.shape, type_) for result, type_ in zip(results, types, strict=True)
    ):
        name = function.attributes.get("sym_name")
        raise ShapeError(f"function @{name} gives ({', '.join(map(type_text, types))}), its return has ({given})")


def _spelled(argument: ir.Value) -> str | None:
    """The name of an argument in the text, unless MLIR made it up (`%arg0`)."""
    return None if _MADE_UP.fullmatch(argument.name) else argument.name


def _argument_shapes(block: ir.Block, given: ArgumentShapes | None) -> list[Shape]:
    """The shapes of the entry's parameters: as declared, or as given where sizes are not."""
    chosen: dict[int, Shape | None] = dict(given) if isinstance(given, Mapping) else dict(enumerate(given or ()))
    unknown = [number for number in chosen if not 0 <= number < len(block.arguments)]
    if unknown:
        raise ShapeError(f"there is no argument {unknown[0]}, the program takes {len(block.arguments)}")
    return [_argument_shape(number, argument, chosen.get(number)) for number, argument in enumerate(block.arguments)]


def _argument_shape(number: int, argument: ir.Value, chosen: Shape | None) -> Shape:
    if chosen is not None:
        if not agrees(chosen, argument.type):
            declared = type_text(argument.type)
            raise ShapeError(
                f"argument {number} is declared {declared}, argument_shapes gives {chosen.to_text(layout=False)}"
            )
        return chosen
    known = known_shape(argument.type)
    if known is None:
        raise UnsupportedError(
            f"argument {number} is {type_text(argument.type)}, of sizes that are not known; "
            "give the shapes of the arguments (argument_shapes)"
        )
    return known
