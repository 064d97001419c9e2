"""Every example and every invalid case of XLA's page on broadcasting, as values and as instructions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder.programs import evaluate, opcode_names, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import BuilderError

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def counted(*sizes: int, first: int = 1) -> np.ndarray:
    return np.arange(first, first + int(np.prod(sizes)), dtype=np.float32).reshape(sizes)


def added(lhs: np.ndarray, rhs: np.ndarray, dimensions: tuple[int, ...] = ()) -> np.ndarray:
    """Computes lhs + rhs with the builder and the interpreter; checks that the builder's shape is that of the value."""
    a, b = parameters(*[f"f32[{','.join(map(str, x.shape))}]" for x in (lhs, rhs)])
    result = ops.add(a, b, dimensions)
    value = evaluate(result, lhs, rhs)
    assert result.shape.dimensions == value.shape
    return value


class TestThePage:
    def test_vector_replicated_over_rows(self) -> None:
        np.testing.assert_array_equal(added(X, np.float32([7, 8, 9]), (1,)), [[8, 10, 12], [11, 13, 15]])

    def test_scalar(self) -> None:
        np.testing.assert_array_equal(added(X, np.float32(7)), [[8, 9, 10], [11, 12, 13]])
        np.testing.assert_array_equal(added(np.float32(7), X), [[8, 9, 10], [11, 12, 13]])

    def test_matrix_and_vector_without_dimensions_is_invalid(self) -> None:
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "f32[3]", "f32[2,3]"):
            added(X, np.float32([7, 8, 9]))

    def test_square_matrix_matched_to_columns_and_to_rows(self) -> None:
        zeros, v = np.zeros((3, 3), np.float32), np.float32([7, 8, 9])
        np.testing.assert_array_equal(added(zeros, v, (1,)), [[7, 8, 9]] * 3)
        np.testing.assert_array_equal(added(zeros, v, (0,)), [[7] * 3, [8] * 3, [9] * 3])

    def test_dimension_of_another_size_is_invalid(self) -> None:
        with raises(ShapeError, codes.COMPATIBLE_SIZES, "f32[3]", "size 3", "dimension 0", "f32[2,3]", "size 2"):
            added(X, np.float32([7, 8, 9]), (0,))

    def test_cuboid_and_matrix(self) -> None:
        cuboid, matrix = counted(2, 3, 4), counted(3, 4, first=100)
        np.testing.assert_array_equal(added(cuboid, matrix, (1, 2)), cuboid + matrix[None])

    @pytest.mark.parametrize("dimension", range(4))
    def test_formal_definition_vector(self, dimension: int) -> None:
        array = counted(2, 3, 4, 5)
        vector = counted(array.shape[dimension], first=1000)
        placed = vector.reshape([-1 if d == dimension else 1 for d in range(4)])
        np.testing.assert_array_equal(added(array, vector, (dimension,)), array + placed)

    @pytest.mark.parametrize("dimensions", [(2, 3), (1, 2), (0, 3)])
    def test_formal_definition_matrix(self, dimensions: tuple[int, int]) -> None:
        array = counted(2, 3, 4, 5)
        matrix = counted(*[array.shape[d] for d in dimensions], first=1000)
        placed = matrix.reshape([array.shape[d] if d in dimensions else 1 for d in range(4)])
        np.testing.assert_array_equal(added(array, matrix, dimensions), array + placed)

    def test_decreasing_dimensions_are_illegal(self) -> None:
        with raises(ShapeError, codes.ASCENDING_BROADCAST, "[2, 1]", "f32[4,3]", "f32[2,3,4,5]"):
            added(counted(2, 3, 4, 5), counted(4, 3), (2, 1))

    def test_one_dimension_twice_is_illegal(self) -> None:
        with raises(ShapeError, codes.ASCENDING_BROADCAST, "[1, 1]"):
            added(counted(2, 3, 4, 5), counted(3, 3), (1, 1))

    @pytest.mark.parametrize(
        ("left", "right"), [((2, 1), (2, 3)), ((1, 2, 5), (7, 2, 5)), ((7, 2, 5), (7, 1, 5)), ((2, 1), (1, 3))]
    )
    def test_degenerate_dimensions(self, left: tuple[int, ...], right: tuple[int, ...]) -> None:
        a, b = counted(*left), counted(*right, first=50)
        np.testing.assert_array_equal(added(a, b), a + b)
        np.testing.assert_array_equal(added(b, a), a + b)

    def test_incompatible_sizes(self) -> None:
        with raises(ShapeError, codes.COMPATIBLE_SIZES, "f32[7,2,5]", "size 5", "dimension 2", "f32[7,2,6]", "size 6"):
            added(counted(7, 2, 5), counted(7, 2, 6))

    def test_composition_of_vector_and_row(self) -> None:
        value = added(np.float32([1, 2, 3, 4]), np.float32([[5, 6]]), (0,))
        np.testing.assert_array_equal(value, [[6, 7], [7, 8], [8, 9], [9, 10]])

    def test_composition_of_row_and_cuboid(self) -> None:
        row, cuboid = counted(1, 2), counted(4, 3, 1, first=10)
        value = added(row, cuboid, (1, 2))
        np.testing.assert_array_equal(value, row[None] + cuboid)
        assert value.shape == (4, 3, 2)


