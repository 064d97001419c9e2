"""Imports a whole StableHLO program into an HLO module.

Responsible for functions and their calls, the entry computation with its parameters and results, and the selection of
import rules. Does not depend on particular operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError, UnsupportedError, XlaError
from xlapy.base.literal import Literal
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.hlo.verify import verify
from xlapy.interpreter.recursion import make_room_for_calls
from xlapy.opcodes.control import CallAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.annotations import Annotations, result_attributes
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder, ModuleContext, single_block
from xlapy.stablehlo.importing.core.constant_evaluation import ConstantEvaluator, is_pure
from xlapy.stablehlo.importing.core.failure import ImportFailure
from xlapy.stablehlo.importing.core.locations import LocationImporter
from xlapy.stablehlo.importing.core.module_config import configure_module
from xlapy.stablehlo.importing.core.rules import RULES, check_arrays
from xlapy.stablehlo.importing.core.types import is_compatible, is_quantized, known_shape, type_text
from xlapy.stablehlo.importing.dialects.quantization import on_expressed_values

ArgumentShapes = Sequence[Shape | None] | Mapping[int, Shape]
"""The shapes of the entry's arguments: in order, with None for an argument to leave as declared, or by number."""

MAX_NESTING_DEPTH = 100
"""The deepest nesting of regions and calls. The import is recursive."""
_SHALLOW, _FRAMES_PER_LEVEL = 20, 12
"""The nesting from which on Python's stack is made larger, and the most Python calls of a level."""
MAX_INSTRUCTIONS, MAX_GROWTH = 20_000, 256
"""Bounds of the instructions of a program: a number, and more for each operation, operand and result of StableHLO.
Some functions of CHLO are several hundred instructions."""
MAX_REPETITIONS, MAX_REPETITION_GROWTH = 10_000, 4
"""Bounds of what is repeated: the operations of functions that are inlined, and the values that regions capture."""

_GENERATED_NAME = re.compile(r"(?:arg)?\d*")
"""The names that MLIR's printer makes up for values: `%arg0`, `%12`."""


