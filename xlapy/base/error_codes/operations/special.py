"""Random numbers, linear algebra, normalization and custom calls.

Codes E1800 to E1899: rng, stochastic-convert, solvers, transforms, batch normalization and custom-call.
"""

from xlapy.base.error_codes.code import ErrorCode

RNG_OPERANDS = ErrorCode(
    "E1800",
    "An rng takes two scalars of the result's element type: the bounds, or the mean and the standard deviation.",
    remedy="Convert the operands to the element type of the result.",
)
RNG_STATE = ErrorCode(
    "E1801",
    "An rng-bit-generator returns (state, bits) with the shape of its operand for the state, or only the bits.",
    remedy="Declare the operand's shape for the state.",
)
RANDOM_BITS = ErrorCode(
    "E1802",
    "The random numbers of a stochastic-convert are unsigned integers as wide as the elements of the operand.",
    remedy="Generate bits of the unsigned type of this width, such as u32 for f32.",
)
SQUARE_MATRICES = ErrorCode(
    "E1810",
    "The last two dimensions of the matrices that are decomposed or solved have equal sizes.",
    remedy="Pad or slice the matrices to square ones.",
)
SOLVE_DIMENSIONS = ErrorCode(
    "E1811",
    "Both operands of a triangular-solve have the same rank and the same batch dimensions.",
    remedy="Broadcast the matrices along the batch dimensions.",
)
SOLVE_SIZE = ErrorCode(
    "E1812",
    "The dimension of b that is multiplied by a has the size of a.",
    remedy="Transpose b, or set `left_side`: true solves a x = b, false x a = b.",
)
TRANSPOSE_GIVEN = ErrorCode(
    "E1813",
    "The `transpose_a` of a triangular-solve is NO_TRANSPOSE, TRANSPOSE or ADJOINT.",
    remedy="Give `transpose_a`; it has no default in HLO text.",
)
TRANSFORM_LENGTH = ErrorCode(
    "E1820",
    "`fft_length` has 1 to 3 entries, none negative.",
    remedy="Apply transforms one after the other for more than three dimensions.",
)
TRANSFORM_SIZES = ErrorCode(
    "E1821",
    "The innermost dimensions of the operand of an fft have the sizes in `fft_length`; for IRFFT, the "
    "last one has size `fft_length[-1] // 2 + 1`.",
    remedy="Pad or slice the operand, or change `fft_length`.",
)
FEATURE_VECTORS = ErrorCode(
    "E1830",
    "The scale, offset, mean and variance of a batch normalization have rank 1, and one value for each feature.",
    remedy="Reshape the vector, or choose another `feature_index`.",
)
API_VERSION = ErrorCode(
    "E1840",
    "The `api_version` of a custom-call is specified.",
    remedy="Leave it out for the original interface, or give API_VERSION_TYPED_FFI.",
)
OPERAND_LAYOUTS = ErrorCode(
    "E1841",
    "`operand_layout_constraints` of a custom-call has one shape with layout for each operand, equal to "
    "the operand's except for the layout, and the result has a layout too.",
    remedy="Give a shape with layout for each operand and the result, or leave out the constraints.",
)
PIN_ALIAS = ErrorCode(
    "E1842",
    "XLA's own targets Pin and Unpin take exactly one alias.",
    remedy="Alias the result to the operand: `output_to_operand_aliasing={{}: (0, {})}`.",
)
SEED_TARGET = ErrorCode(
    "E1843",
    "XLA's own target GetRngSeed takes no operands and returns u64[].",
    remedy="Declare u64[] and pass no operands.",
)
