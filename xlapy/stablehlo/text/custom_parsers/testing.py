"""Custom parsers of the dialects of StableHLO's own tests: check and interpreter."""

from __future__ import annotations

import re

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import (
    expect_assignment,
    finish_with_types_of_operands,
    operand_and_comma,
    operands,
    set_integer,
)
from xlapy.stablehlo.text.operations import CustomParser, OperationParser

_TOLERANCE = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?", re.ASCII)
_F64 = ir.ScalarType(PrimitiveType.F64)
_U32 = ir.ScalarType(PrimitiveType.U32)
_U64 = ir.ScalarType(PrimitiveType.U64)


def expect_equal_constant(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, dense<...> : type, tolerance = 0.1 {...}`."""
    operand_and_comma(parser, operation)
    operation.attributes["value"] = parser.attributes.parse()
    _tolerance(parser, operation)
    parser.optional_attributes(operation)


def expect_equal(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b, tolerance = 0.1 {...} : type`."""
    operands(parser, operation, 2)
    _tolerance(parser, operation)
    _same_types(parser, operation)


def _tolerance(parser: OperationParser, operation: ir.Operation) -> None:
    if parser.cursor.accept(","):
        expect_assignment(parser, "tolerance")
        found = parser.cursor.match(_TOLERANCE)
        if found is None:
            parser.cursor.fail(codes.TOKEN, f"expected a tolerance, found {parser.cursor.describe_next()}")
        operation.attributes["tolerance"] = ir.FloatAttribute(float(found.group()), _F64)


def _same_types(parser: OperationParser, operation: ir.Operation) -> None:
    parser.optional_attributes(operation)
    parser.cursor.expect(":", f"before the type of {operation.name}")
    position = parser.cursor.skip()
    parser.check_operand_types(operation, [parser.types.parse()] * len(operation.operands), position)


def expect_close(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b, max_ulp_difference = 3, min_ulp_difference = 0 : type, type`."""
    operands(parser, operation, 2)
    for name in ("max_ulp_difference", "min_ulp_difference"):
        if parser.cursor.accept(","):
            set_integer(parser, operation, name, name, _U64)
    parser.cursor.expect(":", "before the types of check.expect_close")
    parser.optional_attributes(operation)
    position = parser.cursor.skip()
    parser.check_operand_types(operation, parser.types.parse_list(), position)


def expect_serialized_equal(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, probe_id = "name", iter = 0 {...} : type`."""
    _probe_id(parser, operation)
    if parser.cursor.accept(","):
        set_integer(parser, operation, "iter", "iteration", _U32)
    _same_types(parser, operation)


def probe(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, probe_id = "name" {...} : type`."""
    _probe_id(parser, operation)
    _same_types(parser, operation)
    parser.make_results(operation, [operation.operands[0].type])


def _probe_id(parser: OperationParser, operation: ir.Operation) -> None:
    operand_and_comma(parser, operation)
    expect_assignment(parser, "probe_id")
    operation.attributes["probe_id"] = parser.cursor.string("the name of a probe")


def print_(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a {...} : type`."""
    operation.operands = [parser.operand()]
    finish_with_types_of_operands(parser, operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    "check.expect_almost_eq": expect_equal,
    "check.expect_almost_eq_const": expect_equal_constant,
    "check.expect_close": expect_close,
    "check.expect_eq": expect_equal,
    "check.expect_eq_const": expect_equal_constant,
    "check.expect_serialized_eq": expect_serialized_equal,
    "interpreter.print": print_,
    "interpreter.probe": probe,
}
