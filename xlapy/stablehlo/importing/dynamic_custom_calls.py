"""Import rules of the custom calls that JAX exports for operations whose sizes are operands.

Responsible for the targets `stablehlo.dynamic_reduce_window`, `stablehlo.dynamic_top_k` and
`stablehlo.dynamic_rng_bit_generator`, which occur in programs with symbolic shapes. StableHLO has no operations for
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import as_symbol, required
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.types import element_type
from xlapy.stablehlo.importing.custom import array_operands, target
from xlapy.stablehlo.importing.dynamic import constant_size, constant_sizes
from xlapy.stablehlo.importing.random import emit_rng_bit_generator
from xlapy.stablehlo.importing.sorting import emit_top_k

_WINDOW = ("its window", "its strides", "its base dilations", "its window dilations", "its padding")


@target("stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(
    builder: ComputationBuilder, operation: ir.Operation, _: Mapping[str, Any]
) -> Sequence[Instruction]:
    """The operands are the arrays, their init values and five vectors that describe the window.

    The only called computation is the reducer.
    """
    operands = array_operands(builder, operation)
    if len(operands) < len(_WINDOW):
        raise ShapeError(codes.OPERATION_COUNTS, f"it takes at least {len(_WINDOW)} operands, but has {len(operands)}")
    arrays, vectors = operands[: -len(_WINDOW)], operands[-len(_WINDOW) :]
    called = required(operation, "called_computations")
    if not isinstance(called, tuple) or len(called) != 1:
        raise ShapeError(operation_codes.REDUCER_FUNCTION, "it must call one computation, its reducer")
    sizes, strides, base, dilations, padding = (
        constant_sizes(builder, vector, name) for vector, name in zip(vectors, _WINDOW, strict=True)
    )
    if len(padding) != 2 * len(sizes):
        raise ShapeError(
            operation_codes.LIST_LENGTHS, f"its padding must have {2 * len(sizes)} numbers, but has {len(padding)}"
        )
    edges = list(zip(padding[::2], padding[1::2], strict=True))
    window = Window.make(sizes, strides, edges, base, dilations)
    body = builder.context.computation(as_symbol(called[0], "called_computations"))
    result = builder.emit(opcodes.REDUCE_WINDOW, arrays, WindowAttributes.make(window=window), (body,))
    return builder.unpack(result, len(operation.results))


@target("stablehlo.dynamic_top_k")
def dynamic_top_k(builder: ComputationBuilder, operation: ir.Operation, _: Mapping[str, Any]) -> Sequence[Instruction]:
    operand, k = array_operands(builder, operation, operands=2, results=2)
    return emit_top_k(builder, (operand,), constant_size(builder, k, "its operand k"), True, is_stable=True)


@target("stablehlo.dynamic_rng_bit_generator")
def dynamic_rng_bit_generator(
    builder: ComputationBuilder, operation: ir.Operation, _: Mapping[str, Any]
) -> Sequence[Instruction]:
    state, sizes = array_operands(builder, operation, operands=2, results=2)
    declared = operation.results[1].type
    if not isinstance(declared, ir.TensorType):
        raise ShapeError(codes.TENSOR_VALUE, "its second result must be a tensor")
    bits = Shape.array(element_type(declared.element), constant_sizes(builder, sizes, "the shape of its bits"))
    return emit_rng_bit_generator(builder, operation, (state,), bits)
