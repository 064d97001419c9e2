"""Reduction passes that make arrays, windows and paddings smaller.

A size is replaced in all instructions that share it, and the shapes of the other instructions are inferred again.
Responsible for sizes in shapes and attributes. Does not depend on what an op computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges, Window, WindowDimension
from xlapy.opcodes.control import ASYNC_START, CALL, CONDITIONAL, FUSION, WHILE
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.sources import CONSTANT, ConstantAttributes

_SIZES_OF_OPERANDS = ("dynamic_slice_sizes", "slice_sizes", "fft_length")


# -- sizes


def _sizes(shape: Shape) -> set[int]:
    return {size for _, leaf in shape.leaves() if leaf.is_array for size in leaf.dimensions}


def _possible_sharers(instruction: Instruction) -> list[Instruction]:
    """Returns the instructions that may share a size with an instruction: operands, users, and parameters and roots of
    callees.
    """
    found = [*instruction.operands, *instruction.users]
    for called in instruction.computations:
        found += [*called.parameters, called.root_instruction]
    computation = instruction.parent
    if computation is not None and (is_parameter(instruction) or instruction.is_root):
        found += computation.callers
    return found


def _instructions_sharing_size(start: Instruction, size: int) -> list[Instruction]:
    """Returns the instructions connected to `start` through instructions that have the size."""
    found = {start: None}
    waiting = [start]
    while waiting:
        for other in _possible_sharers(waiting.pop()):
            if other not in found and size in _sizes(other.shape):
                found[other] = None
                waiting.append(other)
    return list(found)


def _smaller_sizes(module: Module) -> list[tuple[list[Instruction], int, int]]:
    """Returns each connected set of instructions with a size and a smaller size to try: 1, half, and one less."""
    changes: list[tuple[list[Instruction], int, int]] = []
    done: set[tuple[Instruction, int]] = set()
    for instruction in module.instructions():
        for size in sorted(_sizes(instruction.shape), reverse=True):
            if size < 2 or (instruction, size) in done:
                continue
            sharers = _instructions_sharing_size(instruction, size)
            done |= {(member, size) for member in sharers}
            changes += [(sharers, size, new) for new in dict.fromkeys((1, size // 2, size - 1)) if new < size]
    return changes


def _shrink(module: Module, numbers: Sequence[int]) -> None:
    changes = _smaller_sizes(module)
    for sharers, old, new in [changes[number] for number in numbers]:
        for instruction in sharers:
            _resize(instruction, old, new)
    infer_shapes_again(module)


def _resize(instruction: Instruction, old: int, new: int) -> None:
    shape = _resized(instruction.shape, old, new)
    if instruction.op is CONSTANT:
        literal = instruction.literal
        instruction.attributes = ConstantAttributes.make(literal=_cropped(literal, shape))
    else:
        instruction.attributes = _resized_attributes(instruction, old, new)
    edit.set_shape(instruction, shape)


def _resized(shape: Shape, old: int, new: int) -> Shape:
    if shape.is_tuple:
        return Shape.tuple([_resized(part, old, new) for part in shape.tuple_shapes])
    if not shape.is_array:
        return shape
    return shape.with_dimensions([new if size == old else size for size in shape.dimensions])


def _cropped(literal: Literal, shape: Shape) -> Literal:
    if shape.is_tuple:
        return literal
    return Literal.array_of(np.ascontiguousarray(literal.array[tuple(slice(size) for size in shape.dimensions)]), shape)


def _resized_attributes(instruction: Instruction, old: int, new: int) -> Attributes:
    attributes = instruction.attributes
    for name in _SIZES_OF_OPERANDS:
        if hasattr(attributes, name):
            sizes = tuple(new if size == old else size for size in getattr(attributes, name))
            attributes = attributes.replace(**{name: sizes})
    if isinstance(attributes, ConvolutionAttributes):  # the window has the sizes of the kernel
        entries = (replace(d, size=new) if d.size == old else d for d in attributes.window.dimensions)
        attributes = attributes.replace(window=Window(tuple(entries)))
    ranges = getattr(attributes, "ranges", None)
    if isinstance(ranges, SliceRanges):
        starts, limits = (
            tuple(min(bound, new) if bound > new else bound for bound in b) for b in (ranges.starts, ranges.limits)
        )
        attributes = attributes.replace(ranges=SliceRanges(starts, limits, ranges.strides))
    return attributes


# -- windows and paddings


_Dimension = WindowDimension | PaddingDimension


def _non_default_fields(module: Module) -> list[tuple[Instruction, str, int, str]]:
    """Returns the fields of windows and paddings that differ from their default: instruction, attribute, dimension,
    field.
    """
    found: list[tuple[Instruction, str, int, str]] = []
    for instruction in module.instructions():
        for name, kind, defaults in _DEFAULTS_BY_ATTRIBUTE:
            value = getattr(instruction.attributes, name, None)
            if isinstance(value, kind):
                dimensions: Sequence[_Dimension] = value.dimensions
                found += [
                    (instruction, name, number, field)
                    for number, dimension in enumerate(dimensions)
                    for field, default in defaults.items()
                    if getattr(dimension, field) != default
                ]
    return found


_DEFAULTS_BY_ATTRIBUTE: tuple[tuple[str, type[Window] | type[PaddingConfig], dict[str, int]], ...] = (
    (
        "window",
        Window,
        {
            "stride": 1,
            "padding_low": 0,
            "padding_high": 0,
            "base_dilation": 1,
            "window_dilation": 1,
            "window_reversal": 0,
            "size": 1,
        },
    ),
    ("padding", PaddingConfig, {"low": 0, "high": 0, "interior": 0}),
)
_DEFAULTS = {name: defaults for name, _, defaults in _DEFAULTS_BY_ATTRIBUTE}


def _reset_fields(module: Module, numbers: Sequence[int]) -> None:
    fields = _non_default_fields(module)
    for instruction, name, number, field in [fields[i] for i in numbers]:
        value = getattr(instruction.attributes, name)
        dimensions = list(value.dimensions)
        default = type(getattr(dimensions[number], field))(_DEFAULTS[name][field])
        dimensions[number] = replace(dimensions[number], **{field: default})
        instruction.attributes = instruction.attributes.replace(**{name: type(value)(tuple(dimensions))})
    infer_shapes_again(module)


# -- inference


def infer_shapes_again(module: Module) -> None:
    """Infers the shapes of all instructions again, and of the parameters of called computations."""
    _infer_shapes(module.entry_computation)


def _infer_shapes(computation: Computation) -> None:
    for instruction in post_order(computation):
        for called, shapes in _callee_operand_shapes(instruction):
            for parameter, shape in zip(called.parameters, shapes, strict=False):
                edit.set_shape(parameter, shape)
        for called in instruction.computations:
            _infer_shapes(called)
        if instruction.op.infer is None or is_parameter(instruction):
            continue
        programs = [called.program_shape for called in instruction.computations]
        shape = instruction.op.result_shape(instruction.operand_shapes, instruction.attributes, programs)
        if not shape.compatible(instruction.shape) and _can_replace_declared(shape, instruction.shape):
            edit.set_shape(instruction, shape)


def _callee_operand_shapes(instruction: Instruction) -> list[tuple[Computation, Sequence[Shape]]]:
    """Returns the called computations with the shapes of the operands that they receive unchanged."""
    shapes, called = instruction.operand_shapes, instruction.computations
    if instruction.op in (CALL, FUSION, ASYNC_START):
        return [(called[0], shapes)]
    if instruction.op is WHILE:
        return [(computation, shapes) for computation in called]
    if instruction.op is CONDITIONAL:
        return [(computation, [shape]) for computation, shape in zip(called, shapes[1:], strict=False)]
    return []


def _can_replace_declared(inferred: Shape, declared: Shape) -> bool:
    """Whether the inferred shape can replace the declared one. If their element types differ, as they may for a dot,
    the declared shape stays.
    """
    return inferred.is_tuple or inferred.element_type is declared.element_type


PASSES = (
    ReductionPass("windows", lambda module: len(_non_default_fields(module)), _reset_fields),
    ReductionPass("sizes", lambda module: len(_smaller_sizes(module)), _shrink),
)
