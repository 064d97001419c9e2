"""Every example and rule of XLA's page "Broadcasting", in the order of the page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.documents.examples import Array, built, check, counted, evaluate, f32, shape
from tests.raising import raises
from xlapy import opcodes, ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import elementwise as elementwise_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.builder import XlaOp

X = f32([[1, 2, 3], [4, 5, 6]])
V = f32([7, 8, 9])


def add(*broadcast_dimensions: int) -> Callable[..., XlaOp]:
    return lambda lhs, rhs: ops.add(lhs, rhs, broadcast_dimensions)


class TestWhatIsBroadcasting:
    def test_matrix_and_vector(self) -> None:
        check(add(1), (X, V), f32([[8, 10, 12], [11, 13, 15]]))
        check(add(1), (V, X), f32([[8, 10, 12], [11, 13, 15]]))

    def test_the_lengths_must_match(self) -> None:
        with raises(ShapeError, codes.COMPATIBLE_SIZES, "dimension 0", "f32[4]", "size 4", "dimension 1", "f32[2,3]"):
            shape(add(1), "f32[2,3]", "f32[4]")


class TestLowerOntoHigher:
    def test_scalar_needs_no_dimensions(self) -> None:
        check(add(), (X, f32(7)), f32([[8, 9, 10], [11, 12, 13]]))
        check(lambda x: x + 7, (X,), f32([[8, 9, 10], [11, 12, 13]]))

    def test_vector_without_dimensions_is_invalid(self) -> None:
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "f32[3]", "f32[2,3]", "broadcast_dimensions"):
            shape(add(), "f32[2,3]", "f32[3]")

    def test_vector_added_to_each_row(self) -> None:
        check(add(1), (np.zeros((2, 3), np.float32), V), f32([[7, 8, 9], [7, 8, 9]]))

    def test_dimension_1_of_a_square_matrix(self) -> None:
        check(add(1), (np.zeros((3, 3), np.float32), V), f32([[7, 8, 9], [7, 8, 9], [7, 8, 9]]))

    def test_dimension_0_of_a_square_matrix(self) -> None:
        check(add(0), (np.zeros((3, 3), np.float32), V), f32([[7, 7, 7], [8, 8, 8], [9, 9, 9]]))

    def test_dimension_0_of_a_2_by_3_matrix_is_invalid(self) -> None:
        with raises(ShapeError, codes.COMPATIBLE_SIZES, "dimension 0", "f32[3]", "size 3", "f32[2,3]"):
            shape(add(0), "f32[2,3]", "f32[3]")

    def test_matrix_matched_to_dimensions_1_and_2_of_a_cuboid(self) -> None:
        cuboid, matrix = counted(2, 3, 4), counted(3, 4, first=100)
        check(add(1, 2), (cuboid, matrix), np.stack([cuboid[0] + matrix, cuboid[1] + matrix]))


SIZES = (2, 3, 4, 5)
"""The sizes M, N, P, Q of the page."""


def placed(array: Array, dimensions: tuple[int, ...]) -> Array:
    """Moves the array's dimensions to these positions among four, and repeats it along the others."""
    expanded = array.reshape([SIZES[d] if d in dimensions else 1 for d in range(4)])
    return np.broadcast_to(expanded, SIZES)


class TestFormalDefinition:
    @pytest.mark.parametrize("dimension", [3, 2, 1, 0])
    def test_vector(self, dimension: int) -> None:
        array, vector = counted(*SIZES), counted(SIZES[dimension], first=1000)
        check(add(dimension), (array, vector), array + placed(vector, (dimension,)))

    @pytest.mark.parametrize("dimensions", [(2, 3), (1, 2), (0, 3), (0, 1), (0, 2), (1, 3)])
    def test_matrix(self, dimensions: tuple[int, ...]) -> None:
        array, matrix = counted(*SIZES), counted(*[SIZES[d] for d in dimensions], first=1000)
        check(add(*dimensions), (array, matrix), array + placed(matrix, dimensions))

    def test_values_repeat_along_the_other_dimensions(self) -> None:
        check(add(1), (np.zeros(SIZES, np.float32), f32([7, 8, 9])), np.array(placed(f32([7, 8, 9]), (1,))))

    def test_V_to_N_with_T_to_P_is_illegal(self) -> None:  # noqa: N802
        with raises(ShapeError, codes.ASCENDING_BROADCAST, "[2, 1]"):
            shape(add(2, 1), "f32[2,3,4,5]", "f32[4,3]")

    def test_one_dimension_matched_twice_is_illegal(self) -> None:
        with raises(ShapeError, codes.ASCENDING_BROADCAST, "broadcast_dimensions", "[1, 2, 1]"):
            shape(add(1, 2, 1), "f32[2,3,4,5]", "f32[3,4,3]")

    def test_repeated_dimension_is_illegal(self) -> None:
        with raises(ShapeError, codes.ASCENDING_BROADCAST, "[1, 1]"):
            shape(add(1, 1), "f32[2,3,4,5]", "f32[3,3]")

    @pytest.mark.parametrize("dimensions", [(1,), (0, 1, 2)])
    def test_the_lower_rank_operand_has_one_entry_per_dimension(self, dimensions: tuple[int, ...]) -> None:
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "broadcast_dimensions", "f32[3,4]"):
            shape(add(*dimensions), "f32[2,3,4,5]", "f32[3,4]")

    @pytest.mark.parametrize("dimension", [-1, 4])
    def test_entries_in_range(self, dimension: int) -> None:
        with raises(ShapeError, shared.DIMENSION_NUMBER, f"{dimension}", "f32[2,3,4,5]", "rank 4"):
            shape(add(dimension), "f32[2,3,4,5]", "f32[5]")

    def test_equal_ranks_allow_only_the_identity(self) -> None:
        check(add(0, 1), (X, X), 2 * X)
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "broadcast_dimensions", "[1, 0]"):
            shape(add(1, 0), "f32[3,3]", "f32[3,3]")


