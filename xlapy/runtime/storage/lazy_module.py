"""Modules of programs that were compiled before: to run one, nobody needs to read them.

Owns: when such a module is read, the description that comes before it. Must not know: programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlapy.base.errors import XlaError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module


@dataclass(slots=True)
class Unread:
    """A module that is read when it is first asked for, and what is known of it before."""

    name: str
    program_shape: ProgramShape
    read: Callable[[], Module]
    _module: Module | None = field(default=None, init=False)

    @property
    def module(self) -> Module:
        if self._module is None:
            self._module = self.read()
        return self._module


def describe(module: Module) -> dict[str, Any]:
    """What is known of a module before it is read, as JSON can say it."""
    shape = module.entry_computation.program_shape
    parameters = [shape.to_text(layout=True) for shape in shape.parameters]
    return {
        "name": module.name,
        "parameters": [list(pair) for pair in zip(shape.parameter_names, parameters, strict=True)],
        "result": shape.result.to_text(layout=True),
    }


def described(description: Mapping[str, Any], read: Callable[[], Module]) -> Unread:
    """The inverse of `describe`; `ValueError`, `KeyError` or `TypeError` for what is no description."""
    try:
        names = [str(name) for name, _ in description["parameters"]]
        parameters = [Shape.parse(text) for _, text in description["parameters"]]
        shape = ProgramShape(parameters, Shape.parse(description["result"]), names)
    except XlaError as error:
        raise ValueError(str(error)) from error
    return Unread(str(description["name"]), shape, read)
