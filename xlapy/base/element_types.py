"""The element types of XLA: names, widths, NumPy dtypes, floating-point formats and protocol numbers.

Responsible for `PrimitiveType` and its instances, one row of the table each. The schema of protobuf messages, the PJRT
types and the type codes of MLIR bytecode are derived from the table. Does not depend on shapes or values.
Sources: xla_data.proto (PrimitiveType, LiteralProto); pjrt_c_api.h (PJRT_Buffer_Type); StableHLO's VhloBytecode.cpp;
MLIR's BuiltinDialectBytecode.td.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import ml_dtypes
import numpy as np

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import ArgumentTypeError, InvalidArgumentError
from xlapy.base.float_formats import DOUBLE, HALF, SINGLE, FloatFormat, SpecialValues

Array = np.ndarray[Any, np.dtype[Any]]
"""A NumPy array of any shape and element type."""

_BY_NAME: dict[str, PrimitiveType] = {}
_BY_TEXT: dict[str, PrimitiveType] = {}
_BY_NUMBER: dict[int, PrimitiveType] = {}
_BY_DTYPE: dict[np.dtype[Any], PrimitiveType] = {}


class ProtocolNumbers(NamedTuple):
    """The numbers that formats and APIs use for an element type; None where one of them does not have the type.

    literal: the number of the LiteralProto field that holds the elements. pjrt: PJRT_Buffer_Type. vhlo: the type code
    in VHLO bytecode. builtin: the type code in bytecode of MLIR's builtin dialect; None for integer types, which share
    one code followed by their width and signedness.
    """

    literal: int | None = None
    pjrt: int | None = None
    vhlo: int | None = None
    builtin: int | None = None


@checked_class
class PrimitiveType:
    """An element type. Instances are singletons: compare with `is` or `==`.

    name: the proto name ("F32"). text: the spelling in HLO text ("f32"). number: the proto number (11).
    dtype: the NumPy dtype of one element; None for tuple, token, opaque, buffer and the invalid type.
    bits: width of an element in packed storage (PRED 8, S4 4, C64 64; 0 without a dtype).
    is_array: an array may have this element type. is_integral excludes PRED. is_signed and is_unsigned are true for
    integral types only. is_floating excludes complex types.
    protocol_numbers: the numbers of the type in formats and APIs other than the enumeration PrimitiveType.

    >>> xla.PrimitiveType.BF16.bits, xla.PrimitiveType.from_text("s4").is_signed
    (16, True)
    >>> xla.PrimitiveType.from_dtype(np.float32)
    F32
    """

    __slots__ = (
        "_float_format",
        "bits",
        "dtype",
        "is_array",
        "is_complex",
        "is_floating",
        "is_integral",
        "is_signed",
        "is_unsigned",
        "name",
        "number",
        "protocol_numbers",
        "text",
    )

    PRIMITIVE_TYPE_INVALID: ClassVar[PrimitiveType]
    PRED: ClassVar[PrimitiveType]
    S1: ClassVar[PrimitiveType]
    S2: ClassVar[PrimitiveType]
    S4: ClassVar[PrimitiveType]
    S8: ClassVar[PrimitiveType]
    S16: ClassVar[PrimitiveType]
    S32: ClassVar[PrimitiveType]
    S64: ClassVar[PrimitiveType]
    U1: ClassVar[PrimitiveType]
    U2: ClassVar[PrimitiveType]
    U4: ClassVar[PrimitiveType]
    U8: ClassVar[PrimitiveType]
    U16: ClassVar[PrimitiveType]
    U32: ClassVar[PrimitiveType]
    U64: ClassVar[PrimitiveType]
    F16: ClassVar[PrimitiveType]
    BF16: ClassVar[PrimitiveType]
    F32: ClassVar[PrimitiveType]
    F64: ClassVar[PrimitiveType]
    F8E5M2: ClassVar[PrimitiveType]
    F8E4M3: ClassVar[PrimitiveType]
    F8E4M3FN: ClassVar[PrimitiveType]
    F8E4M3B11FNUZ: ClassVar[PrimitiveType]
    F8E3M4: ClassVar[PrimitiveType]
    F8E5M2FNUZ: ClassVar[PrimitiveType]
    F8E4M3FNUZ: ClassVar[PrimitiveType]
    F8E8M0FNU: ClassVar[PrimitiveType]
    F6E3M2FN: ClassVar[PrimitiveType]
    F6E2M3FN: ClassVar[PrimitiveType]
    F4E2M1FN: ClassVar[PrimitiveType]
    C64: ClassVar[PrimitiveType]
    C128: ClassVar[PrimitiveType]
    TUPLE: ClassVar[PrimitiveType]
    OPAQUE_TYPE: ClassVar[PrimitiveType]
    TOKEN: ClassVar[PrimitiveType]
    BUFFER: ClassVar[PrimitiveType]

    def __init__(
        self,
        name: str,
        number: int,
        bits: int,
        dtype: Any,
        kind: str,
        text: str | None,
        float_format: FloatFormat | None,
        protocol_numbers: ProtocolNumbers,
    ) -> None:
        self.name: str = name
        self.number: int = number
        self.bits: int = bits
        self.dtype: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
        self.text: str = text or name.lower()
        self.is_array: bool = dtype is not None
        self.is_floating: bool = kind == "floating"
        self.is_complex: bool = kind == "complex"
        self.is_signed: bool = kind == "signed"
        self.is_unsigned: bool = kind == "unsigned"
        self.is_integral: bool = kind in ("signed", "unsigned")
        self._float_format = float_format
        self.protocol_numbers: ProtocolNumbers = protocol_numbers

    @property
    def float_format(self) -> FloatFormat:
        """The encoding of a floating-point type. Raises InvalidArgumentError for every other type, complex ones too."""
        if self._float_format is None:
            raise InvalidArgumentError(
                codes.FLOAT_FORMAT, f"{self} is not a floating-point type, so it has no floating-point format"
            )
        return self._float_format

    @property
    def byte_size(self) -> int:
        """Bytes of one element in unpacked storage (S4: 1; 0 for types without elements)."""
        return (self.bits + 7) // 8

    @property
    def component_type(self) -> PrimitiveType:
        """The type of the real and imaginary parts of a complex type; every other type itself."""
        if not self.is_complex:
            return self
        return PrimitiveType.F32 if self is PrimitiveType.C64 else PrimitiveType.F64

    @property
    def complex_type(self) -> PrimitiveType | None:
        """The complex type whose real and imaginary parts have this type; None unless this is F32 or F64."""
        if self is PrimitiveType.F32:
            return PrimitiveType.C64
        return PrimitiveType.C128 if self is PrimitiveType.F64 else None

    @staticmethod
    def from_name(name: str) -> PrimitiveType:
        """The type with proto name `name` ("F32"). Raises InvalidArgumentError."""
        return _find(_BY_NAME, name, "name")

    @staticmethod
    def from_text(text: str) -> PrimitiveType:
        """The type written `text` ("f32") in HLO text. Raises InvalidArgumentError."""
        return _find(_BY_TEXT, text, "spelling")

    @staticmethod
    def from_number(number: int) -> PrimitiveType:
        """The type with proto number `number` (11 is F32). Raises InvalidArgumentError."""
        return _find(_BY_NUMBER, number, "number")

    @staticmethod
    def from_dtype(dtype: Any) -> PrimitiveType:
        """The type whose elements have the dtype `dtype` of NumPy or ml_dtypes. Raises InvalidArgumentError."""
        try:
            native = np.dtype(dtype)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(codes.ELEMENT_TYPE, f"{dtype!r} is not a NumPy dtype") from error
        if native.byteorder not in "=|":
            native = native.newbyteorder("=")
        return _find(_BY_DTYPE, native, "dtype")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return PrimitiveType.from_name, (self.name,)

    def __copy__(self) -> PrimitiveType:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> PrimitiveType:
        return self


def _find(table: dict[Any, PrimitiveType], key: Any, what: str) -> PrimitiveType:
    found = table.get(key)
    if found is None:
        raise InvalidArgumentError(codes.ELEMENT_TYPE, f"no element type has the {what} {key!r}")
    return found


def _define(
    name: str,
    number: int,
    bits: int,
    dtype: Any = None,
    kind: str = "",
    *,
    text: str | None = None,
    **protocol_numbers: int,
) -> PrimitiveType:
    return _register(PrimitiveType(name, number, bits, dtype, kind, text, None, ProtocolNumbers(**protocol_numbers)))


def _define_float(
    name: str, number: int, dtype: Any, float_format: FloatFormat, **protocol_numbers: int
) -> PrimitiveType:
    numbers = ProtocolNumbers(**protocol_numbers)
    return _register(PrimitiveType(name, number, float_format.bits, dtype, "floating", None, float_format, numbers))


def _register(element_type: PrimitiveType) -> PrimitiveType:
    name, dtype = element_type.name, element_type.dtype
    setattr(PrimitiveType, name, element_type)
    _BY_NAME[name] = _BY_TEXT[element_type.text] = _BY_NUMBER[element_type.number] = element_type
    if dtype is not None:
        _BY_DTYPE[dtype] = element_type
    return element_type


_FN, _FNUZ, _FINITE, _FNU = SpecialValues.FN, SpecialValues.FNUZ, SpecialValues.FINITE, SpecialValues.FNU

# The table. A row holds the name, the number in PrimitiveType, the width (of a floating-point type: the format, after
# the dtype), the dtype, the kind, and the numbers of ProtocolNumbers.
PRIMITIVE_TYPE_INVALID = _define("PRIMITIVE_TYPE_INVALID", 0, 0, pjrt=0)
PRED = _define("PRED", 1, 8, np.bool_, literal=2, pjrt=1, vhlo=0)
S1 = _define("S1", 30, 1, ml_dtypes.int1, "signed", literal=30, pjrt=30)
S2 = _define("S2", 26, 2, ml_dtypes.int2, "signed", literal=26, pjrt=24, vhlo=31)
S4 = _define("S4", 21, 4, ml_dtypes.int4, "signed", literal=21, pjrt=21, vhlo=10)
S8 = _define("S8", 2, 8, np.int8, "signed", literal=15, pjrt=2, vhlo=11)
S16 = _define("S16", 3, 16, np.int16, "signed", literal=17, pjrt=3, vhlo=12)
S32 = _define("S32", 4, 32, np.int32, "signed", literal=4, pjrt=4, vhlo=13)
S64 = _define("S64", 5, 64, np.int64, "signed", literal=5, pjrt=5, vhlo=14)
U1 = _define("U1", 31, 1, ml_dtypes.uint1, "unsigned", literal=31, pjrt=31)
U2 = _define("U2", 27, 2, ml_dtypes.uint2, "unsigned", literal=27, pjrt=25, vhlo=32)
U4 = _define("U4", 22, 4, ml_dtypes.uint4, "unsigned", literal=22, pjrt=22, vhlo=15)
U8 = _define("U8", 6, 8, np.uint8, "unsigned", literal=3, pjrt=6, vhlo=16)
U16 = _define("U16", 7, 16, np.uint16, "unsigned", literal=16, pjrt=7, vhlo=17)
U32 = _define("U32", 8, 32, np.uint32, "unsigned", literal=6, pjrt=8, vhlo=18)
U64 = _define("U64", 9, 64, np.uint64, "unsigned", literal=7, pjrt=9, vhlo=19)
F16 = _define_float("F16", 10, np.float16, HALF, literal=11, pjrt=10, vhlo=3, builtin=4)
BF16 = _define_float("BF16", 16, ml_dtypes.bfloat16, FloatFormat(8, 7, 127), literal=13, pjrt=13, vhlo=2, builtin=3)
F32 = _define_float("F32", 11, np.float32, SINGLE, literal=8, pjrt=11, vhlo=4, builtin=5)
F64 = _define_float("F64", 12, np.float64, DOUBLE, literal=9, pjrt=12, vhlo=5, builtin=6)
F8E5M2 = _define_float(
    "F8E5M2", 19, ml_dtypes.float8_e5m2, FloatFormat(5, 2, 15), literal=19, pjrt=16, vhlo=7, builtin=22
)
F8E4M3 = _define_float(
    "F8E4M3", 28, ml_dtypes.float8_e4m3, FloatFormat(4, 3, 7), literal=28, pjrt=26, vhlo=35, builtin=23
)
F8E4M3FN = _define_float(
    "F8E4M3FN", 20, ml_dtypes.float8_e4m3fn, FloatFormat(4, 3, 7, _FN), literal=20, pjrt=17, vhlo=6, builtin=24
)
F8E4M3B11FNUZ = _define_float(
    "F8E4M3B11FNUZ",
    23,
    ml_dtypes.float8_e4m3b11fnuz,
    FloatFormat(4, 3, 11, _FNUZ),
    literal=23,
    pjrt=18,
    vhlo=29,
    builtin=27,
)
F8E3M4 = _define_float(
    "F8E3M4", 29, ml_dtypes.float8_e3m4, FloatFormat(3, 4, 3), literal=29, pjrt=27, vhlo=36, builtin=28
)
F8E5M2FNUZ = _define_float(
    "F8E5M2FNUZ", 24, ml_dtypes.float8_e5m2fnuz, FloatFormat(5, 2, 16, _FNUZ), literal=24, pjrt=19, vhlo=28, builtin=25
)
F8E4M3FNUZ = _define_float(
    "F8E4M3FNUZ", 25, ml_dtypes.float8_e4m3fnuz, FloatFormat(4, 3, 8, _FNUZ), literal=25, pjrt=20, vhlo=27, builtin=26
)
F8E8M0FNU = _define_float(
    "F8E8M0FNU", 33, ml_dtypes.float8_e8m0fnu, FloatFormat(8, 0, 127, _FNU), literal=33, pjrt=28, vhlo=40, builtin=32
)
F6E3M2FN = _define_float(
    "F6E3M2FN", 35, ml_dtypes.float6_e3m2fn, FloatFormat(3, 2, 3, _FINITE), literal=35, pjrt=33, vhlo=39, builtin=31
)
F6E2M3FN = _define_float(
    "F6E2M3FN", 36, ml_dtypes.float6_e2m3fn, FloatFormat(2, 3, 1, _FINITE), literal=36, pjrt=32, vhlo=38, builtin=30
)
F4E2M1FN = _define_float(
    "F4E2M1FN", 32, ml_dtypes.float4_e2m1fn, FloatFormat(2, 1, 1, _FINITE), literal=32, pjrt=29, vhlo=37, builtin=29
)
C64 = _define("C64", 15, 64, np.complex64, "complex", literal=12, pjrt=14)
C128 = _define("C128", 18, 128, np.complex128, "complex", literal=18, pjrt=15)
TUPLE = _define("TUPLE", 13, 0)
OPAQUE_TYPE = _define("OPAQUE_TYPE", 14, 0, text="opaque")
TOKEN = _define("TOKEN", 17, 0, pjrt=23)
BUFFER = _define("BUFFER", 34, 0)

ALL_TYPES: tuple[PrimitiveType, ...] = tuple(_BY_NAME.values())
"""All element types, the invalid one first."""

ARRAY_TYPES: tuple[PrimitiveType, ...] = tuple(t for t in ALL_TYPES if t.is_array)
"""The element types that an array may have."""


def float_format_of(dtype: Any) -> FloatFormat:
    """The format of the numbers of a floating-point or complex dtype. Raises InvalidArgumentError for other dtypes."""
    return PrimitiveType.from_dtype(dtype).component_type.float_format


def as_dtype(dtype: Any) -> np.dtype[Any] | None:
    """The NumPy dtype that a caller asks for; None stays None. Raises ArgumentTypeError if NumPy has no such dtype."""
    try:
        return None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentTypeError(codes.ELEMENT_TYPE, f"dtype must be a NumPy dtype, given {dtype!r:.60}") from error
