"""PJRT's numbers of element types (PJRT_Buffer_Type), which the table of element types holds.

Does not depend on buffers.
"""

from __future__ import annotations

from xlapy.base.element_types import ALL_TYPES, PrimitiveType
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import UnsupportedError

_NUMBERS = {type: number for type in ALL_TYPES if (number := type.protocol_numbers.pjrt) is not None}
_ARRAY_TYPES = {number: type for type, number in _NUMBERS.items() if type.is_array}


def number_of(element_type: PrimitiveType) -> int:
    """PJRT's number of an element type."""
    return _NUMBERS[element_type]


def type_of(number: int) -> PrimitiveType:
    """The element type with one of PJRT's numbers; `UnsupportedError` if arrays cannot have it."""
    element_type = _ARRAY_TYPES.get(number)
    if element_type is None:
        raise UnsupportedError(codes.BUFFER_TYPE, f"arrays of PJRT's element type {number} are not known to xlapy")
    return element_type


def element_sizes() -> dict[int, int]:
    """Bytes of one unpacked element of each array type, by PJRT's numbers."""
    return {number: type.byte_size for number, type in sorted(_ARRAY_TYPES.items())}
