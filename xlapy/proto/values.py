"""Shapes, layouts, program shapes and literals as messages.

Responsible for ShapeProto, LayoutProto, ProgramShapeProto and LiteralProto. Does not depend on instructions.
Source: xla_data.proto; shapes.md of XLA.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlapy.base.element_types import BUFFER, OPAQUE_TYPE, PRED, TOKEN, TUPLE, PrimitiveType
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import ProtoError
from xlapy.base.layout import Layout
from xlapy.base.literal import Literal
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import MAX_TUPLE_DEPTH
from xlapy.proto.messages import Message, message_class
from xlapy.proto.schema import REPEATED_NUMBERS, literal_field_of

_CACHE_LIMIT = 1 << 12
_WRITTEN: dict[Shape, Message] = {}
_READ: dict[bytes, Shape] = {}


# -- shapes


def write_shape(target: Message, shape: Shape) -> None:
    """Writes a shape to a ShapeProto."""
    found = _WRITTEN.get(shape)
    if found is None:
        found = message_class("ShapeProto")()
        _fill_shape(found, shape)
        if len(_WRITTEN) >= _CACHE_LIMIT:
            _WRITTEN.clear()
        _WRITTEN[shape] = found
    target.CopyFrom(found)


def _fill_shape(target: Message, shape: Shape) -> None:
    target.element_type = shape.element_type.number
    if shape.is_array:
        target.dimensions.extend(shape.dimensions)
        target.is_dynamic_dimension.extend(shape.dynamic_dimensions)
        if shape.layout is not None:
            _fill_layout(target.layout, shape.layout)
    elif shape.buffer_shape is not None:
        _fill_shape(target.tuple_shapes.add(), shape.buffer_shape)
    for part in shape.tuple_shapes:
        _fill_shape(target.tuple_shapes.add(), part)


def _fill_layout(target: Message, layout: Layout) -> None:
    target.minor_to_major.extend(layout.minor_to_major)
    for tile in layout.tiles:
        target.tiles.add().dimensions.extend(tile)
    target.tail_padding_alignment_in_elements = layout.tail_padding_alignment_in_elements
    target.index_primitive_type = layout.index_primitive_type.number
    target.pointer_primitive_type = layout.pointer_primitive_type.number
    target.element_size_in_bits = layout.element_size_in_bits
    target.memory_space = layout.memory_space
    for dimension, indices in layout.split_configs:
        target.split_configs.add(dimension=dimension, split_indices=indices)
    if isinstance(layout.physical_shape, Shape):
        _fill_shape(target.physical_shape, layout.physical_shape)
    target.dynamic_shape_metadata_prefix_bytes = layout.dynamic_shape_metadata_prefix_bytes


def read_shape(source: Message) -> Shape:
    """Reads a ShapeProto. Raises `ShapeError` or `ProtoError` if it does not describe a valid shape."""
    key: bytes = source.SerializeToString()
    found = _READ.get(key)
    if found is None:
        found = _shape(source, 0)
        if len(_READ) >= _CACHE_LIMIT:
            _READ.clear()
        _READ[key] = found
    return found


def _shape(source: Message, depth: int) -> Shape:
    if depth > MAX_TUPLE_DEPTH:
        raise ProtoError(codes.SHAPE_DEPTH, f"a shape nests deeper than {MAX_TUPLE_DEPTH} levels")
    element_type = _element_type(source.element_type)
    parts = [_shape(part, depth + 1) for part in source.tuple_shapes]
    if element_type is TUPLE:
        return Shape.tuple(parts)
    if element_type is TOKEN:
        return Shape.token()
    if element_type is OPAQUE_TYPE:
        return Shape.opaque()
    if element_type is BUFFER:
        if len(parts) != 1:
            raise ProtoError(codes.BUFFER_SHAPE, f"a buffer holds one array, here {len(parts)} shapes are given")
        return Shape.buffer(parts[0])
    if not element_type.is_array or parts:
        raise ProtoError(
            codes.ARRAY_ELEMENT_TYPE,
            f"no array has elements of type {element_type}" if not parts else "an array has tuple_shapes",
        )
    dynamic = tuple(source.is_dynamic_dimension) or None
    layout = _layout(source.layout) if source.HasField("layout") else None
    return Shape.array(element_type, source.dimensions, dynamic, layout)


def _element_type(number: int) -> PrimitiveType:
    return PrimitiveType.from_number(number)


def _layout(source: Message) -> Layout:
    return Layout(
        source.minor_to_major,
        [tile.dimensions for tile in source.tiles],
        tail_padding_alignment_in_elements=source.tail_padding_alignment_in_elements or 1,
        index_primitive_type=_element_type(source.index_primitive_type),
        pointer_primitive_type=_element_type(source.pointer_primitive_type),
        element_size_in_bits=source.element_size_in_bits,
        memory_space=source.memory_space,
        split_configs=[(split.dimension, split.split_indices) for split in source.split_configs],
        physical_shape=_shape(source.physical_shape, 1) if source.HasField("physical_shape") else None,
        dynamic_shape_metadata_prefix_bytes=max(source.dynamic_shape_metadata_prefix_bytes, 0),
    )


def write_program_shape(target: Message, program: ProgramShape) -> None:
    for shape in program.parameters:
        write_shape(target.parameters.add(), shape)
    write_shape(target.result, program.result)
    target.parameter_names.extend(program.parameter_names)


def read_program_shape(source: Message) -> ProgramShape:
    """Reads a program shape, without the parameter names."""
    return ProgramShape([read_shape(shape) for shape in source.parameters], read_shape(source.result))


# -- literals


def write_literal(target: Message, literal: Literal) -> None:
    """Writes a literal to a LiteralProto; an elided literal has no elements there."""
    write_shape(target.shape, literal.shape)
    for element in literal.elements:
        write_literal(target.tuple_literals.add(), element)
    if not literal.shape.is_array or literal.is_elided:
        return
    element_type = literal.shape.element_type
    target.dynamic_sizes.extend(literal.shape.dimensions if literal.shape.is_dynamic else ())
    if element_type in REPEATED_NUMBERS:
        flat = literal.flat()
        parts = flat.view(flat.real.dtype) if element_type.is_complex else flat
        getattr(target, literal_field_of(element_type)).extend(parts.tolist())
    else:
        setattr(target, literal_field_of(element_type), literal.to_bytes())


def read_literal(source: Message) -> Literal:
    """Reads a LiteralProto; a literal without elements is elided."""
    shape = read_shape(source.shape)
    if shape.is_tuple:
        parts = [read_literal(part) for part in source.tuple_literals]
        if tuple(part.shape for part in parts) != shape.tuple_shapes:
            given = Shape.tuple([part.shape for part in parts]).to_text(layout=False)
            raise ProtoError(
                codes.LITERAL_SHAPE, f"a literal of {shape.to_text(layout=False)} has the elements {given}"
            )
        return Literal.tuple(parts)
    if shape.is_token:
        return Literal.token()
    if not shape.is_array:
        raise ProtoError(codes.LITERAL_KIND, f"there is no literal of {shape.to_text(layout=False)}")
    values = getattr(source, literal_field_of(shape.element_type))
    if not len(values) and shape.size:
        return Literal.elided(shape)
    return _array_literal(shape, values)


def _array_literal(shape: Shape, values: Any) -> Literal:
    element_type = shape.element_type
    if isinstance(values, bytes):
        return Literal.from_bytes(shape, values)
    expected = math.prod(shape.dimensions) * (2 if element_type.is_complex else 1)
    if len(values) != expected:
        raise ProtoError(
            codes.LITERAL_SHAPE,
            f"a literal of {shape.to_text(layout=False)} has {expected} numbers, given {len(values)}",
        )
    dtype = np.dtype(bool) if element_type is PRED else element_type.component_type.dtype
    flat = np.array(values, dtype=dtype)
    return Literal.from_flat(shape, flat.view(shape.dtype) if element_type.is_complex else flat)
