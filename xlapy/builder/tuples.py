"""Builder functions that create tuples and read their elements.

Responsible for the builder functions of `opcodes/tuples.py`. Does not depend on how they are evaluated.
Source: Tuple, GetTupleElement of the specification.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.builder.core.builder import XlaBuilder, append
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes


def tuple(builder: XlaBuilder, elements: Iterable[XlaOp]) -> XlaOp:
    """A tuple of any number of values of any shape, including tuples and tokens."""
    return builder.append(TUPLE, [*elements])


def get_tuple_element(tuple_data: XlaOp, index: int) -> XlaOp:
    """Element `index`, counted from 0, of a tuple. Raises BuilderError if the operand is not a tuple or has no such
    element.
    """
    return append(GET_TUPLE_ELEMENT, (tuple_data,), GetTupleElementAttributes.make(index=index))