class TestDegenerateDimensions:
    @pytest.mark.parametrize(
        ("left", "right", "result"),
        [
            ((2, 1), (2, 3), (2, 3)),
            ((1, 2, 5), (7, 2, 5), (7, 2, 5)),
            ((7, 2, 5), (7, 1, 5), (7, 2, 5)),
            ((2, 1), (1, 3), (2, 3)),
        ],
    )
    def test_compatible(self, left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]) -> None:
        a, b = counted(*left), counted(*right, first=100)
        assert evaluate(add(), a, b).shape == result
        check(add(), (a, b), a + b)
        check(add(), (b, a), b + a)

    def test_incompatible(self) -> None:
        with raises(ShapeError, codes.COMPATIBLE_SIZES, "dimension 2", "f32[7,2,5]", "size 5", "size 6"):
            shape(add(), "f32[7,2,5]", "f32[7,2,6]")

    def test_outer_operation(self) -> None:
        check(ops.mul, (f32([[2], [3]]), f32([[10, 20, 30]])), f32([[20, 40, 60], [30, 60, 90]]))


class TestComposition:
    def test_vector_of_4_and_matrix_of_1_by_2(self) -> None:
        check(add(0), (f32([1, 2, 3, 4]), f32([[5, 6]])), f32([[6, 7], [7, 8], [8, 9], [9, 10]]))

    def test_matrix_of_1_by_2_and_array_of_4_by_3_by_1(self) -> None:
        matrix, array = counted(1, 2), counted(4, 3, 1, first=100)
        assert shape(add(1, 2), "f32[1,2]", "f32[4,3,1]") == "f32[4,3,2]"
        check(add(1, 2), (matrix, array), array + matrix.reshape(1, 1, 2))

    def test_the_built_program_has_explicit_broadcasts(self) -> None:
        root = built(add(0), "f32[4]", "f32[1,2]")
        assert root.instruction.op is opcodes.ADD
        assert [operand.shape.to_text(layout=False) for operand in root.instruction.operands] == [
            "f32[4,2]",
            "f32[4,2]",
        ]
        assert {i.op.name for i in root.instruction.parent or ()} == {"parameter", "broadcast", "reshape", "add"}


NUMBERS = (ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.max, ops.min, ops.pow)
BITS = (ops.and_, ops.or_, ops.xor, ops.shift_left, ops.shift_right_arithmetic, ops.shift_right_logical)
COMPARISONS = (
    ops.eq,
    ops.ne,
    ops.ge,
    ops.gt,
    ops.le,
    ops.lt,
    ops.eq_total_order,
    ops.ne_total_order,
    ops.ge_total_order,
    ops.gt_total_order,
    ops.le_total_order,
    ops.lt_total_order,
)
EVERY_BINARY = [
    *[(op, "f32", "f32") for op in NUMBERS],
    *[(op, "s32", "s32") for op in BITS],
    *[(op, "f32", "pred") for op in COMPARISONS],
    (ops.atan2, "f32", "f32"),
    (ops.complex, "f32", "c64"),
]


@pytest.mark.parametrize(("op", "operand", "result"), EVERY_BINARY, ids=lambda value: getattr(value, "__name__", value))
def test_every_binary_op_broadcasts(op: Callable[..., XlaOp], operand: str, result: str) -> None:
    higher, lower = f"{operand}[2,3,4]", f"{operand}[3,1]"
    for left, right in ((higher, lower), (lower, higher)):
        assert shape(lambda a, b: op(a, b, broadcast_dimensions=[1, 2]), left, right) == f"{result}[2,3,4]"
    assert shape(op, f"{operand}[2,1]", f"{operand}[1,3]") == f"{result}[2,3]"
    assert shape(op, f"{operand}[2,3]", f"{operand}[]") == f"{result}[2,3]"
    with raises(ShapeError, codes.BROADCAST_DIMENSIONS):
        shape(op, higher, lower)


class TestScalarsOnly:
    """Clamp and select broadcast scalars only."""

    def test_clamp(self) -> None:
        assert shape(ops.clamp, "f32[]", "f32[2,3]", "f32[]") == "f32[2,3]"
        with raises(ShapeError, elementwise_codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2,3]", "f32[1,3]"):
            shape(ops.clamp, "f32[1,3]", "f32[2,3]", "f32[]")

    def test_select(self) -> None:
        assert shape(ops.select, "pred[]", "f32[2,3]", "f32[2,3]") == "f32[2,3]"
        with raises(ShapeError, elementwise_codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2,3]", "pred[1,3]"):
            shape(ops.select, "pred[1,3]", "f32[2,3]", "f32[2,3]")
