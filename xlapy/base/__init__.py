"""Types and values that every other layer uses: errors, flags, logging, element types, layouts, shapes, literals."""

from xlapy.base.cursor import Cursor
from xlapy.base.element_types import ALL_TYPES, ARRAY_TYPES, PrimitiveType
from xlapy.base.errors import (
    BuilderError,
    ExecutionError,
    InvalidArgumentError,
    ParseError,
    ShapeError,
    UnsupportedError,
    VerificationError,
    XlaError,
)
from xlapy.base.flags import Flag, Flags
from xlapy.base.layout import COMBINE_DIMENSION, Layout
from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal, parse_shaped_literal
from xlapy.base.logging import logger
from xlapy.base.program_shape import ProgramShape, read_program_shape
from xlapy.base.shape import Shape, parse_shape, read_shape
from xlapy.base.shape_fields import MAX_TUPLE_DEPTH, UNBOUNDED
from xlapy.base.shape_syntax import SHAPE_PATTERN

__all__ = [
    "ALL_TYPES",
    "ARRAY_TYPES",
    "COMBINE_DIMENSION",
    "MAX_TUPLE_DEPTH",
    "SHAPE_PATTERN",
    "UNBOUNDED",
    "BuilderError",
    "Cursor",
    "ExecutionError",
    "Flag",
    "Flags",
    "InvalidArgumentError",
    "Layout",
    "Literal",
    "ParseError",
    "PrimitiveType",
    "ProgramShape",
    "Shape",
    "ShapeError",
    "UnsupportedError",
    "VerificationError",
    "XlaError",
    "logger",
    "parse_literal",
    "parse_shaped_literal",
    "read_program_shape",
    "read_shape",
    "parse_shape",
]
