"""Compares values with type annotations, and says in words what an annotation accepts.

Lenient where Python is: any integer-like value is an int, any real number a float, any sequence or array a tuple or
list. What an annotation does not decide (protocols, type variables, iterators) is accepted. Does not depend on what
the values are for.
"""

from __future__ import annotations

import builtins
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import chain, islice, repeat
from operator import index
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

_MAX_SHOWN_CHARACTERS = 60
_MAX_CHECKED_ELEMENTS = 1000
"""Elements of a sequence that are compared; a wrong one after them shows as another error."""
_SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool, np.bool_), "a bool"),
    int: ((int, np.integer), "an integer"),
    float: ((int, float, np.integer, np.floating, np.bool_), "a number"),
    complex: ((int, float, complex, np.number, np.bool_), "a number"),
    str: ((str,), "a string"),
    bytes: ((bytes, bytearray, memoryview), "bytes"),
}
_UNIONS = (Union, types.UnionType)
_ORDERED = (tuple, list, Sequence)
_SEQUENCES = (*_ORDERED, Iterable, Set, set, frozenset)


class Mismatch(NamedTuple):
    """A value that an annotation does not accept. path: where it is in the argument, such as `.dimensions[0]`."""

    path: str
    expected: str
    value: Any


def find_mismatch(value: Any, hint: Any, path: str = "") -> Mismatch | None:
    """The first part of a value that does not match an evaluated annotation; None if all of it does."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is None or hint is types.NoneType:
        return None if value is None else Mismatch(path, "None", value)
    if hint in _SCALARS if isinstance(hint, type) else False:
        # A bool is no number of anything: `index=True` would be printed so.
        accepted = _is_index(value) if hint is int else isinstance(value, _SCALARS[hint][0])
        return None if accepted else Mismatch(path, expected_text(hint), value)
    if origin in _UNIONS:
        return _union_mismatch(value, inner, hint, path)
    if origin is Literal:
        return None if value in inner else Mismatch(path, expected_text(hint), value)
    if origin in _SEQUENCES or hint in _SEQUENCES:
        return _sequence_mismatch(value, hint, origin, inner, path)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_mismatch(value, inner, hint, path)
    if origin is type or hint is type:
        return None if isinstance(value, type) else Mismatch(path, expected_text(hint), value)
    if origin is Callable or hint is Callable:
        return None if callable(value) else Mismatch(path, expected_text(hint), value)
    kind = origin or hint
    if not isinstance(kind, type) or kind in (Any, object) or getattr(kind, "_is_protocol", False):
        return None
    if not isinstance(value, kind):
        return Mismatch(path, expected_text(hint), value)
    return _field_mismatch(value, path) if is_dataclass(value) else None


def _is_index(value: Any) -> bool:
    """Whether a value is an integer. One whose value is not known yet, as of a program that is built, is none."""
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool)
    if not hasattr(type(value), "__index__") or isinstance(value, np.ndarray | np.bool_):
        return False
    try:
        index(value)
    except Exception:
        return False
    return True


def _union_mismatch(value: Any, inner: tuple[Any, ...], hint: Any, path: str) -> Mismatch | None:
    found = [find_mismatch(value, member, path) for member in inner]
    if None in found:
        return None
    deeper = [one for one in found if one is not None and one.path != path]
    return deeper[0] if deeper else Mismatch(path, expected_text(hint), value)


def _sequence_mismatch(value: Any, hint: Any, origin: Any, inner: tuple[Any, ...], path: str) -> Mismatch | None:
    is_no_sequence = isinstance(value, str | bytes | np.generic) or (isinstance(value, np.ndarray) and not value.ndim)
    is_no_sequence |= isinstance(value, Mapping) and origin in _ORDERED
    if is_no_sequence or not (isinstance(value, Iterable) or hasattr(type(value), "__getitem__")):
        return Mismatch(path, expected_text(hint), value)
    if origin is tuple and inner and inner[-1] is not Ellipsis and inner != ((),):
        if not isinstance(value, Sequence) or len(value) != len(inner):
            return Mismatch(path, expected_text(hint), value)
        pairs: Iterable[tuple[Any, Any]] = zip(value, inner, strict=True)
    elif isinstance(value, Sequence | Set | Mapping) and inner:
        if inner[0] in _SCALARS if isinstance(inner[0], type) else False:
            # the devices of a mesh are thousands of integers, and checked with each of its shardings
            types_of_elements = set(map(type, islice(value, _MAX_CHECKED_ELEMENTS)))
            if types_of_elements <= {inner[0]}:
                return None
        pairs = ((element, inner[0]) for element in islice(value, _MAX_CHECKED_ELEMENTS))
    else:
        return None  # an iterator, which may be used only once, or an array
    found = (find_mismatch(element, wanted, f"{path}[{i}]") for i, (element, wanted) in enumerate(pairs))
    return next((one for one in found if one is not None), None)


def find_array(value: Any, hint: Any) -> Mismatch | None:
    """A NumPy array that is given for a sequence. Most functions take one; others compare or hash the sequence."""
    kinds = get_args(hint) if get_origin(hint) in _UNIONS else (hint,)
    takes_sequences = any(get_origin(kind) in _SEQUENCES or kind in _SEQUENCES for kind in kinds)
    if not isinstance(value, np.ndarray) or not takes_sequences:
        return None
    return Mismatch("", f"{expected_text(hint)}, as a tuple or list", value)


def find_unordered(value: Any, hint: Any, path: str = "") -> Mismatch | None:
    """A set that is given for a sequence, or an iterator for any collection; also as an element of a sequence.

    Functions that only iterate take them; others ask for a length or an element. What an iterator had is not known when
    a function has failed.
    """
    kinds = [*(get_args(hint) if get_origin(hint) in _UNIONS else (hint,))]
    if any(_is_unordered(value, get_origin(kind) or kind) for kind in kinds):
        return Mismatch(path, expected_text(hint), value)
    ordered = next((kind for kind in kinds if get_origin(kind) in _ORDERED and get_args(kind)), None)
    if ordered is None or not isinstance(value, list | tuple):
        return None
    inner = get_args(ordered)
    wanted = chain(inner, repeat(inner[-1])) if get_origin(ordered) is tuple else repeat(inner[0])
    pairs = enumerate(zip(value[:_MAX_CHECKED_ELEMENTS], wanted, strict=False))
    found = (find_unordered(element, kind, f"{path}[{i}]") for i, (element, kind) in pairs)
    return next((one for one in found if one is not None), None)


def _is_unordered(value: Any, kind: Any) -> bool:
    if kind in _ORDERED:
        return isinstance(value, Iterable) and not hasattr(type(value), "__getitem__")
    return isinstance(value, Iterator) and (kind in _SEQUENCES or kind is Collection)


def _mapping_mismatch(value: Any, inner: tuple[Any, ...], hint: Any, path: str) -> Mismatch | None:
    if not isinstance(value, Mapping):
        return Mismatch(path, expected_text(hint), value)
    for key, item in list(value.items())[:_MAX_CHECKED_ELEMENTS] if inner else ():
        found = find_mismatch(key, inner[0], f"{path} key") or find_mismatch(item, inner[1], f"{path}[{_shown(key)}]")
        if found is not None:
            return found
    return None


def _field_mismatch(value: Any, path: str) -> Mismatch | None:
    kind: Callable[..., Any] = type(value)
    hints = hints_of(kind)
    found = (find_mismatch(getattr(value, f.name), hints.get(f.name, Any), f"{path}.{f.name}") for f in fields(value))
    return next((one for one in found if one is not None), None)


# -- annotations


_BRACKETS = re.compile(r"\[[^][]*\]")
"""The innermost brackets of the text of an annotation, with what they contain."""


def scalar_alternatives(annotation: Any) -> frozenset[type]:
    """The built-in scalar types that the text of an annotation names, such as `str` in "Module | str". Their values are
    accepted without an evaluation of the annotation, which may import the modules of other alternatives."""
    if not isinstance(annotation, str):
        return frozenset()
    while (shorter := _BRACKETS.sub("", annotation)) != annotation:
        annotation = shorter
    parts = {part.strip() for part in annotation.split("|")}
    return frozenset(kind for kind in (bool, int, float, str, bytes) if kind.__name__ in parts)


def plain_types(hint: Any) -> tuple[type, ...]:
    """The types whose values an annotation accepts whatever they hold: a quick check before `find_mismatch`."""
    if get_origin(hint) in _UNIONS:
        return tuple(kind for member in get_args(hint) for kind in plain_types(member))
    if hint is None:
        return (types.NoneType,)
    if hint is Any:
        return (object,)
    if not isinstance(hint, type) or get_origin(hint) is not None or is_dataclass(hint) or hint in _SEQUENCES:
        return ()
    if getattr(hint, "_is_protocol", False) or hint is type:
        return ()
    if hint is int:
        return ()  # bools are of this class
    return _SCALARS[hint][0] if hint in _SCALARS else (hint,)


class _Names(dict[str, Any]):
    """The names in annotations of a module. A name that the module imports for type checkers only is looked up in the
    package `xlapy`; unknown names accept anything."""

    def __missing__(self, name: str) -> Any:
        known = getattr(builtins, name, None)
        return known if known is not None else getattr(sys.modules.get("xlapy"), name, Any)


@cache
def hints_of(annotated: Callable[..., Any]) -> dict[str, Any]:
    """The evaluated annotations of a function or class."""
    names = _Names(vars(sys.modules[annotated.__module__]))
    try:
        return typing.get_type_hints(annotated, localns=names)
    except (AttributeError, NameError, SyntaxError, TypeError):
        return {}


# -- words


def expected_text(hint: Any) -> str:
    """What an annotation accepts, with an article: `a sequence of integers`, `an XlaOp or None`."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is None or hint is types.NoneType:
        return "None"
    if hint is Any:
        return "anything"
    if isinstance(hint, type) and hint in _SCALARS:
        return _SCALARS[hint][1]
    if origin in _UNIONS:
        return " or ".join(dict.fromkeys(expected_text(member) for member in inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return f"a tuple of {len(inner)}: {', '.join(map(expected_text, inner))}"
    if origin in _SEQUENCES or hint in _SEQUENCES:
        return f"a sequence of {_plural(inner[0])}" if inner and inner[0] is not Any else "a sequence"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {_plural(inner[0])} to {_plural(inner[1])}" if inner else "a mapping"
    if origin is type or hint is type:
        return "a class"
    if origin is Callable or hint is Callable:
        return "a function"
    name = getattr(origin or hint, "__name__", str(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"a member of {name}"
    return f"an {name}" if name[0] in "AEIOU" or name.startswith("Xla") else f"a {name}"


def _plural(hint: Any) -> str:
    text = expected_text(hint)
    if " or " in text or ":" in text or text == "bytes":
        return f"values that are each {text}"
    noun = text.removeprefix("a ").removeprefix("an ")
    return noun.replace("sequence of", "sequences of") if noun.startswith("sequence of") else f"{noun}s"


def given_text(value: Any) -> str:
    """A value in words: its type, and its text cut to 60 characters."""
    return "None" if value is None else f"{type(value).__name__} {_shown(value)}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a class of the user may raise anything
        return "without text"
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."
