"""Entry points of the parser: whole programs, single attributes and single types."""

from __future__ import annotations

from typing import Any

from xlapy.base.cursor import check_characters
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import ParseError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.attributes import AttributeParser
from xlapy.stablehlo.text.cursor import MlirCursor
from xlapy.stablehlo.text.custom_parsers import CUSTOM_PARSERS
from xlapy.stablehlo.text.operations import OperationParser
from xlapy.stablehlo.text.resources import Resources


def parse_text(text: str, filename: str | None = None) -> ir.Operation:
    """Parses MLIR text and returns its `builtin.module`. Operations outside a module are put into a new one.

    Accepts every form that MLIR prints for operations of builtin, func, StableHLO, CHLO, Shardy and StableHLO's tests,
    and for those operations of arith, math, shape and tensor that compute sizes; all other operations must be in the
    generic form. Checks that values are defined before their use and used with their type, but not the constraints of
    operations on their operands and attributes.

    Raises `ParseError`, which names `filename` and quotes the line with a caret.
    """
    check_characters(text, filename)
    try:
        return OperationParser(text, CUSTOM_PARSERS).parse()
    except ParseError as error:
        if filename is None or error.filename is not None:
            raise
        raise ParseError.at(text, error.offset, error.code, error.message, filename) from None


def parse_attribute(text: str) -> Any:
    """Parses the text of one attribute. Raises `ParseError`."""
    cursor = MlirCursor(text)
    value = AttributeParser(cursor, Resources(cursor)).parse()
    if cursor.skip() < len(text):
        cursor.fail(codes.TOKEN, f"expected the end of an attribute, found {cursor.describe_next()}")
    return value


def parse_type(text: str) -> ir.Type:
    """Parses the text of one type. Raises `ParseError`."""
    cursor = MlirCursor(text)
    value = AttributeParser(cursor, Resources(cursor)).types.parse()
    if cursor.skip() < len(text):
        cursor.fail(codes.TOKEN, f"expected the end of a type, found {cursor.describe_next()}")
    return value
