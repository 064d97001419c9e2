"""The operations that StableHLO's own tests are written with: `check.*` and `interpreter.*`."""

from __future__ import annotations

import re

from xlapy.base.element_types import PrimitiveType
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.forms.common import (
    assigned,
    ends_with_types_of_operands,
    operands,
    set_integer,
    value_and_comma,
)
from xlapy.stablehlo.text.operations import Form, OperationReader

_TOLERANCE = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_F64 = ir.ScalarType(PrimitiveType.F64)
_U32 = ir.ScalarType(PrimitiveType.U32)
_U64 = ir.ScalarType(PrimitiveType.U64)


def expect_equal_constant(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, dense<...> : type, tolerance = 0.1 {...}`"""
    value_and_comma(reader, operation)
    operation.attributes["value"] = reader.attributes.read()
    _tolerance(reader, operation)
    reader.attribute_dictionary(operation)


def expect_equal(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b, tolerance = 0.1 {...} : type`"""
    operands(reader, operation, 2)
    _tolerance(reader, operation)
    _same_types(reader, operation)


def _tolerance(reader: OperationReader, operation: ir.Operation) -> None:
    if reader.cursor.accept(","):
        assigned(reader, "tolerance")
        found = reader.cursor.match(_TOLERANCE)
        if found is None:
            reader.cursor.fail(f"expected a tolerance, found {reader.cursor.describe_next()}")
        operation.attributes["tolerance"] = ir.FloatAttribute(float(found.group()), _F64)


def _same_types(reader: OperationReader, operation: ir.Operation) -> None:
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", f"before the type of {operation.name}")
    position = reader.cursor.skip()
    reader.check(operation, [reader.types.read()] * len(operation.operands), position)


def expect_close(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b, max_ulp_difference = 3, min_ulp_difference = 0 : type, type`"""
    operands(reader, operation, 2)
    for name in ("max_ulp_difference", "min_ulp_difference"):
        if reader.cursor.accept(","):
            set_integer(reader, operation, name, name, _U64)
    reader.cursor.expect(":", "before the types of check.expect_close")
    reader.attribute_dictionary(operation)
    position = reader.cursor.skip()
    reader.check(operation, reader.types.read_list(), position)


def expect_serialized_equal(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, probe_id = "name", iter = 0 {...} : type`"""
    _probe_id(reader, operation)
    if reader.cursor.accept(","):
        set_integer(reader, operation, "iter", "iteration", _U32)
    _same_types(reader, operation)


def probe(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, probe_id = "name" {...} : type`"""
    _probe_id(reader, operation)
    _same_types(reader, operation)
    reader.results(operation, [operation.operands[0].type])


def _probe_id(reader: OperationReader, operation: ir.Operation) -> None:
    value_and_comma(reader, operation)
    assigned(reader, "probe_id")
    operation.attributes["probe_id"] = reader.cursor.string("the name of a probe")


def print_(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a {...} : type`"""
    operation.operands = [reader.operand()]
    ends_with_types_of_operands(reader, operation)


FORMS: dict[str, Form] = {
    "check.expect_almost_eq": expect_equal,
    "check.expect_almost_eq_const": expect_equal_constant,
    "check.expect_close": expect_close,
    "check.expect_eq": expect_equal,
    "check.expect_eq_const": expect_equal_constant,
    "check.expect_serialized_eq": expect_serialized_equal,
    "interpreter.print": print_,
    "interpreter.probe": probe,
}
