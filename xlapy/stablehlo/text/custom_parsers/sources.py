"""Custom parsers of StableHLO's constants, iotas and random numbers, and of operations on tokens and tuples."""

from __future__ import annotations

from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.builtin import terminator
from xlapy.stablehlo.text.custom_parsers.common import (
    I32,
    finish_with_function_type,
    finish_with_result_type,
    finish_with_same_type,
    operands,
    set_case,
    set_integer,
)
from xlapy.stablehlo.text.operations import CustomParser, OperationParser


def constant(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} dense<...> : type`, or `() <{value = dense<...> : type}> : () -> type` if the types differ."""
    cursor = parser.cursor
    if cursor.accept("("):
        cursor.expect(")", "after no operands")
        if cursor.accept("<"):
            operation.attributes.update(parser.attributes.parse_dictionary())
            cursor.expect(">", "after the properties of stablehlo.constant")
        finish_with_function_type(parser, operation)
        return
    parser.optional_attributes(operation)
    position = cursor.skip()
    value = parser.attributes.parse()
    operation.attributes["value"] = value
    if not isinstance(value, ir.ElementsAttribute):
        cursor.fail_at(position, codes.CONSTANT_TYPE, f"{operation.name} needs constant elements of numbers")
    parser.make_results(operation, [value.type])


def iota(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `dim = 0 {...} : type`."""
    set_integer(parser, operation, "dim", "iota_dimension")
    finish_with_result_type(parser, operation)


def dynamic_iota(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%shape, dim = 0 {...} : (...) -> ...`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect(",", "after the operand of stablehlo.dynamic_iota")
    set_integer(parser, operation, "dim", "iota_dimension")
    finish_with_function_type(parser, operation)


def rng(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b, %shape, distribution = NORMAL {...} : (...) -> ...`."""
    operands(parser, operation, 3)
    parser.cursor.expect(",", "after the operands of stablehlo.rng")
    set_case(parser, operation, "distribution", "rng_distribution")
    finish_with_function_type(parser, operation)


def rng_bit_generator(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%state, algorithm = PHILOX {...} : (...) -> ...`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect(",", "after the operand of stablehlo.rng_bit_generator")
    set_case(parser, operation, "algorithm", "rng_algorithm")
    finish_with_function_type(parser, operation)


def after_all(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : !stablehlo.token`."""
    operation.operands = parser.operands()
    finish_with_same_type(parser, operation)


def tuple_(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : tuple<...>`."""
    operation.operands = parser.operands()
    parser.optional_attributes(operation)
    parser.cursor.expect(":", "before the type of stablehlo.tuple")
    position = parser.cursor.skip()
    type_ = parser.types.parse()
    if not isinstance(type_, ir.TupleType):
        parser.cursor.fail_at(position, codes.FORM_TYPE, "the result of stablehlo.tuple must be a tuple")
    parser.check_operand_types(operation, type_.elements, position)
    parser.make_results(operation, [type_])


def get_tuple_element(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a[0] {...} : (...) -> ...`."""
    cursor = parser.cursor
    operation.operands = [parser.operand()]
    cursor.expect("[", "before the index of an element")
    operation.attributes["index"] = ir.IntegerAttribute(cursor.integer("the index of an element"), I32)
    cursor.expect("]", "after the index of an element")
    finish_with_function_type(parser, operation)


def optimization_barrier(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} %a, %b : type, type` or `{...} ()`."""
    cursor = parser.cursor
    parser.optional_attributes(operation)
    if cursor.accept("("):
        cursor.expect(")", "after no operands")
        return
    operation.operands = parser.operands()
    cursor.expect(":", "before the types of stablehlo.optimization_barrier")
    position = cursor.skip()
    types = parser.types.parse_list()
    parser.check_operand_types(operation, types, position)
    parser.make_results(operation, types)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    "stablehlo.after_all": after_all,
    "stablehlo.constant": constant,
    "stablehlo.create_token": finish_with_result_type,
    "stablehlo.dynamic_iota": dynamic_iota,
    "stablehlo.get_tuple_element": get_tuple_element,
    "stablehlo.iota": iota,
    "stablehlo.optimization_barrier": optimization_barrier,
    "stablehlo.partition_id": finish_with_result_type,
    "stablehlo.replica_id": finish_with_result_type,
    "stablehlo.return": terminator,
    "stablehlo.rng": rng,
    "stablehlo.rng_bit_generator": rng_bit_generator,
    "stablehlo.tuple": tuple_,
}