class ModuleImporter(ModuleContext):
    """Imports one program. `functions` maps the names of the program's functions to their operations."""

    def __init__(self, root: ir.Operation) -> None:
        self.root = root
        name = root.attributes.get("sym_name")
        self.module = Module(name if isinstance(name, str) else "main")
        self.locations = LocationImporter()
        self.constants = ConstantEvaluator()
        self.functions: dict[str, ir.Operation] = {}
        self.annotations = Annotations(root)
        self._has_quantized_types = False
        self._computations: dict[str, Computation] = {}
        self._must_be_inlined: dict[str, bool] = {}
        self._active_functions: set[str] = set()
        """The functions whose import is in progress; a call of one of them is recursive."""
        self._literals: dict[ir.ElementsAttribute, Literal] = {}
        self._depth = 0
        self._size = 0
        self._instructions = 0
        self._repetitions = 0
        self._scan_program()

    def _scan_program(self) -> None:
        """Collects the functions and finds out whether any value is quantized."""
        for operation in ir.walk(self.root):
            arguments = sum(len(block.arguments) for region in operation.regions for block in region.blocks)
            self._size += 1 + len(operation.operands) + len(operation.results) + arguments
            if operation.name == "func.func":
                self.functions[str(operation.attributes.get("sym_name"))] = operation
            for region in operation.regions:
                for block in region.blocks:
                    self._note_quantized_types(block.arguments)
            self._note_quantized_types(operation.results)

    def _note_quantized_types(self, values: Sequence[ir.Value]) -> None:
        if not self._has_quantized_types:
            self._has_quantized_types = any(is_quantized(value.type) for value in values)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Enters a region or an inlined function. Raises `UnsupportedError` if they nest too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING_DEPTH:
            raise UnsupportedError(codes.PROGRAM_SIZE, f"regions and calls nest deeper than {MAX_NESTING_DEPTH} levels")
        if self._depth == _SHALLOW:
            make_room_for_calls(MAX_NESTING_DEPTH, _FRAMES_PER_LEVEL)
        try:
            yield
        finally:
            self._depth -= 1

    def literal_of(self, value: ir.ElementsAttribute, shape: Shape) -> Literal:
        """Returns the elements of an attribute as a literal; the same for all operations that have the attribute."""
        found = self._literals.get(value)
        if found is None:
            found = self._literals[value] = Literal.array_of(value.values, shape)
        return found

    def count_instruction(self) -> None:
        """Counts an instruction. Raises `UnsupportedError` if a program becomes far more of them than it is long."""
        self._instructions += 1
        limit = MAX_INSTRUCTIONS + MAX_GROWTH * self._size
        if self._instructions > limit:
            raise UnsupportedError(codes.PROGRAM_SIZE, f"the program becomes more than {limit} instructions")

    def count_repetitions(self, count: int) -> None:
        """Counts inlined operations and captured values. Raises `UnsupportedError` if there are too many."""
        self._repetitions += count
        limit = MAX_REPETITIONS + MAX_REPETITION_GROWTH * self._size
        if self._repetitions > limit:
            raise UnsupportedError(
                codes.PROGRAM_SIZE,
                f"functions whose sizes follow from their operands, and values that regions capture, are repeated more "
                f"than {limit} times",
            )

    def apply_rule(self, builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
        """Emits an operation by its import rule and returns one instruction per result.

        Raises `UnsupportedError` if there is no rule, and `ShapeError` if the operation has another number of operands,
        results or regions than the rule requires.
        """
        rule = RULES.get(operation.name)
        if rule is None:
            raise UnsupportedError(
                codes.KNOWN_OPERATION,
                "there is no such operation in StableHLO, CHLO or the other dialects that are read",
            )
        rule.check_counts(operation)
        if not rule.any_operands:
            check_arrays(builder.operands(operation))
        function = rule.function
        if self._has_quantized_types and not rule.on_storage_type:
            function = on_expressed_values(function, operation)
        results = function(builder, operation)
        return (results,) if isinstance(results, Instruction) else results

    # -- the entry

    def build(self, argument_shapes: ArgumentShapes | None, verified: bool) -> Module:
        """Imports the entry function with all functions that it calls, and verifies the module if `verified` is set."""
        entry = self._entry_function()
        try:
            self._build_entry(entry, argument_shapes)
        except XlaError as error:
            raise ImportFailure(entry, error) from error
        if self.constants.has_known_values:
            self._remove_dead_instructions()
        self.module.stack_frames = self.locations.stack_frames()
        if verified:
            verify(self.module)
        return self.module

    def _remove_dead_instructions(self) -> None:
        """Removes pure instructions without users: the computations of sizes that are constants by now."""
        for computation in self.module.computations:
            for instruction in reversed(computation.instructions):
                if is_pure(instruction) and not instruction.has_users and not instruction.is_root:
                    edit.remove(instruction)

    def _entry_function(self) -> ir.Operation:
        """Returns `@main`, else the only function, else the only public function."""
        if "main" in self.functions:
            return self.functions["main"]
        found = list(self.functions.values())
        if len(found) > 1:
            found = [f for f in found if f.attributes.get("sym_visibility") != "private"]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"@{name}" for name in self.functions) or "none"
        error = ShapeError(
            codes.MAIN_FUNCTION, f"it has no function @main, so its entry is unknown; its functions are {names}"
        )
        raise ImportFailure(self.root, error)

    def _build_entry(self, entry: ir.Operation, argument_shapes: ArgumentShapes | None) -> None:
        block = function_body(entry)
        builder = ComputationBuilder(self, str(entry.attributes.get("sym_name")))
        self._active_functions.add(builder.computation.name)
        shapes = _entry_shapes(block, argument_shapes)
        for number, (argument, shape) in enumerate(zip(block.arguments, shapes, strict=True)):
            metadata, name = self.locations.metadata_and_name(argument.location)
            parameter = builder.parameter(number, shape, name or _written_name(argument))
            parameter.metadata = metadata
            builder.values[argument] = parameter
        self.annotations.annotate_arguments(entry, [builder.values[argument] for argument in block.arguments])
        values = builder.import_block(block)
        _check_results(entry, values)
        builder.finish(self._entry_root(entry, values, builder))
        self.module.entry = builder.computation
        program = builder.computation.program_shape
        self.module.config.entry_computation_layout = ProgramShape(
            program.parameters, program.result.with_default_order()
        )
        configure_module(self.module, self.root, entry, len(values))

    def _entry_root(
        self, function: ir.Operation, results: Sequence[Instruction], builder: ComputationBuilder
    ) -> Instruction:
        """Returns the root of the entry, one result or the tuple of all, with the shardings that the function declares.

        As in XLA, a single result with a declared sharding becomes the operand of a reshape that carries the sharding.
        """
        attributes = result_attributes(function, len(results))
        shardings = [self.annotations.sharding(each) for each in attributes]
        root = builder.pack(results)
        if len(results) != 1:
            if any(shardings):
                elements = tuple([sharding or Sharding(ShardingKind.UNKNOWN) for sharding in shardings])
                root.sharding = Sharding(ShardingKind.TUPLE, elements=elements)
                root.sharding.check(root.shape)
        elif shardings[0] is not None:
            root = builder.emit(opcodes.RESHAPE, (root,), shape=root.shape)
            root.sharding = shardings[0].for_shape(root.shape)
            root.sharding.check(root.shape)
        return root

    # -- functions

    def function(self, name: str) -> ir.Operation:
        """Returns the function with a name. Raises `ShapeError` if there is none."""
        found = self.functions.get(name)
        if found is None:
            raise ShapeError(codes.FUNCTION_NAME, f"there is no function @{name}")
        return found

    def call(
        self,
        builder: ComputationBuilder,
        name: str,
        operands: Sequence[Instruction],
        composite: Mapping[str, str] | None = None,
    ) -> list[Instruction]:
        """Emits a call of a function and returns one instruction per result.

        A function whose sizes follow from its operands is inlined instead. `composite` holds the frontend attributes of
        a call that implements a `stablehlo.composite`, else it is None.
        """
        function = self.function(name)
        _check_operands(function, operands)
        if name in self._active_functions:
            raise UnsupportedError(codes.RECURSION, f"function @{name} calls itself, directly or through others")
        if self._must_inline(name):
            return self._inline_call(builder, name, operands)
        computation = self.computation(name)
        attributes = CallAttributes.make(is_composite=composite is not None)
        call = builder.emit(opcodes.CALL, operands, attributes, (computation,))
        if composite is not None:
            call.frontend_attributes = {**(call.frontend_attributes or {}), **composite}
        return builder.unpack(call, len(_declared_results(function)))

    def computation(self, name: str) -> Computation:
        """Returns the computation that a function is imported as; imports it at the first request."""
        if name not in self._computations:
            function = self.function(name)
            block = function_body(function)
            builder = ComputationBuilder(self, name)
            self._active_functions.add(name)
            for number, argument in enumerate(block.arguments):
                builder.values[argument] = builder.parameter(number, builder.declared_shape(argument))
            results = builder.import_block(block)
            _check_results(function, results)
            self._computations[name] = builder.finish(builder.pack(results))
            self._active_functions.discard(name)
        return self._computations[name]

    def _must_inline(self, name: str) -> bool:
        """Returns whether a type in the function has an unknown size, which only the operands of a call determine."""
        if name not in self._must_be_inlined:
            values: list[ir.Value] = []
            for operation in ir.walk(self.functions[name]):
                values += operation.results
                values += [a for region in operation.regions for block in region.blocks for a in block.arguments]
            self._must_be_inlined[name] = any(
                isinstance(value.type, ir.UnrankedTensorType | ir.TensorType | ir.OpaqueType)
                and known_shape(value.type) is None
                for value in values
            )
        return self._must_be_inlined[name]

    def _inline_call(
        self, builder: ComputationBuilder, name: str, operands: Sequence[Instruction]
    ) -> list[Instruction]:
        block = function_body(self.functions[name])
        builder.values.update(zip(block.arguments, operands, strict=True))
        self.count_repetitions(len(block.operations))
        self._active_functions.add(name)
        results = builder.import_block(block)
        self._active_functions.discard(name)
        return results


