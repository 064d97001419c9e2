"""Import rules: loops, branches, calls, barriers, tokens that follow from others.

Owns: how what regions capture becomes operands of HLO. Must not know: what is inside of regions.

HLO's loops and branches see only their operand: what a region reads from outside is handed on as further elements of
the loop's tuple, or in the tuple that a branch takes; constants are computed inside again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import symbol
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope, only_block
from xlapy.stablehlo.importing.core.types import agrees, type_text

_STATE = "arg_tuple"


@rule("stablehlo.while", results=None, regions=2, stored=True)
def while_(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    handed, copied = scope.capture(operation.regions)
    values = [*scope.operands(operation), *map(scope.value, handed)]
    shapes = [value.shape for value in values]
    condition = _loop_part(scope, operation.regions[0], shapes, handed, copied, is_condition=True)
    body = _loop_part(scope, operation.regions[1], shapes, handed, copied, is_condition=False)
    loop = scope.emit(opcodes.WHILE, (scope.packed(values),), computations=(condition, body))
    return scope.elements(loop, len(values))[: len(operation.operands)]


def _loop_part(
    scope: Scope,
    region: ir.Region,
    shapes: Sequence[Shape],
    handed: Sequence[ir.Value],
    copied: Sequence[ir.Value],
    is_condition: bool,
) -> Computation:
    """The condition or the body: a body hands on what the loop captures as well."""
    inner = scope.inside("region", copied)
    values = _parameters(inner, shapes)
    block = only_block(region)
    own = len(shapes) - len(handed)
    _bind(inner, block, values[:own])
    inner.values.update(zip(handed, values[own:], strict=True))
    results = inner.run(block)
    if not is_condition:
        return inner.finish(inner.packed([*results, *values[own:]]))
    if len(results) != 1:
        raise ShapeError(f"its condition gives one pred[], here {len(results)} values")
    return inner.finish(results[0])


def _parameters(inner: Scope, shapes: Sequence[Shape]) -> list[Instruction]:
    """The one parameter of a loop's or branch's computation, taken apart."""
    if len(shapes) == 1:
        return [inner.parameter(0, shapes[0])]
    return inner.elements(inner.parameter(0, Shape.tuple(shapes), _STATE), len(shapes))


def _bind(inner: Scope, block: ir.Block, values: Sequence[Instruction]) -> None:
    if len(block.arguments) != len(values):
        raise ShapeError(f"its region takes {len(block.arguments)} values, given are {len(values)}")
    for argument, value in zip(block.arguments, values, strict=True):
        if not agrees(value.shape, argument.type):
            raise ShapeError(
                f"its region takes {type_text(argument.type)}, given is {value.shape.to_text(layout=False)}"
            )
        inner.values[argument] = value


@rule("stablehlo.if", operands=1, results=None, regions=2, stored=True)
def if_(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    (predicate,) = scope.operands(operation)
    if predicate.shape.element_type is not PRED:
        raise ShapeError(f"it takes a pred[], given is {predicate.shape.to_text(layout=False)}")
    return _conditional(scope, operation, predicate)


@rule("stablehlo.case", operands=1, results=None, regions=SOME, stored=True)
def case(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """An index out of range takes the last branch, as in HLO."""
    (index,) = scope.operands(operation)
    if index.shape.element_type is not S32:
        raise ShapeError(f"it takes an s32[] index, given is {index.shape.to_text(layout=False)}")
    return _conditional(scope, operation, index)


def _conditional(scope: Scope, operation: ir.Operation, chooser: Instruction) -> Sequence[Instruction]:
    branches: list[Computation] = []
    operands: list[Instruction] = []
    for region in operation.regions:
        handed, copied = scope.capture((region,))
        values = [scope.value(value) for value in handed]
        inner = scope.inside("region", copied)
        inner.values.update(zip(handed, _parameters(inner, [value.shape for value in values]), strict=True))
        block = only_block(region)
        _bind(inner, block, ())
        branches.append(inner.finish(inner.packed(inner.run(block))))
        operands.append(scope.packed(values))
    result = scope.emit(opcodes.CONDITIONAL, (chooser, *operands), computations=branches)
    return scope.elements(result, len(operation.results))


@rule("stablehlo.optimization_barrier", results=None, stored=True)
def optimization_barrier(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    if not operands:
        return ()
    return scope.elements(scope.emit(opcodes.OPT_BARRIER, (scope.packed(operands),)), len(operands))


@rule("stablehlo.after_all", "stablehlo.create_token", stored=True)
def after_all(scope: Scope, operation: ir.Operation) -> Instruction:
    """A token ready when all operands are; without any, one that depends on nothing."""
    return scope.emit(opcodes.AFTER_ALL, scope.operands(operation))


@rule("func.call", results=None, stored=True)
def call(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    return scope.program.call(scope, symbol(operation, "callee"), scope.operands(operation))


@rule("stablehlo.async_start", regions=1, stored=True)
def async_start(scope: Scope, operation: ir.Operation) -> Instruction:
    """The start of an operation that runs beside others; its computation is that operation."""
    operands = scope.operands(operation)
    (region,) = operation.regions
    computation = scope.body(region, [operand.shape for operand in operands], "async_computation")
    shape = Shape.tuple(
        [Shape.tuple([o.shape for o in operands]), computation.root_instruction.shape, Shape.scalar(S32)]
    )
    return scope.emit(opcodes.ASYNC_START, operands, None, (computation,), shape=shape)


@rule("stablehlo.async_done", operands=1, results=None, stored=True)
def async_done(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    return scope.elements(scope.emit(opcodes.ASYNC_DONE, scope.operands(operation)), len(operation.results))
