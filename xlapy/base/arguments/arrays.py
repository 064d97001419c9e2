"""Arguments that are arrays, or become arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.arguments.dlpack import array_of
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import ArgumentTypeError


def array_argument(value: Any, function: str, name: str) -> np.ndarray[Any, Any]:
    """The value of the argument `name` of a function as an array, without a copy if it is one of any library.

    Raises `ArgumentTypeError` for ragged lists and other objects that have no array.
    """
    try:
        return array_of(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ArgumentTypeError(
            codes.ARRAY_VALUE, f"{function}: {name} must be an array of numbers: {error}"
        ) from error