def function_body(function: ir.Operation) -> ir.Block:
    """Returns the block of a function. Raises `ShapeError` for a declaration without a body."""
    if len(function.regions) != 1 or not function.regions[0].blocks:
        raise ShapeError(codes.FUNCTION_BODY, f"function @{function.attributes.get('sym_name')} has no body")
    return single_block(function.regions[0])


def _declared_results(function: ir.Operation) -> Sequence[ir.Type]:
    type_ = function.attributes.get("function_type")
    if not isinstance(type_, ir.FunctionType):
        raise ShapeError(codes.FUNCTION_BODY, f"function @{function.attributes.get('sym_name')} has no type")
    return type_.results


def _check_operands(function: ir.Operation, operands: Sequence[Instruction]) -> None:
    types = [argument.type for argument in function_body(function).arguments]
    given = ", ".join(operand.shape.to_text(layout=False) for operand in operands)
    if len(types) != len(operands) or not all(
        is_compatible(operand.shape, type_) for operand, type_ in zip(operands, types, strict=True)
    ):
        name = function.attributes.get("sym_name")
        raise ShapeError(
            codes.CALL_TYPES, f"function @{name} takes ({', '.join(map(type_text, types))}), but got ({given})"
        )


def _check_results(function: ir.Operation, results: Sequence[Instruction]) -> None:
    types = _declared_results(function)
    returned = ", ".join(result.shape.to_text(layout=False) for result in results)
    if len(types) != len(results) or not all(
        is_compatible(result.shape, type_) for result, type_ in zip(results, types, strict=True)
    ):
        name = function.attributes.get("sym_name")
        raise ShapeError(
            codes.DECLARED_RESULT,
            f"function @{name} declares the results ({', '.join(map(type_text, types))}), but returns ({returned})",
        )


