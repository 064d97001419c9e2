"""Prints attributes in MLIR's syntax for the fields of HLO that hold them as text.

These fields are the backend_config of custom calls and the frontend attributes of composites. The printer of whole
programs is `xlapy.stablehlo.text.print_attributes`; this one follows the form that XLA stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, Array, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.types import type_text


def attribute_text(value: Any) -> str:
    """Returns an attribute in MLIR's syntax. Raises `UnsupportedError` for a kind that HLO cannot hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(attribute_text, value))}]"
    if isinstance(value, dict):
        return dictionary_text(value)
    if isinstance(value, ir.Unit):
        return "unit"
    if isinstance(value, ir.IntegerAttribute):
        return f"{value.value} : {type_text(value.type)}"
    if isinstance(value, ir.FloatAttribute):
        element = value.type.element
        return f"{_number_text(np.asarray(value.value).astype(element.dtype), element)} : {type_text(value.type)}"
    if isinstance(value, ir.SymbolReference):
        return "::".join(f"@{name}" for name in (value.root, *value.nested))
    if isinstance(value, ir.ElementsAttribute):
        return _elements_text(value)
    if isinstance(value, ir.OpaqueAttribute):
        return f"#{value.name}" + ("" if value.text is None else f"<{value.text}>")
    if isinstance(value, ir.TensorType | ir.ScalarType | ir.TokenType | ir.TupleType):
        return type_text(value)
    raise UnsupportedError(codes.HLO_ATTRIBUTE, f"HLO cannot hold an attribute of the kind {type(value).__name__}")


def dictionary_text(entries: Mapping[str, Any]) -> str:
    """Returns `{a = 1 : i64, b}`: sorted by name, as MLIR sorts them; a unit attribute is its name alone."""
    printed = [
        name if isinstance(entries[name], ir.Unit) else f"{name} = {attribute_text(entries[name])}"
        for name in sorted(entries)
    ]
    return f"{{{', '.join(printed)}}}"


def quoted(text: str) -> str:
    """Returns a string in quotes, with quotes and backslashes escaped and unprintable bytes as hexadecimal digits."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(map(_escaped, data)) + '"'


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in '"\\':
        return f"\\{character}"
    return character if 0x20 <= byte < 0x7F else f"\\{byte:02X}"


def _elements_text(value: ir.ElementsAttribute) -> str:
    element = value.type.element
    if not isinstance(element, PrimitiveType):
        raise UnsupportedError(codes.HLO_ATTRIBUTE, f"HLO cannot hold elements of type {type_text(value.type)}")
    values = value.listed()
    if values.ndim == 1:
        printed = ", ".join(_number_text(each, element) for each in values)
        return f"array<{type_text(ir.ScalarType(element))}{': ' if printed else ''}{printed}>"
    return f"dense<{_nested_lists(values, element)}> : {type_text(value.type)}"


def _nested_lists(values: Array, element: PrimitiveType) -> str:
    if values.ndim == 0:
        return _number_text(values, element)
    return f"[{', '.join(_nested_lists(np.asarray(row), element) for row in values)}]"


def _number_text(value: Any, element: PrimitiveType) -> str:
    if element is PRED:
        return "true" if value else "false"
    if element.is_complex:
        component = element.component_type
        return f"({_number_text(np.real(value), component)}, {_number_text(np.imag(value), component)})"
    if not element.is_floating:
        return str(int(value))
    if np.isfinite(value.astype(np.float64)):
        short = f"{float(value):e}"
        if np.array(float(short)).astype(value.dtype) == value:
            return short
        return np.format_float_scientific(value if element.bits > 16 else value.astype(np.float32), exp_digits=2)
    return f"0x{np.asarray(value).view(f'u{element.byte_size}').item():0{element.bits // 4}X}"
