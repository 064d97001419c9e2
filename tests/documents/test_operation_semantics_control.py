"""Examples and rules of "Operation semantics": tuples, calls, branches, loops, ordering."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import xlapy as xla
from tests.documents.examples import CLIENT, built, check, entry, evaluate, f32, function, pred, run, s32, shape
from tests.raising import Wanted, raises
from xlapy import opcodes, ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.operations import control as codes
from xlapy.base.error_codes.operations import elementwise as elementwise_codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder, XlaOp

Build = Callable[..., XlaOp]


# -- tuples


def paired(*elements: XlaOp) -> XlaOp:
    return ops.tuple(elements[0].builder, elements)


class TestTuple:
    v, s = np.arange(10, dtype=np.float32), s32(5)

    def test_tuple_of_the_example(self) -> None:
        assert shape(paired, "f32[10]", "s32[]") == "(f32[10], s32[])"
        check(paired, (self.v, self.s), (self.v, self.s))

    def test_element_1(self) -> None:
        check(lambda v, s: ops.get_tuple_element(tuple_data=paired(v, s), index=1), (self.v, self.s), s32(5))
        assert shape(lambda v, s: ops.get_tuple_element(paired(v, s), 1), "f32[10]", "s32[]") == "s32[]"

    def test_nested(self) -> None:
        check(lambda v, s: paired(paired(v), s), (self.v, self.s), ((self.v,), self.s))

    def test_refusals(self) -> None:
        with raises(ShapeError, values_codes.TUPLE_INDEX, "index 2", "(f32[], s32[])"):
            shape(lambda t: ops.get_tuple_element(t, 2), "(f32[], s32[])")
        with raises(ShapeError, movement_codes.TUPLE_OPERAND, "f32[3]"):
            shape(lambda t: ops.get_tuple_element(t, 0), "f32[3]")


# -- call


class TestCall:
    f = function(lambda a, b: a * 2 + b, "f32[3]", "f32[3]")

    def test_call(self) -> None:
        check(lambda a, b: ops.call(a.builder, self.f, [a, b]), (f32([1, 2, 3]), f32([10, 20, 30])), f32([12, 24, 36]))

    def test_no_operands(self) -> None:
        builder = XlaBuilder("seven")
        seven = builder.build(ops.constant(builder, 7))
        check(lambda x: ops.call(x.builder, seven, []), (f32(0),), s32(7))

    def test_arity_and_types_must_match(self) -> None:
        with raises(ShapeError, codes.PARAMETER_COUNT, "p0", "f32[3]", "p1"):
            shape(lambda a: ops.call(a.builder, self.f, [a]), "f32[3]")
        with raises(ShapeError, codes.PARAMETER_SHAPE, "parameter 1", "f32[3]", "operand 1", "f32[4]"):
            shape(lambda a, b: ops.call(a.builder, self.f, [a, b]), "f32[3]", "f32[4]")


class TestCompositeCall:
    f = function(ops.neg, "f32[]")
    attributes = "{n = 1 : i32, tensor = dense<1> : tensor<i32>}"

    def test_example(self) -> None:
        root = built(
            lambda x: ops.composite_call(x.builder, self.f, [x], name="foo.bar", attributes=self.attributes, version=1),
            "f32[]",
        )
        assert root.instruction.op is opcodes.CALL
        assert root.instruction.attributes.is_composite
        assert root.instruction.frontend_attributes == {
            "composite.name": "foo.bar",
            "composite.attributes": self.attributes,
            "composite.version": "1",
        }

    def test_is_printed_as_in_the_example(self) -> None:
        root = built(lambda x: ops.composite_call(x.builder, self.f, [x], "foo.bar", self.attributes, 1), "f32[]")
        text = root.builder.build(root).as_hlo_text(print_metadata=False)
        assert "is_composite=true" in text
        assert 'composite.name="foo.bar"' in text
        assert f"composite.attributes={self.attributes}" in text
        assert 'composite.version="1"' in text
        module = xla.parse_hlo(text)
        assert module.entry_computation.root is not None
        assert module.entry_computation.root.frontend_attributes == root.instruction.frontend_attributes

    def test_version_defaults_to_0(self) -> None:
        root = built(lambda x: ops.composite_call(x.builder, self.f, [x], "foo.bar"), "f32[]")
        assert root.instruction.frontend_attributes["composite.version"] == "0"

    def test_computes_its_decomposition(self) -> None:
        check(lambda x: ops.composite_call(x.builder, self.f, [x], "foo.bar"), (f32(3),), f32(-3))


# -- conditional

DOUBLE, NEGATE = function(lambda x: x * 2, "f32[]"), function(ops.neg, "f32[]")
FIRST = function(lambda v: v[0], "f32[3]")


class TestConditionalOnPredicate:
    @pytest.mark.parametrize(("predicate", "expected"), [(True, 20), (False, -7)])
    def test_selects_the_branch(self, predicate: bool, expected: float) -> None:
        operands = (pred(predicate), f32(10), f32(7))
        check(lambda p, a, b: ops.conditional(p, a, DOUBLE, b, NEGATE), operands, f32(expected))

    def test_named_arguments_and_operands_of_different_types(self) -> None:
        def build(p: XlaOp, a: XlaOp, v: XlaOp) -> XlaOp:
            return ops.conditional(
                predicate=p, true_operand=a, true_computation=DOUBLE, false_operand=v, false_computation=FIRST
            )

        check(build, (pred(True), f32(10), f32([7, 8, 9])), f32(20))
        check(build, (pred(False), f32(10), f32([7, 8, 9])), f32(7))

    def test_refusals(self) -> None:
        with raises(BuilderError, codes.BRANCH_INDEX, "s32[]"):
            shape(lambda p, a: ops.conditional(p, a, DOUBLE, a, NEGATE), "s32[]", "f32[]")
        with raises(ShapeError, codes.PARAMETER_SHAPE, "branch 0", "f32[]", "operand 1", "f32[3]"):
            shape(lambda p, v: ops.conditional(p, v, DOUBLE, v, FIRST), "pred[]", "f32[3]")
        other = function(lambda x: ops.convert_element_type(x, "s32"), "f32[]")
        with raises(ShapeError, codes.BRANCH_RESULTS, "branch 1", "s32[]", "branch 0", "f32[]"):
            shape(lambda p, a: ops.conditional(p, a, DOUBLE, a, other), "pred[]", "f32[]")


class TestConditionalOnIndex:
    branches = (DOUBLE, NEGATE, function(lambda x: x + 100, "f32[]"))

    def build(self, index: XlaOp, *operands: XlaOp) -> XlaOp:
        return ops.conditional(branch_index=index, branch_computations=self.branches, branch_operands=operands)

    @pytest.mark.parametrize(("index", "expected"), [(0, 2), (1, -2), (2, 103), (3, 103), (-1, 103), (-(2**31), 103)])
    def test_index_out_of_range_selects_the_last_branch(self, index: int, expected: float) -> None:
        check(self.build, (s32(index), f32(1), f32(2), f32(3)), f32(expected))

    def test_only_the_selected_branch_runs(self) -> None:
        endless = function(lambda x: ops.while_(function(lambda c: ops.eq(c, c), "f32[]"), NEGATE, x), "f32[]")
        check(lambda i, x: ops.conditional(i, [endless, DOUBLE], [x, x]), (s32(1), f32(4)), f32(8))

    def test_pred_index_in_text(self) -> None:
        text = """HloModule m
