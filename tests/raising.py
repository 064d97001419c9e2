"""The check of errors by their codes: what raises, which rule is violated, and which values the message names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.errors import XlaError

Wanted: TypeAlias = tuple[ErrorCode, *tuple[str, ...]]
"""What an error has to have: its code, and the values that its message names."""


@contextmanager
def raises(kind: type[XlaError], code: ErrorCode, *values: str) -> Iterator[pytest.ExceptionInfo[XlaError]]:
    """Checks that the block raises an error of a class with a code, whose message names each of the values.

    values: names, shapes and numbers of the program that violates the rule, as in `raises(ShapeError,
    codes.DOT_PAIR_SIZES, "dot.3", "f32[2,3]", "f32[4,2]")`; not sentences.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.code == code, f"{error} has not the code {code} of {code.rule!r}"
    shown = str(error).replace(f" [{code}]", "")
    missing = [value for value in values if value not in shown]
    assert not missing, f"{error} does not name {missing}"