class TestRules:
    def test_either_side_may_have_the_lower_rank(self) -> None:
        v = np.float32([7, 8, 9])
        a, b = parameters("f32[3]", "f32[2,3]")
        np.testing.assert_array_equal(evaluate(ops.sub(a, b, [1]), v, X), v - X)

    @pytest.mark.parametrize("dimensions", [(), (0, 1)])
    def test_equal_rank_takes_none_or_the_identity(self, dimensions: tuple[int, ...]) -> None:
        np.testing.assert_array_equal(added(X, X, dimensions), X + X)

    @pytest.mark.parametrize("dimensions", [(0,), (1, 0), (0, 2), (0, 1, 2)])
    def test_equal_rank_refuses_others(self, dimensions: tuple[int, ...]) -> None:
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "f32[2,3]", "broadcast_dimensions"):
            added(X, X, dimensions)

    @pytest.mark.parametrize("dimensions", [(1, 2), (0, 1, 2)])
    def test_one_entry_per_dimension_of_the_lower_rank(self, dimensions: tuple[int, ...]) -> None:
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "broadcast_dimensions", "f32[3]"):
            added(counted(2, 3, 3), counted(3), dimensions)

    @pytest.mark.parametrize("dimension", [-1, 2])
    def test_dimension_out_of_range(self, dimension: int) -> None:
        with raises(ShapeError, shared.DIMENSION_NUMBER, f"[{dimension}]", f"{dimension}", "f32[2,3]", "rank 2"):
            added(X, counted(3), (dimension,))

    def test_scalar_needs_no_dimensions_and_takes_none(self) -> None:
        with raises(ShapeError, codes.BROADCAST_DIMENSIONS, "broadcast_dimensions", "[0]"):
            added(X, np.float32(1), (0,))

    def test_mapped_dimension_of_size_one_on_either_side(self) -> None:
        one, wide = counted(1), counted(2, 3)
        np.testing.assert_array_equal(added(wide, one, (1,)), wide + one)
        column, vector = counted(2, 1), counted(3)
        np.testing.assert_array_equal(added(column, vector, (1,)), column + vector)

    def test_size_zero(self) -> None:
        assert added(counted(0, 3), counted(1, 3)).shape == (0, 3)
        with raises(ShapeError, codes.COMPATIBLE_SIZES, "size 0", "dimension 0", "size 2"):
            added(counted(0, 3), counted(2, 3))

    def test_no_integers(self) -> None:
        a, b = parameters("f32[2,3]", "f32[3]")
        with raises(BuilderError, codes.LIST_OF_INTEGERS, "broadcast_dimensions", "[0.5]"):
            ops.add(a, b, [0.5])  # type: ignore[list-item]

    def test_tuples_are_refused(self) -> None:
        a, b = parameters("f32[2]", "(f32[2])")
        with raises(ShapeError, shared.ARRAY_OPERAND, "rhs", "(f32[2])"):
            ops.add(a, b)

    @pytest.mark.parametrize("name", ["compare", "complex", "atan2", "shift_left", "max", "pow"])
    def test_every_binary_function_broadcasts(self, name: str) -> None:
        kind = "s32" if name == "shift_left" else "f32"
        a, b = parameters(f"{kind}[3]", f"{kind}[2,3]")
        options = {"direction": "LT"} if name == "compare" else {}
        assert getattr(ops, name)(a, b, [1], **options).shape.dimensions == (2, 3)


