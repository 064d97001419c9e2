"""What forms of operations of several dialects have in common.

Owns: the ways types are written behind a colon, and numbers as attributes. Must not know: particular operations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xlapy.base.element_types import PrimitiveType
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.elements import integers
from xlapy.stablehlo.text.operations import OperationReader

I32 = ir.ScalarType(PrimitiveType.S32)
I64 = ir.ScalarType(PrimitiveType.S64)
_WORD = re.compile(r"[A-Za-z_]\w*+")


def operands(reader: OperationReader, operation: ir.Operation, count: int) -> None:
    """`%a, %b`: so many of them."""
    operation.operands = [reader.operand()]
    while len(operation.operands) < count:
        reader.cursor.expect(",", f"between the operands of {operation.name}")
        operation.operands.append(reader.operand())


def value_and_comma(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a,`"""
    operation.operands.append(reader.operand())
    reader.cursor.expect(",", f"after an operand of {operation.name}")


def ends_with_function_type(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} : (...) -> ...`"""
    reader.attribute_dictionary(operation)
    reader.function_type(operation)


def ends_with_same_type(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} : type` of all operands and the result, or the types of a function where they differ."""
    reader.attribute_dictionary(operation)
    cursor = reader.cursor
    cursor.expect(":", f"before the type of {operation.name}")
    position = cursor.skip()
    if cursor.text.startswith("(", position):
        type_ = reader.types.read_function()
        reader.check(operation, type_.inputs, position)
        reader.results(operation, type_.results)
        return
    result = reader.types.read()
    reader.check(operation, [result] * len(operation.operands), position)
    reader.results(operation, [result])


def ends_with_arrow(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} : type, type -> type` or with either side in parentheses."""
    reader.attribute_dictionary(operation)
    cursor = reader.cursor
    cursor.expect(":", f"before the types of {operation.name}")
    position = cursor.skip()
    inputs = cursor.separated(")", reader.types.read) if cursor.accept("(") else reader.types.read_list()
    cursor.expect("->", "between the types of operands and of results")
    outputs = cursor.separated(")", reader.types.read) if cursor.accept("(") else [reader.types.read()]
    reader.check(operation, inputs, position)
    reader.results(operation, outputs)


def ends_with_types_of_operands(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} : type, type`; of an operation without results. Without operands there are no types."""
    reader.attribute_dictionary(operation)
    types: Sequence[ir.Type] = ()
    position = reader.cursor.skip()
    if operation.operands or reader.cursor.peek(":"):
        reader.cursor.expect(":", f"before the types of {operation.name}")
        types = reader.types.read_list()
    reader.check(operation, types, position)


def ends_with_result_type(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} : type` of the result."""
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", f"before the type of {operation.name}")
    reader.results(operation, [reader.types.read()])


def assigned(reader: OperationReader, word: str) -> None:
    """`word =`"""
    reader.cursor.expect_word(word)
    reader.cursor.expect("=", f"after {word!r}")


def list_of_integers(reader: OperationReader, what: str) -> list[int]:
    """`[1, 2]`"""
    cursor = reader.cursor
    cursor.expect("[", f"before {what}")
    return cursor.separated("]", lambda: cursor.integer(what))


def set_integers(reader: OperationReader, operation: ir.Operation, word: str, attribute: str) -> None:
    """`word = [1, 2]`, an array of i64."""
    assigned(reader, word)
    operation.attributes[attribute] = integers(list_of_integers(reader, word))


def set_integer(
    reader: OperationReader, operation: ir.Operation, word: str, attribute: str, type_: ir.ScalarType = I64
) -> None:
    """`word = 1`"""
    assigned(reader, word)
    most = 2**64 - 1 if type_.element is PrimitiveType.U64 else 2**63 - 1
    operation.attributes[attribute] = ir.IntegerAttribute(reader.cursor.integer(word, max_value=most), type_)


def set_case(reader: OperationReader, operation: ir.Operation, word: str, attribute: str) -> None:
    """`word = CASE` of an enum."""
    assigned(reader, word)
    operation.attributes[attribute] = case(reader, word)


def case(reader: OperationReader, what: str) -> str:
    """A case of an enum."""
    found = reader.cursor.match(_WORD)
    if found is None:
        reader.cursor.fail(f"expected {what}, found {reader.cursor.describe_next()}")
    return found.group()
