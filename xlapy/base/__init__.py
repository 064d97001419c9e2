"""Types and values that every other layer uses: errors, flags, logging, element types, layouts, shapes, literals.

The names below load on first use, so that a module of the package costs no more than what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "ALL_TYPES": "xlapy.base.element_types",
    "ARRAY_TYPES": "xlapy.base.element_types",
    "BuilderError": "xlapy.base.errors",
    "COMBINE_DIMENSION": "xlapy.base.layout",
    "Cursor": "xlapy.base.cursor",
    "ExecutionError": "xlapy.base.errors",
    "Flag": "xlapy.base.flags",
    "Flags": "xlapy.base.flags",
    "InvalidArgumentError": "xlapy.base.errors",
    "Layout": "xlapy.base.layout",
    "Literal": "xlapy.base.literal",
    "MAX_TUPLE_DEPTH": "xlapy.base.shape_fields",
    "ParseError": "xlapy.base.errors",
    "PrimitiveType": "xlapy.base.element_types",
    "ProgramShape": "xlapy.base.program_shape",
    "SHAPE_PATTERN": "xlapy.base.shape_syntax",
    "Shape": "xlapy.base.shape",
    "ShapeError": "xlapy.base.errors",
    "UNBOUNDED": "xlapy.base.shape_fields",
    "UnsupportedError": "xlapy.base.errors",
    "VerificationError": "xlapy.base.errors",
    "XlaError": "xlapy.base.errors",
    "logger": "xlapy.base.logging",
    "parse_literal": "xlapy.base.literal_parser",
    "parse_shape": "xlapy.base.shape",
    "parse_shaped_literal": "xlapy.base.literal_parser",
    "read_program_shape": "xlapy.base.program_shape",
    "read_shape": "xlapy.base.shape",
}
"""The module that defines each name."""


if not TYPE_CHECKING:  # type checkers read the imports above, and report unknown names

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value