d {
  x = f32[] parameter(0)
  ROOT y = f32[] add(x, x)
}
n {
  x = f32[] parameter(0)
  ROOT y = f32[] negate(x)
}
ENTRY e {
  p = pred[] parameter(0)
  x = f32[] parameter(1)
  ROOT c = f32[] conditional(p, x, x), true_computation=d, false_computation=n
}"""
        assert run(text, pred(True), f32(3)) == 6
        assert run(text, pred(False), f32(3)) == -3

    def test_refusals(self) -> None:
        with raises(BuilderError, codes.BRANCH_INDEX, "s32", "f32[]"):
            shape(lambda i, x: ops.conditional(i, self.branches, [x, x, x]), "f32[]", "f32[]")
        with raises(ShapeError, codes.BRANCH_OPERANDS):
            shape(lambda i, x: ops.conditional(i, self.branches, [x, x]), "s32[]", "f32[]")


# -- while


class TestWhile:
    def test_example(self) -> None:
        """A constant vector is added to the accumulator a thousand times."""

        def body(state: XlaOp) -> XlaOp:
            constant_vector = ops.constant(state.builder, np.full(10, 0.5, np.float32))
            return paired(state[0] + 1, state[1] + constant_vector)

        t = "(s32[], f32[10])"
        condition = function(lambda state: ops.lt(state[0], 1000), t)
        loop = function(body, t)
        check(
            lambda init: ops.while_(condition=condition, body=loop, init=init),
            ((s32(0), np.zeros(10, np.float32)),),
            (s32(1000), np.full(10, 500, np.float32)),
        )

    def test_the_body_may_never_run(self) -> None:
        condition, body = function(lambda x: ops.lt(x, 0), "s32[]"), function(lambda x: x - 1, "s32[]")
        check(lambda x: ops.while_(condition, body, x), (s32(5),), s32(5))

    def test_the_shape_must_be_the_same_in_all_iterations(self) -> None:
        condition = function(lambda x: ops.lt(x, 0), "s32[]")
        with raises(ShapeError, codes.LOOP_VALUE, "f32[]", "s32[]"):
            shape(
                lambda x: ops.while_(condition, function(lambda x: ops.convert_element_type(x, "f32"), "s32[]"), x),
                "s32[]",
            )
        with raises(ShapeError, codes.PARAMETER_SHAPE, "condition's", "s32[]", "s32[2]"):
            shape(lambda x: ops.while_(condition, function(lambda x: x - 1, "s32[]"), x), "s32[2]")

    def test_the_condition_must_return_pred(self) -> None:
        body = function(lambda x: x - 1, "s32[]")
        with raises(ShapeError, codes.LOOP_CONDITION, "pred[]", "s32[]"):
            shape(lambda x: ops.while_(body, body, x), "s32[]")


# -- ordering, and operations that only show in dumps


class TestOrder:
    def test_optimization_barrier_changes_nothing(self) -> None:
        check(ops.optimization_barrier, (f32([1, 2]),), f32([1, 2]))
        check(ops.optimization_barrier, ((f32([1, 2]), s32(3)),), (f32([1, 2]), s32(3)))

    def test_after_all_joins_tokens(self) -> None:
        def build(x: XlaOp) -> XlaOp:
            first, second = ops.create_token(x.builder), ops.after_all(x.builder, tokens=[])
            ops.after_all(x.builder, [first, second])
            return x

        check(build, (f32(1),), f32(1))
        assert shape(lambda x: ops.after_all(x.builder, []), "f32[]") == "token[]"

    def test_after_all_requires_tokens(self) -> None:
        with raises(BuilderError, shared.TOKEN_OPERAND, "operand 0", "f32[]"):
            shape(lambda x: ops.after_all(x.builder, [x]), "f32[]")

    def test_add_dependency(self) -> None:
        check(lambda x: ops.add_dependency(x, ops.create_token(x.builder)), (f32(4),), f32(4))

    def test_copy_and_bitcast_in_text(self) -> None:
        text = entry("x = f32[2,3]{1,0} parameter(0)", "c = f32[2,3]{1,0} copy(x)", "ROOT b = f32[6]{0} bitcast(c)")
        np.testing.assert_array_equal(run(text, f32([[1, 2, 3], [4, 5, 6]])), [1, 2, 3, 4, 5, 6])

    def test_fusion_in_text(self) -> None:
        text = """HloModule m
