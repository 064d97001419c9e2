"""Custom parsers of CHLO."""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import (
    I64,
    expect_assignment,
    finish_with_arrow,
    finish_with_function_type,
    operands,
)
from xlapy.stablehlo.text.custom_parsers.sources import constant
from xlapy.stablehlo.text.elements import elements
from xlapy.stablehlo.text.operations import CustomParser, OperationParser, RegionStart, RegionStarts

_ELEMENTWISE = (
    "_asin_acos_kernel", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh",
    "digamma", "erf", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "mulhi", "next_after",
    "polygamma", "sinh", "square", "tan", "zeta", "broadcast_add", "broadcast_and", "broadcast_atan2",
    "broadcast_compare", "broadcast_complex", "broadcast_divide", "broadcast_maximum", "broadcast_minimum",
    "broadcast_multiply", "broadcast_next_after", "broadcast_or", "broadcast_polygamma", "broadcast_power",
    "broadcast_remainder", "broadcast_select", "broadcast_shift_left", "broadcast_shift_right_arithmetic",
    "broadcast_shift_right_logical", "broadcast_subtract", "broadcast_xor", "broadcast_zeta",
)  # fmt: skip


def elementwise(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : type, type -> type`; broadcasting operations have the operand types in parentheses."""
    operation.operands = parser.operands()
    finish_with_arrow(parser, operation)


def top_k(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `(%a, k = 8, is_stable = false) {...} : type -> (type, type)`."""
    cursor = parser.cursor
    cursor.expect("(", "before the operand of chlo.top_k")
    operands(parser, operation, 1)
    cursor.expect(",", "after the operand of chlo.top_k")
    expect_assignment(parser, "k")
    operation.attributes["k"] = ir.IntegerAttribute(cursor.integer("k"), I64)
    if cursor.accept(","):
        expect_assignment(parser, "is_stable")
        operation.attributes["is_stable"] = parser.attributes.parse()
    cursor.expect(")", "after the operand of chlo.top_k")
    finish_with_arrow(parser, operation)


def scan(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `(%a) inits (%b) dimension=0 attributes {...} { ^bb0(...): ... } : (...) -> ...`."""
    cursor = parser.cursor
    inputs = _in_parentheses(parser)
    cursor.expect_word("inits")
    inits = _in_parentheses(parser)
    operation.operands = inputs + inits
    expect_assignment(parser, "dimension")
    operation.attributes["dimension"] = ir.IntegerAttribute(cursor.integer("the dimension of a scan"), I64)
    parser.optional_attributes_with_keyword(operation)
    region = ir.Region()
    operation.regions.append(region)
    yield RegionStart(region)
    position = cursor.skip()
    finish_with_function_type(parser, operation)
    outputs = len(operation.results) - len(inits)
    if outputs < 0:
        cursor.fail_at(
            position,
            codes.FORM_COUNT,
            f"chlo.scan has {len(inits)} initial values and {len(operation.results)} results",
        )
    operation.attributes["operandSegmentSizes"] = _segments(len(inputs), len(inits))
    operation.attributes["resultSegmentSizes"] = _segments(outputs, len(inits))


def _in_parentheses(parser: OperationParser) -> list[ir.Value]:
    parser.cursor.expect("(", "before operands of chlo.scan")
    values = parser.operands()
    parser.cursor.expect(")", "after operands of chlo.scan")
    return values


def _segments(*sizes: int) -> ir.ElementsAttribute:
    type_ = ir.TensorType((len(sizes),), PrimitiveType.S32)
    return elements(type_, np.array(sizes, np.int32))


CUSTOM_PARSERS: dict[str, CustomParser] = {
    **{f"chlo.{name}": elementwise for name in _ELEMENTWISE},
    "chlo.constant": constant,
    "chlo.scan": scan,
    "chlo.top_k": top_k,
}
