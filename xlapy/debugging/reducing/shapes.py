"""Passes that make arrays smaller: a size is replaced wherever values of it flow, and what follows is inferred again.

Owns: sizes in shapes and attributes, and the shapes that ops infer from them. Must not know: what an op computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.debugging.reducing.proposals import Proposals
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


def _neighbours(instruction: Instruction) -> list[Instruction]:
    """Instructions that share a size with one: operands and users, and what stands for them in computations."""
    found = [*instruction.operands, *instruction.users]
    for called in instruction.computations:
        found += [*called.parameters, called.root_instruction]
    computation = instruction.parent
    if computation is not None and (is_parameter(instruction) or instruction.is_root):
        found += computation.callers
    return found


def _flow(start: Instruction, size: int) -> list[Instruction]:
    """The instructions that a size flows through, from one that has it."""
    found = {start: None}
    waiting = [start]
    while waiting:
        for other in _neighbours(waiting.pop()):
            if other not in found and size in _sizes(other.shape):
                found[other] = None
                waiting.append(other)
    return list(found)


def _smaller(module: Module) -> list[tuple[list[Instruction], int, int]]:
    """Every flow of a size with a smaller size to try: 1 first, then half, then one less."""
    proposals: list[tuple[list[Instruction], int, int]] = []
    done: set[tuple[Instruction, int]] = set()
    for instruction in module.instructions():
        for size in sorted(_sizes(instruction.shape), reverse=True):
            if size < 2 or (instruction, size) in done:
                continue
            flow = _flow(instruction, size)
            done |= {(member, size) for member in flow}
            proposals += [(flow, size, new) for new in dict.fromkeys((1, size // 2, size - 1)) if new < size]
    return proposals


def _shrink(module: Module, numbers: Sequence[int]) -> None:
    proposals = _smaller(module)
    for flow, old, new in [proposals[number] for number in numbers]:
        for instruction in flow:
            _resize(instruction, old, new)
    infer_again(module)


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


_Part = WindowDimension | PaddingDimension


def _parts(module: Module) -> list[tuple[Instruction, str, int, str]]:
    """Numbers of windows and paddings that differ from their default: instruction, attribute, dimension, field."""
    found: list[tuple[Instruction, str, int, str]] = []
    for instruction in module.instructions():
        for name, kind, plain in _FORMS:
            value = getattr(instruction.attributes, name, None)
            if isinstance(value, kind):
                dimensions: Sequence[_Part] = value.dimensions
                found += [
                    (instruction, name, number, key)
                    for number, dimension in enumerate(dimensions)
                    for key, default in plain.items()
                    if getattr(dimension, key) != default
                ]
    return found


_FORMS: tuple[tuple[str, type[Window] | type[PaddingConfig], dict[str, int]], ...] = (
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
_PLAIN = {name: plain for name, _, plain in _FORMS}


def _simplify_parts(module: Module, numbers: Sequence[int]) -> None:
    parts = _parts(module)
    for instruction, name, number, key in [parts[i] for i in numbers]:
        value = getattr(instruction.attributes, name)
        dimensions = list(value.dimensions)
        plain = type(getattr(dimensions[number], key))(_PLAIN[name][key])
        dimensions[number] = replace(dimensions[number], **{key: plain})
        instruction.attributes = instruction.attributes.replace(**{name: type(value)(tuple(dimensions))})
    infer_again(module)


# -- inference


def infer_again(module: Module) -> None:
    """Gives every instruction whose op infers its shape that shape, and parameters of called computations theirs."""
    _infer(module.entry_computation)


def _infer(computation: Computation) -> None:
    for instruction in post_order(computation):
        for called, shapes in _passed(instruction):
            for parameter, shape in zip(called.parameters, shapes, strict=False):
                edit.set_shape(parameter, shape)
        for called in instruction.computations:
            _infer(called)
        if instruction.op.infer is None or is_parameter(instruction):
            continue
        programs = [called.program_shape for called in instruction.computations]
        shape = instruction.op.result_shape(instruction.operand_shapes, instruction.attributes, programs)
        if not shape.compatible(instruction.shape) and _same_kind(shape, instruction.shape):
            edit.set_shape(instruction, shape)


def _passed(instruction: Instruction) -> list[tuple[Computation, Sequence[Shape]]]:
    """Called computations with the shapes of what is passed to them whole."""
    shapes, called = instruction.operand_shapes, instruction.computations
    if instruction.op in (CALL, FUSION, ASYNC_START):
        return [(called[0], shapes)]
    if instruction.op is WHILE:
        return [(computation, shapes) for computation in called]
    if instruction.op is CONDITIONAL:
        return [(computation, [shape]) for computation, shape in zip(called, shapes[1:], strict=False)]
    return []


def _same_kind(inferred: Shape, declared: Shape) -> bool:
    """Where an op's element type may be declared (a dot), the declared one stays: the verifier compares the rest."""
    return inferred.is_tuple or inferred.element_type is declared.element_type


PASSES = (
    Proposals("windows", lambda module: len(_parts(module)), _simplify_parts),
    Proposals("sizes", lambda module: len(_smaller(module)), _shrink),
)