f {
  p = f32[3] parameter(0)
  q = f32[3] parameter(1)
  s = f32[3] add(p, q)
  ROOT m = f32[3] multiply(s, p)
}
ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  ROOT r = f32[3] fusion(x, y), kind=kLoop, calls=f
}"""
        np.testing.assert_array_equal(run(text, f32([1, 2, 3]), f32([10, 20, 30])), [11, 44, 99])


# -- text


class TestText:
    def test_verification_is_separate_from_parsing(self) -> None:
        text = entry("x = f32[2] parameter(0)", "y = f32[3] parameter(1)", "ROOT z = f32[2] add(x, y)")
        module = xla.parse_hlo(text, verify=False)
        assert module.entry_computation.root is not None
        assert module.entry_computation.root.shape.to_text(layout=False) == "f32[2]"
        with raises(xla.errors.VerificationError, shared.SAME_DIMENSIONS, "f32[2]", "f32[3]"):
            xla.parse_hlo(text, verify=True)
        with pytest.raises(xla.errors.VerificationError):
            CLIENT.compile(text)

    @pytest.mark.parametrize(
        ("body", "wanted"),
        [
            (
                "x = c64[2] parameter(0)\nROOT y = pred[2] compare(x, x), direction=LT",
                (elementwise_codes.COMPLEX_ORDER, "EQ", "NE", "LT"),
            ),
            ("x = s32[2] parameter(0)\nROOT y = pred[2] is-finite(x)", (shared.ELEMENT_TYPE,)),
        ],
    )
    def test_the_verifier_rejects_what_the_parser_accepts(self, body: str, wanted: Wanted) -> None:
        text = entry(body)
        assert len(xla.parse_hlo(text, verify=False).entry_computation) == 2
        with raises(xla.errors.VerificationError, *wanted):
            xla.parse_hlo(text, verify=True)

    def test_names_must_be_unique_in_the_module(self) -> None:
        text = """HloModule m
f {
  a = f32[] parameter(0)
  ROOT b = f32[] negate(a)
}
ENTRY e {
  a = f32[] parameter(0)
  ROOT b = f32[] call(a), to_apply=f
}"""
        module = xla.parse_hlo(text)
        names = [i.name for computation in module.computations for i in computation]
        assert sorted(names) == ["a", "a.1", "b", "b.1"]

    def test_any_op_has_a_generic_asynchronous_form(self) -> None:
        text = entry(
            "x = f32[2] parameter(0)",
            "s = ((f32[2], f32[2]), f32[2], s32[]) add-start(x, x)",
            "ROOT d = f32[2] add-done(s)",
        )
        np.testing.assert_array_equal(run(text, f32([1, 2])), [2, 4])

    def test_printed_names_differ_from_element_types(self) -> None:
        builder = XlaBuilder("names")
        x = ops.parameter(builder, 0, xla.Shape.parse("f32[]"), "u2")
        text = builder.build(ops.neg(x)).as_hlo_text()
        assert " u2 =" not in text.replace("%", "")
        assert evaluate(ops.neg, f32(1)) == run(text, f32(1)) == -1
