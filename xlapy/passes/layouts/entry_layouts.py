"""Implements layouts of a program's parameters and results by transposes of row-major arrays.

In memory, an array with another layout equals the row-major array of its transpose. The parameter becomes that
transposed array and is transposed back before its uses; a result is transposed before it is returned. An order lists
dimensions from the slowest-varying to the fastest-varying one, the reverse of minor-to-major.

Responsible for these transposes, and for the order of a result whose layout the caller leaves open.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Alias, Module
from xlapy.passes.layouts.layout_copies import minor_to_major, row_major
from xlapy.passes.rewrite import Writer, remove_if_dead, update_schedule

Order = tuple[int, ...]
"""The dimensions of an array from the slowest-varying to the fastest-varying one."""

LAYOUT_CONSTRAINT = "LayoutConstraint"
"""The target of custom calls that return their operand, in the layout of their shape."""

_ANNOTATION_TARGETS = ("Sharding", "annotate_device_placement")
"""The targets of custom calls that annotate and return their operand."""


def transpose_entry_arrays(module: Module, parameters: Sequence[Order], results: Sequence[Order]) -> None:
    """Repositions parameters and results by the row-major arrays that are in memory.

    Parameters are arrays; the result is an array or a tuple of arrays. An input-output alias between arrays of
    different orders is dropped.
    """
    entry = module.entry_computation
    for parameter, order in zip(entry.parameters, parameters, strict=True):
        if not _is_row_major(order):
            _transpose_parameter(parameter, order)
    root = entry.root_instruction
    write = Writer(root)
    leaves = _leaves(write, root)
    laid = [
        leaf if _is_row_major(order) else write.transpose(leaf, order, _shape_in_memory(leaf.shape, order))
        for leaf, order in zip(leaves, results, strict=True)
    ]
    if laid != leaves:
        edit.set_root(entry, write.add(opcodes.TUPLE, *laid) if root.shape.is_tuple else laid[0])
    kept = [
        alias for alias in module.config.input_output_alias if _has_equal_orders(module, alias, parameters, results)
    ]
    module.config = dataclasses.replace(module.config, entry_computation_layout=None, input_output_alias=tuple(kept))


def _is_row_major(order: Order) -> bool:
    return order == tuple(range(len(order)))


def _transpose_parameter(parameter: Instruction, order: Order) -> None:
    readers, logical = list(parameter.users), row_major(parameter.shape)
    edit.set_shape(parameter, _shape_in_memory(logical, order))
    seen = Writer(parameter).transpose(parameter, [order.index(d) for d in range(len(order))], logical)
    _replace_in_readers(parameter, readers, seen)


def _replace_in_readers(parameter: Instruction, readers: Sequence[Instruction], replacement: Instruction) -> None:
    """Lets the given users of a parameter read a replacement; so does the root."""
    for reader in readers:
        edit.set_operands(reader, [replacement if operand is parameter else operand for operand in reader.operands])
    if parameter.is_root and parameter.parent is not None:
        edit.set_root(parameter.parent, replacement)


def _shape_in_memory(shape: Shape, order: Order) -> Shape:
    """Returns the shape of the row-major array that an array is in memory."""
    dynamic = [shape.dynamic_dimensions[dimension] for dimension in order]
    dimensions = [shape.dimensions[dimension] for dimension in order]
    return row_major(Shape.array(shape.element_type, dimensions, dynamic))


def _leaves(write: Writer, root: Instruction) -> list[Instruction]:
    if not root.shape.is_tuple:
        return [root]
    if root.op is opcodes.TUPLE:
        return list(root.operands)
    return [write.get_tuple_element(root, index) for index in range(len(root.shape.tuple_shapes))]


def with_declared_layouts(module: Module, parameters: Sequence[Order], results: Sequence[Order]) -> Module:
    """Returns a copy for display, in which the layouts of parameters and results are declared, with bitcasts.

    The inverse of `transpose_entry_arrays`.
    """
    module = edit.clone_module(module)
    entry = module.entry_computation
    for parameter, order in zip(entry.parameters, parameters, strict=True):
        if not _is_row_major(order):
            _declare_parameter(parameter, order)
    root = entry.root_instruction
    write = Writer(root)
    leaves = _leaves(write, root)
    seen = [
        leaf if _is_row_major(order) else write.add(opcodes.BITCAST, leaf, shape=_shape_with_layout(leaf.shape, order))
        for leaf, order in zip(leaves, results, strict=True)
    ]
    if seen != leaves:
        edit.set_root(entry, write.add(opcodes.TUPLE, *seen) if root.shape.is_tuple else seen[0])
        remove_if_dead(root)
    config = dataclasses.replace(module.config, entry_computation_layout=entry.program_shape)
    module.config = config
    update_schedule(module, True)
    return module


def _declare_parameter(parameter: Instruction, order: Order) -> None:
    in_memory, readers = parameter.shape, list(parameter.users)
    edit.set_shape(parameter, _shape_with_layout(in_memory, order))
    _replace_in_readers(parameter, readers, Writer(parameter).add(opcodes.BITCAST, parameter, shape=in_memory))


def _shape_with_layout(in_memory: Shape, order: Order) -> Shape:
    """Returns the shape with the layout of an order that is in memory as a row-major array."""
    positions = [order.index(dimension) for dimension in range(len(order))]
    dynamic = [in_memory.dynamic_dimensions[position] for position in positions]
    layout = Layout(order[::-1])
    return Shape.array(
        in_memory.element_type, [in_memory.dimensions[position] for position in positions], dynamic, layout
    )


def preferred_result_orders(module: Module, parameters: Sequence[Order]) -> list[Order]:
    """Returns the orders in which results need no transpose.

    Transposes permute the order of their operand, elementwise operations follow an operand, a layout constraint
    declares an order, and the results of other operations are row-major.
    """
    root = module.entry_computation.root_instruction
    if root.op is opcodes.TUPLE:
        return [_preferred_order(leaf, parameters) for leaf in root.operands]
    if root.shape.is_tuple:
        return [tuple(range(leaf.rank)) for leaf in root.shape.tuple_shapes]
    return [_preferred_order(root, parameters)]


def _preferred_order(value: Instruction, parameters: Sequence[Order]) -> Order:
    permutations: list[Sequence[int]] = []
    while (source := _order_source(value)) is not value:
        if value.op is opcodes.TRANSPOSE:
            permutations.append(value.dimensions)
        value = source
    if value.op is opcodes.PARAMETER and value.parent is not None and value.parent.is_entry:
        order = parameters[value.parameter_number]
    elif value.op is opcodes.CUSTOM_CALL and value.custom_call_target == LAYOUT_CONSTRAINT:
        order = minor_to_major(value.shape)[::-1]
    else:
        order = tuple(range(value.shape.rank))
    for permutation in reversed(permutations):
        order = tuple(permutation.index(dimension) for dimension in order)
    return order


def _order_source(value: Instruction) -> Instruction:
    """Returns the operand that determines the order of a value; the value itself if there is none."""
    if value.op is opcodes.TRANSPOSE:
        return value.operands[0]
    is_annotation = value.op is opcodes.CUSTOM_CALL and value.custom_call_target in _ANNOTATION_TARGETS
    follows = value.op.elementwise or value.op is opcodes.COPY or is_annotation
    if value.op is opcodes.RESHAPE:
        follows = value.shape.compatible(value.operands[0].shape)
    alike = [operand for operand in value.operands if operand.shape.rank == value.shape.rank]
    return alike[0] if follows and alike else value


def _has_equal_orders(module: Module, alias: Alias, parameters: Sequence[Order], results: Sequence[Order]) -> bool:
    entry = module.entry_computation
    result = results[alias.output_index[0] if alias.output_index else 0]
    given = entry.parameters[alias.parameter_number].shape
    return parameters[alias.parameter_number] == result and given.compatible(
        entry.root_instruction.shape.subshape(alias.output_index)
    )
