"""The builder functions of calls, loops, branches, tokens and tuples."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder.programs import evaluate, listing, opcode_names, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.error_codes.operations import control as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp

STATE = Shape.parse("(s32[], f32[2])")


def computation(name: str, shape: Shape, make: object) -> XlaComputation:
    builder = XlaBuilder(name)
    make(ops.parameter(builder, 0, shape, "state"))  # type: ignore[operator]
    return builder.build()


def condition() -> XlaComputation:
    return computation("condition", STATE, lambda state: state[0] < 5)


def body() -> XlaComputation:
    return computation("body", STATE, lambda state: ops.tuple(state.builder, [state[0] + 1, state[1] * 2]))


def doubled(shape: str) -> XlaComputation:
    return computation("doubled", Shape.parse(shape), lambda x: x + x)


def negated(shape: str) -> XlaComputation:
    return computation("negated", Shape.parse(shape), ops.neg)


class TestWhile:
    def test_value(self) -> None:
        i, x = parameters("s32[]", "f32[2]")
        result = ops.while_(condition(), body(), ops.tuple(i.builder, [i, x]))
        count, value = evaluate(result, np.int32(2), np.float32([1, 3]))
        assert count == 5
        assert value.tolist() == [8, 24]

    def test_text(self) -> None:
        (state,) = parameters("(s32[], f32[2])")
        ops.while_(condition(), body(), state)
        assert listing(state.builder.build()) == (
            "body (state.1: (s32[], f32[2])) -> (s32[], f32[2]) {\n"
            "  state.1 = (s32[], f32[2]) parameter(0)\n"
            "  get-tuple-element.1 = s32[] get-tuple-element(state.1), index=0\n"
            "  constant.1 = s32[] constant(1)\n"
            "  add = s32[] add(get-tuple-element.1, constant.1)\n"
            "  get-tuple-element.2 = f32[2] get-tuple-element(state.1), index=1\n"
            "  constant.2 = f32[] constant(2)\n"
            "  broadcast = f32[2] broadcast(constant.2), dimensions={}\n"
            "  multiply = f32[2] multiply(get-tuple-element.2, broadcast)\n"
            "  ROOT tuple = (s32[], f32[2]) tuple(add, multiply)\n"
            "}\n"
            "\n"
            "condition (state: (s32[], f32[2])) -> pred[] {\n"
            "  state = (s32[], f32[2]) parameter(0)\n"
            "  get-tuple-element = s32[] get-tuple-element(state), index=0\n"
            "  constant = s32[] constant(5)\n"
            "  ROOT compare = pred[] compare(get-tuple-element, constant), direction=LT\n"
            "}\n"
            "\n"
            "ENTRY test (p0: (s32[], f32[2])) -> (s32[], f32[2]) {\n"
            "  p0 = (s32[], f32[2]) parameter(0)\n"
            "  ROOT while = (s32[], f32[2]) while(p0), condition=condition, body=body\n"
            "}"
        )

    def test_wrong_order(self) -> None:
        (state,) = parameters("(s32[], f32[2])")
        with raises(ShapeError, codes.LOOP_CONDITION, "pred[]", "(s32[], f32[2])"):
            ops.while_(body(), condition(), state)

    def test_init_of_another_shape(self) -> None:
        (x,) = parameters("f32[2]")
        with raises(ShapeError, codes.PARAMETER_SHAPE, "condition's", "(s32[], f32[2])", "f32[2]"):
            ops.while_(condition(), body(), x)


class TestConditional:
    @pytest.mark.parametrize(("taken", "expected"), [(True, [2, 4]), (False, [-3, -4, -5])])
    def test_predicate(self, taken: bool, expected: list[float]) -> None:
        p, x, y = parameters("pred[]", "f32[2]", "f32[3]")
        total = computation("first", Shape.parse("f32[2]"), lambda x: ops.pad(x + x, 0, [(0, 1)]))
        result = ops.conditional(p, x, total, y, negated("f32[3]"))
        value = evaluate(result, np.bool_(taken), np.float32([1, 2]), np.float32([3, 4, 5]))
        assert value.tolist() == (expected if not taken else [*expected, 0])

    @pytest.mark.parametrize(("index", "expected"), [(0, 8), (1, -4), (2, 16), (3, 16), (-1, 16)])
    def test_branches_and_out_of_range_index(self, index: int, expected: float) -> None:
        i, x = parameters("s32[]", "f32[]")
        fourfold = computation("fourfold", x.shape, lambda x: x * 4)
        result = ops.conditional(i, [doubled("f32[]"), negated("f32[]"), fourfold], [x, x, x])
        assert evaluate(result, np.int32(index), np.float32(4)) == expected

    def test_named_arguments(self) -> None:
        i, x = parameters("s32[]", "f32[]")
        result = ops.conditional(branch_index=i, branch_computations=[doubled("f32[]")], branch_operands=[x])
        assert opcode_names(result) == ["conditional"]

    def test_wrong_selector(self) -> None:
        i, p, x = parameters("s32[]", "pred[]", "f32[]")
        f = doubled("f32[]")
        with raises(BuilderError, codes.BRANCH_INDEX, "s32[]"):
            ops.conditional(i, x, f, x, f)
        with raises(BuilderError, codes.BRANCH_INDEX, "s32", "pred[]"):
            ops.conditional(p, [f, f], [x, x])

    def test_results_of_two_shapes(self) -> None:
        p, x, y = parameters("pred[]", "f32[2]", "f32[3]")
        with raises(ShapeError, codes.BRANCH_RESULTS, "branch 1", "f32[3]", "branch 0", "f32[2]"):
            ops.conditional(p, x, doubled("f32[2]"), y, doubled("f32[3]"))

    def test_an_operand_a_branch(self) -> None:
        i, x = parameters("s32[]", "f32[]")
        with raises(ShapeError, codes.BRANCH_OPERANDS):
            ops.conditional(i, [doubled("f32[]"), negated("f32[]")], [x])


class TestCall:
    def test_value(self) -> None:
        (x,) = parameters("f32[2]")
        assert evaluate(ops.call(x.builder, doubled("f32[2]"), [x]), np.float32([1, 2])).tolist() == [2, 4]

    def test_composite(self) -> None:
        (x,) = parameters("f32[2]")
        result = ops.composite_call(x.builder, doubled("f32[2]"), [x], "my.double", "{n = 1 : i32}", 3)
        assert result.instruction.is_composite
        assert result.instruction.frontend_attributes == {
            "composite.attributes": "{n = 1 : i32}",
            "composite.name": "my.double",
            "composite.version": "3",
        }

    def test_composite_defaults(self) -> None:
        (x,) = parameters("f32[2]")
        result = ops.composite_call(x.builder, doubled("f32[2]"), [x], "my.double")
        assert result.instruction.frontend_attributes == {
            "composite.attributes": "{}",
            "composite.name": "my.double",
            "composite.version": "0",
        }


class TestOrder:
    def test_tokens(self) -> None:
        (x,) = parameters("f32[2]")
        token = ops.create_token(x.builder)
        both = ops.after_all(x.builder, [token, ops.create_token(x.builder)])
        assert both.shape.is_token
        result = ops.add_dependency(x, both)
        assert opcode_names(result) == ["after-all", "after-all", "after-all", "add-dependency"]
        assert evaluate(result, np.float32([1, 2])).tolist() == [1, 2]

    def test_after_all_of_arrays(self) -> None:
        (x,) = parameters("f32[2]")
        with raises(BuilderError, shared.TOKEN_OPERAND, "operand 0", "f32[2]"):
            ops.after_all(x.builder, [x])

    def test_optimization_barrier(self) -> None:
        (x,) = parameters("(f32[2], s32[])")
        result = ops.optimization_barrier(x)
        assert (result.shape, opcode_names(result)) == (x.shape, ["opt-barrier"])


class TestTuples:
    def test_round_trip(self) -> None:
        x, y = parameters("f32[2]", "s32[]")
        pair = ops.tuple(x.builder, (op for op in (x, y)))
        assert pair.shape.to_text(layout=False) == "(f32[2], s32[])"
        assert evaluate(ops.get_tuple_element(pair, 1), np.float32([1, 2]), np.int32(3)) == 3

    def test_empty(self) -> None:
        assert ops.tuple(XlaBuilder("test"), []).shape.to_text(layout=False) == "()"

    def test_refused(self) -> None:
        x, t = parameters("f32[2]", "(f32[2])")
        with raises(ShapeError, movement_codes.TUPLE_OPERAND, "f32[2]"):
            ops.get_tuple_element(x, 0)
        with raises(ShapeError, values_codes.TUPLE_INDEX, "index 1"):
            ops.get_tuple_element(t, 1)


def test_loop_over_builder_functions_is_deep() -> None:
    x: XlaOp = parameters("f32[]")[0]
    for _ in range(5000):
        x = x + x
    assert len(opcode_names(x)) == 5000
    assert evaluate(x * 0, np.float32(0)) == 0
