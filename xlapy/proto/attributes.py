"""Attributes of ops as fields of HloInstructionProto.

Responsible for `FIELDS`, which maps the name of an attribute to its field in the message and its encoding. An attribute
without a field in XLA's message is kept as text in `text_attributes`. A new attribute needs an entry here only if XLA
has a field for it. Does not depend on instructions or particular ops.
Source: hlo.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from xlapy.base.errors import ParseError, ProtoError, ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.sharding import SHARDING
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.attributes.codecs import LITERAL, Attributes, Field
from xlapy.opcodes.attributes.dimensions import (
    ConvDimensions,
    PaddingConfig,
    PaddingDimension,
    SliceRanges,
    Window,
    WindowDimension,
)
from xlapy.opcodes.control import DomainSides
from xlapy.opcodes.convolution import SparsityConfig, TensorSparsity
from xlapy.opcodes.registry import OpDef
from xlapy.proto.meshes import read_groups, read_sharding, write_groups, write_sharding
from xlapy.proto.messages import Message, message_class
from xlapy.proto.metadata import as_bytes, as_text
from xlapy.proto.values import read_literal, read_shape, write_literal, write_shape


@dataclass(frozen=True, slots=True)
class FieldEncoding:
    """How a value is stored in a message: the top-level fields it uses, and functions that read and write the whole
    message.
    """

    fields: tuple[str, ...]
    write: Callable[[Message, Any], None]
    read: Callable[[Message], Any]


def _same(value: Any) -> Any:
    return value


def field_at(path: str, encode: Callable[[Any], Any] = _same, decode: Callable[[Any], Any] = _same) -> FieldEncoding:
    """A scalar field, or a repeated one read as a tuple, at a dotted path. Reading does not require the messages on the
    path.
    """
    *outer, last = path.split(".")

    def write(message: Message, value: Any) -> None:
        for name in outer:
            message = getattr(message, name)
            message.SetInParent()
        stored = encode(value)
        if isinstance(stored, (tuple, list)):
            getattr(message, last).extend(stored)
        elif stored is not None:
            setattr(message, last, stored)

    def read(message: Message) -> Any:
        for name in outer:
            message = getattr(message, name)
        value = getattr(message, last)
        return decode(value if isinstance(value, (bool, int, float, str, bytes)) else tuple(value))

    return FieldEncoding((path.partition(".")[0],), write, read)


def message_field(
    name: str, write: Callable[[Any, Any], None], read: Callable[[Any], Any], absent: Any = None
) -> FieldEncoding:
    """A message or repeated message field; `absent` is the value that a missing message stands for."""

    def read_present(message: Message) -> Any:
        descriptor = message.DESCRIPTOR.fields_by_name[name]
        if not descriptor.is_repeated and not message.HasField(name):
            return absent
        return read(getattr(message, name))

    return FieldEncoding((name,), lambda message, value: write(getattr(message, name), value), read_present)


def single_dimension(path: str) -> FieldEncoding:
    """A repeated field that holds exactly one dimension."""
    return field_at(path, lambda value: (value,), functools.partial(_only, path))


def _only(path: str, values: tuple[int, ...]) -> int:
    if len(values) != 1:
        raise ProtoError(f"{path} must have exactly one entry, it has {len(values)}")
    return values[0]


def positive_or_none(path: str) -> FieldEncoding:
    """A number; 0 and below mean that there is none."""
    return field_at(path, decode=lambda value: value if value > 0 else None)


def default_one(path: str) -> FieldEncoding:
    return field_at(path, decode=lambda value: value or 1)


def enum_words(path: str, enum: type[Enum], prefix: str = "") -> FieldEncoding:
    """An enumeration, or part of one, whose XLA names are a prefix and the upper-case words of HLO text."""

    def encode(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(number(each) for each in value)
        return number(value)

    def number(member: Enum) -> int:
        return numbers()[f"{prefix}{member.value.upper()}"]

    def decode(value: Any) -> Any:
        return tuple(map(member_of, value)) if isinstance(value, tuple) else member_of(value)

    def member_of(value: int) -> Enum:
        names = {number: name for name, number in numbers().items()}
        for member in enum:
            if names.get(value) == f"{prefix}{member.value.upper()}":
                return member
        raise ProtoError(f"{path} has the unknown value {value}")

    @functools.cache
    def numbers() -> dict[str, int]:
        descriptor = message_class("HloInstructionProto").DESCRIPTOR
        *outer, last = path.split(".")
        for name in outer:
            descriptor = descriptor.fields_by_name[name].message_type
        values = descriptor.fields_by_name[last].enum_type.values
        return {value.name: value.number for value in values}

    return field_at(path, encode, decode)


def enum_string(path: str, enum: type[Enum]) -> FieldEncoding:
    """An enumeration that XLA stores as a string; the empty string means none."""

    def decode(value: str) -> Enum | None:
        try:
            return enum(value) if value else None
        except ValueError:
            known = ", ".join(member.value for member in enum)
            raise ProtoError(f"{path} is {value!r}; expected one of {known}") from None

    return field_at(path, lambda member: member.value, decode)


# -- values with several fields


def _write_window(target: Any, window: Window) -> None:
    target.SetInParent()
    for d in window.dimensions:
        target.dimensions.add(
            size=d.size,
            stride=d.stride,
            padding_low=d.padding_low,
            padding_high=d.padding_high,
            window_dilation=d.window_dilation,
            base_dilation=d.base_dilation,
            window_reversal=d.window_reversal,
        )


def _read_window(source: Any) -> Window:
    return Window(
        tuple(
            WindowDimension(
                d.size,
                d.stride,
                d.padding_low,
                d.padding_high,
                d.base_dilation,
                d.window_dilation,
                d.window_reversal,
            )
            for d in source.dimensions
        )
    )


def _write_padding(target: Any, padding: PaddingConfig) -> None:
    target.SetInParent()
    for d in padding.dimensions:
        target.dimensions.add(edge_padding_low=d.low, edge_padding_high=d.high, interior_padding=d.interior)


def _read_padding(source: Any) -> PaddingConfig:
    return PaddingConfig(
        tuple(PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in source.dimensions)
    )


def _write_ranges(target: Any, ranges: SliceRanges) -> None:
    for start, limit, stride in zip(ranges.starts, ranges.limits, ranges.strides, strict=True):
        target.add(start=start, limit=limit, stride=stride)


def _read_ranges(source: Any) -> SliceRanges:
    return SliceRanges(*(tuple(getattr(d, name) for d in source) for name in ("start", "limit", "stride")))


_CONVOLUTION = tuple(ConvDimensions.__dataclass_fields__)


def _write_convolution(target: Any, numbers: ConvDimensions) -> None:
    target.SetInParent()
    for name in _CONVOLUTION:
        value = getattr(numbers, name)
        if isinstance(value, tuple):
            getattr(target, name).extend(value)
        else:
            setattr(target, name, value)


def _read_convolution(source: Any) -> ConvDimensions:
    values = {name: getattr(source, name) for name in _CONVOLUTION}
    lists: dict[str, Any] = {name: v if isinstance(v, int) else tuple(v) for name, v in values.items()}
    return ConvDimensions(**lists)


def _write_sparsity(target: Any, config: SparsityConfig) -> None:
    for side, tensor in (("lhs", config.lhs), ("rhs", config.rhs)):
        if tensor is not None:
            chosen = getattr(target, side)
            chosen.num_non_zero, chosen.block_size = tensor.num_non_zero, tensor.block_size
            chosen.dimension, chosen.stride = tensor.dimension, tensor.stride


def _read_sparsity(source: Any) -> SparsityConfig:
    sides = [getattr(source, side) if source.HasField(side) else None for side in ("lhs", "rhs")]
    return SparsityConfig(
        *(None if s is None else TensorSparsity(s.num_non_zero, s.block_size, s.dimension, s.stride) for s in sides)
    )


def _write_pairs(target: Any, pairs: tuple[tuple[int, ...], ...]) -> None:
    for source, to in pairs:
        target.add(source=source, target=to)


def _read_pairs(source: Any) -> tuple[tuple[int, ...], ...]:
    return tuple((pair.source, pair.target) for pair in source)


def _write_aliases(target: Any, aliases: tuple[OutputAlias, ...]) -> None:
    for alias in aliases:
        target.add(
            output_shape_index=alias.output_index,
            operand_index=alias.operand,
            operand_shape_index=alias.operand_index,
        )


def _read_aliases(source: Any) -> tuple[OutputAlias, ...]:
    return tuple(
        OutputAlias(tuple(each.output_shape_index), each.operand_index, tuple(each.operand_shape_index))
        for each in source
    )


def _write_replication(target: Any, leaves: tuple[bool, ...]) -> None:
    target.replicated_at_leaf_buffers.extend(leaves)


def _read_replication(source: Any) -> tuple[bool, ...] | None:
    return tuple(source.replicated_at_leaf_buffers) or None


def _write_domain(message: Message, sides: DomainSides) -> None:
    """XLA's text and its message give the two words opposite meanings."""
    for side, text in (("exit", sides.entry), ("entry", sides.exit)):
        write_sharding(getattr(message, f"domain_{side}_sharding"), SHARDING.read(HloCursor(text)))


