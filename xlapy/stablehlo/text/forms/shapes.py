"""Operations of MLIR's own dialects shape and tensor."""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import PRED
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.elements import elements
from xlapy.stablehlo.text.forms.arithmetic import assertion, cast
from xlapy.stablehlo.text.forms.builtin import terminator
from xlapy.stablehlo.text.forms.common import ends_with_arrow, ends_with_function_type, ends_with_types_of_operands
from xlapy.stablehlo.text.operations import Bodies, Body, Form, OperationReader

_ARROWS = (
    *("add", "any", "broadcast", "concat", "dim", "div", "get_extent", "max", "min", "mul", "num_elements", "rank"),
    *("shape_of", "to_extent_tensor", "value_as_shape"),
)
_SIZE, _SHAPE, _WITNESS = (ir.OpaqueType(f"!shape.{name}") for name in ("size", "shape", "witness"))
_INDEX, _BOOLEAN = ir.IndexType(), ir.ScalarType(PRED)


def arrow(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : type, type -> type`"""
    operation.operands = reader.operands()
    ends_with_arrow(reader, operation)


def _gives(result: ir.Type) -> Form:
    def form(reader: OperationReader, operation: ir.Operation) -> None:
        """`%a, %b {...} : type, type` of the operands; the result's is always the same."""
        operation.operands = reader.operands()
        ends_with_types_of_operands(reader, operation)
        reader.results(operation, [result])

    return form


def _gives_of_untyped(result: ir.Type) -> Form:
    def form(reader: OperationReader, operation: ir.Operation) -> None:
        """`%a, %b {...}`, without types; a value behind the last one is a result of the next operation."""
        operation.operands = [reader.operand()]
        while reader.cursor.accept(","):
            operation.operands.append(reader.operand())
        reader.attribute_dictionary(operation)
        reader.results(operation, [result])

    return form


def const_shape(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} [1, 2] : type`"""
    cursor = reader.cursor
    reader.attribute_dictionary(operation)
    cursor.expect("[", "before the sizes of a shape")
    sizes = cursor.separated("]", lambda: cursor.integer("a size"))
    operation.attributes["shape"] = elements(ir.TensorType((len(sizes),), _INDEX), np.array(sizes, np.int64))
    cursor.expect(":", "before the type of a shape")
    reader.results(operation, [reader.types.read()])


def const_size(reader: OperationReader, operation: ir.Operation) -> None:
    """`10 {...}`"""
    operation.attributes["value"] = ir.IntegerAttribute(reader.cursor.integer("a size"), _INDEX)
    reader.attribute_dictionary(operation)
    reader.results(operation, [_SIZE])


def const_witness(reader: OperationReader, operation: ir.Operation) -> None:
    """`true {...}`"""
    operation.attributes["passing"] = reader.attributes.read()
    reader.attribute_dictionary(operation)
    reader.results(operation, [_WITNESS])


def required(reader: OperationReader, operation: ir.Operation) -> None:
    """`%p, "message" {...}`"""
    assertion(reader, operation)
    reader.results(operation, [_WITNESS])


def assuming(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`%w -> (type, type) { ... } {...}`; a region without results may lack its end."""
    operation.operands = [reader.operand()]
    types: list[ir.Type] = []
    if reader.cursor.accept("->"):
        reader.cursor.expect("(", "before the types of shape.assuming")
        types = reader.cursor.separated(")", reader.types.read)
    region = ir.Region()
    operation.regions.append(region)
    yield Body(region)
    if not region.blocks:
        region.blocks.append(ir.Block())
    inside = region.blocks[-1].operations
    if not inside or inside[-1].name != "shape.assuming_yield":
        inside.append(ir.Operation("shape.assuming_yield"))
    reader.attribute_dictionary(operation)
    reader.results(operation, types)


def extract(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a[%i, %j] {...} : type` of the tensor"""
    operation.operands = [reader.operand()]
    reader.cursor.expect("[", "before the indices of an element")
    operation.operands += reader.operands()
    reader.cursor.expect("]", "after the indices of an element")
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", "before the type of a tensor")
    position = reader.cursor.skip()
    type_ = reader.types.read()
    reader.check(operation, [type_, *[_INDEX] * (len(operation.operands) - 1)], position)
    reader.results(operation, [_element(reader, type_, position)])


def _element(reader: OperationReader, type_: ir.Type, position: int) -> ir.Type:
    """The type of one element of a tensor."""
    if not isinstance(type_, ir.TensorType | ir.UnrankedTensorType):
        reader.cursor.fail_at(position, "expected the type of a tensor")
    element = type_.element
    return element if isinstance(element, ir.IndexType | ir.QuantizedType) else ir.ScalarType(element)


def from_elements(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : type` of the tensor that they make."""
    operation.operands = reader.operands()
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", "before the type of a tensor")
    position = reader.cursor.skip()
    type_ = reader.types.read()
    reader.check(operation, [_element(reader, type_, position)] * len(operation.operands), position)
    reader.results(operation, [type_])


def dim(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %i {...} : type` of the tensor"""
    operation.operands = reader.operands()
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", "before the type of a tensor")
    position = reader.cursor.skip()
    reader.check(operation, [reader.types.read(), _INDEX], position)
    reader.results(operation, [_INDEX])


def reshape(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a(%shape) {...} : (type, type) -> type`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect("(", "before the shape of tensor.reshape")
    operation.operands.append(reader.operand())
    reader.cursor.expect(")", "after the shape of tensor.reshape")
    ends_with_function_type(reader, operation)


def collapse(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a [[0, 1], [2]] {...} : type into type`"""
    operation.operands = [reader.operand()]
    operation.attributes["reassociation"] = reader.attributes.read()
    reader.attribute_dictionary(operation)
    reader.cursor.expect(":", "before the types of tensor.collapse_shape")
    position = reader.cursor.skip()
    reader.check(operation, [reader.types.read()], position)
    reader.cursor.expect_word("into")
    reader.results(operation, [reader.types.read()])


FORMS: dict[str, Form] = {
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
