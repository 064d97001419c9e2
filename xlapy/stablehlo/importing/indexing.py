"""Import rules: gathers and scatters.

Owns: gather, scatter, torch_index_select; `dynamic_gather` takes the sizes of its slices from an operand. Must not
know: other families.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Ints, fields, flag, integer, integers
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope, only_block
from xlapy.stablehlo.importing.reduction import combined


@rule("stablehlo.gather", operands=2)
def gather(scope: Scope, operation: ir.Operation) -> Instruction:
    return emit_gather(scope, operation, scope.operands(operation), integers(operation, "slice_sizes"))


def emit_gather(
    scope: Scope, operation: ir.Operation, operands: Sequence[Instruction], slice_sizes: Ints
) -> Instruction:
    """A gather of slices of the given sizes with the dimension numbers of an operation."""
    numbers = fields(operation, "dimension_numbers")
    _check_batching(
        operands,
        numbers.integers("operand_batching_dims"),
        numbers.integers("start_indices_batching_dims"),
        numbers.integers("start_index_map"),
    )
    attributes = GatherAttributes.make(
        offset_dims=numbers.integers("offset_dims"),
        collapsed_slice_dims=numbers.integers("collapsed_slice_dims"),
        start_index_map=numbers.integers("start_index_map"),
        operand_batching_dims=numbers.integers("operand_batching_dims"),
        start_indices_batching_dims=numbers.integers("start_indices_batching_dims"),
        index_vector_dim=numbers.integer("index_vector_dim"),
        slice_sizes=slice_sizes,
        indices_are_sorted=flag(operation, "indices_are_sorted"),
    )
    return scope.emit(opcodes.GATHER, operands, attributes)


def _check_batching(operands: Sequence[Instruction], batching: Ints, along: Ints, indexed: Ints) -> None:
    """`ShapeError` unless an array and its indices are as long along their batches, which no index moves in."""
    array, indices = operands[0].shape, operands[1].shape
    shared = sorted(set(batching) & set(indexed))
    if shared:
        raise ShapeError(f"dimensions {shared} are batches and are indexed")
    for one, other in zip(batching, along, strict=False):
        if 0 <= one < array.rank and 0 <= other < indices.rank and array.dimensions[one] != indices.dimensions[other]:
            raise ShapeError(
                f"dimension {one} of {array.to_text(layout=False)} and dimension "
                f"{other} of the indices {indices.to_text(layout=False)} are one batch"
            )


@rule("stablehlo.scatter", operands=SOME, results=SOME, regions=1, stored=True)
def scatter(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    count = len(only_block(operation.regions[0]).arguments) // 2
    if len(operands) != 2 * count + 1:
        raise ShapeError(f"its region combines {count} values, given are {len(operands)} operands")
    values, body = combined(scope, operation.regions[0], [*operands[:count], *operands[count + 1 :]])
    numbers = fields(operation, "scatter_dimension_numbers")
    _check_batching(
        (operands[0], operands[count]),
        numbers.integers("input_batching_dims"),
        numbers.integers("scatter_indices_batching_dims"),
        numbers.integers("scatter_dims_to_operand_dims"),
    )
    attributes = ScatterAttributes.make(
        update_window_dims=numbers.integers("update_window_dims"),
        inserted_window_dims=numbers.integers("inserted_window_dims"),
        scatter_dims_to_operand_dims=numbers.integers("scatter_dims_to_operand_dims"),
        input_batching_dims=numbers.integers("input_batching_dims"),
        scatter_indices_batching_dims=numbers.integers("scatter_indices_batching_dims"),
        index_vector_dim=numbers.integer("index_vector_dim"),
        indices_are_sorted=flag(operation, "indices_are_sorted"),
        unique_indices=flag(operation, "unique_indices"),
    )
    result = scope.emit(opcodes.SCATTER, [*values[:count], operands[count], *values[count:]], attributes, (body,))
    return scope.elements(result, count)


@rule("stablehlo.torch_index_select", operands=2)
def torch_index_select(scope: Scope, operation: ir.Operation) -> Instruction:
    """`result[batch, a, i, b] = operand[batch, a, index[batch, i], b]`: whole slices by number."""
    operand, index = scope.operands(operation)
    dimension, batches = integer(operation, "dim"), integer(operation, "batch_dims")
    if not 0 <= batches <= dimension < operand.shape.rank or batches > index.shape.rank:
        raise ShapeError(f"dim {dimension} and batch_dims {batches} do not fit {operand.shape.to_text(layout=False)}")
    sizes = [1 if d == dimension or d < batches else size for d, size in enumerate(operand.shape.dimensions)]
    behind = index.shape.rank - batches
    attributes = GatherAttributes.make(
        offset_dims=(
            *range(batches, dimension),
            *range(dimension + behind, operand.shape.rank - 1 + behind),
        ),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=tuple(range(batches)),
        start_indices_batching_dims=tuple(range(batches)),
        index_vector_dim=index.shape.rank,
        slice_sizes=tuple(sizes),
        indices_are_sorted=False,
    )
    return scope.emit(opcodes.GATHER, (operand, index), attributes)
