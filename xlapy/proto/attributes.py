"""Attributes of ops as fields of HloInstructionProto.

Responsible for `FIELDS`, which maps the name of an attribute to its encoding. An attribute without a field in XLA's
message is kept as text in `text_attributes`. A new attribute needs an entry here only if XLA has a field for it. Does
not depend on instructions or particular ops. Source: hlo.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.errors import ParseError, ProtoError, ShapeError, code_and_message
from xlapy.base.hlo_cursor import HloCursor
from xlapy.opcodes.attributes.codecs import LITERAL, Attributes, Field
from xlapy.opcodes.registry import OpDef
from xlapy.proto import encodings
from xlapy.proto.encodings import (
    FieldEncoding,
    default_one,
    enum_string,
    enum_words,
    field_at,
    message_field,
    only_dimension,
    positive_or_none,
    single_dimension,
    with_default_precisions,
)
from xlapy.proto.meshes import read_groups, write_groups
from xlapy.proto.messages import Message, message_class
from xlapy.proto.metadata import as_bytes, as_text
from xlapy.proto.values import read_literal, read_shape, write_literal, write_shape

_TRI_STATE = (None, True, False)


_PRECISION = "precision_config.operand_precision"
_DOT = "dot_dimension_numbers"
_RAGGED = f"ragged_dot_dimension_numbers.{_DOT}"
_GATHER = "gather_dimension_numbers"
_SCATTER = "scatter_dimension_numbers"
_SOLVE = "triangular_solve_options"
_CONTRACTION = {
    "lhs_batch_dims": "lhs_batch_dimensions",
    "lhs_contracting_dims": "lhs_contracting_dimensions",
    "rhs_batch_dims": "rhs_batch_dimensions",
    "rhs_contracting_dims": "rhs_contracting_dimensions",
}

FIELDS: dict[str, FieldEncoding | Callable[[Any], FieldEncoding] | None] = {
    "all_gather_dimension": single_dimension("dimensions"),
    "scatter_dimension": single_dimension("dimensions"),
    "split_dimension": field_at(
        "dimensions",
        lambda value: () if value is None else (value,),
        lambda v: only_dimension("dimensions", v) if v else None,
    ),
    "dimension": single_dimension("dimensions"),
    "iota_dimension": single_dimension("dimensions"),
    "dimensions": field_at("dimensions"),
    "channel_id": positive_or_none("channel_id"),
    "replica_groups": FieldEncoding(
        (
            "collective_device_list",
            "iota_collective_device_list",
            "mesh_axes_replica_group_list",
            "replica_groups",
        ),
        write_groups,
        read_groups,
    ),
    "constrain_layout": field_at("constrain_layout"),
    "use_global_device_ids": field_at("use_global_device_ids"),
    "CollectivePermuteAttributes.slice_sizes": encodings.SLICE_SIZES,
    "inferred_dimension": field_at(
        "dimensions",
        lambda value: (value,) if value >= 0 else (),
        lambda v: only_dimension("dimensions", v) if v else -1,
    ),
    "source_target_pairs": encodings.SOURCE_TARGET_PAIRS,
    "GatherAttributes.slice_sizes": field_at("gather_slice_sizes"),
    "algorithm": lambda codec: enum_words("precision_config.algorithm", codec.enum, "ALG_"),
    "CustomCallAttributes.operand_precision": lambda codec: with_default_precisions(
        enum_words(_PRECISION, codec.item.enum), codec.item.enum
    ),
    "operand_precision": lambda codec: enum_words(_PRECISION, codec.item.enum),
    "RngBitGeneratorAttributes.algorithm": lambda codec: enum_words("rng_algorithm", codec.enum),
    "is_composite": field_at("is_composite"),
    "kind": lambda codec: enum_string("fusion_kind", codec.enum),
    "output_to_operand_aliasing": encodings.OUTPUT_ALIASES,
    "domain": encodings.DOMAIN,
    "async_execution_thread": field_at("async_execution_thread", decode=lambda value: value or "main"),
    "window": encodings.WINDOW,
    "dim_labels": encodings.CONVOLUTION_DIMENSIONS,
    "feature_group_count": default_one("feature_group_count"),
    "batch_group_count": default_one("batch_group_count"),
    "convolution_kind": lambda codec: enum_words("conv_kind", codec.enum, "CONVOLUTION_KIND_"),
    "sparsity_config": encodings.SPARSITY,
    "padding_type": lambda codec: enum_words("padding_type", codec.enum),
    "custom_call_target": field_at("custom_call_target"),
    "operand_layout_constraints": encodings.OPERAND_LAYOUTS,
    "custom_call_has_side_effect": field_at("custom_call_has_side_effect"),
    "literal": message_field("literal", write_literal, read_literal),
    "schedule": lambda codec: enum_words("custom_call_schedule", codec.enum),
    "api_version": lambda codec: enum_words("custom_call_api_version", codec.enum),
    "direction": lambda codec: enum_string("comparison_direction", codec.enum),
    "type": lambda codec: enum_string("comparison_type", codec.enum),
    "exponent_bits": field_at("exponent_bits"),
    "mantissa_bits": field_at("mantissa_bits"),
    **{
        name: field_at(f"{_GATHER}.{name}")
        for name in (
            "offset_dims",
            "collapsed_slice_dims",
            "start_index_map",
            "operand_batching_dims",
            "start_indices_batching_dims",
        )
    },
    **{
        name: field_at(f"{_SCATTER}.{name}")
        for name in (
            "update_window_dims",
            "inserted_window_dims",
            "scatter_dims_to_operand_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
        )
    },
    "GatherAttributes.index_vector_dim": field_at(f"{_GATHER}.index_vector_dim"),
    "ScatterAttributes.index_vector_dim": field_at(f"{_SCATTER}.index_vector_dim"),
    **{name: field_at(f"{_DOT}.{field}") for name, field in _CONTRACTION.items()},
    **{f"RaggedDotAttributes.{name}": field_at(f"{_RAGGED}.{field}") for name, field in _CONTRACTION.items()},
    "lhs_ragged_dims": field_at("ragged_dot_dimension_numbers.lhs_ragged_dimensions"),
    "rhs_group_dims": field_at("ragged_dot_dimension_numbers.rhs_group_dimensions"),
    "indices_are_sorted": field_at("indices_are_sorted"),
    "unique_indices": field_at("unique_indices"),
    "CholeskyAttributes.lower": field_at("cholesky_options.lower"),
    **{f"TriangularSolveAttributes.{n}": field_at(f"{_SOLVE}.{n}") for n in ("left_side", "lower", "unit_diagonal")},
    "transpose_a": lambda codec: enum_words(f"{_SOLVE}.transpose_a", codec.enum),
    "fft_type": lambda codec: enum_words("fft_type", codec.enum),
    "fft_length": field_at("fft_length"),
    "ranges": encodings.SLICE_RANGES,
    "padding": encodings.PADDING,
    "dynamic_slice_sizes": field_at("dynamic_slice_sizes"),
    "epsilon": field_at("epsilon"),
    "feature_index": field_at("feature_index"),
    "distribution": lambda codec: enum_words("distribution", codec.enum),
    "delta": field_at("delta"),
    "num_carries": field_at("num_carries"),
    "is_reverse": field_at("is_reverse"),
    "is_associative": field_at("is_associative", _TRI_STATE.index, lambda value: _TRI_STATE[value % 3]),
    "is_stable": field_at("is_stable"),
    "TopKAttributes.is_stable": None,
    "k": field_at("k"),
    "largest": field_at("largest"),
    "number": field_at("parameter_number"),
    "parameter_replication": encodings.PARAMETER_REPLICATION,
    "infeed_config": field_at("infeed_config", as_bytes, as_text),
    "outfeed_config": field_at("outfeed_config", as_bytes, as_text),
    "outfeed_shape": message_field("outfeed_shape", write_shape, read_shape),
    "is_host_transfer": field_at("is_host_transfer"),
    "cross_program_prefetch_index": FieldEncoding(
        ("cross_program_prefetch_index",),
        lambda message, value: setattr(message, "cross_program_prefetch_index", value),
        lambda message: (
            message.cross_program_prefetch_index if message.HasField("cross_program_prefetch_index") else None
        ),
    ),
    "index": field_at("tuple_index"),
}
"""The encoding of each attribute, by its name, prefixed with `Class.` where a name has several meanings. A function
takes the field's codec. None: this class has no field in XLA's message, although another class has one of that name.
"""


_CODECS: dict[str, tuple[tuple[Field, FieldEncoding | None], ...]] = {}


def field_encodings(attributes: type[Attributes]) -> tuple[tuple[Field, FieldEncoding | None], ...]:
    """Returns the fields of an attribute class with their encodings; None for those kept as text."""
    known = _CODECS.get(attributes.__name__)
    if known is not None:
        return known
    found: list[tuple[Field, FieldEncoding | None]] = []
    for field in attributes.fields:
        entry = FIELDS.get(f"{attributes.__name__}.{field.name}", FIELDS.get(field.name))
        if entry is not None and not isinstance(entry, FieldEncoding):
            entry = entry(field.codec)
        found.append((field, entry))
    return _CODECS.setdefault(attributes.__name__, tuple(found))


def fields_of(attributes: type[Attributes]) -> frozenset[str]:
    """Returns the message fields that the attributes of a class use."""
    return frozenset(name for _, codec in field_encodings(attributes) if codec for name in codec.fields)


_CACHE_LIMIT = 1 << 12
_WRITTEN: dict[Attributes, Message] = {}


def write_attributes(target: Message, attributes: Attributes) -> None:
    """Writes attributes to an HloInstructionProto."""
    if not attributes.fields:
        return
    if any(field.codec is LITERAL for field in attributes.fields):
        _write(target, attributes)
        return
    found = _WRITTEN.get(attributes)
    if found is None:
        found = message_class("HloInstructionProto")()
        _write(found, attributes)
        if len(_WRITTEN) >= _CACHE_LIMIT:
            _WRITTEN.clear()
        _WRITTEN[attributes] = found
    target.MergeFrom(found)


def _write(target: Message, attributes: Attributes) -> None:
    for field, codec in field_encodings(type(attributes)):
        value = getattr(attributes, field.name)
        if codec is not None and value is not None:
            codec.write(target, value)
            if codec.read(target) == value or field.codec is LITERAL:
                continue
        if value is not None and (field.required or value != field.default):
            target.text_attributes[field.key] = field.codec.write(value)


def read_attributes(source: Message, op: OpDef) -> Attributes:
    """Reads the attributes of an op. Raises `ProtoError` or `XlaError` that names the field."""
    values: dict[str, Any] = {}
    texts = source.text_attributes
    for field, codec in field_encodings(op.attributes):
        if field.key in texts:
            values[field.name] = _from_text(field, texts[field.key])
            continue
        value = codec.read(source) if codec is not None else None
        if value is not None:
            values[field.name] = value
        elif field.required:
            raise ProtoError(proto_codes.PROTO_ATTRIBUTE, f"the attribute {field.key!r} is missing")
    try:
        return op.attributes.make(**values)
    except (ShapeError, ValueError) as error:
        raise ProtoError(*code_and_message(error, proto_codes.PROTO_VALUE)) from error


def _from_text(field: Field, text: str) -> Any:
    reader = HloCursor(text)
    try:
        value = field.codec.read(reader)
        if not reader.at_end():
            reader.fail(text_codes.TOKEN, "expected the end of the value")
    except (ParseError, ShapeError) as error:
        raise ProtoError(error.code, f"text attribute {field.key}={text:.80}: {error.message}") from error
    return value
