"""Custom parsers of StableHLO's data movement operations."""

from __future__ import annotations

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MlirCursor
from xlapy.stablehlo.text.custom_parsers.common import (
    finish_with_function_type,
    finish_with_same_type,
    operand_and_comma,
    operands,
    set_integer,
    set_integers,
)
from xlapy.stablehlo.text.elements import integers
from xlapy.stablehlo.text.operations import CustomParser, OperationParser


def operands_and_function_type(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : (...) -> ...`."""
    operation.operands = parser.operands()
    finish_with_function_type(parser, operation)


def _with_integers(count: int, *fields: tuple[str, str]) -> CustomParser:
    """Returns the parser of `%a, %b, word = [0, 1], ... {...} : (...) -> ...` with `count` operands.

    `fields` pairs each word with the attribute that holds its list.
    """

    def parse(parser: OperationParser, operation: ir.Operation) -> None:
        operands(parser, operation, count)
        for word, attribute in fields:
            parser.cursor.expect(",", f"before {word!r}")
            set_integers(parser, operation, word, attribute)
        finish_with_function_type(parser, operation)

    return parse


def _with_dimension(count: int) -> CustomParser:
    """Returns the parser of `%a, dim = 0 {...} : (...) -> ...` with `count` operands."""

    def parse(parser: OperationParser, operation: ir.Operation) -> None:
        operands(parser, operation, count)
        parser.cursor.expect(",", "before 'dim'")
        set_integer(parser, operation, "dim", "dimension")
        finish_with_function_type(parser, operation)

    return parse


def reverse(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, dims = [0] {...} : type`."""
    operand_and_comma(parser, operation)
    set_integers(parser, operation, "dims", "dimensions")
    finish_with_same_type(parser, operation)


def concatenate(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b, dim = 0 {...} : (...) -> ...`."""
    _operands_and_comma(parser, operation)
    set_integer(parser, operation, "dim", "dimension")
    finish_with_function_type(parser, operation)


def dynamic_slice(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %start, ..., sizes = [1] {...} : (...) -> ...`."""
    _operands_and_comma(parser, operation)
    set_integers(parser, operation, "sizes", "slice_sizes")
    finish_with_function_type(parser, operation)


def _operands_and_comma(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses operands, each of which is followed by a comma."""
    operation.operands = parser.operands()
    if operation.operands:
        parser.cursor.expect(",", f"after the operands of {operation.name}")


def slice_(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a [0:2, 1:9:2] {...} : (...) -> ...`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect("[", "before the ranges of a slice")
    ranges = parser.cursor.separated("]", lambda: _range(parser.cursor))
    for position, attribute in enumerate(("start_indices", "limit_indices", "strides")):
        operation.attributes[attribute] = integers([each[position] for each in ranges])
    finish_with_function_type(parser, operation)


def _range(cursor: MlirCursor) -> tuple[int, int, int]:
    """`start:limit` or `start:limit:stride`."""
    start = cursor.integer("the start of a slice")
    cursor.expect(":", "after the start of a slice")
    limit = cursor.integer("the limit of a slice")
    return start, limit, cursor.integer("the stride of a slice") if cursor.accept(":") else 1


CUSTOM_PARSERS: dict[str, CustomParser] = {
    "stablehlo.bitcast_convert": operands_and_function_type,
    "stablehlo.broadcast": _with_integers(1, ("sizes", "broadcast_sizes")),
    "stablehlo.broadcast_in_dim": _with_integers(1, ("dims", "broadcast_dimensions")),
    "stablehlo.concatenate": concatenate,
    "stablehlo.dynamic_broadcast_in_dim": _with_integers(2, ("dims", "broadcast_dimensions")),
    "stablehlo.dynamic_pad": operands_and_function_type,
    "stablehlo.dynamic_reshape": operands_and_function_type,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": operands_and_function_type,
    "stablehlo.get_dimension_size": _with_dimension(1),
    "stablehlo.pad": _with_integers(
        2, ("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding")
    ),
    "stablehlo.real_dynamic_slice": operands_and_function_type,
    "stablehlo.reshape": operands_and_function_type,
    "stablehlo.reverse": reverse,
    "stablehlo.set_dimension_size": _with_dimension(2),
    "stablehlo.slice": slice_,
    "stablehlo.transpose": _with_integers(1, ("dims", "permutation")),
}
