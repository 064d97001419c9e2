"""StableHLO's operations with regions that have a shorter form: while, reduce, composite."""

from __future__ import annotations

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.elements import integers
from xlapy.stablehlo.text.forms.common import assigned, ends_with_function_type, list_of_integers
from xlapy.stablehlo.text.operations import Argument, Bodies, Body, Form, OperationReader

_REDUCERS = ("add", "and", "maximum", "minimum", "multiply", "or", "xor")


def while_(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`(%x = %a, %y = %b) : type, type attributes {...} cond { ... } do { ... }`"""
    cursor = reader.cursor
    cursor.expect("(", "before the operands of stablehlo.while")
    pairs = cursor.separated(")", lambda: _initialized(reader))
    operation.operands = [value for _, value in pairs]
    types: list[ir.Type] = []
    position = cursor.skip()
    if pairs:
        cursor.expect(":", "before the types of stablehlo.while")
        types = reader.types.read_list()
    reader.check(operation, types, position)
    reader.results(operation, types)
    reader.attributes_with_keyword(operation)
    arguments = [Argument(name.name, type_, name.position) for (name, _), type_ in zip(pairs, types, strict=True)]
    for word in ("cond", "do"):
        cursor.expect_word(word)
        region = ir.Region()
        operation.regions.append(region)
        yield Body(region, arguments)


def _initialized(reader: OperationReader) -> tuple[Argument, ir.Value]:
    name = reader.value_name()
    reader.cursor.expect("=", "after an argument of stablehlo.while")
    return name, reader.operand()


def reduce(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`(%a init: %z), ... applies stablehlo.add across dimensions = [0] {...} : (...) -> ...`

    or without `applies`, and `reducer(%x: type, %y: type) ... { ... }` behind the types.
    """
    cursor = reader.cursor
    pairs = [_pair(reader)]
    while cursor.accept(","):
        pairs.append(_pair(reader))
    operation.operands = [array for array, _ in pairs] + [init for _, init in pairs]
    position = cursor.skip()
    applied = cursor.word("an operation") if cursor.accept_word("applies") else None
    cursor.expect_word("across")
    assigned(reader, "dimensions")
    operation.attributes["dimensions"] = integers(list_of_integers(reader, "dimensions"))
    ends_with_function_type(reader, operation)
    if applied is not None:
        operation.regions.append(_applied(reader, operation, applied, position))
        return
    cursor.expect_word("reducer")
    region = ir.Region()
    operation.regions.append(region)
    yield Body(region, _reducer_arguments(reader))


def _pair(reader: OperationReader) -> tuple[ir.Value, ir.Value]:
    """`(%a init: %z)`"""
    cursor = reader.cursor
    cursor.expect("(", "before an operand of stablehlo.reduce")
    array = reader.operand()
    cursor.expect_word("init")
    cursor.expect(":", "after 'init'")
    init = reader.operand()
    cursor.expect(")", "after an operand of stablehlo.reduce")
    return array, init


def _reducer_arguments(reader: OperationReader) -> list[Argument]:
    """`(%x: type, %y: type)` for each array; the block has all of the first before all of the second."""
    cursor = reader.cursor
    elements: list[Argument] = []
    accumulators: list[Argument] = []
    while cursor.accept("("):
        elements.append(reader.argument())
        cursor.expect(",", "between the arguments of a reducer")
        accumulators.append(reader.argument())
        cursor.expect(")", "after the arguments of a reducer")
    return elements + accumulators


def _applied(reader: OperationReader, operation: ir.Operation, name: str, position: int) -> ir.Region:
    """The region of one operation on two arguments that `applies` stands for."""
    dialect, _, mnemonic = name.partition(".")
    if dialect != "stablehlo" or mnemonic not in _REDUCERS:
        known = ", ".join(f"stablehlo.{reducer}" for reducer in _REDUCERS)
        reader.cursor.fail_at(position, f"stablehlo.reduce applies one of {known}; found {name!r}")
    array = operation.operands[0].type
    if not isinstance(array, ir.TensorType | ir.UnrankedTensorType):
        reader.cursor.fail_at(position, "stablehlo.reduce takes tensors")
    scalar = ir.TensorType((), array.element)
    block = ir.Block()
    block.arguments = [ir.Value(scalar, block, index) for index in range(2)]
    inner = ir.Operation(name, list(block.arguments))
    reader.results(inner, [scalar])
    block.operations = [inner, ir.Operation("stablehlo.return", list(inner.results))]
    for hidden in block.operations:
        hidden.text_line, hidden.text_column = operation.text_line, operation.text_column
    return ir.Region([block])


def composite(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`"name" %a, %b ({ ... }) {...} : (...) -> ...`"""
    cursor = reader.cursor
    operation.attributes["name"] = cursor.string("the name of a composite")
    operation.operands = reader.operands()
    if cursor.accept("("):
        while True:
            region = ir.Region()
            operation.regions.append(region)
            yield Body(region)
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the regions of stablehlo.composite")
    ends_with_function_type(reader, operation)


FORMS: dict[str, Form] = {
    "stablehlo.composite": composite,
    "stablehlo.reduce": reduce,
    "stablehlo.while": while_,
}
