"""Decodes the properties of operations, which are encoded as values without names, in the order of the names.

Responsible for the names of the properties of each operation of StableHLO, CHLO, VHLO and other dialects. Does not
depend on what the attributes mean.

In the table, `?` ends the name of an optional attribute, and a number ends the name of the sizes of that many segments
of operands or results. `|` separates the encodings of different versions, which differ in the number of values.

Source: the definitions of the operations in StableHLO, Shardy and MLIR; MLIR's OpDefinitionsGen.cpp (the order).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlapy.base.element_types import S32
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import vhlo_properties
from xlapy.stablehlo.bytecode.attribute_type_reader import DialectReader

_CHANNEL_AND_GROUPS = "channel_handle? replica_groups"
_WINDOW_PROPERTIES = "lhs_dilation? {}precision_config? rhs_dilation? window_reversal? window_strides?"
_CONVOLUTION = f"batch_group_count dimension_numbers feature_group_count {_WINDOW_PROPERTIES}"
_CALL = (
    "api_version? backend_config? call_target_name called_computations? has_side_effect? operand_layouts? "
    "output_operand_aliases? result_layouts?"
)
_BROADCASTING = (
    *("add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "next_after", "or", "polygamma"),
    *("power", "remainder", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor", "zeta"),
)
_ROUNDED = ("addf", "convertf", "divf", "mulf", "subf", "truncf")
_FAST = ("extf", "maximumf", "maxnumf", "minimumf", "minnumf", "negf", "remf")
_MATHEMATICS = (
    *("absf", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clampf", "copysign", "cos"),
    *("cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fpowi", "isfinite", "isinf", "isnan", "isnormal"),
    *("log", "log10", "log1p", "log2", "powf", "round", "roundeven", "rsqrt", "sin", "sincos", "sinh", "sqrt", "tan"),
    *("tanh", "trunc"),
)

_NAMES = {
    "builtin.module": "sym_name? sym_visibility?",
    "func.call": "arg_attrs? callee no_inline? res_attrs?",
    "func.func": "arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?",
    "arith.constant": "value",
    "arith.cmpi": "predicate",
    "arith.cmpf": "fastmath? predicate",
    **{f"arith.{name}": "fastmath? roundingmode?" for name in _ROUNDED},
    **{f"arith.{name}": "fastmath?" for name in _FAST},
    **{f"arith.{name}": "overflowFlags?" for name in ("addi", "muli", "shli", "subi", "trunci")},
    **{f"arith.{name}": "isExact?" for name in ("divsi", "divui", "shrsi", "shrui")},
    **{f"arith.{name}": "nonNeg?" for name in ("extui", "index_castui", "uitofp")},
    "cf.assert": "msg",
    "chlo.broadcast_compare": "broadcast_dimensions? compare_type? comparison_direction",
    **{f"chlo.broadcast_{name}": "broadcast_dimensions?" for name in _BROADCASTING},
    "chlo.constant": "value",
    "chlo.constant_like": "value",
    "chlo.ragged_dot": "precision_config? ragged_dot_dimension_numbers",
    "chlo.scan": ("dimension is_associative? is_reverse? operandSegmentSizes2 resultSegmentSizes2 scan_dim_size?"),
    "chlo.top_k": "k | is_stable? k",
    **{f"math.{name}": "fastmath?" for name in _MATHEMATICS},
    "math.fma": "fastmath? | fastmath? roundingmode?",
    "mhlo.topk": "k largest?",
    "scf.for": " | unsignedCmp?",
    "sdy.all_gather": "gathering_axes out_sharding",
    "sdy.all_reduce": "out_sharding reduction_axes",
    "sdy.all_slice": "out_sharding slicing_axes",
    "sdy.all_to_all": "out_sharding params",
    "sdy.collective_permute": "out_sharding",
    "sdy.constant": "value",
    "sdy.data_flow_edge": "sharding?",
    "sdy.manual_computation": "in_shardings manual_axes out_shardings",
    "sdy.mesh": "mesh sym_name",
    "sdy.named_computation": "in_shardings? name out_shardings?",
    "sdy.propagation_barrier": "allowed_direction",
    "sdy.reduce_scatter": "out_sharding reduce_scatter_axes",
    "sdy.replicated_to_unreduced": "axes out_sharding",
    "sdy.reshard": "sharding",
    "sdy.sharded_to_unreduced": "axes out_sharding",
    "sdy.sharding_constraint": "sharding",
    "sdy.sharding_group": "group_id",
    "shape.broadcast": "error?",
    "shape.const_shape": "shape",
    "shape.const_size": "value",
    "shape.const_witness": "passing",
    "shape.cstr_require": "msg",
    "shape.meet": "error?",
    "stablehlo.all_gather": f"all_gather_dim {_CHANNEL_AND_GROUPS} use_global_device_ids?",
    "stablehlo.all_reduce": f"{_CHANNEL_AND_GROUPS} use_global_device_ids?",
    "stablehlo.all_to_all": "channel_handle? concat_dimension replica_groups split_count split_dimension",
    "stablehlo.batch_norm_grad": "epsilon feature_index",
    "stablehlo.batch_norm_inference": "epsilon feature_index",
    "stablehlo.batch_norm_training": "epsilon feature_index",
    "stablehlo.broadcast": "broadcast_sizes",
    "stablehlo.broadcast_in_dim": "broadcast_dimensions",
    "stablehlo.cholesky": "lower?",
    "stablehlo.collective_broadcast": f"{_CHANNEL_AND_GROUPS} | channel_handle? has_dynamic_root? replica_groups",
    "stablehlo.collective_permute": "channel_handle? source_target_pairs",
    "stablehlo.collective_reduce": "channel_handle? has_dynamic_root? replica_groups use_global_device_ids?",
    "stablehlo.compare": "compare_type? comparison_direction",
    "stablehlo.composite": "composite_attributes? decomposition name version?",
    "stablehlo.concatenate": "dimension",
    "stablehlo.constant": "value",
    "stablehlo.convolution": _CONVOLUTION.format("padding? "),
    "stablehlo.cross-replica-sum": "replica_groups",
    "stablehlo.custom_call": f"{_CALL} | {_CALL} result_tilings?",
    "stablehlo.dot": "precision_config?",
    "stablehlo.dot_general": "algorithm? dot_dimension_numbers precision_config?",
    "stablehlo.dynamic_broadcast_in_dim": (
        "broadcast_dimensions known_expanding_dimensions? known_nonexpanding_dimensions?"
    ),
    "stablehlo.dynamic_conv": _CONVOLUTION.format(""),
    "stablehlo.dynamic_gather": "dimension_numbers indices_are_sorted?",
    "stablehlo.dynamic_iota": "iota_dimension",
    "stablehlo.dynamic_slice": "slice_sizes",
    "stablehlo.einsum": "einsum_config",
    "stablehlo.fft": "fft_length fft_type",
    "stablehlo.gather": "dimension_numbers indices_are_sorted? slice_sizes",
    "stablehlo.get_dimension_size": "dimension",
    "stablehlo.get_tuple_element": "index",
    "stablehlo.infeed": "infeed_config? layout?",
    "stablehlo.iota": "iota_dimension",
    "stablehlo.map": "dimensions",
    "stablehlo.outfeed": "outfeed_config?",
    "stablehlo.pad": "edge_padding_high edge_padding_low interior_padding",
    "stablehlo.recv": "channel_handle is_host_transfer? | channel_handle is_host_transfer? source_target_pairs?",
    "stablehlo.reduce": "dimensions",
    "stablehlo.reduce_precision": "exponent_bits mantissa_bits",
    "stablehlo.reduce_scatter": f"{_CHANNEL_AND_GROUPS} scatter_dimension use_global_device_ids?",
    "stablehlo.reduce_window": "base_dilations? padding? window_dilations? window_dimensions window_strides?",
    "stablehlo.reverse": "dimensions",
    "stablehlo.rng": "rng_distribution",
    "stablehlo.rng_bit_generator": "rng_algorithm",
    "stablehlo.scatter": "indices_are_sorted? scatter_dimension_numbers unique_indices?",
    "stablehlo.select_and_scatter": "padding? window_dimensions? window_strides?",
    "stablehlo.send": "channel_handle is_host_transfer? | channel_handle is_host_transfer? source_target_pairs?",
    "stablehlo.set_dimension_size": "dimension",
    "stablehlo.slice": "limit_indices start_indices strides",
    "stablehlo.sort": "dimension? is_stable?",
    "stablehlo.torch_index_select": "batch_dims dim",
    "stablehlo.transpose": "permutation",
    "stablehlo.triangular_solve": "left_side lower transpose_a unit_diagonal",
    "stablehlo.unary_einsum": "einsum_config",
    **{f"stablehlo.{name}": "result_accuracy?" for name in vhlo_properties.WITH_RESULT_ACCURACY},
    "tensor.collapse_shape": "reassociation",
    "tensor.concat": "dim",
    "tensor.expand_shape": "reassociation static_output_shape",
    "tensor.extract_slice": "operandSegmentSizes4 static_offsets static_sizes static_strides",
    "tensor.gather": "gather_dims unique?",
    "tensor.insert_slice": "operandSegmentSizes5 static_offsets static_sizes static_strides",
    "tensor.pad": "nofold? operandSegmentSizes4 static_high static_low",
    "tensor.scatter": "scatter_dims unique?",
}


class _Property(NamedTuple):
    name: str
    is_optional: bool
    segments: int
    """The number of operand or result segments whose sizes it holds; 0 for an attribute."""


def _property(text: str) -> _Property:
    name = text.rstrip("?0123456789")
    return _Property(name, text.endswith("?"), int(text[len(name) :].rstrip("?") or 0))


_ENCODINGS: dict[str, tuple[tuple[_Property, ...], ...]] = {
    operation: tuple([tuple([_property(name) for name in encoding.split()]) for encoding in names.split("|")])
    for operation, names in _NAMES.items()
} | {
    operation: (tuple([_Property(name, is_optional=False, segments=0) for name in names]),)
    for operation, names in vhlo_properties.PROPERTIES.items()
}
"""The encodings of the properties of each operation, oldest first."""

_NATIVE_SEGMENT_SIZES = 6
"""The first format version that stores segment sizes as numbers after all attributes instead of in an attribute."""


def read_properties(reader: DialectReader, operation: str, version: int) -> dict[str, object] | None:
    """Reads the properties of an operation from a file of the given format version; None for an unknown operation."""
    encodings = _ENCODINGS.get(operation)
    if encodings is None:
        return None
    encoding = encodings[0] if len(encodings) == 1 else _matching_encoding(reader, encodings)
    found: dict[str, object] = {}
    sizes = [each for each in encoding if each.segments and version >= _NATIVE_SEGMENT_SIZES]
    for each in encoding:
        if each in sizes:
            continue
        value = reader.optional_attribute() if each.is_optional else reader.attribute()
        if value is not None:
            found[each.name] = value
    for each in sizes:
        found[each.name] = _segment_sizes(reader, each.segments)
    if reader.remaining:
        raise reader.fail(
            codes.DAMAGED_BYTECODE, f"{reader.remaining} bytes are left after the properties of {operation}"
        )
    return found


def _matching_encoding(reader: DialectReader, encodings: tuple[tuple[_Property, ...], ...]) -> tuple[_Property, ...]:
    """Returns the encoding with as many values as the reader has."""
    start, count = reader.position, 0
    while reader.remaining:
        reader.varint()
        count += 1
    reader.position = start
    matching = [encoding for encoding in encodings if len(encoding) == count]
    if not matching:
        raise reader.fail(
            codes.DAMAGED_BYTECODE,
            f"expected {' or '.join(str(len(encoding)) for encoding in encodings)} properties, found {count}",
        )
    return matching[0]


def _segment_sizes(reader: DialectReader, segments: int) -> ir.ElementsAttribute:
    """Reads segment sizes: all of them, or the non-zero ones, each with its index in the low bits."""
    sizes = np.zeros(segments, np.int32)
    count, is_sparse = reader.varint_with_flag()
    bits = reader.varint() if is_sparse and count else 0
    for position in range(count):
        value = reader.varint()
        index, size = (value & ((1 << bits) - 1), value >> bits) if is_sparse else (position, value)
        if index >= segments or size > np.iinfo(np.int32).max:
            raise reader.fail(
                codes.DAMAGED_BYTECODE, f"segment {index} of size {size} in an operation with {segments} segments"
            )
        sizes[index] = size
    return ir.ElementsAttribute(ir.TensorType((segments,), S32), sizes)
