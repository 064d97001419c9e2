"""What instructions on dynamic dimensions are on static arrays with sizes beside them, by family of ops.

Importing it registers the rules of all families.
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
from xlapy.passes.expand.dynamic.interpreted import interpreted

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
    "interpreted",
    "linalg",
    "movement",
    "packed_shape",
    "reduction",
    "reshapes",
    "sorting",
    "sources",
    "unsupported",
]
