"""Class decorators that say what `copy`, `deepcopy` and `pickle` do with objects that hold more than their values.

A plain copy of such an object would share memory, locks or code with the original, or fail in one of its fields with an
error about that field. Does not depend on the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from xlapy.base.error_codes.building import python_calls as codes
from xlapy.base.errors import ArgumentTypeError

C = TypeVar("C", bound=type)


def copied_by_reference(pickling: str) -> Callable[[C], C]:
    """A copy is the object itself, as of a function or a module. pickling: why it has no pickle, and what does."""

    def decorate(cls: C) -> C:
        _define(cls, "__copy__", lambda self: self)
        _define(cls, "__deepcopy__", lambda self, memo: self)
        _define(cls, "__reduce_ex__", _refusal("pickled", pickling))
        return cls

    return decorate


def not_copied(reason: str) -> Callable[[C], C]:
    """Copies and pickles are refused. reason: why, and what to do instead."""

    def decorate(cls: C) -> C:
        for name in ("__copy__", "__deepcopy__"):
            _define(cls, name, _refusal("copied", reason))
        _define(cls, "__reduce_ex__", _refusal("pickled", reason))
        return cls

    return decorate


def _define(cls: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(cls, name, function)


def _refusal(what: str, reason: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *arguments: Any) -> NoReturn:
        raise ArgumentTypeError(codes.OBJECT_COPY, f"{type(self).__name__} objects cannot be {what}: {reason}")

    return refuse
