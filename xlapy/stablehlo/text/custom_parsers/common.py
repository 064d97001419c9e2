"""Building blocks that the custom parsers of several dialects share: types after a colon, and attributes of numbers.

Does not depend on particular operations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.elements import integers
from xlapy.stablehlo.text.operations import OperationParser

I32 = ir.ScalarType(PrimitiveType.S32)
I64 = ir.ScalarType(PrimitiveType.S64)
_WORD = re.compile(r"[A-Za-z_]\w*+", re.ASCII)


def operands(parser: OperationParser, operation: ir.Operation, count: int) -> None:
    """Parses exactly `count` operands: `%a, %b`."""
    operation.operands = [parser.operand()]
    while len(operation.operands) < count:
        parser.cursor.expect(",", f"between the operands of {operation.name}")
        operation.operands.append(parser.operand())


def operand_and_comma(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a,`."""
    operation.operands.append(parser.operand())
    parser.cursor.expect(",", f"after an operand of {operation.name}")


def finish_with_function_type(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} : (...) -> ...`."""
    parser.optional_attributes(operation)
    parser.function_type(operation)


def finish_with_same_type(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} : type`, the type of all operands and the result, or a function type if they differ."""
    parser.optional_attributes(operation)
    cursor = parser.cursor
    cursor.expect(":", f"before the type of {operation.name}")
    position = cursor.skip()
    if cursor.text.startswith("(", position):
        type_ = parser.types.parse_function()
        parser.check_operand_types(operation, type_.inputs, position)
        parser.make_results(operation, type_.results)
        return
    result = parser.types.parse()
    parser.check_operand_types(operation, [result] * len(operation.operands), position)
    parser.make_results(operation, [result])


def finish_with_arrow(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} : type, type -> type`; either side may be in parentheses."""
    parser.optional_attributes(operation)
    cursor = parser.cursor
    cursor.expect(":", f"before the types of {operation.name}")
    position = cursor.skip()
    inputs = cursor.separated(")", parser.types.parse) if cursor.accept("(") else parser.types.parse_list()
    cursor.expect("->", "between the types of operands and of results")
    outputs = cursor.separated(")", parser.types.parse) if cursor.accept("(") else [parser.types.parse()]
    parser.check_operand_types(operation, inputs, position)
    parser.make_results(operation, outputs)


def finish_with_types_of_operands(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} : type, type`, the types of the operands. Without operands, colon and types are absent."""
    parser.optional_attributes(operation)
    types: Sequence[ir.Type] = ()
    position = parser.cursor.skip()
    if operation.operands or parser.cursor.peek(":"):
        parser.cursor.expect(":", f"before the types of {operation.name}")
        types = parser.types.parse_list()
    parser.check_operand_types(operation, types, position)


def finish_with_result_type(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} : type`, the type of the result."""
    parser.optional_attributes(operation)
    parser.cursor.expect(":", f"before the type of {operation.name}")
    parser.make_results(operation, [parser.types.parse()])


def expect_assignment(parser: OperationParser, word: str) -> None:
    """Parses `word =`."""
    parser.cursor.expect_word(word)
    parser.cursor.expect("=", f"after {word!r}")


def integer_list(parser: OperationParser, what: str) -> list[int]:
    """Parses `[1, 2]`."""
    cursor = parser.cursor
    cursor.expect("[", f"before {what}")
    return cursor.separated("]", lambda: cursor.integer(what))


def set_integers(parser: OperationParser, operation: ir.Operation, word: str, attribute: str) -> None:
    """Parses `word = [1, 2]` into an attribute, as an array of i64."""
    expect_assignment(parser, word)
    operation.attributes[attribute] = integers(integer_list(parser, word))


def set_integer(
    parser: OperationParser, operation: ir.Operation, word: str, attribute: str, type_: ir.ScalarType = I64
) -> None:
    """Parses `word = 1` into an attribute."""
    expect_assignment(parser, word)
    most = 2**64 - 1 if type_.element is PrimitiveType.U64 else 2**63 - 1
    operation.attributes[attribute] = ir.IntegerAttribute(parser.cursor.integer(word, max_value=most), type_)


def set_case(parser: OperationParser, operation: ir.Operation, word: str, attribute: str) -> None:
    """Parses `word = CASE`, the case of an enum, into an attribute."""
    expect_assignment(parser, word)
    operation.attributes[attribute] = enum_case(parser, word)


def enum_case(parser: OperationParser, what: str) -> str:
    """Parses the case of an enum."""
    found = parser.cursor.match(_WORD)
    if found is None:
        parser.cursor.fail(codes.TOKEN, f"expected {what}, found {parser.cursor.describe_next()}")
    return found.group()
