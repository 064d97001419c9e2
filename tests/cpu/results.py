"""Results of programs as lists of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def leaves(value: Any) -> list[np.ndarray]:
    """Returns the arrays of a result in order, without tokens."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [np.asarray(value)] if hasattr(value, "__array__") else []
