"""The builder functions of reductions, windows, maps and scans: instructions and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy.interpreter.reduction  # noqa: F401  (registers the rules)
from tests.builder.programs import evaluate, listing, opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.base.errors import BuilderError
from xlapy.base.literal import Literal
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp
from xlapy.builder.core.padding import Padding


def computation(name: str, shapes: list[str], make: Callable[..., Any]) -> XlaComputation:
    builder = XlaBuilder(name)
    make(*[ops.parameter(builder, number, Shape.parse(text)) for number, text in enumerate(shapes)])
    return builder.build()


def binary(name: str, t: str = "f32") -> XlaComputation:
    return computation(name, [f"{t}[]"] * 2, getattr(ops, name))


def larger() -> XlaComputation:
    """Selects value and index of the larger of two elements; of equal ones, the later."""

    def make(max: XlaOp, argmax: XlaOp, value: XlaOp, index: XlaOp) -> None:
        wins = ops.ge(value, max)
        ops.tuple(max.builder, [ops.select(wins, value, max), ops.select(wins, index, argmax)])

    return computation("larger", ["f32[]", "s32[]", "f32[]", "s32[]"], make)


def refused(wanted: Wanted, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with raises(BuilderError, *wanted, "test_reduction.py"):
        call(*arguments, **named)


MATRIX = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


class TestReduce:
    def test_one_dimension(self) -> None:
        (x,) = parameters("f32[2,3]")
        assert evaluate(ops.reduce(x, 0.0, binary("add"), [1]), MATRIX).tolist() == [6, 15]

    def test_the_arguments_have_the_names_of_the_specification(self) -> None:
        (x,) = parameters("f32[2,3]")
        result = ops.reduce(operands=[x], init_values=[0], computation=binary("add"), dimensions_to_reduce=(0,))
        assert evaluate(result, MATRIX).tolist() == [5, 7, 9]

    @pytest.mark.parametrize("init", [1, 1.0, np.float32(1), np.ones((), np.float32), Literal.of(np.float32(1))])
    def test_plain_initial_values(self, init: Any) -> None:
        (x,) = parameters("f32[2,3]")
        assert evaluate(ops.reduce(x, init, binary("add"), [0, 1]), MATRIX) == 22

    def test_an_initial_value_of_the_program(self) -> None:
        x, init = parameters("f32[2,3]", "f32[]")
        result = ops.reduce(x, init, binary("add"), [0])
        assert opcode_names(result) == ["reduce"]
        assert evaluate(result, MATRIX, np.float32(10)).tolist() == [15, 17, 19]

    def test_the_initial_value_takes_the_element_type_of_its_operand(self) -> None:
        (x,) = parameters("bf16[4]")
        assert ops.reduce(x, 0, binary("add", "bf16"), [0]).shape.to_text(layout=False) == "bf16[]"

    def test_several_arrays(self) -> None:
        values, indices = parameters("f32[4]", "s32[4]")
        result = ops.reduce([values, indices], [-np.inf, -1], larger(), [0])
        assert result.shape.to_text(layout=False) == "(f32[], s32[])"
        assert evaluate(result, np.float32([1, 7, 7, 2]), np.arange(4, dtype=np.int32)) == (7, 2)

    def test_all_dimensions(self) -> None:
        (x,) = parameters("f32[2,3]")
        assert evaluate(ops.reduce_all(x, 0, binary("add")), MATRIX) == 21
        (scalar,) = parameters("f32[]")
        assert ops.reduce_all(scalar, 0, binary("add")).shape.to_text(layout=False) == "f32[]"

    def test_text(self) -> None:
        (x,) = parameters("f32[2,3]")
        ops.reduce(x, 0, binary("add"), [1, 0])
        assert listing(x.builder.build()) == (
            "add (p0.1: f32[], p1: f32[]) -> f32[] {\n"
            "  p0.1 = f32[] parameter(0)\n"
            "  p1 = f32[] parameter(1)\n"
            "  ROOT add = f32[] add(p0.1, p1)\n"
            "}\n"
            "\n"
            "ENTRY test (p0: f32[2,3]) -> f32[] {\n"
            "  p0 = f32[2,3] parameter(0)\n"
            "  constant = f32[] constant(0)\n"
            "  ROOT reduce = f32[] reduce(p0, constant), dimensions={1,0}, to_apply=add\n"
            "}"
        )

    def test_refusals(self) -> None:
        (x,) = parameters("f32[2,3]")
        refused((shared.DIMENSION_NUMBER, "dimension 2", "f32[2,3]", "rank 2"), ops.reduce, x, 0, binary("add"), [2])
        refused((builder_codes.INITIAL_VALUES, "2"), ops.reduce, x, [0, 1], binary("add"), [0])
        refused((codes.REDUCER_TYPES, "reducer's", "result 0", "s32[]"), ops.reduce, x, 0, binary("add", "s32"), [0])
        refused((builder_codes.LIST_OF_INTEGERS, "dimensions_to_reduce"), ops.reduce, x, 0, binary("add"), [0.5])
        pair = ops.tuple(x.builder, [x])
        refused((shared.ARRAY_OPERAND, "(f32[2,3])"), ops.reduce, pair, 0, binary("add"), [0])
        refused((builder_codes.OPERAND_KIND,), ops.reduce, [], [], binary("add"), [0])

    def test_a_failed_call_appends_nothing(self) -> None:
        (x,) = parameters("f32[2,3]")
        with pytest.raises(ShapeError):
            ops.reduce(x, 0, binary("add"), [5])
        assert opcode_names(x) == []


class TestReduceWindow:
    def test_example_of_the_specification(self) -> None:
        (x,) = parameters("f32[4,6]")
        smallest = Literal.of(np.finfo(np.float32).min)
        result = ops.reduce_window(x, smallest, binary("max"), [2, 3], [2, 3], Padding.VALID)
        values = np.arange(24, dtype=np.float32).reshape(4, 6)
        assert evaluate(result, values).tolist() == [[8, 11], [20, 23]]

    def test_minimum_with_both_paddings(self) -> None:
        largest = float(np.finfo(np.float32).max)
        values = np.float32([10000, 1000, 100, 10, 1])
        (x,) = parameters("f32[5]")
        assert evaluate(ops.reduce_window(x, largest, binary("min"), [3], [2], "VALID"), values).tolist() == [100, 1]
        (x,) = parameters("f32[5]")
        same = ops.reduce_window(x, largest, binary("min"), [3], [2], "SAME")
        assert evaluate(same, values).tolist() == [1000, 10, 1]

    def test_same_padding_keeps_the_size_at_stride_one(self) -> None:
        (x,) = parameters("f32[4,7]")
        assert (
            ops.reduce_window(x, 0, binary("add"), [2, 5], [1, 1], Padding.SAME).shape.to_text(layout=False)
            == "f32[4,7]"
        )
        assert (
            ops.reduce_window(x, 0, binary("add"), [2, 5], [], Padding.SAME).shape.to_text(layout=False) == "f32[4,7]"
        )

    def test_pairs(self) -> None:
        (x,) = parameters("f32[3]")
        result = ops.reduce_window(x, 0, binary("add"), [2], [1], [(2, -1)])
        assert evaluate(result, np.float32([1, 2, 4])).tolist() == [0, 1, 3]

    def test_dilations(self) -> None:
        """The second example of the specification."""
        (x,) = parameters("s32[3,2]")
        result = ops.reduce_window_with_general_padding(
            x, 0, binary("add", "s32"), [2, 1], [4, 1], [2, 1], [3, 1], [(2, 1), (0, 0)]
        )
        assert evaluate(result, np.int32([[1, 2], [3, 4], [5, 6]])).tolist() == [[0, 0], [3, 4]]

    def test_several_arrays(self) -> None:
        values, indices = parameters("f32[4]", "s32[4]")
        result = ops.reduce_window([values, indices], [-np.inf, -1], larger(), [2], [2], "VALID")
        value, index = evaluate(result, np.float32([3, 1, 2, 9]), np.arange(4, dtype=np.int32))
        assert (value.tolist(), index.tolist()) == ([3, 9], [0, 3])

    def test_same_padding_of_a_dynamic_dimension_is_left_to_a_custom_call(self) -> None:
        (x,) = parameters("f32[<=8,4]")
        result = ops.reduce_window(x, 0, binary("add"), [3, 1], [1, 1], Padding.SAME)
        assert opcode_names(result) == ["constant", "custom-call"]
        assert result.shape.to_text(layout=False) == "f32[<=8,4]"
        call = result.instruction
        assert call.custom_call_target == "DynamicReduceWindowSamePadding"
        assert [(d.size, d.padding_low, d.padding_high) for d in call.window.dimensions] == [(3, 1, 1), (1, 0, 0)]
        assert [called.name for called in call.computations] == ["add"]

    def test_a_window_along_static_dimensions_only_needs_no_custom_call(self) -> None:
        (x,) = parameters("f32[<=8,4]")
        assert opcode_names(ops.reduce_window(x, 0, binary("add"), [1, 3], [1, 1], "SAME")) == [
            "constant",
            "reduce-window",
        ]

    def test_refusals(self) -> None:
        (x,) = parameters("f32[4,6]")
        add = binary("add")
        refused((shared.ENTRY_PER_DIMENSION, "[4, 6]", "[2]"), ops.reduce_window, x, 0, add, [2], [1], "VALID")
        refused((attributes_codes.WINDOW_POSITIVE,), ops.reduce_window, x, 0, add, [0, 1], [1, 1], "VALID")
        refused((builder_codes.PADDING_FORM, "SAME", "VALID"), ops.reduce_window, x, 0, add, [1, 1], [1, 1], "FULL")
        refused(
            (attributes_codes.WINDOW_ENTRIES, "base_dilations", "[2]"),
            ops.reduce_window_with_general_padding,
            x,
            0,
            add,
            [1, 1],
            [1, 1],
            [2],
            [],
            [(0, 0), (0, 0)],
        )


class TestSelectAndScatter:
    def test_example_of_the_specification(self) -> None:
        x, source = parameters("f32[4,5]", "f32[2,2]")
        result = ops.select_and_scatter(
            operand=x,
            select=binary("ge"),
            window_dimensions=[2, 3],
            window_strides=[2, 2],
            padding="VALID",
            source=source,
            init_value=0,
            scatter=binary("add"),
        )
        operand = np.float32([[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]])
        assert evaluate(result, operand, np.float32([[2, 6], [3, 1]])).tolist() == [
            [0, 0, 0, 0, 0],
            [0, 0, 8, 0, 0],
            [0, 0, 3, 0, 0],
            [0, 0, 0, 1, 0],
        ]

    def test_general_padding(self) -> None:
        (x,) = parameters("f32[3]")
        source = np.float32([1, 2, 4, 8])
        result = ops.select_and_scatter_with_general_padding(
            x, binary("ge"), [2], [1], [(1, 1)], source, 0, binary("add")
        )
        assert evaluate(result, np.float32([5, 9, 1])).tolist() == [1, 6, 8]

    def test_same_padding_of_a_dynamic_dimension_is_left_to_a_custom_call(self) -> None:
        x, source = parameters("f32[<=6]", "f32[<=3]")
        result = ops.select_and_scatter(x, binary("ge"), [3], [2], "SAME", source, 0, binary("add"))
        assert result.instruction.custom_call_target == "DynamicSelectAndScatterSamePadding"
        assert result.shape.to_text(layout=False) == "f32[<=6]"
        assert [called.name for called in result.instruction.computations] == ["ge", "add"]

    def test_refusals(self) -> None:
        x, source = parameters("f32[4]", "f32[4]")
        refused(
            (codes.SOURCE_POSITIONS, "f32[4]", "f32[3]"),
            ops.select_and_scatter,
            x,
            binary("ge"),
            [2],
            [1],
            "VALID",
            source,
            0,
            binary("add"),
        )
        refused(
            (codes.SELECT_COMPUTATION, "pred[]"),
            ops.select_and_scatter,
            x,
            binary("add"),
            [1],
            [1],
            "VALID",
            source,
            0,
            binary("add"),
        )


class TestMap:
    def three_and_a_parameter(self) -> XlaComputation:
        return computation("f", ["f32[]"] * 4, lambda a, b, c, par1: a * b + c * par1)

    def test_example_of_the_specification(self) -> None:
        """`Map(op1, op2, op3, computation, par1)`, with the parameter as the last operand and as a static operand."""
        arrays = [np.float32([1, 2]), np.float32([3, 4]), np.float32([5, 6])]
        a, b, c = parameters("f32[2]", "f32[2]", "f32[2]")
        last = ops.map([a, b, c, 10.0], self.three_and_a_parameter(), [0])
        assert evaluate(last, *arrays).tolist() == [53, 68]
        a, b, c = parameters("f32[2]", "f32[2]", "f32[2]")
        static = ops.map([a, b, c], self.three_and_a_parameter(), [0], static_operands=[10.0])
        assert evaluate(static, *arrays).tolist() == [53, 68]

    def test_scalars_are_broadcast(self) -> None:
        a, b = parameters("f32[]", "f32[2,3]")
        result = ops.map([a, b], binary("sub"), [0, 1])
        assert opcode_names(result) == ["broadcast", "map"]
        assert evaluate(result, np.float32(10), MATRIX).tolist() == [[9, 8, 7], [6, 5, 4]]

    def test_only_scalars(self) -> None:
        a, b = parameters("f32[]", "f32[]")
        result = ops.map([a, b], binary("sub"), [])
        assert opcode_names(result) == ["map"]
        assert evaluate(result, np.float32(3), np.float32(1)) == 2

    def test_plain_numbers_take_the_type_of_their_parameter(self) -> None:
        (a,) = parameters("f32[2]")
        scaled = computation("scaled", ["f32[]", "s32[]"], lambda x, n: x * ops.convert_element_type(n, x.element_type))
        assert evaluate(ops.map([a, 3], scaled, [0]), np.float32([1, 2])).tolist() == [3, 6]

    def test_another_element_type(self) -> None:
        (a,) = parameters("f32[3]")
        finite = computation("finite", ["f32[]"], ops.is_finite)
        assert evaluate(ops.map([a], finite, [0]), np.float32([1, np.nan, np.inf])).tolist() == [True, False, False]

    def test_refusals(self) -> None:
        a, b = parameters("f32[2]", "f32[3]")
        refused((shared.SAME_DIMENSIONS, "operand 1", "f32[3]", "f32[2]"), ops.map, [a, b], binary("add"), [0])
        refused((codes.MAP_DIMENSIONS, "rank-1", "f32[2]", "[]"), ops.map, [a, a], binary("add"), [])
        refused((codes.MAP_COMPUTATION,), ops.map, [a], binary("add"), [0])


def running_sum() -> XlaComputation:
    def make(x: XlaOp, carry: XlaOp) -> None:
        total = x + carry
        ops.tuple(x.builder, [total, total])

    return computation("running_sum", ["f32[]", "f32[]"], make)


class TestScan:
    def test_running_sum(self) -> None:
        (x,) = parameters("f32[4]")
        result = ops.scan([x], [0.5], running_sum(), 0)
        values, last = evaluate(result, np.float32([1, 2, 3, 4]))
        assert (values.tolist(), last) == ([1.5, 3.5, 6.5, 10.5], 10.5)

    def test_options(self) -> None:
        (x,) = parameters("f32[4]")
        result = ops.scan(x, 0, running_sum(), scan_dimension=0, is_reverse=True, is_associative=True)
        attributes = result.instruction.attributes
        assert (attributes.is_reverse, attributes.is_associative, attributes.num_carries) == (True, True, 1)
        assert evaluate(result, np.float32([1, 2, 3, 4]))[0].tolist() == [10, 9, 7, 4]

    def test_a_dimension_in_the_middle(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        body = computation("body", ["f32[2,4]", "f32[2,4]"], lambda a, c: ops.tuple(a.builder, [a, c + a]))
        result = ops.scan([x], [np.zeros((2, 4), np.float32)], body, 1)
        assert result.shape.to_text(layout=False) == "(f32[2,3,4], f32[2,4])"
        values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        assert evaluate(result, values)[1].tolist() == values.sum(axis=1).tolist()

    def test_without_inputs(self) -> None:
        (start,) = parameters("s32[]")
        body = computation("body", ["s32[]"], lambda c: ops.tuple(c.builder, [c, c * 2]))
        values, last = evaluate(ops.scan([], [start], body, 0, scan_dimension_size=4), np.int32(3))
        assert (values.tolist(), last) == ([3, 6, 12, 24], 48)

    @pytest.mark.parametrize("make", [ops.neg, lambda a: ops.tuple(a.builder, [-a])])
    def test_without_carries_the_result_is_a_tuple_too(self, make: Callable[..., Any]) -> None:
        (x,) = parameters("f32[3]")
        result = ops.scan(x, [], computation("negated", ["f32[]"], make), 0)
        assert result.shape.to_text(layout=False) == "(f32[3])"
        (values,) = evaluate(result, np.float32([1, 2, 3]))
        assert values.tolist() == [-1, -2, -3]

    def test_refusals(self) -> None:
        (x,) = parameters("f32[4]")
        refused((shared.DIMENSION_NUMBER, "dimension 1", "f32[4]", "rank 1"), ops.scan, x, 0, running_sum(), 1)
        refused((codes.SCAN_BODY_COUNTS,), ops.scan, x, [0, 0], running_sum(), 0)
        refused(
            (codes.SCAN_SIZE, "scan_dimension_size", "input 0", "f32[4]", "dimension 0"),
            ops.scan,
            x,
            0,
            running_sum(),
            0,
            scan_dimension_size=5,
        )
        start = ops.constant(x.builder, np.int32(1))
        body = computation("body", ["s32[]"], lambda c: ops.tuple(c.builder, [c, c]))
        refused((codes.SCAN_SIZE_GIVEN, "dimension's"), ops.scan, [], [start], body, 0)
