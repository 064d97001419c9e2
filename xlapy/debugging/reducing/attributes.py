"""Reduction passes that drop annotations, and reset the module's configuration, attributes and layouts to their
defaults.

Responsible for the list of annotations. Does not depend on the meaning of attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from xlapy.base.shape import Shape
from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ModuleConfig
from xlapy.opcodes.attributes.codecs import Field

_TEXT_ANNOTATIONS = ("backend_config", "original_value", "statistics", "result_accuracy")


# -- the header


def _non_default_settings(module: Module) -> list[str]:
    """Returns the names of the header's fields that differ from their defaults, except the signature."""
    default = ModuleConfig()
    names = [f.name for f in fields(ModuleConfig) if f.name != "entry_computation_layout"]
    found = [name for name in names if getattr(module.config, name) != getattr(default, name)]
    return [*found, *(["stack_frames"] if module.stack_frames is not None else [])]


def _reset_settings(module: Module, numbers: Sequence[int]) -> None:
    names = _non_default_settings(module)
    for number in numbers:
        target: Any = module if names[number] == "stack_frames" else module.config
        default = None if names[number] == "stack_frames" else getattr(ModuleConfig(), names[number])
        setattr(target, names[number], default)


# -- annotations of instructions


def _annotated(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if _has_annotations(i)]


def _has_annotations(instruction: Instruction) -> bool:
    named = (instruction.metadata, instruction.sharding, instruction.frontend_attributes)
    texts = [getattr(instruction, name) for name in _TEXT_ANNOTATIONS]
    return any(value is not None for value in named) or any(texts) or bool(instruction.control_predecessors)


def _remove_annotations(module: Module, numbers: Sequence[int]) -> None:
    annotated = _annotated(module)
    for number in numbers:
        instruction = annotated[number]
        instruction.metadata = instruction.sharding = instruction.frontend_attributes = None
        for name in _TEXT_ANNOTATIONS:
            setattr(instruction, name, "")
        edit.remove_control_edges(instruction)


# -- attributes


def _non_default_attributes(module: Module) -> list[tuple[Instruction, Field]]:
    """Returns the attributes that differ from their defaults."""
    return [
        (instruction, f)
        for instruction in module.instructions()
        for f in instruction.attributes.fields
        if not f.required and getattr(instruction.attributes, f.name) != f.default
    ]


def _reset_attributes(module: Module, numbers: Sequence[int]) -> None:
    found = _non_default_attributes(module)
    for number in numbers:
        instruction, f = found[number]
        instruction.attributes = instruction.attributes.replace(**{f.name: f.default})


# -- layouts


def _with_other_layout(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if i.shape != _with_default_layout(i.shape)]


def _with_default_layout(shape: Shape) -> Shape:
    return shape.with_default_layout()


def _reset_layouts(module: Module, numbers: Sequence[int]) -> None:
    instructions = _with_other_layout(module)
    for number in numbers:
        edit.set_shape(instructions[number], _with_default_layout(instructions[number].shape))


PASSES = (
    ReductionPass("header", lambda module: len(_non_default_settings(module)), _reset_settings),
    ReductionPass("annotations", lambda module: len(_annotated(module)), _remove_annotations),
    ReductionPass("attributes", lambda module: len(_non_default_attributes(module)), _reset_attributes),
    ReductionPass("layouts", lambda module: len(_with_other_layout(module)), _reset_layouts),
)
