"""Examples and rules of "Operation semantics": Map, Reduce, ReduceWindow, SelectAndScatter, Scan."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.documents.examples import Array, check, counted, evaluate, f32, function, pred, s32, shape
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.builder import XlaOp
from xlapy.builder.core.padding import Padding

Build = Callable[..., XlaOp]

F32_MAX, F32_MIN = np.finfo(np.float32).max, np.finfo(np.float32).min

ADD = function(ops.add, "f32[]", "f32[]")
ADD_S32 = function(ops.add, "s32[]", "s32[]")
MAX = function(ops.max, "f32[]", "f32[]")
MIN = function(ops.min, "f32[]", "f32[]")
GE = function(ops.ge, "f32[]", "f32[]")


# -- map


class TestMap:
    def test_applies_the_computation_at_each_index(self) -> None:
        f = function(lambda a, b, c: a * b + c, "f32[]", "f32[]", "f32[]")
        x, y, z = counted(2, 3), counted(2, 3, first=10), counted(2, 3, first=20)
        check(lambda *given: ops.map(given, f, [0, 1]), (x, y, z), x * y + z)

    def test_the_trailing_scalar_of_the_example(self) -> None:
        f = function(lambda a, b, c, p: (a + b + c) * p, *["f32[]"] * 4)
        x, y, z = counted(4), counted(4, first=10), counted(4, first=20)
        check(lambda x, y, z, par1: ops.map([x, y, z, par1], f, [0]), (x, y, z, f32(3)), (x + y + z) * 3)
        check(lambda x, y, z, par1: ops.map([x, y, z], f, [0], [par1]), (x, y, z, f32(3)), (x + y + z) * 3)

    def test_the_element_type_is_that_of_the_result(self) -> None:
        f = function(lambda a, b: ops.convert_element_type(a, "s32") + b, "f32[]", "s32[]")
        check(lambda x, y: ops.map([x, y], f, [0]), (f32([1.5, 2.5]), s32([10, 20])), s32([11, 22]))

    @pytest.mark.parametrize("dimensions", [[0], [1, 0], [0, 2], []])
    def test_dimensions_must_be_all_dimensions(self, dimensions: list[int]) -> None:
        f = function(ops.neg, "f32[]")
        with raises(ShapeError, codes.MAP_DIMENSIONS, "rank-1", "f32[2,3]"):
            shape(lambda x: ops.map([x], f, dimensions), "f32[2,3]")

    def test_operands_must_have_the_same_dimensions(self) -> None:
        with raises(ShapeError, shared.SAME_DIMENSIONS, "operand 1", "f32[3]", "f32[2]"):
            shape(lambda x, y: ops.map([x, y], ADD, [0]), "f32[2]", "f32[3]")


# -- reduce


def summed(*dimensions: int) -> Build:
    return lambda x: ops.reduce(x, 0, ADD, dimensions_to_reduce=dimensions)


MATRIX = f32([[1, 2, 3], [4, 5, 6]])
CUBOID = np.stack([MATRIX] * 4)


class TestReduce:
    def test_one_dimension_in_any_grouping(self) -> None:
        values = [10, 11, 12, 13]
        check(summed(0), (f32(values),), f32(46))
        first = values[0] + (values[1] + (values[2] + (0 + values[3])))
        second = 0 + ((values[0] + (0 + values[1])) + ((0 + values[2]) + (0 + values[3])))
        assert first == second == 46

    def test_matrix(self) -> None:
        check(summed(1), (MATRIX,), f32([6, 15]))
        check(summed(0), (MATRIX,), f32([5, 7, 9]))

    def test_dimension_0_of_the_cuboid(self) -> None:
        check(summed(0), (CUBOID,), f32([[4, 8, 12], [16, 20, 24]]))

    def test_dimension_2_of_the_cuboid(self) -> None:
        check(summed(2), (CUBOID,), f32([[6, 15], [6, 15], [6, 15], [6, 15]]))

    @pytest.mark.parametrize("dimensions", list(permutations((0, 1))))
    def test_dimensions_0_and_1_of_the_cuboid(self, dimensions: tuple[int, int]) -> None:
        check(summed(*dimensions), (CUBOID,), f32([20, 28, 36]))

    @pytest.mark.parametrize("dimensions", list(permutations((0, 1, 2))))
    def test_all_dimensions_of_the_cuboid(self, dimensions: tuple[int, int, int]) -> None:
        check(summed(*dimensions), (CUBOID,), f32(84))

    def test_pseudo_code(self) -> None:
        operand, expected = counted(2, 3, 4, 5), np.zeros((3, 5), np.float32)
        for r0, r1, d0, d1 in np.ndindex(3, 5, 2, 4):
            expected[r0, r1] += operand[d0, r0, d1, r1]
        check(summed(0, 2), (operand,), expected)

    def test_no_dimensions_return_the_operand(self) -> None:
        check(lambda x: ops.reduce(x, 100, ADD, []), (MATRIX,), MATRIX)

    def test_no_elements_give_the_initial_value(self) -> None:
        check(lambda x: ops.reduce(x, 7, ADD, [0]), (np.zeros((0, 2), np.float32),), f32([7, 7]))

    @pytest.mark.parametrize(
        ("shapes", "dimensions", "wanted"),
        [
            (("f32[2,3]", "f32[]"), [2], (shared.DIMENSION_NUMBER, "dimension 2", "f32[2,3]")),
            (("f32[2,3]", "f32[]"), [1, 1], (shared.DISTINCT_DIMENSIONS, "[1, 1]")),
            (
                ("f32[2,3]", "f32[1]"),
                [1],
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "initial value 0", "f32[1]"),
            ),
            (
                ("s32[2,3]", "s32[]"),
                [1],
                (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]", "initial value 0", "s32[]"),
            ),
        ],
    )
    def test_refusals(self, shapes: tuple[str, str], dimensions: list[int], wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(lambda x, init: ops.reduce(x, init, ADD, dimensions), *shapes)


def argmax(max_: XlaOp, argmax_: XlaOp, value: XlaOp, index: XlaOp) -> XlaOp:
    """The reduction function in the section's example of a variadic Reduce."""
    later = ops.ge(value, max_)
    return ops.tuple(max_.builder, [ops.select(later, value, max_), ops.select(later, index, argmax_)])


