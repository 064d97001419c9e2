"""The builder functions have the argument names of "Operation semantics"."""

from __future__ import annotations

import inspect
import re
from typing import get_overloads

import pytest

from xlapy import ops
from xlapy.builder.contraction import DotDimensionNumbers
from xlapy.builder.indexing import GatherDimensionNumbers, ScatterDimensionNumbers

BROADCASTING = """Add And Atan2 Complex Div Eq EqTotalOrder Ge GeTotalOrder Gt GtTotalOrder Le LeTotalOrder Lt
    LtTotalOrder Max Min Mul Ne NeTotalOrder Or Pow Rem ShiftLeft ShiftRightArithmetic ShiftRightLogical Sub Xor"""

ONE_OPERAND = """Abs Ceil Clz Floor Imag IsFinite Neg Not OptimizationBarrier PopulationCount Real Round RoundNearestAfz
    RoundNearestEven Sign"""

ACCURACY = "Cbrt Cos Cosh Erf Exp Expm1 Log Log1p Logistic Rsqrt Sin Sqrt Tan Tanh"

OTHERS = """
AfterAll(tokens)
AllGather(operand, all_gather_dimension, shard_count, replica_groups, channel_id, layout, use_global_device_ids)
AllReduce(operand, computation, replica_groups, channel_id, shape_with_layout, use_global_device_ids)
AllToAll(operand, split_dimension, concat_dimension, split_count, replica_groups, layout, channel_id)
BatchNormGrad(operand, scale, batch_mean, batch_var, grad_output, epsilon, feature_index)
BatchNormInference(operand, scale, offset, mean, variance, epsilon, feature_index)
BatchNormTraining(operand, scale, offset, epsilon, feature_index)
BitcastConvertType(operand, new_element_type)
Broadcast(operand, broadcast_sizes)
BroadcastInDim(operand, out_dim_size, broadcast_dimensions)
Call(computation, operands)
Cholesky(a, lower)
Clamp(min, operand, max)
Collapse(operand, dimensions)
CollectiveBroadcast(operand, replica_groups, channel_id)
CollectivePermute(operand, source_target_pairs, channel_id)
CompositeCall(computation, operands, name, attributes, version)
ConcatInDim(operands, dimension)
Conditional(predicate, true_operand, true_computation, false_operand, false_computation)
Conditional(branch_index, branch_computations, branch_operands)
ConstantLiteral(literal)
Conv(lhs, rhs, window_strides, padding, feature_group_count, batch_group_count, precision_config, preferred_element_type)
ConvGeneral(lhs, rhs, window_strides, padding, dimension_numbers, feature_group_count, batch_group_count, precision_config, preferred_element_type)
ConvGeneralDilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, batch_group_count, precision_config, preferred_element_type, window_reversal)
ConvWithGeneralDimensions(lhs, rhs, window_strides, padding, dimension_numbers, feature_group_count, batch_group_count, precision_config, preferred_element_type)
ConvWithGeneralPadding(lhs, rhs, window_strides, padding, feature_group_count, batch_group_count, precision_config, preferred_element_type)
ConvertElementType(operand, new_element_type)
CrossReplicaSum(operand, replica_groups)
Dot(lhs, rhs, precision_config, preferred_element_type)
DotGeneral(lhs, rhs, dimension_numbers, precision_config, preferred_element_type)
DynamicReshape(operand, dim_sizes, new_size_bounds, dims_are_dynamic)
DynamicSlice(operand, start_indices, slice_sizes)
DynamicUpdateSlice(operand, update, start_indices)
Fft(operand, fft_type, fft_length)
Gather(operand, start_indices, dimension_numbers, slice_sizes, indices_are_sorted)
GetDimensionSize(operand, dimension)
GetTupleElement(tuple_data, index)
Infeed(shape, config)
Iota(shape, iota_dimension)
Map(operands, computation, dimensions, static_operands)
Outfeed(operand, shape_with_layout, outfeed_config)
Pad(operand, padding_value, padding_config)
RaggedAllToAll(input, input_offsets, send_sizes, output, output_offsets, recv_sizes, replica_groups, channel_id)
Recv(shape, handle)
Reduce(operands, init_values, computation, dimensions_to_reduce)
ReducePrecision(operand, exponent_bits, mantissa_bits)
ReduceScatter(operand, computation, scatter_dimension, shard_count, replica_groups, channel_id, layout, use_global_device_ids)
ReduceWindow(operands, init_values, computation, window_dimensions, window_strides, padding, base_dilations, window_dilations)
Reshape(operand, dimensions)
Reshape(shape, operand)
Rev(operand, dimensions)
RngBitGenerator(algorithm, initial_state, shape)
RngNormal(mu, sigma, shape)
RngUniform(a, b, shape)
ScaledDot(lhs, rhs, lhs_scale, rhs_scale, dimension_number, precision_config, preferred_element_type)
Scan(inputs, inits, to_apply, scan_dimension, is_reverse, is_associative)
Scatter(operands, scatter_indices, updates, update_computation, dimension_numbers, indices_are_sorted, unique_indices)
Select(pred, on_true, on_false)
SelectAndScatter(operand, select, window_dimensions, window_strides, padding, source, init_value, scatter)
Send(operand, handle)
SetDimensionSize(operand, val, dimension)
Slice(operand, start_indices, limit_indices, strides)
Sort(operands, comparator, dimension, is_stable)
TopK(operand, k, largest)
Transpose(operand, permutation)
TriangularSolve(a, b, left_side, lower, unit_diagonal, transpose_a)
Tuple(elements)
While(condition, body, init)
"""  # noqa: E501
"""Signatures in the order of each heading; arguments that only the section's table names are last."""

TABLE = [
    *[(name, ["lhs", "rhs", "broadcast_dimensions"]) for name in BROADCASTING.split()],
    *[(name, ["operand"]) for name in ONE_OPERAND.split()],
    *[(name, ["operand", "result_accuracy"]) for name in ACCURACY.split()],
    *[(name, arguments.split(", ")) for name, arguments in re.findall(r"(\w+)\((.*)\)", OTHERS)],
]


def snake_case(name: str) -> str:
    """Returns the builder function's name: snake_case, with a trailing underscore for Python's keywords, as in
    `and_`."""
    lower = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return f"{lower}_" if lower in ("and", "or", "not", "while") else lower


@pytest.mark.parametrize(("name", "arguments"), TABLE, ids=[name for name, _ in TABLE])
def test_arguments(name: str, arguments: list[str]) -> None:
    function = getattr(ops, snake_case(name))
    forms = [list(inspect.signature(form).parameters) for form in get_overloads(function) or [function]]
    assert any([parameter for parameter in form if parameter in arguments] == arguments for form in forms)
    for form in get_overloads(function) or [function]:
        for parameter in inspect.signature(form).parameters.values():
            assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD or parameter.name not in arguments


@pytest.mark.parametrize(
    ("numbers", "fields"),
    [
        (
            DotDimensionNumbers,
            "lhs_contracting_dimensions rhs_contracting_dimensions lhs_batch_dimensions rhs_batch_dimensions",
        ),
        (GatherDimensionNumbers, "offset_dims collapsed_slice_dims start_index_map index_vector_dim"),
        (
            ScatterDimensionNumbers,
            "update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim",
        ),
    ],
)
def test_fields_of_dimension_numbers(numbers: type, fields: str) -> None:
    assert set(fields.split()) <= set(inspect.signature(numbers).parameters)