def _read_domain(message: Message) -> DomainSides:
    sides = (read_sharding(message.domain_exit_sharding), read_sharding(message.domain_entry_sharding))
    return DomainSides("sharding", *(side.to_text() for side in sides))


def _write_layouts(message: Message, shapes: tuple[Any, ...] | None) -> None:
    if shapes is not None:
        message.constrain_layout = True
        for shape in shapes:
            write_shape(message.operand_shapes_with_layout.add(), shape)


def _read_layouts(message: Message) -> tuple[Any, ...] | None:
    if not message.constrain_layout:
        return None
    return tuple(read_shape(shape) for shape in message.operand_shapes_with_layout)


def _write_slice_sizes(message: Message, rows: tuple[tuple[int, ...], ...]) -> None:
    for row in rows:
        message.dynamic_slice_sizes.extend(row)


def _read_slice_sizes(message: Message) -> tuple[tuple[int, ...], ...]:
    """Reads consecutive slices, each with the rank of the (first) result."""
    shape = message.shape
    while shape.tuple_shapes:
        shape = shape.tuple_shapes[0]
    sizes = tuple(message.dynamic_slice_sizes)
    rank = len(shape.dimensions) or len(sizes) or 1
    return tuple(sizes[start : start + rank] for start in range(0, len(sizes), rank))