ARGMAX = function(argmax, "f32[]", "s32[]", "f32[]", "s32[]")


class TestVariadicReduce:
    values, indices = f32([3, 9, 4, 9, 1]), np.arange(5, dtype=np.int32)

    def test_maximum_and_its_index(self) -> None:
        check(
            lambda v, k: ops.reduce([v, k], [-np.inf, -1], ARGMAX, [0]), (self.values, self.indices), (f32(9), s32(3))
        )

    def test_equals_the_recursion(self) -> None:
        def step(state: tuple[float, int], element: tuple[float, int]) -> tuple[float, int]:
            return element if element[0] >= state[0] else state

        value, index = reduce(step, zip(self.values, self.indices, strict=True), (-np.inf, -1))
        check(
            lambda v, k: ops.reduce([v, k], [-np.inf, -1], ARGMAX, [0]),
            (self.values, self.indices),
            (f32(value), s32(index)),
        )

    def test_accumulators_come_first(self) -> None:
        def last(a: XlaOp, i: XlaOp, b: XlaOp, j: XlaOp) -> XlaOp:
            return ops.tuple(a.builder, [a + b, ops.max(i, j)])

        f = function(last, "f32[]", "s32[]", "f32[]", "s32[]")
        check(
            lambda v, k: ops.reduce([v, k], [0, 0], f, [1]),
            (f32([[1, 2], [3, 4]]), s32([[5, 9], [8, 7]])),
            (f32([3, 7]), s32([9, 8])),
        )

    def test_operand_dimensions_must_be_equal(self) -> None:
        with raises(ShapeError, shared.SAME_DIMENSIONS, "operand 1", "s32[6]", "operand 0", "f32[5]"):
            shape(lambda v, k: ops.reduce([v, k], [0, 0], ARGMAX, [0]), "f32[5]", "s32[6]")


