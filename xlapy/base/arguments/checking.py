"""Decorators that turn Python's errors about wrong arguments into errors that name the argument.

A call with right arguments costs one `try` more. Only if the function raises one of Python's own errors are the
arguments compared with the annotations: if one does not match, `ArgumentTypeError` says which, what it takes and what
was given. An error with matching arguments is a fault of xlapy and stays what it is. Functions that store their
arguments compare them before each call.

Does not depend on what the functions do.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

from xlapy.base.arguments.expected_types import (
    Mismatch,
    find_array,
    find_mismatch,
    find_unordered,
    given_text,
    hints_of,
    plain_types,
    scalar_alternatives,
)
from xlapy.base.error_codes.building import python_calls as codes
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.errors import ArgumentTypeError, XlaError

P = ParamSpec("P")
R = TypeVar("R")
MakeError: TypeAlias = Callable[[ErrorCode, str], ArgumentTypeError]
Probe: TypeAlias = Callable[[Callable[..., Any], Any, Any, Any], None]
"""Calls a function with its arguments, a tuple and a dictionary, among which the last value has a wrong type."""
Find: TypeAlias = Callable[[Any, Any], Mismatch | None]
"""Compares a value with an evaluated annotation, as `find_mismatch` does."""
C = TypeVar("C", bound=type)

_RAW = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python and NumPy raise for wrong arguments. `ArgumentTypeError` of an inner call is among them: the arguments of
the outermost call are those that the user gave."""
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SPECIAL_METHODS = frozenset({"__init__", "__getitem__", "__contains__", "__array__"})


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function with errors that name the argument, if it raises an error."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except _RAW as error:
            explained = _explanation(function, args, kwargs)
            if explained is None:
                raise
            raise ArgumentTypeError(*explained) from error

    return checked


def _call(function: Callable[..., Any], args: Any, kwargs: Any, wrong: Any) -> None:
    function(*args, **kwargs)


def eager_arguments(
    function: Callable[P, R],
    make_error: MakeError = ArgumentTypeError,
    probe: Probe = _call,
    find: Find = find_mismatch,
) -> Callable[P, R]:
    """Returns a function that compares its arguments with the annotations at each call.

    For functions that store their arguments: a wrong one would show much later. An error that the function itself
    raises as one of xlapy says more and takes precedence.

    make_error: makes the error of a code and a message. probe: calls the function for its own error. find: compares a
    value that is not of a scalar type of its annotation.
    """
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return _overloaded(function, make_error)
    names = [name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in _NAMED]
    annotations = function.__annotations__
    scalars = {name: scalar_alternatives(annotations[name]) for name in names if name in annotations}
    accepted: dict[str, tuple[tuple[type, ...], Any]] = {}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name not in scalars or type(value) in scalars[name]:
                continue
            if not accepted:
                hints = hints_of(function)
                accepted.update((name, (plain_types(hints.get(name, Any)), hints.get(name, Any))) for name in scalars)
            types, hint = accepted[name]
            if not isinstance(value, types):
                found = find(value, hint)
                if found is not None:
                    error = make_error(codes.ARGUMENT_TYPE, _message(_name_of(function), name, found))
                    try:
                        probe(function, args, kwargs, found.value)
                    except _RAW as cause:
                        if isinstance(cause, XlaError):
                            raise
                        raise error from cause
                    raise error
        try:
            return function(*args, **kwargs)
        except _RAW as error:
            explained = None if isinstance(error, XlaError) else _explanation(function, args, kwargs)
            if explained is None:
                raise
            raise make_error(*explained) from error

    return checked


def _overloaded(function: Callable[P, R], make_error: MakeError) -> Callable[P, R]:
    """Returns a function that takes several forms of arguments, with errors for arguments that fit none of them."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except _RAW as error:
            if isinstance(error, XlaError):
                raise
            forms = [str(inspect.signature(form)) for form in typing.get_overloads(function)]
            message = f"{_name_of(function)}: the arguments fit none of its forms {', '.join(forms)}: {error}"
            raise make_error(codes.CALL_SIGNATURE, message) from error

    return checked


def checked_class(cls: C) -> C:
    """Decorates the public methods of a class, static ones and operators included, with `checked_arguments`.

    The fields of a dataclass are compared with their annotations whenever an object is made.
    """
    return _with_checks(cls, checked_arguments)


def eager_class(cls: C) -> C:
    """Decorates the public methods of a class with `eager_arguments`; otherwise like `checked_class`."""
    return _with_checks(cls, eager_arguments)


def _with_checks(cls: C, check: Callable[[Any], Any]) -> C:
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and not _takes_values_of_users(name, cls, member):
            continue
        if isinstance(member, staticmethod):
            setattr(cls, name, staticmethod(check(member.__func__)))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(check(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, check(member))
    if is_dataclass(cls):
        _check_fields(cls)
    return cls


def _takes_values_of_users(name: str, cls: type, member: Any) -> bool:
    """Whether a special method takes values of the user: `__init__`, `__getitem__`, `__add__` and the like."""
    if name in _SPECIAL_METHODS:
        return name != "__init__" or not is_dataclass(cls)
    is_operator = inspect.isfunction(member) and member.__code__.co_varnames[1:2] == ("other",)
    return is_operator and name not in ("__eq__", "__ne__")


def _check_fields(cls: Any) -> None:
    """Makes `__init__` of a dataclass compare each field with its annotation."""
    make: Callable[..., None] = cls.__init__
    names = tuple(cls.__dataclass_fields__)

    @functools.wraps(make)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except _RAW as error:
            explained = _explanation(make, (self, *args), kwargs, hints_of(cls))
            if explained is None:
                raise
            raise ArgumentTypeError(*explained) from error
        hints = hints_of(cls)
        for name in names:
            found = find_mismatch(getattr(self, name), hints.get(name, Any))
            if found is not None:
                raise ArgumentTypeError(codes.ARGUMENT_TYPE, _message(cls.__name__, name, found))

    cls.__init__ = checked


def _explanation(
    function: Any, args: Any, kwargs: Any, hints: dict[str, Any] | None = None
) -> tuple[ErrorCode, str] | None:
    """Returns the code and the message about the first argument of a call that its annotation does not accept, or about
    parameters that do not exist or are missing; None if there is none.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        return codes.CALL_SIGNATURE, f"{_name_of(function)}: {error}; its parameters are {_parameters(signature)}"
    hints = hints_of(function) if hints is None else hints
    given = [pair for name, value in bound.arguments.items() for pair in _values(signature.parameters[name], value)]
    for find in (find_mismatch, find_array, find_unordered):
        for name, shown, value in given:
            found = find(value, hints.get(name, Any))
            if found is not None:
                return codes.ARGUMENT_TYPE, _message(_name_of(function), shown, found)
    return None


def _parameters(signature: inspect.Signature) -> str:
    return ", ".join(name for name in signature.parameters if name != "self") or "none"


def _values(parameter: inspect.Parameter, value: Any) -> list[tuple[str, str, Any]]:
    """Returns the values of a parameter: its name, the name of the value in messages, and the value."""
    name = parameter.name
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return [(name, f"{name}[{i}]", one) for i, one in enumerate(value)]
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return [(name, shown, one) for shown, one in value.items()]
    return [(name, name, value)]


def _name_of(function: Any) -> str:
    name = cast(str, function.__qualname__)
    return name.removesuffix(".__init__")


def _message(function: str, argument: str, found: Any) -> str:
    return f"{function}: {argument}{found.path} must be {found.expected}, given {given_text(found.value)}"
