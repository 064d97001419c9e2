"""Encodings of attribute values as fields of HloInstructionProto: numbers, enumerations, and messages such as Window.

Responsible for `FieldEncoding` and its constructors. Does not depend on which attribute uses an encoding
(`attributes.py`).
Source: hlo.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from xlapy.base.error_codes.formats import protos as codes
from xlapy.base.errors import ProtoError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.sharding import SHARDING
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.attributes.dimensions import (
    ConvDimensions,
    PaddingConfig,
    PaddingDimension,
    SliceRanges,
    Window,
    WindowDimension,
)
from xlapy.opcodes.attributes.domain import DomainSides
from xlapy.opcodes.convolution import SparsityConfig, TensorSparsity
from xlapy.proto.meshes import read_sharding, write_sharding
from xlapy.proto.messages import Message, message_class
from xlapy.proto.values import read_shape, write_shape


@dataclass(frozen=True, slots=True)
class FieldEncoding:
    """The representation of a value in a message.

    fields: the top-level fields that the value uses. write, read: functions of the message.
    """

    fields: tuple[str, ...]
    write: Callable[[Message, Any], None]
    read: Callable[[Message], Any]


def _same(value: Any) -> Any:
    return value


def field_at(path: str, encode: Callable[[Any], Any] = _same, decode: Callable[[Any], Any] = _same) -> FieldEncoding:
    """Returns the encoding of a scalar field, or of a repeated one that is read as a tuple, at a dotted path.

    encode, decode: conversions of the value to the field and back. The messages on the path may be missing when the
    field is read.
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
    """Returns the encoding of a message or repeated message field, which `write` and `read` convert.

    absent: the value that is read if the message is missing.
    """

    def read_present(message: Message) -> Any:
        descriptor = message.DESCRIPTOR.fields_by_name[name]
        if not descriptor.is_repeated and not message.HasField(name):
            return absent
        return read(getattr(message, name))

    return FieldEncoding((name,), lambda message, value: write(getattr(message, name), value), read_present)


def single_dimension(path: str) -> FieldEncoding:
    """Returns the encoding of one dimension in a repeated field."""
    return field_at(path, lambda value: (value,), functools.partial(only_dimension, path))


def only_dimension(path: str, values: tuple[int, ...]) -> int:
    """Returns the entry of a repeated field with one entry; raises `ProtoError` for any other number of entries."""
    if len(values) != 1:
        raise ProtoError(codes.PROTO_COUNT, f"{path} must have exactly one entry, it has {len(values)}")
    return values[0]


def positive_or_none(path: str) -> FieldEncoding:
    """Returns the encoding of a positive number; other numbers are read as None."""
    return field_at(path, decode=lambda value: value if value > 0 else None)


def default_one(path: str) -> FieldEncoding:
    """Returns the encoding of a number; 0 is read as 1."""
    return field_at(path, decode=lambda value: value or 1)


def enum_words(path: str, enum: type[Enum], prefix: str = "") -> FieldEncoding:
    """Returns the encoding of a member, or a tuple of members, of an enumeration.

    XLA's name of a member is the prefix and the upper-case word of HLO text.
    """

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
        raise ProtoError(codes.PROTO_VALUE, f"{path} has the unknown value {value}")

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
    """Returns the encoding of an enumeration that XLA stores as a string; the empty string is read as None."""

    def decode(value: str) -> Enum | None:
        try:
            return enum(value) if value else None
        except ValueError:
            known = ", ".join(member.value for member in enum)
            raise ProtoError(codes.PROTO_VALUE, f"{path} is {value!r}; expected one of {known}") from None

    return field_at(path, lambda member: member.value, decode)


def with_default_precisions(codec: FieldEncoding, enum: Any) -> FieldEncoding:
    """Returns an encoding that adds missing trailing precisions, which are the default, when it reads those of all
    operands.
    """

    def read(message: Message) -> Any:
        given = codec.read(message)
        missing = len(message.operand_ids) - len(given)
        return (*given, *[enum.DEFAULT] * missing) if given and missing > 0 else given

    return FieldEncoding(codec.fields, codec.write, read)


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
    """Writes the shardings of both sides. In XLA's message, the words entry and exit have swapped meanings."""
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
    """Reads consecutive slices; each has as many sizes as the first result has dimensions."""
    shape = message.shape
    while shape.tuple_shapes:
        shape = shape.tuple_shapes[0]
    sizes = tuple(message.dynamic_slice_sizes)
    rank = len(shape.dimensions) or len(sizes) or 1
    return tuple(sizes[start : start + rank] for start in range(0, len(sizes), rank))


# -- encodings of values with several fields

SLICE_SIZES = FieldEncoding(("dynamic_slice_sizes",), _write_slice_sizes, _read_slice_sizes)
SOURCE_TARGET_PAIRS = message_field("source_target_pairs", _write_pairs, _read_pairs)
OUTPUT_ALIASES = message_field("output_operand_aliasing", _write_aliases, _read_aliases)
DOMAIN = FieldEncoding(("domain_entry_sharding", "domain_exit_sharding"), _write_domain, _read_domain)
WINDOW = message_field("window", _write_window, _read_window)
CONVOLUTION_DIMENSIONS = message_field("convolution_dimension_numbers", _write_convolution, _read_convolution)
SPARSITY = message_field("sparsity_config", _write_sparsity, _read_sparsity)
OPERAND_LAYOUTS = FieldEncoding(("constrain_layout", "operand_shapes_with_layout"), _write_layouts, _read_layouts)
SLICE_RANGES = message_field("slice_dimensions", _write_ranges, _read_ranges)
PADDING = message_field("padding_config", _write_padding, _read_padding, PaddingConfig(()))
PARAMETER_REPLICATION = message_field("parameter_replication", _write_replication, _read_replication)
