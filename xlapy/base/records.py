"""`dataclass` as in the standard library, but quick to decorate: a process begins with hundreds.

The standard library compiles six functions for a frozen class. Here classes share them, but for `__init__`, which is
compiled when the first instance is made. All else (fields, `replace`, `asdict`, slots, matching) is the standard
library's.

Owns: the methods of dataclasses. Must not know: any class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _dataclass(
    cls: type | None = None, *, eq: bool = True, frozen: bool = False, slots: bool = False, kw_only: bool = False
) -> Any:
    """The decorator; the options mean what they mean in the standard library."""
    if cls is None:
        return lambda cls: _dataclass(cls, eq=eq, frozen=frozen, slots=slots, kw_only=kw_only)
    own = {name for name, value in vars(cls).items() if name != "__hash__" or value is not None}
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    methods = {"__init__": _first_init(made, frozen), "__repr__": _repr}
    if eq:
        methods |= _comparing(made, frozen)
    if frozen:
        methods |= _FROZEN
    if frozen and slots:
        methods |= _SLOTTED_STATE
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


# -- __init__


def _first_init(cls: Any, frozen: bool) -> Callable[..., None]:
    """Gives the class its `__init__` when that is called for the first time."""

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        compiled = _compiled_init(cls, frozen)
        cls.__init__ = compiled
        compiled(self, *arguments, **named)

    return init


def _compiled_init(cls: Any, frozen: bool) -> Callable[..., None]:
    """`__init__` with the fields as parameters, which it assigns in order."""
    fields = dataclasses.fields(cls)
    scope: dict[str, Any] = {"_set": object.__setattr__, "_absent": _ABSENT}
    assign = "_set(self, {0!r}, {1})" if frozen else "self.{0} = {1}"
    body = [assign.format(field.name, _value(field, scope)) for field in fields if field.init or _given(field)]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = [_parameter(field, scope) for field in fields if field.init and not field.kw_only]
    named = [_parameter(field, scope) for field in fields if field.init and field.kw_only]
    signature = ", ".join(["self", *parameters, *(["*", *named] if named else [])])
    exec(f"def __init__({signature}):\n " + "\n ".join(body or ["pass"]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


_ABSENT = object()
"""The default of what a factory makes."""


def _given(field: dataclasses.Field[Any]) -> bool:
    """Whether the class says what the value is where the call does not."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _parameter(field: dataclasses.Field[Any], scope: dict[str, Any]) -> str:
    if not _given(field):
        return field.name
    made = field.default_factory is not dataclasses.MISSING
    scope[f"_default_{field.name}"] = _ABSENT if made else field.default
    return f"{field.name}=_default_{field.name}"


def _value(field: dataclasses.Field[Any], scope: dict[str, Any]) -> str:
    """The expression for the value of a field; what a factory makes is made by every call."""
    if field.default_factory is not dataclasses.MISSING:
        scope[f"_make_{field.name}"] = field.default_factory
        made = f"_make_{field.name}()"
        return f"{made} if {field.name} is _absent else {field.name}" if field.init else made
    if field.init:
        return field.name
    scope[f"_default_{field.name}"] = field.default
    return f"_default_{field.name}"


# -- what classes share


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparing(cls: Any, frozen: bool) -> dict[str, Any]:
    """Comparison and hash by the values of the fields; what may change has no hash."""
    values = _getter([field.name for field in dataclasses.fields(cls) if field.compare])

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def _refuse_assignment(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN = {"__setattr__": _refuse_assignment, "__delattr__": _refuse_assignment}
_SLOTTED_STATE = {"__getstate__": _state, "__setstate__": _set_state}
