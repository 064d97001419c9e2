"""Worked examples and refusals of dot, ragged-dot and scaled-dot."""

from __future__ import annotations

from xlapy.base.error_codes.operations import contraction as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import NO_MLIR, Example, Refusal, Violation

EXAMPLES = [
    Example(
        "dot",
        """
        lhs = f32[2,3] {{1, 2, 3}, {4, 5, 6}}
        rhs = f32[3,2] {{7, 8}, {9, 10}, {11, 12}}
        product = f32[2,2] dot(lhs, rhs), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        => f32[2,2] {{58, 64}, {139, 154}}
        """,
    ),
    Example(
        "dot",
        """
        lhs = f32[2,2,2] {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}
        rhs = f32[2,2,2] {{{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}}
        product = f32[2,2,2] dot(lhs, rhs), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, \
rhs_contracting_dims={1}
        => f32[2,2,2] {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}
        """,
    ),
    Example(
        "ragged-dot",
        """
        rows = f32[4,2] {{1, 1}, {2, 2}, {3, 3}, {4, 4}}
        matrices = f32[2,2,1] {{{1}, {0}}, {{10}, {10}}}
        sizes = s32[2] {1, 3}
        y = f32[4,1] ragged-dot(rows, matrices, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, \
lhs_ragged_dims={0}, rhs_group_dims={0}
        => f32[4,1] {{1}, {40}, {60}, {80}}
        """,
        xla_cpu="XLA:CPU does not compile ragged-dot",
    ),
    Example(
        "scaled-dot",
        """
        lhs = f8e4m3fn[1,4] {{1, 2, 3, 4}}
        rhs = f8e4m3fn[4,1] {{1}, {1}, {1}, {1}}
        lhs_scale = f8e8m0fnu[1,2] {{2, 4}}
        rhs_scale = f8e8m0fnu[1,1] {{1}}
        y = f32[1,1] scaled-dot(lhs, rhs, lhs_scale, rhs_scale), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        => f32[1,1] {{34}}
        """,
        xla_cpu=NO_MLIR,
    ),
]

_PAIR = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_RAGGED = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"


def _of_any_contraction(op: str, more: str, attributes: str) -> list[Refusal]:
    """Returns refusals for the constraints that all contractions share. `more`: the shapes of the operands after lhs
    and rhs.
    """

    def refusal(constraint: int, result: str, lhs: str, rhs: str, numbers: str, violation: Violation) -> Refusal:
        return Refusal(op, constraint, f"{result} {op}({lhs}, {rhs}{more}), {numbers}{attributes}", violation)

    return [
        refusal(1, "f32[2,4]", "token[]", "f32[3,4]", _PAIR, (shared.ARRAY_OPERAND, op, "operand 0", "token[]")),
        refusal(
            2,
            "f32[2,4]",
            "f32[2,3]",
            "f32[3,4]",
            "lhs_contracting_dims={2}, rhs_contracting_dims={0}",
            (shared.DIMENSION_NUMBER, "lhs contracting dimension 2", "f32[2,3]"),
        ),
        refusal(
            2,
            "f32[2,4]",
            "f32[2,3]",
            "f32[3,4]",
            "lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            (codes.DOT_DISTINCT_DIMENSIONS, "lhs", "[1]"),
        ),
        refusal(
            3,
            "f32[2]",
            "f32[2,3]",
            "f32[3,4]",
            "lhs_contracting_dims={1}, rhs_contracting_dims={}",
            (codes.DOT_PAIRED_DIMENSIONS, "[1]", "f32[2,3]", "[]", "f32[3,4]"),
        ),
        refusal(
            3,
            "f32[2,4]",
            "f32[2,3]",
            "f32[5,4]",
            _PAIR,
            (codes.DOT_PAIR_SIZES, "contracting pair 0", "sizes 3", "lhs dimension 1", "f32[2,3]"),
        ),
        refusal(4, "(f32[2,4])", "f32[2,3]", "f32[3,4]", _PAIR, (codes.DOT_ARRAY_RESULT, op, "(f32[2,4])")),
        refusal(4, "f32[2,4]", "c64[2,3]", "c64[3,4]", _PAIR, (codes.DOT_COMPLEX_RESULT, op, "c64[2,3]")),
    ]


REFUSALS = [
    *_of_any_contraction("dot", "", ""),
    *_of_any_contraction("ragged-dot", ", s32[2]", ", lhs_ragged_dims={0}, rhs_group_dims={0}"),
    *_of_any_contraction("scaled-dot", ", f32[1,1], f32[1,1]", ""),
    Refusal(
        "ragged-dot",
        5,
        "f32[4,1] ragged-dot(f32[4,2], f32[2,2,1], s32[2]), lhs_contracting_dims={1}, \
rhs_contracting_dims={1}, rhs_group_dims={0}",
        (codes.RAGGED_DIMENSION, "lhs", "[]"),
    ),
    Refusal(
        "ragged-dot",
        6,
        f"f32[4,1] ragged-dot(f32[4,2], f32[2,2,1], f32[2]), {_RAGGED}",
        (codes.GROUP_SIZES_TYPE, "f32[2]"),
    ),
    Refusal(
        "ragged-dot",
        7,
        f"f32[4,1] ragged-dot(f32[4,2], f32[2,2,1], s32[3,2]), {_RAGGED}",
        (codes.GROUP_SIZES_DIMENSIONS, "[g]"),
    ),
    Refusal(
        "ragged-dot",
        8,
        "f32[4,2,1] ragged-dot(f32[4,2], f32[2,2,1], s32[2]), lhs_contracting_dims={1}, \
rhs_contracting_dims={1}, lhs_ragged_dims={0}",
        (codes.GROUP_DIMENSION, "rhs", "[]"),
    ),
    Refusal(
        "ragged-dot",
        9,
        f"f32[4,1] ragged-dot(f32[4,2], f32[2,2,1], s32[3]), {_RAGGED}",
        (codes.GROUP_COUNT, "(s32[3])"),
    ),
    Refusal(
        "ragged-dot",
        9,
        "f32[4,2] ragged-dot(f32[4,2], f32[2,2,1], s32[2]), lhs_contracting_dims={1}, \
rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={1}",
        (codes.GROUP_DIMENSION_FREE, "rhs group dimension 1", "f32[2,2,1]"),
    ),
    Refusal(
        "scaled-dot",
        5,
        f"f32[2,4] scaled-dot(f32[2,3], f32[3,4], f32[], f32[]), {_PAIR}",
        (codes.SCALE_GIVEN, "f32[]"),
    ),
    Refusal(
        "scaled-dot",
        6,
        f"f32[2,4] scaled-dot(f32[2,3], f32[3,4], f32[1], f32[1,1]), {_PAIR}",
        (codes.SCALE_RANK, "lhs"),
    ),
    Refusal(
        "scaled-dot",
        6,
        "f32[2,3,3,4] scaled-dot(f32[2,3], f32[3,4], f32[1,1], f32[1,1])",
        (codes.SCALED_CONTRACTION, "lhs", "[]", "f32[2,3]"),
    ),
    Refusal(
        "scaled-dot",
        7,
        f"f32[2,4] scaled-dot(f32[2,3], f32[3,4], f32[1,2], f32[1,1]), {_PAIR}",
        (codes.SCALE_BLOCKS, "lhs dimension 1", "f32[2,3]", "size 3"),
    ),
]
