"""Attributes as MLIR writes them, for the places where HLO keeps them as text.

Owns: the text of plain attributes, as in the backend_config of custom calls and the attributes of composites. Must not
know: what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, Array, PrimitiveType
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.types import type_text


def attribute_text(value: Any) -> str:
    """An attribute in MLIR's syntax."""
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
        return f"{_number(np.asarray(value.value).astype(element.dtype), element)} : {type_text(value.type)}"
    if isinstance(value, ir.SymbolReference):
        return "::".join(f"@{name}" for name in (value.root, *value.nested))
    if isinstance(value, ir.ElementsAttribute):
        return _elements_text(value)
    if isinstance(value, ir.OpaqueAttribute):
        return f"#{value.name}" + ("" if value.text is None else f"<{value.text}>")
    if isinstance(value, ir.TensorType | ir.ScalarType | ir.TokenType | ir.TupleType):
        return type_text(value)
    raise UnsupportedError(f"a {type(value).__name__} has no text that HLO could keep")


def dictionary_text(entries: Mapping[str, Any]) -> str:
    """`{a = 1 : i64, b}`: a unit is its name alone; names are in order, as MLIR keeps them."""
    parts = [
        name if isinstance(entries[name], ir.Unit) else f"{name} = {attribute_text(entries[name])}"
        for name in sorted(entries)
    ]
    return f"{{{', '.join(parts)}}}"


def quoted(text: str) -> str:
    """Text in quotes; what does not print, quotes and backslashes as two hexadecimal digits or an escape."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(map(_character, data)) + '"'


def _character(byte: int) -> str:
    character = chr(byte)
    if character in '"\\':
        return f"\\{character}"
    return character if 0x20 <= byte < 0x7F else f"\\{byte:02X}"


def _elements_text(value: ir.ElementsAttribute) -> str:
    element = value.type.element
    if not isinstance(element, PrimitiveType):
        raise UnsupportedError(f"elements of type {type_text(value.type)} have no text that HLO could keep")
    if value.values.ndim == 1:
        listed = ", ".join(_number(each, element) for each in value.values)
        return f"array<{type_text(ir.ScalarType(element))}{': ' if listed else ''}{listed}>"
    return f"dense<{_nested(value.values, element)}> : {type_text(value.type)}"


def _nested(values: Array, element: PrimitiveType) -> str:
    if values.ndim == 0:
        return _number(values, element)
    return f"[{', '.join(_nested(np.asarray(part), element) for part in values)}]"


def _number(value: Any, element: PrimitiveType) -> str:
    if element is PRED:
        return "true" if value else "false"
    if element.is_complex:
        part = element.component_type
        return f"({_number(np.real(value), part)}, {_number(np.imag(value), part)})"
    if not element.is_floating:
        return str(int(value))
    if np.isfinite(value.astype(np.float64)):
        short = f"{float(value):e}"
        if np.array(float(short)).astype(value.dtype) == value:
            return short
        return np.format_float_scientific(value if element.bits > 16 else value.astype(np.float32), exp_digits=2)
    return f"0x{np.asarray(value).view(f'u{element.byte_size}').item():0{element.bits // 4}X}"