def _written_name(argument: ir.Value) -> str | None:
    """Returns the name of an argument in the text, or None for a generated name such as `%arg0`."""
    return None if _GENERATED_NAME.fullmatch(argument.name) else argument.name


def _entry_shapes(block: ir.Block, given: ArgumentShapes | None) -> list[Shape]:
    """Returns the shapes of the entry's parameters: the given ones, else the declared ones."""
    chosen: dict[int, Shape | None] = dict(given) if isinstance(given, Mapping) else dict(enumerate(given or ()))
    unknown = [number for number in chosen if not 0 <= number < len(block.arguments)]
    if unknown:
        raise ShapeError(
            codes.ARGUMENT_SHAPES, f"there is no argument {unknown[0]}, the program takes {len(block.arguments)}"
        )
    return [_entry_shape(number, argument, chosen.get(number)) for number, argument in enumerate(block.arguments)]


def _entry_shape(number: int, argument: ir.Value, chosen: Shape | None) -> Shape:
    if chosen is not None:
        if not is_compatible(chosen, argument.type):
            declared = type_text(argument.type)
            raise ShapeError(
                codes.ARGUMENT_SHAPES,
                f"argument {number} is declared {declared}, but argument_shapes has {chosen.to_text(layout=False)}",
            )
        return chosen
    known = known_shape(argument.type)
    if known is None:
        raise UnsupportedError(
            codes.KNOWN_SIZES,
            f"argument {number} is {type_text(argument.type)}, whose sizes are unknown; "
            "give the shapes of the arguments (argument_shapes)",
        )
    return known
