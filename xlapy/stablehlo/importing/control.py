"""Import rules of control flow: loops, branches, calls, barriers, tokens and asynchronous operations.

An HLO loop or branch reads only its operand. Values that a StableHLO region captures become further elements of the
loop's state tuple, or the operand tuple of the branch; captured constants are cloned into the computation instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import symbol
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder, single_block
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule
from xlapy.stablehlo.importing.core.types import is_compatible, type_text

_TUPLE_PARAMETER_NAME = "arg_tuple"
"""The name that XLA gives to the parameter of a loop or branch computation."""


@rule("stablehlo.while", results=None, regions=2, on_storage_type=True, any_operands=True)
def while_(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    passed, cloned = builder.split_captures(operation.regions)
    values = [*builder.operands(operation), *map(builder.value, passed)]
    shapes = [value.shape for value in values]
    condition = _import_loop_region(builder, operation.regions[0], shapes, passed, cloned, is_condition=True)
    body = _import_loop_region(builder, operation.regions[1], shapes, passed, cloned, is_condition=False)
    loop = builder.emit(opcodes.WHILE, (builder.pack(values),), computations=(condition, body))
    return builder.unpack(loop, len(values))[: len(operation.operands)]


def _import_loop_region(
    builder: ComputationBuilder,
    region: ir.Region,
    shapes: Sequence[Shape],
    passed: Sequence[ir.Value],
    cloned: Sequence[ir.Value],
    is_condition: bool,
) -> Computation:
    """Imports the condition or the body of a loop whose state has these shapes, captured values last.

    A body returns the captured values unchanged after its results.
    """
    inner = builder.nested_builder("region", cloned)
    values = _add_parameters(inner, shapes)
    block = single_block(region)
    own = len(shapes) - len(passed)
    _bind_arguments(inner, block, values[:own])
    inner.values.update(zip(passed, values[own:], strict=True))
    results = inner.import_block(block)
    if not is_condition:
        return inner.finish(inner.pack([*results, *values[own:]]))
    if len(results) != 1:
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its condition must return one pred[], but returns {len(results)} values"
        )
    return inner.finish(results[0])


def _add_parameters(inner: ComputationBuilder, shapes: Sequence[Shape]) -> list[Instruction]:
    """Adds the only parameter of a loop's or branch's computation and returns its elements."""
    if len(shapes) == 1:
        return [inner.parameter(0, shapes[0])]
    return inner.unpack(inner.parameter(0, Shape.tuple(shapes), _TUPLE_PARAMETER_NAME), len(shapes))


def _bind_arguments(inner: ComputationBuilder, block: ir.Block, values: Sequence[Instruction]) -> None:
    if len(block.arguments) != len(values):
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region takes {len(block.arguments)} values, but got {len(values)}"
        )
    for argument, value in zip(block.arguments, values, strict=True):
        if not is_compatible(value.shape, argument.type):
            raise ShapeError(
                codes.REGION_SIGNATURE,
                f"its region takes {type_text(argument.type)}, but got {value.shape.to_text(layout=False)}",
            )
        inner.values[argument] = value


@rule("stablehlo.if", operands=1, results=None, regions=2, on_storage_type=True, any_operands=True)
def if_(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    (predicate,) = builder.operands(operation)
    if predicate.shape.element_type is not PRED:
        raise ShapeError(codes.SELECTOR_TYPE, f"it takes a pred[], but got {predicate.shape.to_text(layout=False)}")
    return _emit_conditional(builder, operation, predicate)


@rule("stablehlo.case", operands=1, results=None, regions=ONE_OR_MORE, on_storage_type=True, any_operands=True)
def case(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """Imports `case` as a conditional. An index out of range selects the last branch in both."""
    (index,) = builder.operands(operation)
    if index.shape.element_type is not S32:
        raise ShapeError(codes.SELECTOR_TYPE, f"it takes an s32[] index, but got {index.shape.to_text(layout=False)}")
    return _emit_conditional(builder, operation, index)


def _emit_conditional(
    builder: ComputationBuilder, operation: ir.Operation, selector: Instruction
) -> Sequence[Instruction]:
    branches: list[Computation] = []
    operands: list[Instruction] = []
    for region in operation.regions:
        passed, cloned = builder.split_captures((region,))
        values = [builder.value(value) for value in passed]
        inner = builder.nested_builder("region", cloned)
        inner.values.update(zip(passed, _add_parameters(inner, [value.shape for value in values]), strict=True))
        block = single_block(region)
        _bind_arguments(inner, block, ())
        branches.append(inner.finish(inner.pack(inner.import_block(block))))
        operands.append(builder.pack(values))
    result = builder.emit(opcodes.CONDITIONAL, (selector, *operands), computations=branches)
    return builder.unpack(result, len(operation.results))


@rule("stablehlo.optimization_barrier", results=None, on_storage_type=True, any_operands=True)
def optimization_barrier(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    operands = builder.operands(operation)
    if not operands:
        return ()
    return builder.unpack(builder.emit(opcodes.OPT_BARRIER, (builder.pack(operands),)), len(operands))


@rule("stablehlo.after_all", "stablehlo.create_token", on_storage_type=True, any_operands=True)
def after_all(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports both as after-all: `create_token` is an after-all without operands."""
    return builder.emit(opcodes.AFTER_ALL, builder.operands(operation))


@rule("func.call", results=None, on_storage_type=True, any_operands=True)
def call(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    return builder.context.call(builder, symbol(operation, "callee"), builder.operands(operation))


@rule("stablehlo.async_start", regions=1, on_storage_type=True, any_operands=True)
def async_start(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports the start of an asynchronous operation. Its region becomes the called computation."""
    operands = builder.operands(operation)
    (region,) = operation.regions
    computation = builder.import_region(region, [operand.shape for operand in operands], "async_computation")
    shape = Shape.tuple(
        [Shape.tuple([o.shape for o in operands]), computation.root_instruction.shape, Shape.scalar(S32)]
    )
    return builder.emit(opcodes.ASYNC_START, operands, None, (computation,), shape=shape)


@rule("stablehlo.async_done", operands=1, results=None, on_storage_type=True, any_operands=True)
def async_done(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    return builder.unpack(builder.emit(opcodes.ASYNC_DONE, builder.operands(operation)), len(operation.results))
