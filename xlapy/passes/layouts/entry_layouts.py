"""Parameters and results of a program in other orders of their dimensions than row-major.

An array in another order is in memory what its transpose is in row-major order: so the parameter becomes that, with a
transpose behind it, and a transpose stands before a result. An order names dimensions from the slowest-varying to the
fastest-varying one.

Owns: these transposes, which order a result has that may have any. Must not know: memory.
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
from xlapy.passes.layouts.layout_copies import order_of, row_major
from xlapy.passes.rewrite import Writer, remove_if_dead, update_schedule

Order = tuple[int, ...]

LAYOUT_CONSTRAINT = "LayoutConstraint"
"""The target of custom calls that return their operand, in the layout of their shape."""

_MARKS = ("Sharding", "annotate_device_placement")
"""Targets of custom calls that return their operand."""


def lay_out(module: Module, parameters: Sequence[Order], results: Sequence[Order]) -> None:
    """Makes parameters and results the row-major arrays that lie in memory.

    Parameters are arrays, the result too, or a tuple of them. A parameter and a result that do not lie alike share no
    memory any more.
    """
    entry = module.entry_computation
    for parameter, order in zip(entry.parameters, parameters, strict=True):
        if not _is_row_major(order):
            _lay_parameter(parameter, order)
    root = entry.root_instruction
    write = Writer(root)
    leaves = _leaves(write, root)
    laid = [
        leaf if _is_row_major(order) else write.transpose(leaf, order, _lying(leaf.shape, order))
        for leaf, order in zip(leaves, results, strict=True)
    ]
    if laid != leaves:
        edit.set_root(entry, write.add(opcodes.TUPLE, *laid) if root.shape.is_tuple else laid[0])
    kept = [alias for alias in module.config.input_output_alias if _is_alike(module, alias, parameters, results)]
    module.config = dataclasses.replace(module.config, entry_computation_layout=None, input_output_alias=tuple(kept))


def _is_row_major(order: Order) -> bool:
    return order == tuple(range(len(order)))


def _lay_parameter(parameter: Instruction, order: Order) -> None:
    readers, logical = list(parameter.users), row_major(parameter.shape)
    edit.set_shape(parameter, _lying(logical, order))
    seen = Writer(parameter).transpose(parameter, [order.index(d) for d in range(len(order))], logical)
    _put_behind(parameter, readers, seen)


def _put_behind(parameter: Instruction, readers: Sequence[Instruction], seen: Instruction) -> None:
    """Lets readers of a parameter read what was made of it."""
    for reader in readers:
        edit.set_operands(reader, [seen if operand is parameter else operand for operand in reader.operands])
    if parameter.is_root and parameter.parent is not None:
        edit.set_root(parameter.parent, seen)


def _lying(shape: Shape, order: Order) -> Shape:
    """The row-major array that an array is in memory."""
    dynamic = [shape.dynamic_dimensions[dimension] for dimension in order]
    dimensions = [shape.dimensions[dimension] for dimension in order]
    return row_major(Shape.array(shape.element_type, dimensions, dynamic))


def _leaves(write: Writer, root: Instruction) -> list[Instruction]:
    if not root.shape.is_tuple:
        return [root]
    if root.op is opcodes.TUPLE:
        return list(root.operands)
    return [write.get_tuple_element(root, index) for index in range(len(root.shape.tuple_shapes))]


def declared(module: Module, parameters: Sequence[Order], results: Sequence[Order]) -> Module:
    """The inverse of `lay_out` for a module to be read: parameters and results have layouts, with bitcasts between."""
    module = edit.clone_module(module)
    entry = module.entry_computation
    for parameter, order in zip(entry.parameters, parameters, strict=True):
        if not _is_row_major(order):
            _declare_parameter(parameter, order)
    root = entry.root_instruction
    write = Writer(root)
    leaves = _leaves(write, root)
    seen = [
        leaf if _is_row_major(order) else write.add(opcodes.BITCAST, leaf, shape=_declared(leaf.shape, order))
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
    lying, readers = parameter.shape, list(parameter.users)
    edit.set_shape(parameter, _declared(lying, order))
    _put_behind(parameter, readers, Writer(parameter).add(opcodes.BITCAST, parameter, shape=lying))


def _declared(lying: Shape, order: Order) -> Shape:
    """The array that lies in an order as a row-major one does."""
    places = [order.index(dimension) for dimension in range(len(order))]
    dynamic = [lying.dynamic_dimensions[place] for place in places]
    layout = Layout(order[::-1])
    return Shape.array(lying.element_type, [lying.dimensions[place] for place in places], dynamic, layout)


def natural_orders(module: Module, parameters: Sequence[Order]) -> list[Order]:
    """The orders in which the elements of the results are found: transposes leave them where they are, elementwise
    operations follow an operand, a layout constraint says it, and others make row-major arrays."""
    root = module.entry_computation.root_instruction
    if root.op is opcodes.TUPLE:
        return [_natural_order(leaf, parameters) for leaf in root.operands]
    if root.shape.is_tuple:
        return [tuple(range(leaf.rank)) for leaf in root.shape.tuple_shapes]
    return [_natural_order(root, parameters)]


def _natural_order(value: Instruction, parameters: Sequence[Order]) -> Order:
    permutations: list[Sequence[int]] = []
    while (source := _source(value)) is not value:
        if value.op is opcodes.TRANSPOSE:
            permutations.append(value.dimensions)
        value = source
    if value.op is opcodes.PARAMETER and value.parent is not None and value.parent.is_entry:
        order = parameters[value.parameter_number]
    elif value.op is opcodes.CUSTOM_CALL and value.custom_call_target == LAYOUT_CONSTRAINT:
        order = order_of(value.shape)[::-1]
    else:
        order = tuple(range(value.shape.rank))
    for permutation in reversed(permutations):
        order = tuple(permutation.index(dimension) for dimension in order)
    return order


def _source(value: Instruction) -> Instruction:
    """The operand by whose order that of a value is known; itself if there is none."""
    if value.op is opcodes.TRANSPOSE:
        return value.operands[0]
    marks = value.op is opcodes.CUSTOM_CALL and value.custom_call_target in _MARKS
    follows = value.op.elementwise or value.op is opcodes.COPY or marks
    if value.op is opcodes.RESHAPE:
        follows = value.shape.compatible(value.operands[0].shape)
    alike = [operand for operand in value.operands if operand.shape.rank == value.shape.rank]
    return alike[0] if follows and alike else value


def _is_alike(module: Module, alias: Alias, parameters: Sequence[Order], results: Sequence[Order]) -> bool:
    entry = module.entry_computation
    result = results[alias.output_index[0] if alias.output_index else 0]
    given = entry.parameters[alias.parameter_number].shape
    return parameters[alias.parameter_number] == result and given.compatible(
        entry.root_instruction.shape.subshape(alias.output_index)
    )
