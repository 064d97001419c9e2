"""Reading the attributes of operations: integers, flags, text, structures, whichever spelling they came in.

Owns: access with defaults and clear refusals. Must not know: what any operation does with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.errors import ShapeError
from xlapy.stablehlo import ir

Ints = tuple[int, ...]


def required(operation: ir.Operation, name: str) -> Any:
    """The attribute of a name; `ShapeError` if the operation has none."""
    try:
        return operation.attributes[name]
    except KeyError:
        raise ShapeError(f"it has no attribute {name}") from None


def integer(operation: ir.Operation, name: str, default: int | None = None) -> int:
    """A whole number: `3 : i64`."""
    if default is not None and name not in operation.attributes:
        return default
    return as_integer(required(operation, name), name)


def as_integer(value: Any, name: str) -> int:
    if isinstance(value, ir.IntegerAttribute):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ShapeError(f"attribute {name} must be a whole number, it is {shown(value)}")


def number(operation: ir.Operation, name: str) -> float:
    """A number of a floating-point type: `1.0e-5 : f32`."""
    value = required(operation, name)
    if not isinstance(value, ir.FloatAttribute):
        raise ShapeError(f"attribute {name} must be a floating-point number, it is {shown(value)}")
    return value.value


def integers(operation: ir.Operation, name: str, default: Sequence[int] | None = None) -> Ints:
    """A list of whole numbers: `array<i64: 1, 2>`, `dense<[1, 2]> : tensor<2xi64>` or `[1, 2]`."""
    if default is not None and name not in operation.attributes:
        return tuple(default)
    return as_integers(required(operation, name), name)


def as_integers(value: Any, name: str) -> Ints:
    if isinstance(value, ir.ElementsAttribute):
        if value.values.ndim > 1 or value.values.dtype.kind not in "iub":
            raise ShapeError(f"attribute {name} must be a list of whole numbers, it is of type {value.type}")
        flat: list[int] = value.values.ravel().tolist()
        return tuple(flat)
    if isinstance(value, tuple):
        return tuple([as_integer(element, name) for element in value])
    raise ShapeError(f"attribute {name} must be a list of whole numbers, it is {shown(value)}")


def matrix(operation: ir.Operation, name: str) -> Array | None:
    """A table of whole numbers, `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`; None if it is not given."""
    value = operation.attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, ir.ElementsAttribute) or value.values.ndim != 2:
        raise ShapeError(f"attribute {name} must be a table of whole numbers, it is {shown(value)}")
    return value.values


def flags(operation: ir.Operation, name: str) -> tuple[bool, ...]:
    """A list of booleans; () if it is not given."""
    return tuple([bool(value) for value in integers_or_flags(operation.attributes.get(name, ()), name)])


def integers_or_flags(value: Any, name: str) -> Ints:
    if isinstance(value, tuple):
        return tuple([int(each) if isinstance(each, bool) else as_integer(each, name) for each in value])
    return as_integers(value, name)


def flag(operation: ir.Operation, name: str, default: bool = False) -> bool:
    """A boolean, or whether a unit is there."""
    value = operation.attributes.get(name, default)
    if isinstance(value, ir.Unit):
        return True
    if not isinstance(value, bool):
        raise ShapeError(f"attribute {name} must be true or false, it is {shown(value)}")
    return value


def text(operation: ir.Operation, name: str, default: str | None = None) -> str:
    """A string, or the case of an enumeration."""
    value = required(operation, name) if default is None else operation.attributes.get(name, default)
    if not isinstance(value, str):
        raise ShapeError(f"attribute {name} must be text, it is {shown(value)}")
    return value


def texts(operation: ir.Operation, name: str) -> tuple[str, ...]:
    """A list of strings or cases; () if it is not given."""
    value = operation.attributes.get(name, ())
    if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
        raise ShapeError(f"attribute {name} must be a list of names, it is {shown(value)}")
    return value


def listed(operation: ir.Operation, name: str) -> tuple[Any, ...]:
    """A list of any attributes; () if it is not given."""
    value = operation.attributes.get(name, ())
    if not isinstance(value, tuple):
        raise ShapeError(f"attribute {name} must be a list, it is {shown(value)}")
    return value


def fields(operation: ir.Operation, name: str) -> Fields:
    """The fields of a structure: `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`."""
    value = required(operation, name)
    if not isinstance(value, ir.StructAttribute):
        raise ShapeError(f"attribute {name} must be a structure, it is {shown(value)}")
    return Fields(name, value.fields)


class Fields:
    """The fields of a structure; those left out are empty lists and zeros, as in MLIR."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self.values = values

    def integers(self, field: str) -> Ints:
        return as_integers(self.values.get(field, ()), f"{self.name}.{field}")

    def integer(self, field: str) -> int:
        return as_integer(self.values.get(field, 0), f"{self.name}.{field}")


def symbol(operation: ir.Operation, name: str) -> str:
    """The name of a function: `@f`."""
    return as_symbol(required(operation, name), name)


def as_symbol(value: Any, name: str) -> str:
    if not isinstance(value, ir.SymbolReference) or value.nested:
        raise ShapeError(f"attribute {name} must name a function, it is {shown(value)}")
    return value.root


def shown(value: Any) -> str:
    """An attribute in a message."""
    if isinstance(value, ir.ElementsAttribute):
        return f"elements of type {value.type}"
    return f"{type(value).__name__} {value!r}" if not isinstance(value, str) else repr(value)


def pairs(table: Array | None, name: str) -> tuple[tuple[int, int], ...]:
    """The rows of a table of two columns; () for no table."""
    if table is None or table.size == 0:
        return ()
    if table.shape[1] != 2:
        raise ShapeError(f"attribute {name} must have two columns, it has {table.shape[1]}")
    return tuple([(int(first), int(second)) for first, second in np.asarray(table)])
