"""Reads the attributes of operations as Python values: integers, flags, strings, arrays and structs.

Responsible for defaults, for accepting every form of an attribute (`array<i64: 1, 2>`, `dense<[1, 2]>`, `[1, 2]`), and
for error messages. A function without a default raises `ShapeError` if the operation lacks the attribute; all raise it
for a value of another kind. Does not depend on particular operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.print_attributes import attribute_text

Ints = tuple[int, ...]


def required(operation: ir.Operation, name: str) -> Any:
    """Returns the attribute with a name. Raises `ShapeError` if the operation does not have it."""
    try:
        return operation.attributes[name]
    except KeyError:
        raise ShapeError(codes.REQUIRED_ATTRIBUTE, f"it has no attribute {name}") from None


def integer(operation: ir.Operation, name: str, default: int | None = None) -> int:
    """Reads an integer: `3 : i64`."""
    if default is not None and name not in operation.attributes:
        return default
    return as_integer(required(operation, name), name)


def as_integer(value: Any, name: str) -> int:
    """Converts an attribute's value to an integer; `name` is used in the error message only."""
    if isinstance(value, ir.IntegerAttribute):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be an integer, but is {describe(value)}")


def number(operation: ir.Operation, name: str) -> float:
    """Reads a floating-point number: `1.0e-5 : f32`."""
    value = required(operation, name)
    if not isinstance(value, ir.FloatAttribute):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"attribute {name} must be a floating-point number, but is {describe(value)}"
        )
    return value.value


def integers(operation: ir.Operation, name: str, default: Sequence[int] | None = None) -> Ints:
    """Reads a list of integers: `array<i64: 1, 2>`, `dense<[1, 2]> : tensor<2xi64>` or `[1, 2]`."""
    if default is not None and name not in operation.attributes:
        return tuple(default)
    return as_integers(required(operation, name), name)


def as_integers(value: Any, name: str) -> Ints:
    """Converts an attribute's value to a tuple of integers; `name` is used in the error message only."""
    if isinstance(value, ir.ElementsAttribute):
        if value.values.ndim > 1 or value.values.dtype.kind not in "iub":
            raise ShapeError(
                codes.ATTRIBUTE_KIND, f"attribute {name} must be a list of integers, but has type {value.type}"
            )
        flat: list[int] = value.listed().ravel().tolist()
        return tuple(flat)
    if isinstance(value, tuple):
        return tuple([as_integer(element, name) for element in value])
    raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be a list of integers, but is {describe(value)}")


def matrix(operation: ir.Operation, name: str) -> Array | None:
    """Reads a matrix of integers, `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`; None if the attribute is absent."""
    value = operation.attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, ir.ElementsAttribute) or value.values.ndim != 2:
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"attribute {name} must be a matrix of integers, but is {describe(value)}"
        )
    return value.listed()


def flags(operation: ir.Operation, name: str) -> tuple[bool, ...]:
    """Reads a list of booleans; () if the attribute is absent."""
    return tuple([bool(value) for value in integers_or_booleans(operation.attributes.get(name, ()), name)])


def integers_or_booleans(value: Any, name: str) -> Ints:
    """Converts a list of integers or booleans to integers, `true` to 1."""
    if isinstance(value, tuple):
        return tuple([int(each) if isinstance(each, bool) else as_integer(each, name) for each in value])
    return as_integers(value, name)


def flag(operation: ir.Operation, name: str, default: bool = False) -> bool:
    """Reads a boolean; a unit attribute is true."""
    value = operation.attributes.get(name, default)
    if isinstance(value, ir.Unit):
        return True
    if not isinstance(value, bool):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be true or false, but is {describe(value)}")
    return value


def text(operation: ir.Operation, name: str, default: str | None = None) -> str:
    """Reads a string or the name of an enum case."""
    value = required(operation, name) if default is None else operation.attributes.get(name, default)
    if not isinstance(value, str):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be a string, but is {describe(value)}")
    return value


def texts(operation: ir.Operation, name: str) -> tuple[str, ...]:
    """Reads a list of strings or names of enum cases; () if the attribute is absent."""
    value = operation.attributes.get(name, ())
    if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be a list of strings, but is {describe(value)}")
    return value


def array(operation: ir.Operation, name: str) -> tuple[Any, ...]:
    """Reads an array of attributes of any kind; () if the attribute is absent."""
    value = operation.attributes.get(name, ())
    if not isinstance(value, tuple):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be an array, but is {describe(value)}")
    return value


def fields(operation: ir.Operation, name: str) -> Fields:
    """Reads the fields of a struct: `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`."""
    value = required(operation, name)
    if not isinstance(value, ir.StructAttribute):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must be a struct, but is {describe(value)}")
    return Fields(name, value.fields)


class Fields:
    """The fields of a struct attribute. An absent field reads as an empty list or as zero, as in MLIR."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self.values = values

    def integers(self, field: str) -> Ints:
        """Reads a field with a list of integers."""
        return as_integers(self.values.get(field, ()), f"{self.name}.{field}")

    def integer(self, field: str) -> int:
        """Reads an integer field."""
        return as_integer(self.values.get(field, 0), f"{self.name}.{field}")


def symbol(operation: ir.Operation, name: str) -> str:
    """Reads the name of a function: `@f`."""
    return as_symbol(required(operation, name), name)


def as_symbol(value: Any, name: str) -> str:
    """Converts a symbol reference to the name of the function; `name` is used in the error message only."""
    if not isinstance(value, ir.SymbolReference) or value.nested:
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must name a function, but is {describe(value)}")
    return value.root


def describe(value: Any) -> str:
    """Returns the text of an attribute in MLIR for error messages."""
    if isinstance(value, ir.ElementsAttribute):
        return f"elements of type {value.type}"
    if isinstance(value, str):
        return repr(value)
    try:
        return attribute_text(value)
    except UnsupportedError:
        return f"{type(value).__name__} {value!r}"


def pairs(table: Array | None, name: str) -> tuple[tuple[int, int], ...]:
    """Returns the rows of a matrix with two columns; () for None."""
    if table is None or table.size == 0:
        return ()
    if table.shape[1] != 2:
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute {name} must have two columns, but has {table.shape[1]}")
    return tuple([(int(first), int(second)) for first, second in np.asarray(table)])
