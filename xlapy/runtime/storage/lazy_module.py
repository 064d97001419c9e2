"""Modules of precompiled programs, which are parsed on demand.

Responsible for when such a module is read, and for its description that is available before. Does not depend on
programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.errors import XlaError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module


@dataclass(slots=True)
class LazyModule:
    """A module that is read on first access, with the name and program shape that are known before."""

    name: str
    program_shape: ProgramShape
    read: Callable[[], Module]
    _read_once: SingleFlight[[], Module] = field(init=False)

    def __post_init__(self) -> None:
        self._read_once = SingleFlight(self.read)

    @property
    def module(self) -> Module:
        return self._read_once()


def describe_module(module: Module) -> dict[str, Any]:
    """Describes a module as JSON, for `lazy_module_from`."""
    return {"name": module.name, **describe_shape(module.entry_computation.program_shape)}


def describe_shape(program: ProgramShape) -> dict[str, Any]:
    """Describes a program shape as JSON, for `shape_from`."""
    parameters = [shape.to_text(layout=True) for shape in program.parameters]
    return {
        "parameters": [list(pair) for pair in zip(program.parameter_names, parameters, strict=True)],
        "result": program.result.to_text(layout=True),
    }


def lazy_module_from(description: Mapping[str, Any], read: Callable[[], Module]) -> LazyModule:
    """The inverse of `describe_module`. `ValueError`, `KeyError` or `TypeError` for malformed descriptions."""
    return LazyModule(str(description["name"]), shape_from(description), read)


def shape_from(description: Mapping[str, Any]) -> ProgramShape:
    """The inverse of `describe_shape`. `ValueError`, `KeyError` or `TypeError` for malformed descriptions."""
    try:
        names = [str(name) for name, _ in description["parameters"]]
        parameters = [Shape.parse(text) for _, text in description["parameters"]]
        return ProgramShape(parameters, Shape.parse(description["result"]), names)
    except XlaError as error:
        raise ValueError(error.message) from error
