"""Expansions of operations on dynamic dimensions into operations on static arrays and their sizes.

There is one module for each family of operations; importing the package registers the rules of all.
"""

from xlapy.passes.expand.dynamic import (
    contraction,
    control,
    custom,
    elementwise,
    indexing,
    linalg,
    movement,
    reduction,
    reshapes,
    sorting,
    sources,
)
from xlapy.passes.expand.dynamic.core import (
    DYNAMIC_EXPANSIONS,
    DynamicRule,
    Sized,
    SizeWriter,
    Value,
    packed_shape,
    unsupported,
)
from xlapy.passes.expand.dynamic.interpreted import write_interpreter_call

__all__ = [
    "DYNAMIC_EXPANSIONS",
    "DynamicRule",
    "SizeWriter",
    "Sized",
    "Value",
    "contraction",
    "control",
    "custom",
    "elementwise",
    "indexing",
    "write_interpreter_call",
    "linalg",
    "movement",
    "packed_shape",
    "reduction",
    "reshapes",
    "sorting",
    "sources",
    "unsupported",
]
