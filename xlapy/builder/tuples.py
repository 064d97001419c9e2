"""Tuples: making and taking apart.

Owns: the builder functions of `opcodes/tuples.py`. Must not know: how they are evaluated.
Source: Tuple, GetTupleElement of the specification.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.builder.core.builder import XlaBuilder, append
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes


def tuple(builder: XlaBuilder, elements: Iterable[XlaOp]) -> XlaOp:
    """The tuple of any number of values of any shape, other tuples and tokens included."""
    return builder.append(TUPLE, [*elements])


def get_tuple_element(tuple_data: XlaOp, index: int) -> XlaOp:
    """Element `index` (from 0) of a tuple. Raises BuilderError if the operand is no tuple or has no such element."""
    return append(GET_TUPLE_ELEMENT, (tuple_data,), GetTupleElementAttributes.make(index=index))
