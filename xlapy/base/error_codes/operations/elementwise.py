"""Elementwise operations.

Codes E1100 to E1199: arithmetic, comparison, selection and conversion.
"""

from xlapy.base.error_codes.code import ErrorCode

COMPLEX_ORDER = ErrorCode(
    "E1100",
    "Complex numbers are compared only with EQ and NE.",
    remedy="Compare the real or imaginary parts, or the absolute values.",
)
COMPARISON_TYPE = ErrorCode(
    "E1101",
    "The type of a comparison is the order of the element type: SIGNED, UNSIGNED (also for pred) or "
    "FLOAT; for floating-point types also TOTALORDER.",
    remedy="Leave out `type`; it then is the order of the element type.",
)
SCALAR_OR_SAME_DIMENSIONS = ErrorCode(
    "E1102",
    "The bounds of a clamp and the predicate of a select are scalars or have the dimensions of the values.",
    remedy="Broadcast the bound or the predicate to the dimensions of the values.",
)
BITCAST_CONVERT_COMPLEX = ErrorCode(
    "E1110",
    "A bitcast-convert is between real types or between complex types.",
    remedy="Take `real` and `imag` first, or combine real parts with `complex` afterwards.",
)
BITCAST_CONVERT_WIDTHS = ErrorCode(
    "E1111",
    "The bit widths of the two element types of a bitcast-convert are equal, or one divides the other.",
    remedy="Convert through an element type whose width divides both.",
)
BITCAST_CONVERT_LAST_DIMENSION = ErrorCode(
    "E1112",
    "A bitcast-convert from B to B' > B bits consumes a last dimension of size B'/B.",
    remedy="Reshape the operand so that the parts of an element are its last dimension.",
)
PRECISION_BITS = ErrorCode(
    "E1120",
    "A reduce-precision keeps at least 1 exponent bit and at least 0 mantissa bits.",
    remedy="Give `exponent_bits` and `mantissa_bits` of a floating-point format, such as 5 and 10 for f16.",
)
