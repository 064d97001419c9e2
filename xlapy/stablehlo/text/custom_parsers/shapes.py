"""Custom parsers of MLIR's dialects shape and tensor."""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import PRED
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.arithmetic import assertion, cast
from xlapy.stablehlo.text.custom_parsers.builtin import terminator
from xlapy.stablehlo.text.custom_parsers.common import (
    finish_with_arrow,
    finish_with_function_type,
    finish_with_types_of_operands,
)
from xlapy.stablehlo.text.elements import elements
from xlapy.stablehlo.text.operations import CustomParser, OperationParser, RegionStart, RegionStarts

_ARROWS = (
    *("add", "any", "broadcast", "concat", "dim", "div", "get_extent", "max", "min", "mul", "num_elements", "rank"),
    *("shape_of", "to_extent_tensor", "value_as_shape"),
)
_SIZE, _SHAPE, _WITNESS = (ir.OpaqueType(f"!shape.{name}") for name in ("size", "shape", "witness"))
_INDEX, _BOOLEAN = ir.IndexType(), ir.ScalarType(PRED)


def arrow(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : type, type -> type`."""
    operation.operands = parser.operands()
    finish_with_arrow(parser, operation)


def _gives(result: ir.Type) -> CustomParser:
    def form(parser: OperationParser, operation: ir.Operation) -> None:
        """Parses `%a, %b {...} : type, type`, the types of the operands. The result type is fixed."""
        operation.operands = parser.operands()
        finish_with_types_of_operands(parser, operation)
        parser.make_results(operation, [result])

    return form


def _gives_of_untyped(result: ir.Type) -> CustomParser:
    def form(parser: OperationParser, operation: ir.Operation) -> None:
        """Parses `%a, %b {...}` without types. A value without a comma before it is a result of the next operation."""
        operation.operands = [parser.operand()]
        while parser.cursor.accept(","):
            operation.operands.append(parser.operand())
        parser.optional_attributes(operation)
        parser.make_results(operation, [result])

    return form


def const_shape(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} [1, 2] : type`."""
    cursor = parser.cursor
    parser.optional_attributes(operation)
    cursor.expect("[", "before the sizes of a shape")
    sizes = cursor.separated("]", lambda: cursor.integer("a size"))
    operation.attributes["shape"] = elements(ir.TensorType((len(sizes),), _INDEX), np.array(sizes, np.int64))
    cursor.expect(":", "before the type of a shape")
    parser.make_results(operation, [parser.types.parse()])


def const_size(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `10 {...}`."""
    operation.attributes["value"] = ir.IntegerAttribute(parser.cursor.integer("a size"), _INDEX)
    parser.optional_attributes(operation)
    parser.make_results(operation, [_SIZE])


def const_witness(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `true {...}`."""
    operation.attributes["passing"] = parser.attributes.parse()
    parser.optional_attributes(operation)
    parser.make_results(operation, [_WITNESS])


def required(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%p, "message" {...}`."""
    assertion(parser, operation)
    parser.make_results(operation, [_WITNESS])


def assuming(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `%w -> (type, type) { ... } {...}`. The terminator of a region without results is optional."""
    operation.operands = [parser.operand()]
    types: list[ir.Type] = []
    if parser.cursor.accept("->"):
        parser.cursor.expect("(", "before the types of shape.assuming")
        types = parser.cursor.separated(")", parser.types.parse)
    region = ir.Region()
    operation.regions.append(region)
    yield RegionStart(region)
    if not region.blocks:
        region.blocks.append(ir.Block())
    inside = region.blocks[-1].operations
    if not inside or inside[-1].name != "shape.assuming_yield":
        inside.append(ir.Operation("shape.assuming_yield"))
    parser.optional_attributes(operation)
    parser.make_results(operation, types)


def extract(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a[%i, %j] {...} : type`, the type of the tensor."""
    operation.operands = [parser.operand()]
    parser.cursor.expect("[", "before the indices of an element")
    operation.operands += parser.operands()
    parser.cursor.expect("]", "after the indices of an element")
    parser.optional_attributes(operation)
    parser.cursor.expect(":", "before the type of a tensor")
    position = parser.cursor.skip()
    type_ = parser.types.parse()
    parser.check_operand_types(operation, [type_, *[_INDEX] * (len(operation.operands) - 1)], position)
    parser.make_results(operation, [_element(parser, type_, position)])


def _element(parser: OperationParser, type_: ir.Type, position: int) -> ir.Type:
    """Returns the type of one element of a tensor."""
    if not isinstance(type_, ir.TensorType | ir.UnrankedTensorType):
        parser.cursor.fail_at(position, codes.FORM_TYPE, "expected the type of a tensor")
    element = type_.element
    return element if isinstance(element, ir.IndexType | ir.QuantizedType) else ir.ScalarType(element)


def from_elements(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : type`, the type of the result."""
    operation.operands = parser.operands()
    parser.optional_attributes(operation)
    parser.cursor.expect(":", "before the type of a tensor")
    position = parser.cursor.skip()
    type_ = parser.types.parse()
    parser.check_operand_types(operation, [_element(parser, type_, position)] * len(operation.operands), position)
    parser.make_results(operation, [type_])


def dim(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %i {...} : type`, the type of the tensor."""
    operation.operands = parser.operands()
    parser.optional_attributes(operation)
    parser.cursor.expect(":", "before the type of a tensor")
    position = parser.cursor.skip()
    parser.check_operand_types(operation, [parser.types.parse(), _INDEX], position)
    parser.make_results(operation, [_INDEX])


def reshape(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a(%shape) {...} : (type, type) -> type`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect("(", "before the shape of tensor.reshape")
    operation.operands.append(parser.operand())
    parser.cursor.expect(")", "after the shape of tensor.reshape")
    finish_with_function_type(parser, operation)


def collapse(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a [[0, 1], [2]] {...} : type into type`."""
    operation.operands = [parser.operand()]
    operation.attributes["reassociation"] = parser.attributes.parse()
    parser.optional_attributes(operation)
    parser.cursor.expect(":", "before the types of tensor.collapse_shape")
    position = parser.cursor.skip()
    parser.check_operand_types(operation, [parser.types.parse()], position)
    parser.cursor.expect_word("into")
    parser.make_results(operation, [parser.types.parse()])


CUSTOM_PARSERS: dict[str, CustomParser] = {
    **{f"shape.{name}": arrow for name in _ARROWS},
    "shape.assuming": assuming,
    "shape.assuming_all": _gives_of_untyped(_WITNESS),
    "shape.assuming_yield": terminator,
    "shape.const_shape": const_shape,
    "shape.const_size": const_size,
    "shape.const_witness": const_witness,
    "shape.cstr_broadcastable": _gives(_WITNESS),
    "shape.cstr_eq": _gives(_WITNESS),
    "shape.cstr_require": required,
    "shape.from_extent_tensor": _gives(_SHAPE),
    "shape.from_extents": _gives(_SHAPE),
    "shape.index_to_size": _gives_of_untyped(_SIZE),
    "shape.is_broadcastable": _gives(_BOOLEAN),
    "shape.shape_eq": _gives(_BOOLEAN),
    "shape.size_to_index": _gives(_INDEX),
    "tensor.cast": cast,
    "tensor.collapse_shape": collapse,
    "tensor.dim": dim,
    "tensor.extract": extract,
    "tensor.from_elements": from_elements,
    "tensor.rank": _gives(_INDEX),
    "tensor.reshape": reshape,
    "tensor.splat": from_elements,
}
