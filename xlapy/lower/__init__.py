"""Lowering: what one element of each operation's result is, as scalars and positions of loop IR.

`LOWERINGS` is the table op -> rule, one file a family; `Lowering` evaluates fused computations element by element.
"""

from xlapy.lower import (
    bits,
    contraction,
    control,
    convolution,
    elementwise,
    indexing,
    movement,
    reduction,
    sources,
    tuples,
)
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Lowering, Source
from xlapy.lower.element_types import components, load_element, register_type, storage_type, store_element

__all__ = [
    "LOWERINGS",
    "ComplexElement",
    "Element",
    "Lowering",
    "Source",
    "bits",
    "components",
    "contraction",
    "control",
    "convolution",
    "elementwise",
    "indexing",
    "load_element",
    "movement",
    "reduction",
    "register_type",
    "sources",
    "storage_type",
    "store_element",
    "tuples",
]
