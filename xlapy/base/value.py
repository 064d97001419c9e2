"""How the value of an instruction is represented while a program runs: `Value`, `Token`.

Does not depend on instructions or on the engine that computes the values.
"""

from __future__ import annotations

from typing import Any, Final


class Token:
    """The value of a token: it orders side effects and holds no data."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOKEN"


TOKEN: Final = Token()

Value = Any
"""A NumPy array, a `DynamicArray` of the interpreter, a tuple of values, or `TOKEN`."""
