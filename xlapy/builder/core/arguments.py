"""Checks the Python types of the arguments of builder functions.

Responsible for the errors about wrong types, and for a builder that a refused call leaves as it was. Does not depend on
what the functions append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, get_args

from xlapy.base.arguments.checking import eager_arguments
from xlapy.base.arguments.expected_types import Mismatch, expected_text, find_mismatch
from xlapy.base.error_codes.building import python_calls as codes
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.errors import BuilderError, BuilderTypeError, InvalidArgumentError, ShapeError
from xlapy.builder.core.builder import XlaBuilder, as_builder_error
from xlapy.builder.core.op import XlaOp
from xlapy.builder.core.source import located

P = ParamSpec("P")
R = TypeVar("R")


def builder_function(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a builder function with errors that name the argument of a wrong type and the caller's line.

    A call that fails leaves the builder as it was.
    """
    takes_sequence = any(f"[{XlaOp.__name__}" in str(annotation) for annotation in function.__annotations__.values())
    return eager_arguments(_atomic(function) if takes_sequence else function, _error, _probe, _find)


def _atomic(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a function whose failed calls append nothing. An XlaOp given for a sequence of XlaOps appends slices."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        undo = _undo_later(args, kwargs)
        try:
            return function(*args, **kwargs)
        except BaseException:
            undo()
            raise

    return call


def _undo_later(args: Any, kwargs: Any) -> Callable[[], None]:
    """Returns a function that makes the builders of the arguments as they are now."""
    builders = {id(found): found for found in _builders((*args, *kwargs.values()))}
    restores = [partial(builder._undo, *builder._position()) for builder in builders.values()]

    def undo() -> None:
        for restore in restores:
            restore()

    return undo


def _error(code: ErrorCode, message: str) -> BuilderTypeError:
    return BuilderTypeError(code, located(message))


def _find(value: Any, hint: Any) -> Mismatch | None:
    """Compares as `find_mismatch`; an XlaOp, which iterates over its slices, is no sequence of other values."""
    if isinstance(value, XlaOp) and not _takes_ops(hint):
        return Mismatch("", expected_text(hint), value)
    return find_mismatch(value, hint)


def _takes_ops(hint: Any) -> bool:
    return hint in (XlaOp, Any, object) or any(map(_takes_ops, get_args(hint)))


def _probe(function: Callable[..., Any], args: Any, kwargs: Any, wrong: Any) -> None:
    """Raises the error of a function itself for an argument of a wrong type, and removes what the call appended.

    An XlaOp in place of a value is not tried: its comparisons append ops, and their errors are not about the argument.
    """
    if isinstance(wrong, XlaOp):
        return
    undo = _undo_later(args, kwargs)
    try:
        function(*args, **kwargs)
    except (ShapeError, InvalidArgumentError) as error:
        if isinstance(error, BuilderError):
            raise
        # The types of arguments of an inner function say less than those of the function that the user called.
        if error.code not in (codes.ARGUMENT_TYPE, codes.CALL_SIGNATURE):
            raise as_builder_error(function.__name__, error) from None
    finally:
        undo()


def _builders(values: Any) -> Iterator[XlaBuilder]:
    for value in values:
        if isinstance(value, XlaBuilder):
            yield value
        elif isinstance(value, XlaOp):
            yield value.builder
        elif isinstance(value, list | tuple):
            yield from _builders(value)
