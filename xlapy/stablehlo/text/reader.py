"""The entrance to reading MLIR text.

Owns: what a caller gives and gets. Must not know: how anything is spelled.
"""

from __future__ import annotations

from typing import Any

from xlapy.base.errors import ParseError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.attributes import AttributeReader
from xlapy.stablehlo.text.cursor import MlirCursor
from xlapy.stablehlo.text.forms import FORMS
from xlapy.stablehlo.text.operations import OperationReader
from xlapy.stablehlo.text.resources import Resources


def read_text(text: str, filename: str | None = None) -> ir.Operation:
    """The `builtin.module` that MLIR text spells; operations outside a module are put into one.

    Operations of builtin, func, StableHLO, CHLO, Shardy, of StableHLO's tests, and those of arith, math, shape and
    tensor that compute sizes are read in every form that MLIR prints, others in the generic one. What operations ask
    of their operands and attributes is not checked here; that values are defined, and used as of the type they have,
    is. `filename` is shown in errors.

    Raises `ParseError` (line, column, the line, a caret).
    """
    try:
        return OperationReader(text, FORMS).read()
    except ParseError as error:
        if filename is None or error.filename is not None:
            raise
        raise ParseError.at(text, error.offset, error.message, filename) from None


def read_attribute(text: str) -> Any:
    """The attribute that MLIR text spells. Raises `ParseError`."""
    cursor = MlirCursor(text)
    value = AttributeReader(cursor, Resources(cursor)).read()
    if cursor.skip() < len(text):
        cursor.fail(f"expected the end of an attribute, found {cursor.describe_next()}")
    return value


def read_type(text: str) -> ir.Type:
    """The type that MLIR text spells. Raises `ParseError`."""
    cursor = MlirCursor(text)
    value = AttributeReader(cursor, Resources(cursor)).types.read()
    if cursor.skip() < len(text):
        cursor.fail(f"expected the end of a type, found {cursor.describe_next()}")
    return value
