"""CHLO's operations."""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.elements import elements
from xlapy.stablehlo.text.forms.common import I64, assigned, ends_with_arrow, ends_with_function_type, operands
from xlapy.stablehlo.text.forms.sources import constant
from xlapy.stablehlo.text.operations import Bodies, Body, Form, OperationReader

_ELEMENTWISE = (
    "_asin_acos_kernel", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh",
    "digamma", "erf", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "mulhi", "next_after",
    "polygamma", "sinh", "square", "tan", "zeta", "broadcast_add", "broadcast_and", "broadcast_atan2",
    "broadcast_compare", "broadcast_complex", "broadcast_divide", "broadcast_maximum", "broadcast_minimum",
    "broadcast_multiply", "broadcast_next_after", "broadcast_or", "broadcast_polygamma", "broadcast_power",
    "broadcast_remainder", "broadcast_select", "broadcast_shift_left", "broadcast_shift_right_arithmetic",
    "broadcast_shift_right_logical", "broadcast_subtract", "broadcast_xor", "broadcast_zeta",
)  # fmt: skip


def elementwise(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : type, type -> type`, the types of operands in parentheses in those that broadcast."""
    operation.operands = reader.operands()
    ends_with_arrow(reader, operation)


def top_k(reader: OperationReader, operation: ir.Operation) -> None:
    """`(%a, k = 8, is_stable = false) {...} : type -> (type, type)`"""
    cursor = reader.cursor
    cursor.expect("(", "before the operand of chlo.top_k")
    operands(reader, operation, 1)
    cursor.expect(",", "after the operand of chlo.top_k")
    assigned(reader, "k")
    operation.attributes["k"] = ir.IntegerAttribute(cursor.integer("k"), I64)
    if cursor.accept(","):
        assigned(reader, "is_stable")
        operation.attributes["is_stable"] = reader.attributes.read()
    cursor.expect(")", "after the operand of chlo.top_k")
    ends_with_arrow(reader, operation)


def scan(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`(%a) inits (%b) dimension=0 attributes {...} { ^bb0(...): ... } : (...) -> ...`"""
    cursor = reader.cursor
    inputs = _in_parentheses(reader)
    cursor.expect_word("inits")
    inits = _in_parentheses(reader)
    operation.operands = inputs + inits
    assigned(reader, "dimension")
    operation.attributes["dimension"] = ir.IntegerAttribute(cursor.integer("the dimension of a scan"), I64)
    reader.attributes_with_keyword(operation)
    region = ir.Region()
    operation.regions.append(region)
    yield Body(region)
    position = cursor.skip()
    ends_with_function_type(reader, operation)
    outputs = len(operation.results) - len(inits)
    if outputs < 0:
        cursor.fail_at(position, f"chlo.scan has {len(inits)} initial values and {len(operation.results)} results")
    operation.attributes["operandSegmentSizes"] = _segments(len(inputs), len(inits))
    operation.attributes["resultSegmentSizes"] = _segments(outputs, len(inits))


def _in_parentheses(reader: OperationReader) -> list[ir.Value]:
    reader.cursor.expect("(", "before operands of chlo.scan")
    values = reader.operands()
    reader.cursor.expect(")", "after operands of chlo.scan")
    return values


def _segments(*sizes: int) -> ir.ElementsAttribute:
    type_ = ir.TensorType((len(sizes),), PrimitiveType.S32)
    return elements(type_, np.array(sizes, np.int32))


FORMS: dict[str, Form] = {
    **{f"chlo.{name}": elementwise for name in _ELEMENTWISE},
    "chlo.constant": constant,
    "chlo.scan": scan,
    "chlo.top_k": top_k,
}
