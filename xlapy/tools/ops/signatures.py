"""Signatures of functions as pages show them: without types and self, with defaults as in source code.

Responsible for this form. Does not depend on which functions a page lists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, get_overloads


def signatures_of(name: str, function: Callable[..., Any], separator: str) -> str:
    """Returns the signatures of a function, in backquotes: one, or one per overload."""
    forms = get_overloads(function) or [function]
    return separator.join(f"`{name}{_signature(form)}`" for form in forms)


def _signature(function: Callable[..., Any]) -> str:
    """Returns a signature without types and self: `(lhs, rhs, broadcast_dimensions=())`."""
    given = inspect.signature(function).parameters.values()
    bare = [p.replace(annotation=p.empty, default=_Default.of(p.default)) for p in given if p.name != "self"]
    return str(inspect.Signature(bare))


class _Default(str):
    """A default value, printed as in source code."""

    __slots__ = ()

    @staticmethod
    def of(value: object) -> object:
        if value is inspect.Parameter.empty:
            return value
        return _Default(f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value))

    def __repr__(self) -> str:
        return str(self)
