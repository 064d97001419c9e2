"""Prints the attributes of `xlapy.stablehlo.ir` in MLIR's syntax.

A `str` is a string or an enum case, which only the name of the attribute tells apart. Does not otherwise depend on
operations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.print_types import element_text, type_text

_ENUMS = {
    "comparison_direction": "comparison_direction",
    "compare_type": "comparison_type",
    "fft_type": "fft_type",
    "rng_algorithm": "rng_algorithm",
    "rng_distribution": "rng_distribution",
    "transpose_a": "transpose",
}
_PRECISIONS = "precision_config"
_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_BARE_SYMBOL = re.compile(r"[A-Za-z_][\w$.\-]*", re.ASCII)
_UNPRINTABLE = re.compile(r'[^\x20-\x7e]|["\\]', re.ASCII)
_MAX_LISTED_ELEMENTS = 100
"""Constants with more elements are printed as hexadecimal bytes, as MLIR does."""
_WRAPPED = frozenset(
    f"sdy.{kind}" for kind in ("all_to_all_param_list", "axis_ref_list", "list_of_axis_ref_lists", "manual_axes")
)
_TYPES = (
    ir.TensorType, ir.UnrankedTensorType, ir.ScalarType, ir.IndexType, ir.NoneType, ir.TokenType, ir.TupleType,
    ir.FunctionType, ir.BufferType, ir.FutureType, ir.OpaqueType, ir.QuantizedType,
)  # fmt: skip


def named_text(name: str, value: Any, dialect: str) -> str:
    """Returns an entry of an attribute dictionary: `name = value`, or the name alone for a unit."""
    key = name if _BARE.fullmatch(name) else quoted(name)
    if isinstance(value, ir.Unit):
        return key
    if name == "value" and isinstance(value, ir.ElementsAttribute):
        return f"{key} = {dense_text(value)}"
    if name in _ENUMS and isinstance(value, str):
        return f"{key} = #{dialect}<{_ENUMS[name]} {value}>"
    if name == _PRECISIONS and isinstance(value, tuple):
        return f"{key} = [{', '.join(f'#{dialect}<precision {case}>' for case in value)}]"
    return f"{key} = {attribute_text(value)}"


def dictionary_text(entries: Mapping[str, Any]) -> str:
    """Returns an attribute dictionary: `{a = 1 : i64, b}`."""
    return f"{{{', '.join(named_text(name, entries[name], 'stablehlo') for name in sorted(entries))}}}"


def attribute_text(value: Any) -> str:
    """Returns the text of an attribute. Raises `UnsupportedError` for a value that is not an attribute."""
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
        stored = np.asarray(value.value).astype(value.type.element.dtype)
        return f"{number_text(stored, value.type.element)} : {type_text(value.type)}"
    if isinstance(value, ir.SymbolReference):
        return "::".join(symbol_text(name) for name in (value.root, *value.nested))
    if isinstance(value, ir.ElementsAttribute):
        return elements_text(value)
    if isinstance(value, ir.StructAttribute):
        return f"#{value.name}<{fields_text(value)}>"
    if isinstance(value, ir.OpaqueAttribute):
        return _opaque_text(value)
    if isinstance(value, _TYPES):
        return type_text(value)
    raise UnsupportedError(codes.PRINTABLE, f"a {type(value).__name__} is not an attribute that can be printed")


def _opaque_text(value: ir.OpaqueAttribute) -> str:
    """Returns `#sdy.sharding<...>`, or `#sdy<manual_axes{...}>` for the few attributes that MLIR prints so."""
    if value.name in _WRAPPED:
        dialect, _, kind = value.name.partition(".")
        return f"#{dialect}<{kind}{value.text or ''}>"
    return f"#{value.name}" + ("" if value.text is None else f"<{value.text}>")


def symbol_text(name: str) -> str:
    """Returns `@name`, with the name in quotes if necessary."""
    return f"@{name if _BARE_SYMBOL.fullmatch(name) else quoted(name)}"


def quoted(text: str) -> str:
    """Returns a string in quotes. Quotes, backslashes and unprintable bytes become two hexadecimal digits each."""
    return f'"{_UNPRINTABLE.sub(_escaped, text)}"'


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{byte:02X}" for byte in found.group().encode("utf-8", "surrogateescape"))


# -- structs


def fields_text(value: ir.StructAttribute) -> str:
    """Returns the text inside the brackets of a struct."""
    kind = value.name.partition(".")[2]
    if kind == "conv":
        return convolution_text(value.fields)
    if kind == "type_extensions":
        return f"bounds = {_field('bounds', value.fields['bounds'])}"
    return ", ".join(f"{name} = {_field(name, field)}" for name, field in value.fields.items())


def _field(name: str, value: Any) -> str:
    if name == "mode":
        return f"#stablehlo.result_accuracy_mode<{value}>"
    if name == "sub_axis_info":
        return f"({value.fields['pre_size']}){value.fields['size']}"
    if isinstance(value, tuple) and all(item is None or isinstance(item, int) for item in value):
        return f"[{', '.join('?' if item is None else str(item) for item in value)}]"
    if isinstance(value, float):
        return _decimal(repr(value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else attribute_text(value)


def convolution_text(fields: Mapping[str, Any]) -> str:
    """Returns the dimension numbers of a convolution: `[b, 0, f]x[0, i, o]->[b, 0, f]`."""
    return (
        f"[{_letters(fields, 'input', b='batch', f='feature')}]x"
        f"[{_letters(fields, 'kernel', i='input_feature', o='output_feature')}]->"
        f"[{_letters(fields, 'output', b='batch', f='feature')}]"
    )


def _letters(fields: Mapping[str, Any], side: str, **letters: str) -> str:
    letter_by_position = {fields[f"{side}_{name}_dimension"]: letter for letter, name in letters.items()}
    letter_by_position |= {
        position: str(number) for number, position in enumerate(fields[f"{side}_spatial_dimensions"])
    }
    return ", ".join(letter_by_position[position] for position in sorted(letter_by_position))


# -- elements


def elements_text(value: ir.ElementsAttribute) -> str:
    """Returns `array<...>` for a list of numbers, which MLIR's operations expect in this form, else `dense<...>`."""
    is_list = value.values.ndim == 1 and isinstance(value.type.element, PrimitiveType)
    return array_text(value) if is_list and value.resource is None else dense_text(value)