def _padded(codec: FieldEncoding, enum: Any) -> FieldEncoding:
    """The precisions of all operands; trailing default precisions may be missing."""

    def read(message: Message) -> Any:
        given = codec.read(message)
        missing = len(message.operand_ids) - len(given)
        return (*given, *[enum.DEFAULT] * missing) if given and missing > 0 else given

    return FieldEncoding(codec.fields, codec.write, read)


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
        "dimensions", lambda value: () if value is None else (value,), lambda v: _only("dimensions", v) if v else None
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
    "CollectivePermuteAttributes.slice_sizes": FieldEncoding(
        ("dynamic_slice_sizes",), _write_slice_sizes, _read_slice_sizes
    ),
    "inferred_dimension": field_at(
        "dimensions", lambda value: (value,) if value >= 0 else (), lambda v: _only("dimensions", v) if v else -1
    ),
    "source_target_pairs": message_field("source_target_pairs", _write_pairs, _read_pairs),
    "GatherAttributes.slice_sizes": field_at("gather_slice_sizes"),
    "algorithm": lambda codec: enum_words("precision_config.algorithm", codec.enum, "ALG_"),
    "CustomCallAttributes.operand_precision": lambda codec: _padded(
        enum_words(_PRECISION, codec.item.enum), codec.item.enum
    ),
    "operand_precision": lambda codec: enum_words(_PRECISION, codec.item.enum),
    "RngBitGeneratorAttributes.algorithm": lambda codec: enum_words("rng_algorithm", codec.enum),
    "is_composite": field_at("is_composite"),
    "kind": lambda codec: enum_string("fusion_kind", codec.enum),
    "output_to_operand_aliasing": message_field("output_operand_aliasing", _write_aliases, _read_aliases),
    "domain": FieldEncoding(("domain_entry_sharding", "domain_exit_sharding"), _write_domain, _read_domain),
    "async_execution_thread": field_at("async_execution_thread", decode=lambda value: value or "main"),
    "window": message_field("window", _write_window, _read_window),
    "dim_labels": message_field("convolution_dimension_numbers", _write_convolution, _read_convolution),
    "feature_group_count": default_one("feature_group_count"),
    "batch_group_count": default_one("batch_group_count"),
    "convolution_kind": lambda codec: enum_words("conv_kind", codec.enum, "CONVOLUTION_KIND_"),
    "sparsity_config": message_field("sparsity_config", _write_sparsity, _read_sparsity),
    "padding_type": lambda codec: enum_words("padding_type", codec.enum),
    "custom_call_target": field_at("custom_call_target"),
    "operand_layout_constraints": FieldEncoding(
        ("constrain_layout", "operand_shapes_with_layout"), _write_layouts, _read_layouts
    ),
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
    "ranges": message_field("slice_dimensions", _write_ranges, _read_ranges),
    "padding": message_field("padding_config", _write_padding, _read_padding, PaddingConfig(())),
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
    "parameter_replication": message_field("parameter_replication", _write_replication, _read_replication),
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


_CACHE_LIMIT = 1 << 14
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
            raise ProtoError(f"the attribute {field.key!r} is missing")
    try:
        return op.attributes.make(**values)
    except (ShapeError, ValueError) as error:
        raise ProtoError(str(error)) from error


def _from_text(field: Field, text: str) -> Any:
    reader = HloCursor(text)
    try:
        value = field.codec.read(reader)
        if not reader.at_end():
            reader.fail("expected the end of the value")
    except (ParseError, ShapeError) as error:
        raise ProtoError(f"text attribute {field.key!r}: {error}") from error
    return value