# -- reduce-window


def windows(combine: Any, init: float, sizes: Any, strides: Any, padding: Any, **dilations: Any) -> Build:
    return lambda x: ops.reduce_window(x, init, combine, sizes, strides, padding, **dilations)


class TestReduceWindow:
    def test_maxima_of_2_by_3_windows(self) -> None:
        x = f32([[1, 5, 2, 8, 0, 3], [4, 3, 9, 7, 6, 2], [0, -1, -2, 5, 5, 5], [-7, -3, -4, 1, 2, 6]])
        check(windows(MAX, F32_MIN, [2, 3], [2, 3], Padding.VALID), (x,), f32([[9, 8], [0, 6]]))

    @pytest.mark.parametrize(("strides", "result"), [((1, 1), "f32[3,4]"), ((2, 3), "f32[2,2]")])
    def test_strides_of_the_figure(self, strides: tuple[int, int], result: str) -> None:
        assert shape(windows(MAX, F32_MIN, [2, 3], strides, "VALID"), "f32[4,6]") == result

    x = f32([10000, 1000, 100, 10, 1])

    def test_valid_minima(self) -> None:
        check(windows(MIN, F32_MAX, [3], [2], Padding.VALID), (self.x,), f32([100, 1]))

    def test_same_minima(self) -> None:
        check(windows(MIN, F32_MAX, [3], [2], Padding.SAME), (self.x,), f32([1000, 10, 1]))

    def test_same_keeps_the_shape_at_stride_1(self) -> None:
        assert shape(windows(ADD, 0, [2, 5, 3], [1, 1, 1], "SAME"), "f32[4,3,1]") == "f32[4,3,1]"

    @pytest.mark.parametrize(("size", "window", "stride"), [(10, 3, 1), (10, 4, 3), (7, 1, 3), (5, 2, 2), (4, 7, 4)])
    def test_same_size_is_the_quotient_rounded_up(self, size: int, window: int, stride: int) -> None:
        build = windows(ADD, 0, [window], [stride], "SAME")
        assert shape(build, f"f32[{size}]") == f"f32[{-(-size // stride)}]"

    def test_same_puts_the_smaller_half_low_and_is_never_negative(self) -> None:
        check(windows(ADD, 0, [4], [1], "SAME"), (f32([1, 10, 100]),), f32([111, 111, 110]))
        check(windows(ADD, 0, [1], [3], "SAME"), (f32([1, 2, 3, 4, 5]),), f32([1, 4]))

    def test_pairs_as_padding(self) -> None:
        check(windows(ADD, 0, [2], [1], [(2, -1)]), (f32([1, 10, 100]),), f32([0, 1, 11]))

    def test_dilation(self) -> None:
        """The second example of ReduceWindow: the top windows contain only padding and holes."""
        build = windows(ADD_S32, 0, [2, 1], [4, 1], [(2, 1), (0, 0)], base_dilations=[2, 1], window_dilations=[3, 1])
        check(build, (s32([[1, 2], [3, 4], [5, 6]]),), s32([[0, 0], [3, 4]]))

    def test_dilation_in_the_form_with_general_padding(self) -> None:
        check(
            lambda x: ops.reduce_window_with_general_padding(
                x, 0, ADD_S32, [2, 1], [4, 1], [2, 1], [3, 1], [(2, 1), (0, 0)]
            ),
            (s32([[1, 2], [3, 4], [5, 6]]),),
            s32([[0, 0], [3, 4]]),
        )

    def test_init_is_used_once_and_holes_add_nothing(self) -> None:
        build = windows(ADD, 1, [2], [1], [(0, 0)], base_dilations=[2])
        assert evaluate(build, f32([10, 20, 30])).tolist() == [11, 21, 21, 31]

    def test_same_with_dilated_windows_keeps_the_shape(self) -> None:
        assert shape(windows(ADD, 0, [3], [1], "SAME", window_dilations=[4]), "f32[10]") == "f32[10]"

    def test_several_operands(self) -> None:
        values, indices = f32([3, 9, 4, 9, 1]), np.arange(5, dtype=np.int32)
        check(
            lambda v, k: ops.reduce_window([v, k], [-np.inf, -1], ARGMAX, [2], [1], "VALID"),
            (values, indices),
            (f32([9, 9, 9, 9]), s32([1, 1, 3, 3])),
        )

    @pytest.mark.parametrize(
        ("sizes", "strides", "wanted"),
        [
            ([2], [1, 1], (shared.ENTRY_PER_DIMENSION, "SAME")),
            ([0, 1], [1, 1], (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
            ([2, 1], [1, 0], (attributes_codes.WINDOW_POSITIVE, "window dimension 1")),
        ],
    )
    def test_refusals(self, sizes: list[int], strides: list[int], wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(windows(ADD, 0, sizes, strides, "SAME"), "f32[4,6]")


# -- select-and-scatter


def selected(sizes: Any, strides: Any, padding: Any = "VALID", select: Any = GE, scatter: Any = ADD) -> Build:
    return lambda operand, source, init: ops.select_and_scatter(
        operand, select, sizes, strides, padding, source, init, scatter
    )


class TestSelectAndScatter:
    source = f32([[2, 6], [3, 1]])

    def test_windows_without_overlap(self) -> None:
        operand = f32([[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]])
        expected = f32([[0, 0, 0, 0, 6, 0], [0, 0, 2, 0, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 1]])
        check(selected([2, 3], [2, 3]), (operand, self.source, f32(0)), expected)

    def test_windows_with_overlap(self) -> None:
        operand = f32([[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]])
        expected = f32([[0, 0, 0, 0, 0], [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0]])
        check(selected([2, 3], [2, 2]), (operand, self.source, f32(0)), expected)

    def test_the_lower_index_is_the_first_parameter(self) -> None:
        first = function(lambda a, b: ops.eq(a, a), "f32[]", "f32[]")
        second = function(lambda a, b: ops.ne(a, a), "f32[]", "f32[]")
        operand, source = f32([5, 6, 7, 8]), f32([1, 2])
        check(selected([2], [2], select=first), (operand, source, f32(0)), f32([1, 0, 2, 0]))
        check(selected([2], [2], select=second), (operand, source, f32(0)), f32([0, 1, 0, 2]))

    def test_scatter_receives_the_current_value_and_the_source(self) -> None:
        f = function(lambda current, value: current * 10 + value, "f32[]", "f32[]")
        check(selected([2], [2], scatter=f), (f32([1, 2, 4, 3]), f32([5, 6]), f32(7)), f32([7, 75, 76, 7]))

    def test_padding_is_never_selected(self) -> None:
        check(selected([2], [2], [(1, 1)]), (f32([-5, -7]), f32([1, 2]), f32(0)), f32([1, 2]))

    def test_same(self) -> None:
        check(selected([3], [2], "SAME"), (f32([1, 5, 2, 3, 4]), f32([1, 10, 100]), f32(0)), f32([0, 11, 0, 0, 100]))

    def test_source_must_have_the_shape_of_the_windows(self) -> None:
        with raises(ShapeError, codes.SOURCE_POSITIONS, "f32[2,3]", "f32[2,2]"):
            shape(selected([2, 3], [2, 3]), "f32[4,6]", "f32[2,3]", "f32[]")

    def test_select_must_return_pred(self) -> None:
        with raises(ShapeError, codes.SELECT_COMPUTATION, "pred[]", "->", "f32"):
            shape(selected([2, 3], [2, 3], select=MAX), "f32[4,6]", "f32[2,2]", "f32[]")


# -- scan


def running(x: XlaOp, carry: XlaOp) -> XlaOp:
    """Computes y = 10 x + carry and the next carry, carry + x."""
    return ops.tuple(x.builder, [x * 10 + carry, carry + x])


RUNNING = function(running, "f32[]", "f32[]")


class TestScan:
    def test_three_steps(self) -> None:
        a, b, c, i = 1.0, 2.0, 4.0, 100.0
        y0, c0 = 10 * a + i, i + a
        y1, c1 = 10 * b + c0, c0 + b
        y2, c2 = 10 * c + c1, c1 + c
        check(
            lambda x, init: ops.scan([x], [init], RUNNING, scan_dimension=0, is_reverse=False),
            (f32([a, b, c]), f32(i)),
            (f32([y0, y1, y2]), f32(c2)),
        )

    def test_reverse(self) -> None:
        check(
            lambda x, init: ops.scan([x], [init], RUNNING, scan_dimension=0, is_reverse=True),
            (f32([1, 2, 4]), f32(100)),
            (f32([116, 124, 140]), f32(107)),
        )

    def test_elements_and_outputs_omit_the_scan_dimension(self) -> None:
        f = function(running, "f32[2]", "f32[2]")
        x = f32([[1, 2, 4], [10, 20, 40]])
        check(
            lambda x, init: ops.scan([x], [init], f, scan_dimension=1),
            (x, f32([0, 0])),
            (f32([[10, 21, 43], [100, 210, 430]]), f32([7, 70])),
        )

    def test_m_inputs_n_outputs_k_carries(self) -> None:
        def step(x: XlaOp, y: XlaOp, carry: XlaOp) -> XlaOp:
            return ops.tuple(x.builder, [x + y, x * y, ops.gt(x, y), carry + x * y])

        f = function(step, "f32[]", "f32[]", "f32[]")
        check(
            lambda x, y, init: ops.scan([x, y], [init], f, scan_dimension=0),
            (f32([1, 5]), f32([3, 4]), f32(0)),
            (f32([4, 9]), f32([3, 20]), pred([False, True]), f32(23)),
        )

    @pytest.mark.parametrize("is_associative", [None, True, False])
    def test_is_associative_is_a_promise(self, is_associative: bool | None) -> None:
        f = function(lambda x, c: ops.tuple(x.builder, [x + c, x + c]), "f32[]", "f32[]")
        check(
            lambda x: ops.scan([x], [0.0], f, 0, is_associative=is_associative),
            (f32([1, 2, 3]),),
            (f32([1, 3, 6]), f32(6)),
        )

    def test_scan_dimension_sizes_must_agree(self) -> None:
        f = function(lambda x, y, c: ops.tuple(x.builder, [x + y, c]), "f32[]", "f32[]", "f32[]")
        with raises(ShapeError, codes.SCAN_SIZE, "operand 1", "f32[4]", "dimension 0", "size 3"):
            shape(lambda x, y: ops.scan([x, y], [0.0], f, 0), "f32[3]", "f32[4]")

    def test_carries_must_keep_their_type(self) -> None:
        f = function(lambda x, c: ops.tuple(x.builder, [x, ops.convert_element_type(c, "s32")]), "f32[]", "f32[]")
        with raises(ShapeError, codes.SCAN_BODY_SHAPES, "carry 0", "f32[]", "s32[]"):
            shape(lambda x: ops.scan([x], [0.0], f, 0), "f32[3]")


def test_a_reduction_written_as_a_scan() -> None:
    """The pseudocode of Reduce over one dimension, as a scan without outputs."""
    f = function(lambda x, c: ops.tuple(x.builder, [x, x + c]), "f32[]", "f32[]")
    operand: Array = f32([10, 11, 12, 13])
    assert evaluate(lambda x: ops.scan([x], [0.0], f, 0), operand)[1] == evaluate(summed(0), operand) == 46
