"""Operations of MLIR's own dialects arith, math and cf, on scalars and tensors alike."""

from __future__ import annotations

import re
from dataclasses import replace

from xlapy.base.element_types import PRED
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.forms.common import I64, case
from xlapy.stablehlo.text.operations import Form, OperationReader

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
INTEGER_ORDERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""The predicates of `arith.cmpi`, by their numbers."""

FLOAT_ORDERS = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
    "true",
)
"""The predicates of `arith.cmpf`, by their numbers: `o` is false of NaN, `u` is true."""

_FLAGS = re.compile(r"(overflow|fastmath|exact|nneg)\b")
_NAMES_OF_FLAGS = {"overflow": "overflowFlags", "fastmath": "fastmath", "exact": "isExact", "nneg": "nonNeg"}


def constant(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} value : type`, or `true`: a scalar or elements."""
    reader.attribute_dictionary(operation)
    position = reader.cursor.skip()
    value = reader.attributes.read()
    if not isinstance(value, bool | ir.IntegerAttribute | ir.FloatAttribute | ir.ElementsAttribute):
        reader.cursor.fail_at(position, f"{operation.name} needs a number or elements")
    operation.attributes["value"] = value
    reader.results(operation, [ir.ScalarType(PRED) if isinstance(value, bool) else value.type])


def _flags(reader: OperationReader, operation: ir.Operation) -> None:
    """`overflow<nsw>`, `fastmath<fast>`, `exact`, `nneg`: what may be taken for granted."""
    cursor = reader.cursor
    while (found := cursor.match(_FLAGS)) is not None:
        name = found.group(1)
        has_cases = cursor.peek("<")
        value = ir.OpaqueAttribute(f"arith.{name}", cursor.balanced()) if has_cases else ir.Unit()
        operation.attributes[_NAMES_OF_FLAGS[name]] = value


def _operands(reader: OperationReader, operation: ir.Operation, count: int) -> None:
    operation.operands = reader.operands()
    if len(operation.operands) != count:
        reader.cursor.fail(f"{operation.name} takes {count} operands, there are {len(operation.operands)}")
    _flags(reader, operation)
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", f"before the type of {operation.name}")


def _same(count: int) -> Form:
    def form(reader: OperationReader, operation: ir.Operation) -> None:
        """`%a, %b overflow<nsw> {...} : type` of operands and result."""
        _operands(reader, operation, count)
        position = reader.cursor.skip()
        type_ = reader.types.read()
        reader.check(operation, [type_] * count, position)
        reader.results(operation, [type_])

    return form


def cast(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a {...} : type to type`"""
    _operands(reader, operation, 1)
    position = reader.cursor.skip()
    reader.check(operation, [reader.types.read()], position)
    reader.cursor.expect_word("to")
    reader.results(operation, [reader.types.read()])


def compare(reader: OperationReader, operation: ir.Operation) -> None:
    """`slt, %a, %b : type`, which gives booleans."""
    cursor = reader.cursor
    position = cursor.skip()
    order = case(reader, "the order of a comparison")
    orders = INTEGER_ORDERS if operation.name == "arith.cmpi" else FLOAT_ORDERS
    if order not in orders:
        cursor.fail_at(position, f"{operation.name} compares by {', '.join(orders)}; found {order}")
    operation.attributes["predicate"] = ir.IntegerAttribute(orders.index(order), I64)
    cursor.expect(",", "after the order of a comparison")
    _operands(reader, operation, 2)
    position = cursor.skip()
    type_ = reader.types.read()
    reader.check(operation, [type_] * 2, position)
    reader.results(
        operation, [replace(type_, element=PRED) if isinstance(type_, ir.TensorType) else ir.ScalarType(PRED)]
    )


def select(reader: OperationReader, operation: ir.Operation) -> None:
    """`%p, %a, %b : type`, or with the type of %p before it."""
    _operands(reader, operation, 3)
    position = reader.cursor.skip()
    types = reader.types.read_list()
    condition = types[0] if len(types) == 2 else ir.ScalarType(PRED)
    reader.check(operation, [condition, types[-1], types[-1]], position)
    reader.results(operation, [types[-1]])


def assertion(reader: OperationReader, operation: ir.Operation) -> None:
    """`%p, "message" {...}`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect(",", f"after the operand of {operation.name}")
    operation.attributes["msg"] = reader.cursor.string("a message")
    reader.attribute_dictionary(operation)


FORMS: dict[str, Form] = {
    **{name: _same(count) for count, names in _SAME.items() for name in names},
    **{f"arith.{name}": cast for name in _CASTS},
    "arith.cmpf": compare,
    "arith.cmpi": compare,
    "arith.constant": constant,
    "arith.select": select,
    "cf.assert": assertion,
}
