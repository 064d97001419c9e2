"""Custom calls that stand for operations with sizes in operands, which StableHLO itself lacks.

Owns: `stablehlo.dynamic_reduce_window`, `stablehlo.dynamic_top_k`, `stablehlo.dynamic_rng_bit_generator`, as JAX
exports programs of symbolic shapes. Must not know: other custom calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import as_symbol, required
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import element_type
from xlapy.stablehlo.importing.custom import target
from xlapy.stablehlo.importing.dynamic import sizes_of
from xlapy.stablehlo.importing.random import emit_bits
from xlapy.stablehlo.importing.sorting import emit_top_k

_WINDOW = ("its window", "its strides", "its base dilations", "its window dilations", "its padding")


@target("stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(scope: Scope, operation: ir.Operation, _: Mapping[str, Any]) -> Sequence[Instruction]:
    """Arrays, their inits, then the five vectors of the window; the reducer is the one called computation."""
    operands = scope.operands(operation)
    arrays, vectors = operands[: -len(_WINDOW)], operands[-len(_WINDOW) :]
    called = required(operation, "called_computations")
    if not isinstance(called, tuple) or len(called) != 1:
        raise ShapeError("it calls one computation, its reducer")
    sizes, strides, base, dilations, padding = (
        sizes_of(scope, vector, name) for vector, name in zip(vectors, _WINDOW, strict=True)
    )
    edges = list(zip(padding[::2], padding[1::2], strict=True))
    window = Window.make(sizes, strides, edges, base, dilations)
    body = scope.program.computation(as_symbol(called[0], "called_computations"), scope.depth)
    result = scope.emit(opcodes.REDUCE_WINDOW, arrays, WindowAttributes.make(window=window), (body,))
    return scope.elements(result, len(operation.results))


@target("stablehlo.dynamic_top_k")
def dynamic_top_k(scope: Scope, operation: ir.Operation, _: Mapping[str, Any]) -> Sequence[Instruction]:
    operand, k = scope.operands(operation)
    return emit_top_k(scope, (operand,), sizes_of(scope, k, "how many elements it gives")[0], True, is_stable=True)


@target("stablehlo.dynamic_rng_bit_generator")
def dynamic_rng_bit_generator(scope: Scope, operation: ir.Operation, _: Mapping[str, Any]) -> Sequence[Instruction]:
    state, sizes = scope.operands(operation)
    declared = operation.results[1].type
    if not isinstance(declared, ir.TensorType):
        raise ShapeError("it gives a state and a tensor of bits")
    bits = Shape.array(element_type(declared.element), sizes_of(scope, sizes, "the shape of its bits"))
    return emit_bits(scope, operation, (state,), bits)
