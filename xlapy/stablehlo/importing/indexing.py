"""Import rules of gather, scatter and torch_index_select.

The rule of `dynamic_gather`, whose slice sizes are an operand, is in `dynamic`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.error_codes.operations import operands as shared_codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Ints, fields, flag, integer, integers
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder, single_block
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule
from xlapy.stablehlo.importing.reduction import import_reducer


@rule("stablehlo.gather", operands=2)
def gather(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_gather(builder, operation, builder.operands(operation), integers(operation, "slice_sizes"))


def emit_gather(
    builder: ComputationBuilder, operation: ir.Operation, operands: Sequence[Instruction], slice_sizes: Ints
) -> Instruction:
    """Emits a gather with the dimension numbers of an operation and the given slice sizes."""
    numbers = fields(operation, "dimension_numbers")
    _check_batching_dimensions(
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
    return builder.emit(opcodes.GATHER, operands, attributes)


def _check_batching_dimensions(
    operands: Sequence[Instruction], operand_batching: Ints, indices_batching: Ints, indexed: Ints
) -> None:
    """Raises `ShapeError` if batching dimensions of an array and its indices differ in size or are indexed."""
    operand, indices = operands[0].shape, operands[1].shape
    shared = sorted(set(operand_batching) & set(indexed))
    if shared:
        raise ShapeError(
            operation_codes.BATCHING_DIMENSIONS, f"dimensions {shared} are batching dimensions and are indexed too"
        )
    for dimension, other in zip(operand_batching, indices_batching, strict=False):
        if not (0 <= dimension < operand.rank and 0 <= other < indices.rank):
            continue
        if operand.dimensions[dimension] != indices.dimensions[other]:
            raise ShapeError(
                operation_codes.BATCHING_DIMENSIONS,
                f"the batching dimensions {dimension} of {operand.to_text(layout=False)} and {other} of the indices "
                f"{indices.to_text(layout=False)} differ in size",
            )


@rule("stablehlo.scatter", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def scatter(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    operands = builder.operands(operation)
    count = len(single_block(operation.regions[0]).arguments) // 2
    if len(operands) != 2 * count + 1:
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region combines {count} values, but got {len(operands)} operands"
        )
    values, body = import_reducer(builder, operation.regions[0], [*operands[:count], *operands[count + 1 :]])
    numbers = fields(operation, "scatter_dimension_numbers")
    _check_batching_dimensions(
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
    result = builder.emit(opcodes.SCATTER, [*values[:count], operands[count], *values[count:]], attributes, (body,))
    return builder.unpack(result, count)


@rule("stablehlo.torch_index_select", operands=2)
def torch_index_select(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports `result[batch, a, i, b] = operand[batch, a, index[batch, i], b]` as a gather of whole slices."""
    operand, index = builder.operands(operation)
    dimension, batches = integer(operation, "dim"), integer(operation, "batch_dims")
    if not 0 <= batches <= dimension < operand.shape.rank or batches > index.shape.rank:
        raise ShapeError(
            shared_codes.DIMENSION_NUMBER,
            f"dim {dimension} and batch_dims {batches} do not fit {operand.shape.to_text(layout=False)}",
        )
    sizes = [1 if d == dimension or d < batches else size for d, size in enumerate(operand.shape.dimensions)]
    index_rank = index.shape.rank - batches
    attributes = GatherAttributes.make(
        offset_dims=(
            *range(batches, dimension),
            *range(dimension + index_rank, operand.shape.rank - 1 + index_rank),
        ),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=tuple(range(batches)),
        start_indices_batching_dims=tuple(range(batches)),
        index_vector_dim=index.shape.rank,
        slice_sizes=tuple(sizes),
        indices_are_sorted=False,
    )
    return builder.emit(opcodes.GATHER, (operand, index), attributes)
