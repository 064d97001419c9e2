"""Definitions of matrix factorization and solution, and of Fourier transforms.

Responsible for cholesky, triangular-solve, fft. Does not depend on the IR or on values.
Source: Cholesky, TriangularSolve, Fft of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from xlapy.base.element_types import C128, F32, F64
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import BOOL, INTEGERS, Attributes, EnumCodec, attribute, attributes
from xlapy.opcodes.registry import OpDef, ProgramShapes, constraint, exactly
from xlapy.opcodes.requirements import require_arrays, same_size


def _require_square(name: str, operand: Shape) -> None:
    element = operand.element_type
    if not (element.is_floating or element.is_complex):
        raise ShapeError(
            shared.ELEMENT_TYPE,
            f"{name} takes floating-point or complex elements, operand a is {operand.to_text(layout=False)}",
        )
    if operand.rank < 2:
        raise ShapeError(
            shared.MINIMUM_RANK, f"{name}: a must have at least rank 2, given {operand.to_text(layout=False)}"
        )
    if not same_size(operand.dimensions[-2], operand.dimensions[-1]):
        raise ShapeError(
            codes.SQUARE_MATRICES,
            f"{name}: the two minor dimensions of a must be equal, a is {operand.to_text(layout=False)}",
        )


@attributes
class CholeskyAttributes(Attributes):
    """`lower` tells whether the lower triangle of `a` is read and written, else the upper one."""

    lower: bool = attribute(BOOL, default=False)


def _infer_cholesky(operands: Sequence[Shape], _: CholeskyAttributes, __: ProgramShapes) -> Shape:
    require_arrays("cholesky", operands)
    _require_square("cholesky", operands[0])
    return operands[0]


CHOLESKY = OpDef(
    name="cholesky",
    family="linalg",
    summary=(
        "The Cholesky factor of each positive definite matrix: L with L L^H = a, or U with U^H U = a. The "
        "other triangle is zero; all elements are NaN if a matrix has no factor."
    ),
    result="The shape of `a`.",
    operands="a",
    constraints=(
        constraint(
            "The operand is an array of floating-point or complex elements.", shared.ARRAY_OPERAND, shared.ELEMENT_TYPE
        ),
        constraint(
            "The operand has at least rank 2, and its last two dimensions have equal sizes.",
            shared.MINIMUM_RANK,
            codes.SQUARE_MATRICES,
        ),
    ),
    arity=exactly(1),
    attributes=CholeskyAttributes,
    infer=_infer_cholesky,
)


class Transpose(Enum):
    """The operation on `a` in a triangular-solve: none, transpose, or conjugate transpose. UNSET is illegal."""

    UNSET = "TRANSPOSE_INVALID"
    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


@attributes
class TriangularSolveAttributes(Attributes):
    """`left_side` solves a x = b, else x a = b. `unit_diagonal` assumes that the diagonal of `a` is 1."""

    left_side: bool = attribute(BOOL, default=False)
    lower: bool = attribute(BOOL, default=False)
    unit_diagonal: bool = attribute(BOOL, default=False)
    transpose_a: Transpose = attribute(EnumCodec(Transpose), default=Transpose.UNSET)


def _infer_triangular_solve(operands: Sequence[Shape], attrs: TriangularSolveAttributes, _: ProgramShapes) -> Shape:
    require_arrays("triangular-solve", operands)
    a, b = operands
    if a.element_type is not b.element_type:
        raise ShapeError(
            shared.SAME_ELEMENT_TYPE,
            "triangular-solve: a and b must have the same element type, "
            f"given {a.to_text(layout=False)} and {b.to_text(layout=False)}",
        )
    _require_square("triangular-solve", a)
    if a.rank != b.rank:
        raise ShapeError(
            codes.SOLVE_DIMENSIONS,
            "triangular-solve: a and b must have equal ranks, given "
            f"{a.to_text(layout=False)} and {b.to_text(layout=False)}",
        )
    multiplied = -2 if attrs.left_side else -1
    if not same_size(a.dimensions[-1], b.dimensions[multiplied]):
        raise ShapeError(
            codes.SOLVE_SIZE,
            f"triangular-solve with left_side={str(attrs.left_side).lower()}: "
            f"dimension {b.rank + multiplied} of b {b.to_text(layout=False)} "
            f"must have the size of a {a.to_text(layout=False)}",
        )
    if a.dimensions[:-2] != b.dimensions[:-2]:
        raise ShapeError(
            codes.SOLVE_DIMENSIONS,
            "triangular-solve: batch dimensions must be equal, a is "
            f"{a.to_text(layout=False)}, b is {b.to_text(layout=False)}",
        )
    if attrs.transpose_a is Transpose.UNSET:
        raise ShapeError(
            codes.TRANSPOSE_GIVEN,
            "triangular-solve: transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT, but it is not given",
        )
    return b


TRIANGULAR_SOLVE = OpDef(
    name="triangular-solve",
    family="linalg",
    summary="Solves op(a) x = b, or x op(a) = b, for triangular matrices a.",
    result="The shape of `b`.",
    operands="a b",
    constraints=(
        constraint(
            "Both operands are arrays of the same floating-point or complex element type.",
            shared.ARRAY_OPERAND,
            shared.SAME_ELEMENT_TYPE,
            shared.ELEMENT_TYPE,
        ),
        constraint(
            "a has at least rank 2, and its last two dimensions have equal sizes.",
            shared.MINIMUM_RANK,
            codes.SQUARE_MATRICES,
        ),
        constraint("Both operands have the same rank and equal batch dimensions.", codes.SOLVE_DIMENSIONS),
        constraint(
            "The dimension of b that is multiplied by a has the size of a's last two dimensions.", codes.SOLVE_SIZE
        ),
        constraint("`transpose_a` is specified.", codes.TRANSPOSE_GIVEN),
    ),
    arity=exactly(2),
    attributes=TriangularSolveAttributes,
    infer=_infer_triangular_solve,
)


class FftType(Enum):
    """A forward or inverse transform of complex values, or between real values and half of the spectrum."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


