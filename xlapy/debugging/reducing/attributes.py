"""Passes that drop what does not change a program's meaning, and attributes that have a default.

Owns: which annotations there are. Must not know: what an attribute means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from xlapy.base.shape import Shape
from xlapy.debugging.reducing.proposals import Proposals
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ModuleConfig
from xlapy.opcodes.attributes.codecs import Field

_TEXTS = ("backend_config", "original_value", "statistics", "result_accuracy")


# -- the header


def _settings(module: Module) -> list[str]:
    """Names of what the header sets but the signature."""
    plain = ModuleConfig()
    names = [f.name for f in fields(ModuleConfig) if f.name != "entry_computation_layout"]
    given = [name for name in names if getattr(module.config, name) != getattr(plain, name)]
    return [*given, *(["stack_frames"] if module.stack_frames is not None else [])]


def _unset(module: Module, numbers: Sequence[int]) -> None:
    names = _settings(module)
    for number in numbers:
        target: Any = module if names[number] == "stack_frames" else module.config
        plain = None if names[number] == "stack_frames" else getattr(ModuleConfig(), names[number])
        setattr(target, names[number], plain)


# -- annotations of instructions


def _annotated(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if _has_annotations(i)]


def _has_annotations(instruction: Instruction) -> bool:
    named = (instruction.metadata, instruction.sharding, instruction.frontend_attributes)
    texts = [getattr(instruction, name) for name in _TEXTS]
    return any(value is not None for value in named) or any(texts) or bool(instruction.control_predecessors)


def _strip(module: Module, numbers: Sequence[int]) -> None:
    annotated = _annotated(module)
    for number in numbers:
        instruction = annotated[number]
        instruction.metadata = instruction.sharding = instruction.frontend_attributes = None
        for name in _TEXTS:
            setattr(instruction, name, "")
        edit.remove_control_edges(instruction)


# -- attributes


def _given(module: Module) -> list[tuple[Instruction, Field]]:
    """Attributes that differ from their default."""
    return [
        (instruction, f)
        for instruction in module.instructions()
        for f in instruction.attributes.fields
        if not f.required and getattr(instruction.attributes, f.name) != f.default
    ]


def _reset(module: Module, numbers: Sequence[int]) -> None:
    given = _given(module)
    for number in numbers:
        instruction, f = given[number]
        instruction.attributes = instruction.attributes.replace(**{f.name: f.default})


# -- layouts


def _laid_out(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if i.shape != _plain(i.shape)]


def _plain(shape: Shape) -> Shape:
    return shape.with_default_layout()


def _relayout(module: Module, numbers: Sequence[int]) -> None:
    laid_out = _laid_out(module)
    for number in numbers:
        edit.set_shape(laid_out[number], _plain(laid_out[number].shape))


PASSES = (
    Proposals("header", lambda module: len(_settings(module)), _unset),
    Proposals("annotations", lambda module: len(_annotated(module)), _strip),
    Proposals("attributes", lambda module: len(_given(module)), _reset),
    Proposals("layouts", lambda module: len(_laid_out(module)), _relayout),
)
