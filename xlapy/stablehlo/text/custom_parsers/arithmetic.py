"""Custom parsers of MLIR's dialects arith, math and cf, whose operations work on scalars and tensors."""

from __future__ import annotations

import re
from dataclasses import replace

from xlapy.base.element_types import PRED
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import I64, enum_case
from xlapy.stablehlo.text.operations import CustomParser, OperationParser

_SAME = {
    1: (
        *("arith.negf", "math.absf", "math.absi", "math.acos", "math.acosh", "math.asin", "math.asinh", "math.atan"),
        *("math.atanh", "math.cbrt", "math.ceil", "math.cos", "math.cosh", "math.ctlz", "math.ctpop", "math.erf"),
        *("math.exp", "math.expm1", "math.floor", "math.log", "math.log1p", "math.round", "math.roundeven"),
        *("math.rsqrt", "math.sin", "math.sinh", "math.sqrt", "math.tan", "math.tanh"),
    ),
    2: (
        *("arith.addf", "arith.addi", "arith.andi", "arith.ceildivsi", "arith.divf", "arith.divsi", "arith.divui"),
        *("arith.floordivsi", "arith.maximumf", "arith.maxnumf", "arith.maxsi", "arith.maxui", "arith.minimumf"),
        *("arith.minnumf", "arith.minsi", "arith.minui", "arith.mulf", "arith.muli", "arith.ori", "arith.remf"),
        *("arith.remsi", "arith.remui", "arith.shli", "arith.shrsi", "arith.shrui", "arith.subf", "arith.subi"),
        *("arith.xori", "math.atan2", "math.powf"),
    ),
}
_CASTS = (
    *("bitcast", "extf", "extsi", "extui", "fptosi", "fptoui", "index_cast", "index_castui", "sitofp", "truncf"),
    *("trunci", "uitofp"),
)
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""The predicates of `arith.cmpi` in the order of their numbers."""

FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
    "true",
)
"""The predicates of `arith.cmpf` in the order of their numbers. With NaN, `o` predicates are false, `u` ones true."""

_FLAGS = re.compile(r"(overflow|fastmath|exact|nneg)\b", re.ASCII)
_NAMES_OF_FLAGS = {"overflow": "overflowFlags", "fastmath": "fastmath", "exact": "isExact", "nneg": "nonNeg"}


def constant(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} value : type`, or `true`. The value is a scalar or elements."""
    parser.optional_attributes(operation)
    position = parser.cursor.skip()
    value = parser.attributes.parse()
    if not isinstance(value, bool | ir.IntegerAttribute | ir.FloatAttribute | ir.ElementsAttribute):
        parser.cursor.fail_at(position, codes.CONSTANT_TYPE, f"{operation.name} needs a number or elements")
    operation.attributes["value"] = value
    parser.make_results(operation, [ir.ScalarType(PRED) if isinstance(value, bool) else value.type])


def _flags(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses the optional flags `overflow<nsw>`, `fastmath<fast>`, `exact` and `nneg`."""
    cursor = parser.cursor
    while (found := cursor.match(_FLAGS)) is not None:
        name = found.group(1)
        has_cases = cursor.peek("<")
        value = ir.OpaqueAttribute(f"arith.{name}", cursor.balanced()) if has_cases else ir.Unit()
        operation.attributes[_NAMES_OF_FLAGS[name]] = value


def _operands(parser: OperationParser, operation: ir.Operation, count: int) -> None:
    operation.operands = parser.operands()
    if len(operation.operands) != count:
        parser.cursor.fail(
            codes.FORM_COUNT, f"{operation.name} takes {count} operands, but has {len(operation.operands)}"
        )
    _flags(parser, operation)
    parser.optional_attributes(operation)
    parser.cursor.expect(":", f"before the type of {operation.name}")


def _same(count: int) -> CustomParser:
    def form(parser: OperationParser, operation: ir.Operation) -> None:
        """Parses `%a, %b overflow<nsw> {...} : type`, the type of the operands and the result."""
        _operands(parser, operation, count)
        position = parser.cursor.skip()
        type_ = parser.types.parse()
        parser.check_operand_types(operation, [type_] * count, position)
        parser.make_results(operation, [type_])

    return form


def cast(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a {...} : type to type`."""
    _operands(parser, operation, 1)
    position = parser.cursor.skip()
    parser.check_operand_types(operation, [parser.types.parse()], position)
    parser.cursor.expect_word("to")
    parser.make_results(operation, [parser.types.parse()])


def compare(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `slt, %a, %b : type`, the type of the operands. The result is boolean."""
    cursor = parser.cursor
    position = cursor.skip()
    predicate = enum_case(parser, "the predicate of a comparison")
    predicates = INTEGER_PREDICATES if operation.name == "arith.cmpi" else FLOAT_PREDICATES
    if predicate not in predicates:
        cursor.fail_at(
            position,
            codes.KNOWN_KEYWORD,
            f"{operation.name} has the predicates {', '.join(predicates)}; found {predicate}",
        )
    operation.attributes["predicate"] = ir.IntegerAttribute(predicates.index(predicate), I64)
    cursor.expect(",", "after the predicate of a comparison")
    _operands(parser, operation, 2)
    position = cursor.skip()
    type_ = parser.types.parse()
    parser.check_operand_types(operation, [type_] * 2, position)
    parser.make_results(
        operation, [replace(type_, element=PRED) if isinstance(type_, ir.TensorType) else ir.ScalarType(PRED)]
    )


def select(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%p, %a, %b : type`, optionally with the type of %p before."""
    _operands(parser, operation, 3)
    position = parser.cursor.skip()
    types = parser.types.parse_list()
    condition = types[0] if len(types) == 2 else ir.ScalarType(PRED)
    parser.check_operand_types(operation, [condition, types[-1], types[-1]], position)
    parser.make_results(operation, [types[-1]])


def assertion(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%p, "message" {...}`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect(",", f"after the operand of {operation.name}")
    operation.attributes["msg"] = parser.cursor.string("a message")
    parser.optional_attributes(operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    **{name: _same(count) for count, names in _SAME.items() for name in names},
    **{f"arith.{name}": cast for name in _CASTS},
    "arith.cmpf": compare,
    "arith.cmpi": compare,
    "arith.constant": constant,
    "arith.select": select,
    "cf.assert": assertion,
}
