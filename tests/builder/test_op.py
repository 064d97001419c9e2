"""XlaOp: Python's operators, indexing, and conversions that fail because the value is not known yet."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.builder.programs import evaluate, opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaOp

A = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


class TestOperators:
    @pytest.mark.parametrize(
        ("function", "name"),
        [
            (operator.add, "add"),
            (operator.sub, "subtract"),
            (operator.mul, "multiply"),
            (operator.truediv, "divide"),
            (operator.mod, "remainder"),
            (operator.pow, "power"),
            (operator.and_, "and"),
            (operator.or_, "or"),
            (operator.xor, "xor"),
            (operator.lshift, "shift-left"),
            (operator.rshift, "shift-right-arithmetic"),
        ],
    )
    def test_binary(self, function: Callable[[Any, Any], XlaOp], name: str) -> None:
        x, y = parameters("s32[3]", "s32[3]")
        assert function(x, y).instruction.op.name == name
        left = function(7, x).instruction
        assert (left.op.name, left.operands[1]) == (name, x.instruction)
        right = function(x, np.int32([1, 2, 3])).instruction
        assert (right.op.name, right.operands[0], right.operands[1].op.name) == (name, x.instruction, "constant")

    @pytest.mark.parametrize(
        ("function", "name"),
        [(operator.neg, "negate"), (operator.invert, "not"), (abs, "abs")],
    )
    def test_unary(self, function: Callable[[Any], XlaOp], name: str) -> None:
        (x,) = parameters("s32[3]")
        assert function(x).instruction.op.name == name

    def test_matrix_product(self) -> None:
        x, v = parameters("f32[2,3]", "f32[3]")
        assert (x @ v).shape.to_text(layout=False) == "f32[2]"
        product = np.float32([[1, 2], [3, 4]]) @ x
        assert (product.instruction.op.name, product.shape.to_text(layout=False)) == ("dot", "f32[2,3]")
        assert evaluate(product @ v, np.float32([[1, 0, 0], [0, 1, 0]]), np.float32([1, 10, 100])).tolist() == [21, 43]

    def test_plus_is_the_op_itself(self) -> None:
        (x,) = parameters("s32[3]")
        assert +x is x

    @pytest.mark.parametrize(
        ("function", "direction"),
        [
            (operator.eq, "EQ"),
            (operator.ne, "NE"),
            (operator.lt, "LT"),
            (operator.le, "LE"),
            (operator.gt, "GT"),
            (operator.ge, "GE"),
        ],
    )
    def test_comparison(self, function: Callable[[Any, Any], XlaOp], direction: str) -> None:
        (x,) = parameters("s32[3]")
        result = function(x, 2)
        assert result.instruction.direction.value == direction
        expected = [bool(function(i, 2)) for i in (1, 2, 3)]
        assert evaluate(result, np.int32([1, 2, 3])).tolist() == expected

    def test_reflected_comparison(self) -> None:
        (x,) = parameters("s32[3]")
        assert evaluate(np.int32([2, 2, 2]) < x, np.int32([1, 2, 3])).tolist() == [False, False, True]

    def test_shift_right_of_unsigned_is_logical(self) -> None:
        (x,) = parameters("u8[1]")
        assert evaluate(x >> 1, np.uint8([0x80])).tolist() == [0x40]

    def test_shift_right_of_floats(self) -> None:
        (x,) = parameters("f32[1]")
        with raises(ShapeError, shared.ELEMENT_TYPE):
            x >> 1

    def test_numpy_on_the_left(self) -> None:
        (x,) = parameters("f32[2]")
        result = np.float32([1, 2]) - x
        assert isinstance(result, XlaOp)
        assert evaluate(result, np.float32([3, 3])).tolist() == [-2, -1]

    def test_expression(self) -> None:
        (x,) = parameters("f32[3]")
        value = evaluate(1 / (1 + x**2) - 0.5, np.float32([0, 1, 2]))
        np.testing.assert_allclose(value, [0.5, 0, -0.3], rtol=1e-6)


class TestNotAValue:
    @pytest.mark.parametrize(
        ("use", "what"),
        [
            (bool, "truth value; use ops.select"),
            (int, "int"),
            (float, "float"),
            (operator.index, "Python index"),
            (np.asarray, "NumPy array; build the computation"),
            (lambda x: 1 if x > 0 else 2, "truth value"),
        ],
    )
    def test_refused(self, use: Callable[[XlaOp], Any], what: str) -> None:
        (x,) = parameters("s32[]")
        with raises(BuilderError, codes.RUN_TIME_VALUE, what):
            use(x)

    def test_hash_is_identity(self) -> None:
        x, y = parameters("s32[]", "s32[]")
        assert {x: 1, y: 2}[x] == 1

    def test_repr(self) -> None:
        (x,) = parameters("s32[2]")
        assert repr(x + x) == "<XlaOp add = s32[2] add>"

    def test_length(self) -> None:
        x, t, scalar = parameters("s32[2,3]", "(f32[], s32[], pred[])", "s32[]")
        assert (len(x), len(t)) == (2, 3)
        with raises(BuilderError, codes.LENGTH, "p2", "s32[]"):
            len(scalar)


class TestIndexing:
    @pytest.mark.parametrize(
        "index",
        [
            0,
            -1,
            slice(1, 2),
            (1, 2, 3),
            (slice(None), 1),
            (slice(None), slice(None, None, 2)),
            (),
            ...,
            (..., 0),
            (1, ...),
            (0, ..., 2),
            (slice(None), ..., slice(1, 3)),
            None,
            (None, 0, None),
            (..., None),
            (slice(None), slice(None, None, -1)),
            (slice(None), slice(None), slice(3, 0, -2)),
            (slice(None), slice(-1, None, -1), slice(None, None, -3)),
            (slice(1, 1),),
            (slice(5, 9),),
            (slice(None), slice(2, 0)),
            (slice(-1, None),),
            (np.int64(1), slice(None, 2)),
            (slice(None), slice(None), slice(None, None, 5)),
            (slice(None), slice(None), slice(None, None, -5)),
        ],
        ids=str,
    )
    def test_as_numpy(self, index: Any) -> None:
        (x,) = parameters("s32[2,3,4]")
        result = x[index]
        expected = A[index]
        assert result.shape.dimensions == expected.shape
        np.testing.assert_array_equal(evaluate(result, A), expected)

    def test_indexing_the_whole_array_returns_the_op(self) -> None:
        (x,) = parameters("s32[2,3,4]")
        assert x[...] is x
        assert x[:, :] is x

    def test_instructions(self) -> None:
        (x,) = parameters("s32[2,3,4]")
        assert opcode_names(x[0, ::-1, None, 1:3]) == ["slice", "reverse", "reshape"]

    @pytest.mark.parametrize("position", [0, 1, 2, 9, -4])
    def test_run_time_position_is_clamped(self, position: int) -> None:
        x, i = parameters("s32[2,3,4]", "s32[]")
        result = x[:, i, 1:3]
        assert opcode_names(result) == ["slice", "constant", "constant", "dynamic-slice", "reshape"]
        np.testing.assert_array_equal(evaluate(result, A, np.int32(position)), A[:, min(max(position, 0), 2), 1:3])

    def test_two_run_time_positions(self) -> None:
        x, i, j = parameters("s32[2,3,4]", "u32[]", "u32[]")
        np.testing.assert_array_equal(evaluate(x[i, ..., j], A, np.uint32(1), np.uint32(2)), A[1, :, 2])

    @pytest.mark.parametrize(
        ("index", "wanted"),
        [
            (2, (codes.INDEX_RANGE, "index 2", "dimension 0", "s32[2,3,4]")),
            ((0, -4), (codes.INDEX_RANGE, "index -4", "dimension 1")),
            ((0, 0, 0, 0), (codes.INDEX_COUNT, "s32[2,3,4]", "rank 3")),
            ((..., ...), (codes.INDEX_COUNT, "`...`")),
            ("a", (codes.INDEX_KIND, "`...`", "'a'")),
            (True, (codes.INDEX_KIND,)),
            (1.0, (codes.INDEX_KIND, "1.0")),
            ([0, 1], (codes.INDEX_KIND, "[0, 1]")),
            (slice(None, None, 0), (codes.INDEX_KIND,)),
            (slice("a", None), (codes.INDEX_KIND,)),
        ],
    )
    def test_refused(self, index: Any, wanted: Wanted) -> None:
        (x,) = parameters("s32[2,3,4]")
        with raises(BuilderError, *wanted):
            x[index]
        assert opcode_names(x) == []

    def test_refused_ops_as_index(self) -> None:
        x, v, f = parameters("s32[2]", "s32[2]", "f32[]")
        with raises(BuilderError, codes.INDEX_KIND, "s32[2]"):
            x[v]
        with raises(BuilderError, codes.INDEX_KIND, "f32[]"):
            x[f]
        with raises(BuilderError, codes.INDEX_KIND):
            x[v[0] : 2]

    def test_dynamic_dimensions_survive_a_new_axis(self) -> None:
        (x,) = parameters("s32[<=4,3]")
        assert x[:, None].shape.to_text(layout=False) == "s32[<=4,1,3]"

    def test_iteration(self) -> None:
        (x,) = parameters("s32[2,3,4]")
        first, second = x
        assert first.shape.to_text(layout=False) == "s32[3,4]"
        np.testing.assert_array_equal(evaluate(second, A), A[1])

    def test_tuple(self) -> None:
        (t,) = parameters("(f32[2], s32[])")
        first, second = t
        assert (first.shape.to_text(layout=False), second.shape.to_text(layout=False)) == ("f32[2]", "s32[]")
        assert t[-1].shape.to_text(layout=False) == "s32[]"
        for index in (2, -3, slice(None), (0, 0), "a"):
            with raises(BuilderError, codes.TUPLE_ELEMENT, "-2"):
                t[index]

    def test_token(self) -> None:
        (t,) = parameters("token[]")
        with raises(BuilderError, shared.ARRAY_OPERAND, "p0", "token[]"):
            t[0]