class TestInstructions:
    def test_scalar_is_one_broadcast(self) -> None:
        a, b = parameters("f32[2,3]", "f32[]")
        result = ops.add(a, b)
        assert opcode_names(result) == ["broadcast", "add"]
        assert result.instruction.operands[1].dimensions == ()

    def test_lower_rank_is_one_broadcast(self) -> None:
        a, b = parameters("f32[2,3]", "f32[3]")
        result = ops.add(a, b, [1])
        assert opcode_names(result) == ["broadcast", "add"]
        assert result.instruction.operands[1].dimensions == (1,)

    def test_degenerate_is_reshape_and_broadcast(self) -> None:
        a, b = parameters("f32[2,3]", "f32[1,3]")
        result = ops.add(a, b)
        assert opcode_names(result) == ["reshape", "broadcast", "add"]
        wide = result.instruction.operands[1]
        assert wide.operands[0].shape.to_text(layout=False) == "f32[3]"
        assert wide.dimensions == (1,)

    def test_lower_rank_with_degenerate_dimension_is_placed_then_expanded(self) -> None:
        a, b = parameters("f32[4,3,1]", "f32[1,2]")
        result = ops.add(a, b, [1, 2])
        assert opcode_names(result) == ["reshape", "broadcast", "broadcast", "reshape", "broadcast", "add"]
        assert result.shape.to_text(layout=False) == "f32[4,3,2]"

    def test_equal_shapes_need_none(self) -> None:
        a, b = parameters("f32[2,3]", "f32[2,3]")
        assert opcode_names(ops.add(a, b)) == ["add"]


class TestDynamic:
    def test_dynamic_dimension_of_either_side_is_kept(self) -> None:
        a, b = parameters("f32[<=4,3]", "f32[4,3]")
        assert ops.add(b, a).shape.to_text(layout=False) == "f32[<=4,3]"

    def test_scalar_beside_dynamic(self) -> None:
        a, b = parameters("f32[<=4]", "f32[]")
        result = ops.add(b, a)
        assert result.instruction.operands[0].shape.to_text(layout=False) == "f32[4]"
        assert result.shape.to_text(layout=False) == "f32[<=4]"

    def test_lower_rank_dynamic(self) -> None:
        a, b = parameters("f32[2,<=4]", "f32[<=4]")
        assert ops.add(a, b, [1]).shape.to_text(layout=False) == "f32[2,<=4]"

    @pytest.mark.parametrize(
        ("left", "right", "dimensions"),
        [
            ("f32[2,3]", "f32[<=1]", [1]),
            ("f32[2,<=3]", "f32[<=1]", [1]),
            ("f32[3]", "f32[<=1]", []),
            ("f32[<=1]", "f32[<=3]", []),
        ],
    )
    def test_dynamic_dimension_of_size_one_is_not_repeated(self, left: str, right: str, dimensions: list[int]) -> None:
        a, b = parameters(left, right)
        with raises(ShapeError, codes.REPEATED_DIMENSION, "size 1"):
            ops.add(a, b, dimensions)

    def test_static_dimension_of_size_one_beside_dynamic(self) -> None:
        a, b = parameters("f32[2,<=3]", "f32[1]")
        assert ops.add(a, b, [1]).shape.to_text(layout=False) == "f32[2,<=3]"

    def test_unbounded_is_refused(self) -> None:
        a, b = parameters("f32[?]", "f32[]")
        with raises(ShapeError, codes.STATIC_DIMENSIONS, "lhs", "f32[?]"):
            ops.add(a, b)
