"""The specification, executable: one short definition per operation, in plain Python over the indices of elements.

Definitions do not depend on the sizes of arrays; they are slow, and meant to be read and to be compared with.
`xlapy ops NAME` and the page of each operation show them. Importing the package registers all definitions.
"""

from xlapy.reference import (
    collectives,
    contraction,
    control,
    conversion,
    convolution,
    custom,
    dynamic,
    elementwise,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    sources,
    transfer,
    tuples,
)
from xlapy.reference.core import Device, definition_of, evaluate_computation, evaluate_instruction

__all__ = [
    "Device",
    "collectives",
    "contraction",
    "control",
    "conversion",
    "convolution",
    "custom",
    "definition_of",
    "dynamic",
    "elementwise",
    "evaluate_computation",
    "evaluate_instruction",
    "indexing",
    "linalg",
    "movement",
    "normalization",
    "random",
    "reduction",
    "sorting",
    "sources",
    "transfer",
    "tuples",
]