@attributes
class FftAttributes(Attributes):
    """`fft_length` holds the lengths of the transforms of the 1 to 3 innermost dimensions, in real elements."""

    fft_type: FftType = attribute(EnumCodec(FftType))
    fft_length: tuple[int, ...] = attribute(INTEGERS)


def _infer_fft(operands: Sequence[Shape], attrs: FftAttributes, _: ProgramShapes) -> Shape:
    require_arrays("fft", operands)
    (operand,) = operands
    kind, length = attrs.fft_type, attrs.fft_length
    if not 1 <= len(length) <= 3:
        raise ShapeError(codes.TRANSFORM_LENGTH, f"fft_length must have 1 to 3 entries, given {list(length)}")
    if any(size < 0 for size in length):
        raise ShapeError(codes.TRANSFORM_LENGTH, f"fft_length must not be negative, given {list(length)}")
    if kind is FftType.RFFT:
        if operand.element_type not in (F32, F64):
            raise ShapeError(
                shared.ELEMENT_TYPE, f"fft RFFT takes f32 or f64 elements, operand is {operand.to_text(layout=False)}"
            )
    elif not operand.element_type.is_complex:
        raise ShapeError(
            shared.ELEMENT_TYPE, f"fft {kind.value} takes complex elements, operand is {operand.to_text(layout=False)}"
        )
    if operand.rank < len(length):
        raise ShapeError(
            shared.MINIMUM_RANK,
            f"fft of rank {len(length)} needs an operand of at least that rank, given {operand.to_text(layout=False)}",
        )
    _check_lengths(operand, kind, length)
    return _fft_result(operand, kind, length)


def _check_lengths(operand: Shape, kind: FftType, length: tuple[int, ...]) -> None:
    """Requires that the innermost dimensions equal `fft_length`; the last one of IRFFT is half of it plus one.

    A complex transform also accepts any dimension for length 0 (all results are 0), and any length for size 0.
    """
    last = operand.rank - 1
    for dimension, size in enumerate(length, operand.rank - len(length)):
        wanted = size // 2 + 1 if kind is FftType.IRFFT and dimension == last else size
        given = operand.dimensions[dimension]
        zeros = (given == size == 0) if kind in (FftType.RFFT, FftType.IRFFT) else 0 in (given, size)
        if not (zeros or same_size(given, wanted)):
            raise ShapeError(
                codes.TRANSFORM_SIZES,
                f"fft {kind.value} with fft_length {list(length)}: "
                f"dimension {dimension} of {operand.to_text(layout=False)} must be {wanted}",
            )


def _fft_result(operand: Shape, kind: FftType, length: tuple[int, ...]) -> Shape:
    if kind in (FftType.FFT, FftType.IFFT):
        return operand
    if kind is FftType.RFFT:
        element = operand.element_type.complex_type or C128
        last = length[-1] // 2 + 1 if length[-1] else operand.dimensions[-1]
    else:
        element, last = operand.element_type.component_type, length[-1]
    dynamic = (*operand.dynamic_dimensions[:-1], operand.dynamic_dimensions[-1] and operand.dimensions[-1] >= 0)
    return Shape.array(element, (*operand.dimensions[:-1], last), dynamic, operand.layout)


FFT = OpDef(
    name="fft",
    family="linalg",
    summary=(
        "The Fourier transform of the innermost dimensions: FFT and IFFT transform complex values, RFFT "
        "transforms real values, and IRFFT returns real values."
    ),
    result=(
        "The dimensions of the operand. RFFT gives `fft_length[-1] // 2 + 1` complex elements in the last one, "
        "and IRFFT `fft_length[-1]` real ones."
    ),
    operands="operand",
    constraints=(
        constraint("The operand is an array.", shared.ARRAY_OPERAND),
        constraint("`fft_length` has 1 to 3 entries, none negative.", codes.TRANSFORM_LENGTH),
        constraint("RFFT takes f32 or f64 elements; the other transforms take complex elements.", shared.ELEMENT_TYPE),
        constraint("The operand has at least as many dimensions as `fft_length` has entries.", shared.MINIMUM_RANK),
        constraint(
            "The innermost dimensions have the sizes in `fft_length`; for IRFFT, the last one has size "
            "`fft_length[-1] // 2 + 1`.",
            codes.TRANSFORM_SIZES,
        ),
    ),
    arity=exactly(1),
    attributes=FftAttributes,
    infer=_infer_fft,
)
