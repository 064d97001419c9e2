"""Custom parsers of StableHLO's operations with regions: while, reduce and composite."""

from __future__ import annotations

from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import expect_assignment, finish_with_function_type, integer_list
from xlapy.stablehlo.text.elements import integers
from xlapy.stablehlo.text.operations import Argument, CustomParser, OperationParser, RegionStart, RegionStarts

REDUCERS = ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
"""The operations of StableHLO that `stablehlo.reduce` can apply in its short form."""


def while_(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `(%x = %a, %y = %b) : type, type attributes {...} cond { ... } do { ... }`."""
    cursor = parser.cursor
    cursor.expect("(", "before the operands of stablehlo.while")
    pairs = cursor.separated(")", lambda: _initialized(parser))
    operation.operands = [value for _, value in pairs]
    types: list[ir.Type] = []
    position = cursor.skip()
    if pairs:
        cursor.expect(":", "before the types of stablehlo.while")
        types = parser.types.parse_list()
    parser.check_operand_types(operation, types, position)
    parser.make_results(operation, types)
    parser.optional_attributes_with_keyword(operation)
    arguments = [Argument(name.name, type_, name.position) for (name, _), type_ in zip(pairs, types, strict=True)]
    for word in ("cond", "do"):
        cursor.expect_word(word)
        region = ir.Region()
        operation.regions.append(region)
        yield RegionStart(region, arguments)


def _initialized(parser: OperationParser) -> tuple[Argument, ir.Value]:
    name = parser.argument_name()
    parser.cursor.expect("=", "after an argument of stablehlo.while")
    return name, parser.operand()


def reduce(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `(%a init: %z), ... applies stablehlo.add across dimensions = [0] {...} : (...) -> ...`.

    Without `applies`, the region `reducer(%x: type, %y: type) ... { ... }` follows the types.
    """
    cursor = parser.cursor
    pairs = [_pair(parser)]
    while cursor.accept(","):
        pairs.append(_pair(parser))
    operation.operands = [array for array, _ in pairs] + [init for _, init in pairs]
    position = cursor.skip()
    applied = cursor.word("an operation") if cursor.accept_word("applies") else None
    cursor.expect_word("across")
    expect_assignment(parser, "dimensions")
    operation.attributes["dimensions"] = integers(integer_list(parser, "dimensions"))
    finish_with_function_type(parser, operation)
    if applied is not None:
        operation.regions.append(_applied(parser, operation, applied, position))
        return
    cursor.expect_word("reducer")
    region = ir.Region()
    operation.regions.append(region)
    yield RegionStart(region, _reducer_arguments(parser))


def _pair(parser: OperationParser) -> tuple[ir.Value, ir.Value]:
    """Parses `(%a init: %z)`."""
    cursor = parser.cursor
    cursor.expect("(", "before an operand of stablehlo.reduce")
    array = parser.operand()
    cursor.expect_word("init")
    cursor.expect(":", "after 'init'")
    init = parser.operand()
    cursor.expect(")", "after an operand of stablehlo.reduce")
    return array, init


def _reducer_arguments(parser: OperationParser) -> list[Argument]:
    """Parses `(%x: type, %y: type)` for each array. The block has the first arguments of all pairs, then the second."""
    cursor = parser.cursor
    elements: list[Argument] = []
    accumulators: list[Argument] = []
    while cursor.accept("("):
        elements.append(parser.argument())
        cursor.expect(",", "between the arguments of a reducer")
        accumulators.append(parser.argument())
        cursor.expect(")", "after the arguments of a reducer")
    return elements + accumulators


def _applied(parser: OperationParser, operation: ir.Operation, name: str, position: int) -> ir.Region:
    """Returns the region that `applies` stands for: one operation on two arguments."""
    dialect, _, mnemonic = name.partition(".")
    if dialect != "stablehlo" or mnemonic not in REDUCERS:
        known = ", ".join(f"stablehlo.{reducer}" for reducer in REDUCERS)
        parser.cursor.fail_at(position, codes.KNOWN_KEYWORD, f"stablehlo.reduce applies one of {known}; found {name!r}")
    array = operation.operands[0].type
    if not isinstance(array, ir.TensorType | ir.UnrankedTensorType):
        parser.cursor.fail_at(position, codes.FORM_TYPE, "stablehlo.reduce takes tensors")
    scalar = ir.TensorType((), array.element)
    block = ir.Block()
    block.arguments = [ir.Value(scalar, block, index) for index in range(2)]
    inner = ir.Operation(name, list(block.arguments))
    parser.make_results(inner, [scalar])
    block.operations = [inner, ir.Operation("stablehlo.return", list(inner.results))]
    for hidden in block.operations:
        hidden.text_line, hidden.text_column = operation.text_line, operation.text_column
    return ir.Region([block])


def composite(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `"name" %a, %b ({ ... }) {...} : (...) -> ...`."""
    cursor = parser.cursor
    operation.attributes["name"] = cursor.string("the name of a composite")
    operation.operands = parser.operands()
    if cursor.accept("("):
        while True:
            region = ir.Region()
            operation.regions.append(region)
            yield RegionStart(region)
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the regions of stablehlo.composite")
    finish_with_function_type(parser, operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    "stablehlo.composite": composite,
    "stablehlo.reduce": reduce,
    "stablehlo.while": while_,
}
