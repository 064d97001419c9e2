"""PJRT's numbers of element types.

Responsible for the order of PJRT_Buffer_Type. Does not depend on buffers.
"""

from __future__ import annotations

from xlapy.base.element_types import PrimitiveType
from xlapy.base.errors import UnsupportedError

_NAMES = """
    PRIMITIVE_TYPE_INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 BF16 C64 C128 F8E5M2 F8E4M3FN
    F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ S4 U4 TOKEN S2 U2 F8E4M3 F8E3M4 F8E8M0FNU F4E2M1FN S1 U1 F6E2M3FN F6E3M2FN
"""

_TYPES = [PrimitiveType.from_name(name) for name in _NAMES.split()]
_NUMBERS = {type: number for number, type in enumerate(_TYPES)}


def number_of(element_type: PrimitiveType) -> int:
    """PJRT's number of an element type."""
    return _NUMBERS[element_type]


def type_of(number: int) -> PrimitiveType:
    """The element type with one of PJRT's numbers; `UnsupportedError` if arrays cannot have it."""
    if 0 <= number < len(_TYPES) and _TYPES[number].is_array:
        return _TYPES[number]
    raise UnsupportedError(f"arrays of PJRT's element type {number} are not known to xlapy")


def element_sizes() -> dict[int, int]:
    """Bytes of one unpacked element of each array type, by PJRT's numbers."""
    return {number: type.byte_size for number, type in enumerate(_TYPES) if type.is_array}
