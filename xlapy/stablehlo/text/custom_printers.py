"""Prints operations in their custom assembly formats.

A custom printer returns the text after the result names, or None if the format cannot express the operation. Operations
without a custom printer, and those for which it returns None, are printed in the generic form. Does not depend on value
names, nesting and locations, for which it calls `Printer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.elementwise import BINARY, UNARY
from xlapy.stablehlo.text.custom_parsers.regions import REDUCERS
from xlapy.stablehlo.text.print_attributes import (
    attribute_text,
    convolution_text,
    dense_text,
    dictionary_text,
    fields_text,
    named_text,
    quoted,
    symbol_text,
)
from xlapy.stablehlo.text.print_types import function_text, type_text, types_text
from xlapy.stablehlo.text.printer import CustomPrinter, Printer

_WITH_FUNCTION_TYPE = ("bitcast_convert", "dynamic_reshape", "dynamic_update_slice", "is_finite", "reshape")
_CHLO = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "mulhi", "sinh")
_WINDOW = {"stride": "window_strides", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation"}


# -- attributes and types, with which most formats end


def _attributes(operation: ir.Operation, *printed: str) -> str:
    """Returns the dictionary of the attributes that the format has not printed, with a blank before it."""
    dialect = operation.name.partition(".")[0]
    names = sorted(name for name in operation.attributes if name not in printed)
    listed = ", ".join(named_text(name, operation.attributes[name], dialect) for name in names)
    return f" {{{listed}}}" if listed else ""


def _signature(operation: ir.Operation) -> str:
    return function_text(_operand_types(operation), [result.type for result in operation.results])


def _operand_types(operation: ir.Operation) -> list[ir.Type]:
    return [operand.type for operand in operation.operands]


def _same_type(operation: ir.Operation) -> str:
    """Returns the common type of operands and result, or the function type if they differ."""
    (result,) = operation.results
    same_type = all(type_ == result.type for type_ in _operand_types(operation))
    return type_text(result.type) if same_type else _signature(operation)


def _integers(value: Any) -> str:
    return f"[{', '.join(map(str, value.values.tolist()))}]"


# -- formats that several operations share


def _with_same_type(printer: Printer, operation: ir.Operation) -> str:
    return f"{operation.name} {printer.values(operation.operands)}{_attributes(operation)} : {_same_type(operation)}"


def _with_function_type(printer: Printer, operation: ir.Operation) -> str:
    return f"{operation.name} {printer.values(operation.operands)}{_attributes(operation)} : {_signature(operation)}"


def _with_arrow(printer: Printer, operation: ir.Operation) -> str:
    values, result = printer.values(operation.operands), type_text(operation.results[0].type)
    return f"{operation.name} {values}{_attributes(operation)} : {types_text(_operand_types(operation))} -> {result}"


def _with_result_type(_: Printer, operation: ir.Operation) -> str:
    return f"{operation.name}{_attributes(operation)} : {type_text(operation.results[0].type)}"


def _with_lists(*fields: tuple[str, str]) -> CustomPrinter:
    """Returns the printer of `%a, word = [0, 1] : (...) -> ...`. `fields` pairs each word with an attribute."""

    def write(printer: Printer, operation: ir.Operation) -> str:
        listed = [f"{word} = {_integers(operation.attributes[name])}" for word, name in fields]
        words = ", ".join([printer.values(operation.operands), *listed])
        return (
            f"{operation.name} {words}{_attributes(operation, *(name for _, name in fields))} : {_signature(operation)}"
        )

    return write


def _with_number(word: str, name: str) -> CustomPrinter:
    """Returns the printer of `%a, %b, word = 0 : (...) -> ...`."""

    def write(printer: Printer, operation: ir.Operation) -> str:
        values, number = printer.values(operation.operands), operation.attributes[name].value
        return f"{operation.name} {values}, {word} = {number}{_attributes(operation, name)} : {_signature(operation)}"

    return write


def _with_enum_case(word: str, name: str) -> CustomPrinter:
    """Returns the printer of `%a, word = CASE : (...) -> ...`."""

    def write(printer: Printer, operation: ir.Operation) -> str:
        values, case = printer.values(operation.operands), operation.attributes[name]
        return f"{operation.name} {values}, {word} = {case}{_attributes(operation, name)} : {_signature(operation)}"

    return write


# -- formats of single operations


def _return(printer: Printer, operation: ir.Operation) -> str:
    name = "return" if operation.name == "func.return" else operation.name
    if not operation.operands:
        return f"{name}{_attributes(operation)}"
    return (
        f"{name} {printer.values(operation.operands)}{_attributes(operation)} : {types_text(_operand_types(operation))}"
    )


def _call(printer: Printer, operation: ir.Operation) -> str:
    callee, values = operation.attributes["callee"], printer.values(operation.operands)
    return f"func.call {attribute_text(callee)}({values}){_attributes(operation, 'callee')} : {_signature(operation)}"


def _constant(_: Printer, operation: ir.Operation) -> str | None:
    value = operation.attributes["value"]
    if value.type != operation.results[0].type:
        return None
    return f"{operation.name}{_attributes(operation, 'value')} {dense_text(value)}"


def _iota(_: Printer, operation: ir.Operation) -> str:
    dimension = operation.attributes["iota_dimension"].value
    attributes, type_ = _attributes(operation, "iota_dimension"), type_text(operation.results[0].type)
    return f"stablehlo.iota dim = {dimension}{attributes} : {type_}"


def _compare(printer: Printer, operation: ir.Operation) -> str:
    kind = operation.attributes.get("compare_type")
    words = [
        operation.attributes["comparison_direction"],
        printer.values(operation.operands),
        *([kind] if kind else []),
    ]
    attributes = _attributes(operation, "comparison_direction", "compare_type")
    return f"stablehlo.compare {', '.join(words)}{attributes} : {_signature(operation)}"


def _select(printer: Printer, operation: ir.Operation) -> str:
    predicate, *values = _operand_types(operation)
    result = operation.results[0].type
    same_type = all(type_ == result for type_ in values)
    types = types_text([predicate, result]) if same_type else _signature(operation)
    return f"stablehlo.select {printer.values(operation.operands)}{_attributes(operation)} : {types}"


def _reduce_precision(printer: Printer, operation: ir.Operation) -> str:
    exponent, mantissa = (operation.attributes[f"{part}_bits"].value for part in ("exponent", "mantissa"))
    attributes = _attributes(operation, "exponent_bits", "mantissa_bits")
    values = printer.values(operation.operands)
    return f"stablehlo.reduce_precision {values}, format = e{exponent}m{mantissa}{attributes} : {_same_type(operation)}"


def _reverse(printer: Printer, operation: ir.Operation) -> str:
    dimensions = _integers(operation.attributes["dimensions"])
    values, attributes = printer.values(operation.operands), _attributes(operation, "dimensions")
    return f"stablehlo.reverse {values}, dims = {dimensions}{attributes} : {_same_type(operation)}"


def _slice(printer: Printer, operation: ir.Operation) -> str:
    names = ("start_indices", "limit_indices", "strides")
    parts = zip(*(operation.attributes[name].values.tolist() for name in names), strict=True)
    ranges = [f"{start}:{limit}{f':{stride}' if stride != 1 else ''}" for start, limit, stride in parts]
    values = printer.values(operation.operands)
    return f"stablehlo.slice {values} [{', '.join(ranges)}]{_attributes(operation, *names)} : {_signature(operation)}"


def _precision(operation: ir.Operation) -> str:
    """Returns `, precision = [...], algorithm = <...>`; either may be absent."""
    given = operation.attributes.get("precision_config")
    algorithm = operation.attributes.get("algorithm")
    text = f", precision = [{', '.join(given)}]" if given else ""
    return text + (f", algorithm = <{fields_text(algorithm)}>" if algorithm is not None else "")


def _dot_general(printer: Printer, operation: ir.Operation) -> str:
    numbers = operation.attributes["dot_dimension_numbers"].fields

    def pair(name: str) -> str:
        sides = (list(numbers.get(f"{side}_{name}_dimensions", ())) for side in ("lhs", "rhs"))
        return " x ".join(map(str, sides))

    has_batch = "lhs_batching_dimensions" in numbers
    batch = f"batching_dims = {pair('batching')}, " if has_batch else ""
    words = f"{printer.values(operation.operands)}, {batch}contracting_dims = {pair('contracting')}"
    attributes = _attributes(operation, "dot_dimension_numbers", "precision_config", "algorithm")
    return f"stablehlo.dot_general {words}{_precision(operation)}{attributes} : {_signature(operation)}"


def _convolution(printer: Printer, operation: ir.Operation) -> str:
    attributes = operation.attributes
    window = [f"{word} = {_integers(attributes[name])}" for word, name in _WINDOW.items() if name in attributes]
    if "padding" in attributes:
        window.insert(1, f"pad = {attributes['padding'].values.tolist()}")
    if "window_reversal" in attributes:
        listed = ", ".join("true" if each else "false" for each in attributes["window_reversal"].values)
        window.append(f"reverse = [{listed}]")
    dimensions = convolution_text(attributes["dimension_numbers"].fields)
    words = f"({printer.values(operation.operands)}) dim_numbers = {dimensions}, window = {{{', '.join(window)}}}"
    others = _attributes(operation, "dimension_numbers", "padding", "window_reversal", *_WINDOW.values())
    return f"stablehlo.convolution{words}{others} : {_signature(operation)}"


def _custom_call(printer: Printer, operation: ir.Operation) -> str:
    target = symbol_text(operation.attributes["call_target_name"])
    attributes = _attributes(operation, "call_target_name")
    return f"stablehlo.custom_call {target}({printer.values(operation.operands)}){attributes} : {_signature(operation)}"


def _composite(printer: Printer, operation: ir.Operation) -> str | None:
    if operation.regions:
        return None
    name, attributes = quoted(operation.attributes["name"]), _attributes(operation, "name")
    return f"stablehlo.composite {name} {printer.values(operation.operands)}{attributes} : {_signature(operation)}"


def _optimization_barrier(printer: Printer, operation: ir.Operation) -> str:
    head = f"stablehlo.optimization_barrier{_attributes(operation)}"
    if not operation.operands:
        return f"{head} ()"
    return f"{head} {printer.values(operation.operands)} : {types_text(_operand_types(operation))}"


# -- operations with regions


def _while(printer: Printer, operation: ir.Operation) -> str | None:
    """Prints a loop. The format declares the arguments once, so that both regions use the same names."""
    condition, body = (region.blocks[0] for region in operation.regions)
    if [a.type for a in condition.arguments] != _operand_types(operation) or len(body.arguments) != len(
        operation.operands
    ):
        return None
    names = printer.with_scoped_names(lambda: [printer.define(argument) for argument in body.arguments])
    pairs = [f"{name} = {printer.value(value)}" for name, value in zip(names, operation.operands, strict=True)]
    types = f" : {types_text(_operand_types(operation))}" if operation.operands else ""
    attributes = f" attributes {dictionary_text(operation.attributes)}" if operation.attributes else ""
    printer.line(f"stablehlo.while({', '.join(pairs)}){types}{attributes}")
    printer.line("cond {")
    printer.region_body(condition, names)
    printer.line("} do {")
    printer.region_body(body, names)
    return "}"


def _reduce(printer: Printer, operation: ir.Operation) -> str | None:
    half = len(operation.operands) // 2
    arrays, inits = operation.operands[:half], operation.operands[half:]
    pairs = [f"({printer.value(array)} init: {printer.value(init)})" for array, init in zip(arrays, inits, strict=True)]
    block = operation.regions[0].blocks[0]
    applied = _applied_operation(operation, block)
    words = ", ".join(pairs) + (f" applies {applied}" if applied else "")
    dimensions = _integers(operation.attributes["dimensions"])
    tail = f" across dimensions = {dimensions}{_attributes(operation, 'dimensions')} : {_signature(operation)}"
    if applied:
        return f"stablehlo.reduce{words}{tail}"
    if len(block.arguments) != 2 * half:
        return None
    printer.line(f"stablehlo.reduce{words}{tail}")
    names = printer.with_scoped_names(lambda: [printer.define(argument) for argument in block.arguments])
    typed = [f"{name}: {type_text(value.type)}" for name, value in zip(names, block.arguments, strict=True)]
    listed = " ".join(f"({typed[index]}, {typed[index + half]})" for index in range(half))
    printer.line(f" reducer{listed} {{")
    printer.region_body(block, names)
    return "}"


def _applied_operation(operation: ir.Operation, block: ir.Block) -> str:
    """Returns the operation for `applies` if the reducer consists of a single one, else ""."""
    if len(block.operations) != 2 or len(block.arguments) != 2:
        return ""
    inner, terminator = block.operations
    dialect, _, name = inner.name.partition(".")
    array = operation.operands[0].type
    is_single_operation = (
        dialect == "stablehlo"
        and name in REDUCERS
        and isinstance(array, ir.TensorType)
        and not inner.attributes
        and all(value.type == ir.TensorType((), array.element) for value in (*block.arguments, *inner.results))
        and [id(value) for value in inner.operands] == [id(value) for value in block.arguments]
        and [id(value) for value in terminator.operands] == [id(value) for value in inner.results]
    )
    return inner.name if is_single_operation else ""


def _by_name(
    printers: Sequence[tuple[Sequence[str], Callable[[Printer, ir.Operation], str | None]]],
) -> dict[str, CustomPrinter]:
    return {name: printer for names, printer in printers for name in names}


def _stablehlo(*names: str) -> list[str]:
    return [f"stablehlo.{name}" for name in names]


CUSTOM_PRINTERS: dict[str, CustomPrinter] = _by_name(
    [
        (_stablehlo(*UNARY, *BINARY, "clamp"), _with_same_type),
        (_stablehlo(*_WITH_FUNCTION_TYPE), _with_function_type),
        ([f"chlo.{name}" for name in _CHLO], _with_arrow),
        (_stablehlo("create_token", "partition_id", "replica_id"), _with_result_type),
        (_stablehlo("broadcast_in_dim"), _with_lists(("dims", "broadcast_dimensions"))),
        (_stablehlo("transpose"), _with_lists(("dims", "permutation"))),
        (_stablehlo("dynamic_slice"), _with_lists(("sizes", "slice_sizes"))),
        (
            _stablehlo("pad"),
            _with_lists(("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding")),
        ),
        (
            _stablehlo("concatenate", "get_dimension_size", "set_dimension_size"),
            _with_number("dim", "dimension"),
        ),
        (_stablehlo("rng"), _with_enum_case("distribution", "rng_distribution")),
        (_stablehlo("rng_bit_generator"), _with_enum_case("algorithm", "rng_algorithm")),
        (["func.return", "stablehlo.return"], _return),
        (["func.call"], _call),
        (["stablehlo.constant", "chlo.constant"], _constant),
        (_stablehlo("iota"), _iota),
        (_stablehlo("compare"), _compare),
        (_stablehlo("select"), _select),
        (_stablehlo("reduce_precision"), _reduce_precision),
        (_stablehlo("reverse"), _reverse),
        (_stablehlo("slice"), _slice),
        (_stablehlo("dot_general"), _dot_general),
        (_stablehlo("convolution"), _convolution),
        (_stablehlo("custom_call"), _custom_call),
        (_stablehlo("composite"), _composite),
        (_stablehlo("optimization_barrier"), _optimization_barrier),
        (_stablehlo("while"), _while),
        (_stablehlo("reduce"), _reduce),
    ]
)
"""The custom printers by operation name."""