def array_text(value: ir.ElementsAttribute) -> str:
    """Returns `array<i64: 1, 2>`."""
    element = value.type.element
    listed = ", ".join(_numbers(value.listed(), element))
    return f"array<{element_text(element)}{': ' if listed else ''}{listed}>"


def dense_text(value: ir.ElementsAttribute) -> str:
    """Returns `dense<...> : type`, with a splat if all elements are equal and hexadecimal bytes if there are many."""
    return f"dense<{_dense_contents(value)}> : {type_text(value.type)}"


def _dense_contents(value: ir.ElementsAttribute) -> str:
    values = value.values
    element = value.type.element
    if values.size == 0:
        return ""
    if value.is_splat:
        return _numbers(values[(0,) * values.ndim].reshape(1), element)[0]
    flat = np.ascontiguousarray(values).reshape(-1)
    if _is_splat(flat):
        return _numbers(flat[:1], element)[0]
    is_bits = isinstance(element, PrimitiveType) and element in (PrimitiveType.PRED, PrimitiveType.U1)
    if values.size > _MAX_LISTED_ELEMENTS and not is_bits:
        return f'"0x{flat.tobytes().hex().upper()}"'
    return _nested(_numbers(flat, element), values.shape)


def _is_splat(flat: Array) -> bool:
    data = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((data == data[0]).all())


def _nested(texts: list[str], sizes: tuple[int, ...]) -> str:
    for size in reversed(sizes):
        texts = [f"[{', '.join(texts[start : start + size])}]" for start in range(0, len(texts), size)]
    return texts[0]


def _numbers(values: Array, element: ir.ElementType | ir.IndexType) -> list[str]:
    element_type = element.storage if isinstance(element, ir.QuantizedType) else element
    element_type = PrimitiveType.S64 if isinstance(element_type, ir.IndexType) else element_type
    return [number_text(value, element_type) for value in values]


def number_text(value: Any, element: PrimitiveType) -> str:
    """Returns the text of one element: `true`, `-3`, `1.5`, `0x7FC00000`, `(1.0,2.0)`."""
    if element is PrimitiveType.PRED:
        return "true" if value else "false"
    if element.is_complex:
        part = element.component_type
        return f"({number_text(np.real(value), part)},{number_text(np.imag(value), part)})"
    if not element.is_floating:
        return str(int(value))
    stored = np.asarray(value)
    wide = float(stored.astype(np.float64))
    if not np.isfinite(wide):
        bits = stored.view(f"u{element.byte_size}").item()
        return f"0x{bits:0{2 * element.byte_size}X}"
    if element is PrimitiveType.F32:
        short = _decimal(str(stored))
        # MLIR reads the digits as float64 first, so that rounding them twice might give another number.
        if float(np.float32(float(short))) == wide:
            return short
    return _decimal(repr(wide))


def _decimal(digits: str) -> str:
    """Adds the decimal point that MLIR requires: `1e-05` becomes `1.0e-05`."""
    if "." in digits:
        return digits
    mantissa, letter, exponent = digits.partition("e")
    return f"{mantissa}.0{letter}{exponent}"
