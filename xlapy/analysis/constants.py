"""What is known of constants. Must not know: passes."""

from __future__ import annotations

from typing import Any

from xlapy.base.literal import Literal


def is_whole(literal: Literal) -> bool:
    """Whether all elements are known: text may have left some out."""
    return not literal.is_elided and all(map(is_whole, literal.elements))


def literal_value(literal: Literal) -> Any:
    """The value as the interpreter has it: an array, or a tuple of values."""
    return tuple(map(literal_value, literal.elements)) if literal.shape.is_tuple else literal.array
