"""Lowering: computes one element of an operation's result, as scalars and positions of loop IR.

`LOWERINGS` maps each opcode to its rule, one file per family; `Lowering` evaluates fused computations by these rules.
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
