"""StableHLO's operations without array operands, and those on tokens and tuples."""

from __future__ import annotations

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.forms.builtin import terminator
from xlapy.stablehlo.text.forms.common import (
    I32,
    ends_with_function_type,
    ends_with_result_type,
    ends_with_same_type,
    operands,
    set_case,
    set_integer,
)
from xlapy.stablehlo.text.operations import Form, OperationReader


def constant(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} dense<...> : type`, or `() <{value = dense<...> : type}> : () -> type` where the types differ."""
    cursor = reader.cursor
    if cursor.accept("("):
        cursor.expect(")", "after no operands")
        if cursor.accept("<"):
            operation.attributes.update(reader.attributes.read_dictionary())
            cursor.expect(">", "after the properties of stablehlo.constant")
        ends_with_function_type(reader, operation)
        return
    reader.attribute_dictionary(operation)
    position = cursor.skip()
    value = reader.attributes.read()
    operation.attributes["value"] = value
    if not isinstance(value, ir.ElementsAttribute):
        cursor.fail_at(position, f"{operation.name} needs constant elements of numbers")
    reader.results(operation, [value.type])


def iota(reader: OperationReader, operation: ir.Operation) -> None:
    """`dim = 0 {...} : type`"""
    set_integer(reader, operation, "dim", "iota_dimension")
    ends_with_result_type(reader, operation)


def dynamic_iota(reader: OperationReader, operation: ir.Operation) -> None:
    """`%shape, dim = 0 {...} : (...) -> ...`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect(",", "after the operand of stablehlo.dynamic_iota")
    set_integer(reader, operation, "dim", "iota_dimension")
    ends_with_function_type(reader, operation)


def rng(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b, %shape, distribution = NORMAL {...} : (...) -> ...`"""
    operands(reader, operation, 3)
    reader.cursor.expect(",", "after the operands of stablehlo.rng")
    set_case(reader, operation, "distribution", "rng_distribution")
    ends_with_function_type(reader, operation)


def rng_bit_generator(reader: OperationReader, operation: ir.Operation) -> None:
    """`%state, algorithm = PHILOX {...} : (...) -> ...`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect(",", "after the operand of stablehlo.rng_bit_generator")
    set_case(reader, operation, "algorithm", "rng_algorithm")
    ends_with_function_type(reader, operation)


def after_all(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : !stablehlo.token`"""
    operation.operands = reader.operands()
    ends_with_same_type(reader, operation)


def tuple_(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : tuple<...>`"""
    operation.operands = reader.operands()
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", "before the type of stablehlo.tuple")
    position = reader.cursor.skip()
    type_ = reader.types.read()
    if not isinstance(type_, ir.TupleType):
        reader.cursor.fail_at(position, "the result of stablehlo.tuple has to be a tuple")
    reader.check(operation, type_.elements, position)
    reader.results(operation, [type_])


def get_tuple_element(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a[0] {...} : (...) -> ...`"""
    cursor = reader.cursor
    operation.operands = [reader.operand()]
    cursor.expect("[", "before the index of an element")
    operation.attributes["index"] = ir.IntegerAttribute(cursor.integer("the index of an element"), I32)
    cursor.expect("]", "after the index of an element")
    ends_with_function_type(reader, operation)


def optimization_barrier(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} %a, %b : type, type`, or `{...} ()`."""
    cursor = reader.cursor
    reader.attribute_dictionary(operation)
    if cursor.accept("("):
        cursor.expect(")", "after no operands")
        return
    operation.operands = reader.operands()
    cursor.expect(":", "before the types of stablehlo.optimization_barrier")
    position = cursor.skip()
    types = reader.types.read_list()
    reader.check(operation, types, position)
    reader.results(operation, types)


FORMS: dict[str, Form] = {
    "stablehlo.after_all": after_all,
    "stablehlo.constant": constant,
    "stablehlo.create_token": ends_with_result_type,
    "stablehlo.dynamic_iota": dynamic_iota,
    "stablehlo.get_tuple_element": get_tuple_element,
    "stablehlo.iota": iota,
    "stablehlo.optimization_barrier": optimization_barrier,
    "stablehlo.partition_id": ends_with_result_type,
    "stablehlo.replica_id": ends_with_result_type,
    "stablehlo.return": terminator,
    "stablehlo.rng": rng,
    "stablehlo.rng_bit_generator": rng_bit_generator,
    "stablehlo.tuple": tuple_,
}
