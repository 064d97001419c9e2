"""XlaBuilder itself: signatures, building, ops of other builders, called computations, source lines, failed calls."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from tests.builder.programs import evaluate, opcode_names, parameters, run
from tests.raising import raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.element_types import F32, S32
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.errors import BuilderError, InvalidArgumentError
from xlapy.builder import XlaBuilder, XlaComputation
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify

HERE = Path(__file__)


def adder(name: str = "adder") -> XlaComputation:
    builder = XlaBuilder(name)
    scalar = Shape.scalar(F32)
    ops.add(ops.parameter(builder, 0, scalar, "a"), ops.parameter(builder, 1, scalar, "b"))
    return builder.build()


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


class TestBuild:
    def test_the_example_of_the_manual(self) -> None:
        b = XlaBuilder("axpy")
        x = ops.parameter(b, 0, Shape.parse("f32[2,3]"), "x")
        v = ops.parameter(b, 1, Shape.parse("f32[3]"), "v")
        ops.add(x, v, broadcast_dimensions=[1])
        computation = b.build()
        assert computation.name == "axpy"
        assert computation.program_shape.to_text() == "(x: f32[2,3], v: f32[3]) -> f32[2,3]"
        verify(computation.module)
        value = run(computation, np.ones((2, 3), np.float32), np.float32([1, 2, 3]))
        np.testing.assert_array_equal(value, [[2, 3, 4], [2, 3, 4]])

    def test_root_is_the_last_op_or_the_given_one(self) -> None:
        (x,) = parameters("f32[2]")
        y = x + x
        y * y
        assert x.builder.get_program_shape(x > x).result.to_text(layout=False) == "pred[2]"
        computation = x.builder.build(y)
        assert computation.module.entry_computation.root is y.instruction

    def test_default_root_is_the_last_op_appended(self) -> None:
        (x,) = parameters("f32[2]")
        last = ops.exp(x)
        assert x.builder.build().module.entry_computation.root is last.instruction

    def test_entry_layout_is_that_of_the_parameters(self) -> None:
        (x,) = parameters("f32[2,3]{0,1}")
        layout = ops.neg(x).builder.build().module.config.entry_computation_layout
        assert layout is not None
        assert layout.parameters[0].to_text() == "f32[2,3]{0,1}"

    def test_finished(self) -> None:
        (x,) = parameters("f32[2]")
        builder = x.builder
        assert not builder.is_finished
        builder.build()
        assert builder.is_finished
        with raises(BuilderError, codes.OPEN_BUILDER):
            x + x
        with raises(BuilderError, codes.OPEN_BUILDER):
            builder.build()

    def test_empty(self) -> None:
        with raises(BuilderError, codes.BUILT_ROOT):
            XlaBuilder("nothing").build()

    def test_parameter_gap(self) -> None:
        builder = XlaBuilder("gap")
        ops.parameter(builder, 1, Shape.scalar(F32))
        with raises(BuilderError, modules_codes.PARAMETER_NUMBERS, "[1]"):
            builder.build()
        ops.parameter(builder, 0, Shape.scalar(S32))
        assert builder.build().program_shape.to_text() == "(p0: s32[], p1: f32[]) -> s32[]"

    def test_get_shape(self) -> None:
        (x,) = parameters("f32[2]")
        (other,) = parameters("f32[2]")
        assert x.builder.get_shape(x) is x.shape
        with raises(BuilderError, codes.OWN_OPERANDS, "get_shape", "p0"):
            x.builder.get_shape(other)

    def test_sub_builder_is_separate(self) -> None:
        (x,) = parameters("f32[]")
        sub = x.builder.create_sub_builder("body")
        ops.parameter(sub, 0, Shape.scalar(F32))
        assert sub.name == "body"
        assert sub.build().program_shape.result.to_text(layout=False) == "f32[]"
        assert not x.builder.is_finished

    def test_repr(self) -> None:
        (x,) = parameters("f32[2]")
        assert repr(x.builder) == "<XlaBuilder test: 1 instructions>"
        assert repr(x.builder.build()) == "<XlaComputation test: (p0: f32[2]) -> f32[2]>"

    def test_names_are_unique(self) -> None:
        (x,) = parameters("f32[2]")
        assert [(x + x).name, (x + x).name, ops.parameter(x.builder, 1, x.shape, "add").name] == [
            "add",
            "add.1",
            "add.2",
        ]


class TestForeignOps:
    def test_two_builders(self) -> None:
        (x,) = parameters("f32[2]")
        y = ops.parameter(XlaBuilder("other"), 0, x.shape, "y")
        with raises(BuilderError, codes.OWN_OPERANDS, "f32[2]"):
            ops.add(x, y)
        assert opcode_names(x) == []

    def test_no_xla_op_at_all(self) -> None:
        with raises(BuilderError, codes.OPERAND_KIND):
            ops.add(1, 2.0)
        with raises(BuilderError, codes.OPERAND_KIND):
            ops.neg(1)  # type: ignore[arg-type]

    def test_plain_value_where_an_op_is_needed(self) -> None:
        (x,) = parameters("f32[2]")
        with raises(BuilderError, codes.OPERAND_KIND):
            ops.tuple(x.builder, [x, 3])  # type: ignore[list-item]


class TestCalledComputations:
    def test_imported_once(self) -> None:
        (x,) = parameters("f32[]")
        callee = adder()
        first = ops.call(x.builder, callee, [x, x])
        second = ops.call(x.builder, callee, [first, x])
        assert first.instruction.to_apply is second.instruction.to_apply
        module = x.builder.build().module
        assert [c.name for c in module.computations] == ["test", "adder"]
        verify(module)

    def test_nested_calls_are_copied(self) -> None:
        inner = adder()
        outer = XlaBuilder("outer")
        a = ops.parameter(outer, 0, Shape.scalar(F32))
        ops.call(outer, inner, [a, a])
        (x,) = parameters("f32[]")
        result = ops.call(x.builder, outer.build(), [x])
        assert evaluate(result, np.float32(3)) == 6
        assert result.instruction.parent is not None
        module = result.instruction.parent.module
        assert module is not None
        assert [c.name for c in module.computations] == ["test", "adder", "outer"]

    def test_original_is_untouched(self) -> None:
        callee = adder()
        (x,) = parameters("f32[]")
        ops.call(x.builder, callee, [x, x])
        assert not callee.module.entry_computation.callers
        assert callee.module.entry_computation.module is callee.module

    def test_failed_call_leaves_no_computation(self) -> None:
        (x,) = parameters("f32[2]")
        with raises(ShapeError, control_codes.PARAMETER_SHAPE, "parameter 0", "f32[]", "operand 0", "f32[2]"):
            ops.call(x.builder, adder(), [x, x])
        assert len(x.builder.build().module.computations) == 1

    def test_undone_call_leaves_no_computation(self) -> None:
        (x,) = parameters("f32[]")
        callee = adder()
        with raises(ShapeError, shared.ELEMENT_TYPE, "later"), x.builder.building("twice"):
            ops.call(x.builder, callee, [x, x])
            raise ShapeError(shared.ELEMENT_TYPE, "later")
        ops.call(x.builder, callee, [x, x])
        assert [c.name for c in x.builder.build().module.computations] == ["test", "adder.1"]

    def test_no_computation(self) -> None:
        (x,) = parameters("f32[]")
        with raises(BuilderError, codes.OPERAND_KIND):
            ops.call(x.builder, XlaBuilder("f"), [x])  # type: ignore[arg-type]

    def test_module_without_entry(self) -> None:
        with raises(InvalidArgumentError, modules_codes.ENTRY_COMPUTATION):
            XlaComputation(Module("empty"))


class TestUserLine:
    def test_metadata(self) -> None:
        (x,) = parameters("f32[2]")
        y, where = ops.add(x, 1.0), line()
        metadata = y.instruction.metadata
        assert metadata is not None
        assert (metadata.source_file, metadata.source_line) == (str(HERE), where)
        assert y.instruction.operands[1].metadata is metadata

    def test_metadata_of_an_operator(self) -> None:
        (x,) = parameters("f32[2]")
        y, where = x[::-1] * 2, line()
        assert y.instruction.metadata is not None
        assert y.instruction.metadata.source_line == where

    def test_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(HERE.parent)
        (x, y) = parameters("f32[2]", "f32[3]")
        where = line() + 2
        with raises(BuilderError, codes.COMPATIBLE_SIZES, f"test_builder.py:{where}: add", "f32[2]", "f32[3]"):
            ops.add(x, y)

    def test_error_outside_the_working_directory(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        (x,) = parameters("f32[2]")
        with raises(BuilderError, shared.ELEMENT_TYPE, "test_builder.py") as caught:
            ops.not_(x)
        assert str(caught.value).startswith(f"{HERE}:")

    def test_shape_error_of_an_op_is_both(self) -> None:
        (x,) = parameters("s32[2]")
        with raises(ShapeError, shared.ELEMENT_TYPE, "s32[2]"):
            ops.exp(x)
        with raises(BuilderError, shared.ELEMENT_TYPE):
            ops.exp(x)

    def test_no_user_frame(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("xlapy.builder.core.source._OWN", ("",))
        (x,) = parameters("f32[2]")
        assert ops.neg(x).instruction.metadata is None
        with raises(BuilderError, shared.ELEMENT_TYPE):
            ops.not_(x)


class TestFailedCallChangesNothing:
    def test_broadcast_and_constant_are_undone(self) -> None:
        (x,) = parameters("f32[2,3]")
        with raises(ShapeError, shared.ELEMENT_TYPE):
            x & 1
        assert opcode_names(x) == []
        assert x.builder.build().module.entry_computation.root is x.instruction

    def test_nested_transactions(self) -> None:
        (x,) = parameters("f32[4,5]")
        with raises(BuilderError, codes.INDEX_KIND):
            x[1:2, "a"]
        with pytest.raises(BuilderError):
            x[1, 5]
        assert opcode_names(x) == []
