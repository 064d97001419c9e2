"""Functions of XlaBuilder other than ops: annotations, constants, aliases, static builds, manual partitioning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests import xla_reference
from tests.builder.programs import opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy import OpMetadata, Sharding, ops
from xlapy.base import Shape
from xlapy.base.element_types import F32, S32
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.formats import hlo_text as hlo_text_codes
from xlapy.base.error_codes.operations import elementwise as elementwise_codes
from xlapy.base.error_codes.structure import annotations as annotations_codes
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.errors import BuilderError, ParseError, VerificationError
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp
from xlapy.hlo.verify import verify

HERE = Path(__file__)
ROWS = "{devices=[2,1]<=[2]}"
CLIENT = xla.Client("interpreter")


def value_of(computation: XlaComputation, *arguments: Any) -> Any:
    result = CLIENT.compile(computation)(*arguments)
    return [np.asarray(part) for part in result] if isinstance(result, tuple | list) else np.asarray(result)


def read_by_xla(computation: XlaComputation) -> str:
    """Returns the text that XLA prints for the program, after checking that xlapy reads its own text back."""
    verify(computation.module)
    text = computation.as_hlo_text()
    assert xla.parse_hlo(text).to_text() == text
    return xla_reference.parse_and_print(text)


class TestSharding:
    def test_holds_until_cleared(self) -> None:
        (x,) = parameters("f32[4,2]")
        builder = x.builder
        builder.set_sharding(ROWS)
        y = x + x
        builder.clear_sharding()
        z = y + y
        assert builder.get_op_sharding(x) is None
        assert builder.get_op_sharding(y) == Sharding.parse(ROWS)
        assert builder.get_op_sharding(z) is None
        assert f"sharding={ROWS}" in read_by_xla(builder.build())

    def test_scopes_nest_and_end_with_an_error(self) -> None:
        (x,) = parameters("f32[4,2]")
        builder = x.builder
        with builder.sharding(Sharding.parse(ROWS)):
            a = -x
            with builder.sharding(None):
                b = -x
            with pytest.raises(RuntimeError), builder.sharding("{replicated}"):
                raise RuntimeError
            c = -x
        d = -x
        assert [str(builder.get_op_sharding(op)) for op in (a, b, c, d)] == [ROWS, "None", ROWS, "None"]

    def test_of_a_tuple_is_one_a_leaf(self) -> None:
        (x,) = parameters("f32[4]")
        with x.builder.sharding("{maximal device=1}"):
            pair = ops.tuple(x.builder, [x, x])
        assert str(pair.instruction.sharding) == "{{maximal device=1}, {maximal device=1}}"

    def test_tokens_accept_any_sharding(self) -> None:
        builder = XlaBuilder("t")
        with builder.sharding(ROWS):
            token = ops.create_token(builder)
        assert str(builder.get_op_sharding(token)) == ROWS

    def test_an_invalid_sharding_appends_nothing(self) -> None:
        (x,) = parameters("f32[4,2]")
        with x.builder.sharding(ROWS):
            with raises(BuilderError, annotations_codes.SHARDING_SHAPE, "services.py", "f32[8]"):
                ops.reshape(x, [8])
            with raises(BuilderError, annotations_codes.SHARDING_SHAPE, "f32[]", "rank 0"):
                x + 1.0
        assert opcode_names(x) == []

    def test_of_one_op(self) -> None:
        (x,) = parameters("f32[4,2]")
        builder = x.builder
        y = -x
        builder.set_instruction_sharding(y, ROWS)
        assert str(builder.get_op_sharding(y)) == ROWS
        with raises(BuilderError, annotations_codes.SHARDING_SHAPE):
            builder.set_instruction_sharding(ops.reshape(y, [8]), ROWS)
        builder.set_instruction_sharding(y, None)
        assert builder.get_op_sharding(y) is None
        (other,) = parameters("f32[]")
        with raises(BuilderError, codes.OWN_OPERANDS):
            builder.set_instruction_sharding(other, "{replicated}")

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            ("{devices=[2]}", (hlo_text_codes.TOKEN,)),
            ("{replicated} x", (hlo_text_codes.TOKEN, "'x'")),
            (3, (codes.SHARDING_ARGUMENT,)),
        ],
    )
    def test_refused_at_the_line(self, given: Any, wanted: Wanted) -> None:
        builder = XlaBuilder("t")
        for set_it in (builder.set_sharding, builder.sharding):
            with raises(BuilderError, *wanted, "test_services.py"):
                set_it(given)

    def test_parse(self) -> None:
        assert Sharding.parse("{{replicated},{manual}}").to_text() == "{{replicated}, {manual}}"
        with pytest.raises(ParseError, match="expected"):
            Sharding.parse("replicated")

    @pytest.mark.parametrize(
        ("sharding", "shape", "wanted"),
        [
            ("{devices=[2]0,0}", "f32[2]", (annotations_codes.SHARDING_DEVICES,)),
            ("{devices=[2,2]<=[4]}", "f32[2]", (annotations_codes.SHARDING_SHAPE, "f32[2]", "rank 1")),
            ("{devices=[2,2,2]<=[8] last_tile_dims={manual}}", "f32[2]", (annotations_codes.SHARDING_SHAPE,)),
            ("{mesh['x'=2], [{'x'}, {}]}", "f32[2]", (annotations_codes.SHARDING_SHAPE, "f32[2]", "rank 1")),
            ("{{replicated}}", "f32[2]", (annotations_codes.SHARDING_SHAPE, "{{replicated}}", "f32[2]")),
            ("{{replicated}}", "(f32[2], f32[2])", (annotations_codes.SHARDING_SHAPE, "(f32[2], f32[2])")),
        ],
    )
    def test_check(self, sharding: str, shape: str, wanted: Wanted) -> None:
        with raises(xla.errors.ShapeError, *wanted):
            Sharding.parse(sharding).check(Shape.parse(shape))

    @pytest.mark.parametrize(
        ("sharding", "shape"),
        [
            ("{replicated}", "f32[2,3]"),
            ("{devices=[2,2]<=[4] last_tile_dim_replicate}", "f32[2]"),
            ("{devices=[2,2,2]<=[8] last_tile_dims={manual}}", "f32[2,2]"),
            ("{mesh['x'=2], [{'x'}, {}]}", "f32[2,2]"),
            ("{mesh['x'=2], replicated}", "f32[2]"),
            ("{{replicated}}", "()"),
            ("{}", "()"),
            ("{{replicated}, {devices=[2]<=[2]}}", "(f32[], (f32[4]))"),
        ],
    )
    def test_check_passes(self, sharding: str, shape: str) -> None:
        Sharding.parse(sharding).check(Shape.parse(shape))


class TestFrontendAttributes:
    def test_scope_replaces_and_restores(self) -> None:
        (x,) = parameters("f32[]")
        builder = x.builder
        builder.set_frontend_attributes({"a": "1"})
        with builder.frontend_attributes({"b": "x y"}):
            inner = -x
        outer = -x
        builder.clear_frontend_attributes()
        free = inner + outer
        given = [op.instruction.frontend_attributes for op in (x, inner, outer, free)]
        assert given == [None, {"b": "x y"}, {"a": "1"}, None]
        assert 'frontend_attributes={b="x y"}' in read_by_xla(builder.build())

    def test_the_given_mapping_is_copied(self) -> None:
        (x,) = parameters("f32[]")
        given = {"a": "1"}
        x.builder.set_frontend_attributes(given)
        given["a"] = "2"
        assert (-x).instruction.frontend_attributes == {"a": "1"}

    def test_of_one_op(self) -> None:
        (x,) = parameters("f32[]")
        builder = x.builder
        with builder.frontend_attributes({"a": "1"}):
            y, z = -x, -x
        builder.set_instruction_frontend_attribute(y, "b", "2")
        builder.set_instruction_frontend_attribute(y, "a", '{"json":3}')
        assert y.instruction.frontend_attributes == {"a": '{"json":3}', "b": "2"}
        assert z.instruction.frontend_attributes == {"a": "1"}

    def test_composite_call_adds_its_own(self) -> None:
        (x,) = parameters("f32[]")
        sub = x.builder.create_sub_builder("f")
        -ops.parameter(sub, 0, x.shape)
        with x.builder.frontend_attributes({"a": "1"}):
            called = ops.composite_call(x.builder, sub.build(), [x], "my.op")
        assert called.instruction.frontend_attributes == {
            "a": "1", "composite.attributes": "{}", "composite.name": "my.op", "composite.version": "0",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ({"a b": "1"}, "{'a b': '1'}"),
            ({"": "1"}, "{'': '1'}"),
            ({"a": 1}, "'a': 1"),
        ],
    )
    def test_refused(self, given: dict[str, Any], shown: str) -> None:
        (x,) = parameters("f32[]")
        with raises(BuilderError, codes.FRONTEND_ATTRIBUTES, "test_services.py", shown):
            x.builder.set_frontend_attributes(given)
        assert x.builder.annotations.frontend_attributes is None


class TestMetadata:
    def test_is_merged_with_the_line(self) -> None:
        (x,) = parameters("f32[]")
        x.builder.set_op_metadata(OpMetadata(op_type="Neg", op_name="jit(f)/layer/neg"))
        y = -x
        x.builder.clear_op_metadata()
        z = -y
        metadata = y.instruction.metadata
        assert metadata is not None
        assert (metadata.op_type, metadata.op_name) == ("Neg", "jit(f)/layer/neg")
        assert metadata.source_file == str(HERE)
        assert z.instruction.metadata == OpMetadata(source_file=str(HERE), source_line=metadata.source_line + 2)
        assert 'op_type="Neg" op_name="jit(f)/layer/neg"' in read_by_xla(x.builder.build())

    def test_a_given_source_file_is_preserved(self) -> None:
        (x,) = parameters("f32[]")
        given = OpMetadata(source_file="model.py", source_line=7)
        with x.builder.op_metadata(given):
            assert (-x).instruction.metadata == given
        assert x.builder.annotations.op_metadata is None

    def test_ops_are_named_by_it(self) -> None:
        (x,) = parameters("f32[]")
        with x.builder.op_metadata(OpMetadata(op_name="jit(f)/my act:0")):
            names = [(-x).name, (-x).name, ops.parameter(x.builder, 1, x.shape, "w").name]
        with x.builder.op_metadata(OpMetadata(op_name="f/")):
            names.append((-x).name)
        assert names == ["my_act_0", "my_act_0.1", "w", "negate"]

    def test_one_shot(self) -> None:
        (x,) = parameters("f32[]")
        x.builder.set_op_metadata(OpMetadata(op_name="all"))
        x.builder.set_one_shot_op_metadata(OpMetadata(op_name="once"))
        given = [(-x).instruction.metadata, (-x).instruction.metadata]
        assert [metadata and metadata.op_name for metadata in given] == ["once", "all"]

    def test_one_shot_outlives_a_call_that_failed(self) -> None:
        x, y = parameters("f32[2]", "f32[3]")
        x.builder.set_one_shot_op_metadata(OpMetadata(op_name="once"))
        with raises(BuilderError, elementwise_codes.SCALAR_OR_SAME_DIMENSIONS):
            ops.clamp(1.0, x, y)  # the constant is appended before the call fails
        assert x.builder.annotations.one_shot_op_metadata == OpMetadata(op_name="once")


class TestOriginalValue:
    def test_scope(self) -> None:
        (x,) = parameters("f32[]")
        builder = x.builder
        with builder.original_value('{ "a" {1} }'):
            y = -x
        builder.set_original_value('({"b"}, {"c"})')
        z = ops.tuple(builder, [x, y])
        builder.clear_original_value()
        assert [op.instruction.original_value for op in (x, y, z, -y)] == ["", '{"a" {1}}', '({"b"}, {"c"})', ""]
        assert 'origin={{"a" {1}}}' in read_by_xla(builder.build(z))

    @pytest.mark.parametrize("text", ['{"a"', '{"a"} x', "a", '{"a"}}'])
    def test_refused(self, text: str) -> None:
        with pytest.raises(BuilderError, match=r"test_services.py:\d+: .* is not an original value"):
            XlaBuilder("t").set_original_value(text)


def random_bits(b: XlaBuilder) -> XlaOp:
    return ops.rng_uniform(ops.constant(b, 0.0), ops.constant(b, 1.0), Shape.parse("f32[2]"))


def computation_of(make: Callable[[XlaOp], XlaOp], shape: str = "f32[]") -> XlaComputation:
    builder = XlaBuilder("f")
    make(ops.parameter(builder, 0, Shape.parse(shape)))
    return builder.build()


CONSTANTS: dict[str, Callable[[XlaBuilder, XlaOp], XlaOp]] = {
    "arithmetic": lambda b, x: ops.constant(b, np.float32([1, 2])) * 3.0 + 1.0,
    "iota": lambda b, x: ops.iota(b, S32, 4) + 1,
    "size of a parameter": lambda b, x: ops.get_dimension_size(x, 0) * 2,
    "element of a tuple": lambda b, x: ops.get_tuple_element(ops.tuple(b, [x, ops.constant(b, 5.0)]), 1) + 1.0,
    "call": lambda b, x: ops.call(b, computation_of(lambda p: p * p), [ops.constant(b, 3.0)]),
    "loop": lambda b, x: ops.while_(computation_of(lambda p: p < 10.0), computation_of(lambda p: p * 3.0),
                                    ops.constant(b, 2.0)),
    "reduce": lambda b, x: ops.reduce_all(ops.iota(b, F32, 5), ops.constant(b, 0.0), adder()),
}  # fmt: skip

VALUES = {
    "arithmetic": [4, 7],
    "iota": [1, 2, 3, 4],
    "size of a parameter": 8,
    "element of a tuple": 6,
    "call": 9,
    "loop": 18,
    "reduce": 10,
}

OTHERS: dict[str, Callable[[XlaBuilder, XlaOp], XlaOp]] = {
    "parameter": lambda b, x: x + 1.0,
    "random": lambda b, x: random_bits(b) + 1.0,
    "random in a call": lambda b, x: ops.call(b, random_bits(XlaBuilder("f")).builder.build(), []),
    "infeed": lambda b, x: ops.infeed(b, Shape.parse("f32[2]{0}")),
    "recv": lambda b, x: ops.recv(b, Shape.parse("f32[2]"), 1),
    "replica": lambda b, x: ops.replica_id(b) + 1,
    "collective": lambda b, x: ops.cross_replica_sum(ops.constant(b, 1.0)),
    "custom call": lambda b, x: ops.custom_call(b, "f", [], Shape.scalar(F32)),
    "element of a tuple": lambda b, x: ops.get_tuple_element(ops.tuple(b, [x, ops.constant(b, 5.0)]), 0),
    "tuple": lambda b, x: ops.tuple(b, [x, ops.constant(b, 5.0)]),
}  # fmt: skip


def adder() -> XlaComputation:
    builder = XlaBuilder("add")
    scalar = Shape.scalar(F32)
    ops.parameter(builder, 0, scalar) + ops.parameter(builder, 1, scalar)
    return builder.build()


class TestConstants:
    @pytest.mark.parametrize("name", CONSTANTS)
    def test_constant(self, name: str) -> None:
        (x,) = parameters("f32[4,2]")
        root = CONSTANTS[name](x.builder, x)
        assert x.builder.is_constant(root)
        size = len(x.builder._computation)
        computation = x.builder.build_constant_sub_graph(root)
        verify(computation.module)
        assert computation.program_shape.to_text() == f"() -> {root.shape.to_text(layout=False)}"
        np.testing.assert_array_equal(value_of(computation), VALUES[name])
        assert len(x.builder._computation) == size
        assert not x.builder.is_finished

    @pytest.mark.parametrize("name", OTHERS)
    def test_not_constant(self, name: str) -> None:
        (x,) = parameters("f32[4,2]")
        root = OTHERS[name](x.builder, x)
        assert not x.builder.is_constant(root)
        with raises(BuilderError, codes.CONSTANT_VALUE, "test_services.py", "build_constant_sub_graph"):
            x.builder.build_constant_sub_graph(root)

    def test_contains_only_the_needed_computations(self) -> None:
        (x,) = parameters("f32[4]")
        b = x.builder
        ops.call(b, computation_of(lambda p: -p), [ops.constant(b, 1.0)])
        x + x
        two = ops.constant(b, 2.0)
        module = b.build_constant_sub_graph(ops.call(b, computation_of(lambda p: p * p), [two])).module
        assert module.name == "test_compute_constant"
        assert [i.op.name for i in module.entry_computation] == ["constant", "call"]
        assert len(module.computations) == 2

    def test_dynamic_dimension(self) -> None:
        (x,) = parameters("f32[<=4,2]")
        sizes = [ops.get_dimension_size(x, d) for d in (0, 1)]
        built = [x.builder.build_constant_sub_graph(size) for size in sizes]
        unknown = [x.builder.build_constant_sub_graph(size, dynamic_dimension_is_minus_one=True) for size in sizes]
        assert [value_of(computation).item() for computation in built + unknown] == [4, 2, -1, 2]

    def test_op_of_another_builder(self) -> None:
        (x,) = parameters("f32[]")
        (y,) = parameters("f32[]")
        with raises(BuilderError, codes.OWN_OPERANDS, "is_constant", "p0"):
            x.builder.is_constant(y)


class TestAliases:
    def test_in_the_module(self) -> None:
        x, y, _ = parameters("f32[4]", "(f32[4], s32[])", "f32[8]")
        b = x.builder
        b.set_up_alias([1], 1, [0], kind="must")
        b.set_up_alias([0], 0)
        b.add_buffer_donor(2)
        b.add_buffer_donor(1, [1])
        b.add_buffer_donor(2)
        computation = b.build(ops.tuple(b, [-x, -y[0]]))
        text = read_by_xla(computation)
        assert "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {0}, must-alias) }" in text
        assert "buffer_donor={ (1, {1}), (2, {}) }" in text

    def test_result_may_alias_a_parameter(self) -> None:
        (x,) = parameters("f32[4]")
        x.builder.set_up_alias([], 0)
        computation = (x + 1.0).builder.build()
        np.testing.assert_array_equal(value_of(computation, np.zeros(4, np.float32)), np.ones(4))

    @pytest.mark.parametrize(
        ("aliases", "donors", "wanted"),
        [
            ([([0], 0, [])], [], (modules_codes.ALIAS_BUFFER, "input_output_alias", "[0]", "[]")),
            ([([], 1, [])], [], (modules_codes.ALIAS_BUFFER, "input_output_alias", "[]")),
            ([([], -1, [])], [], (modules_codes.ALIAS_BUFFER, "input_output_alias", "[]")),
            ([([], 0, [0])], [], (modules_codes.ALIAS_BUFFER, "input_output_alias", "[]", "[0]")),
            ([([], 0, []), ([], 0, [])], [], (modules_codes.ALIAS_ONCE, "input_output_alias", "[]")),
            ([], [(1, [])], (modules_codes.ALIAS_BUFFER, "buffer_donor", "[]")),
            ([], [(0, [2])], (modules_codes.ALIAS_BUFFER, "buffer_donor", "[2]")),
            ([([], 0, [])], [(0, [])], (modules_codes.DONOR_ALIASED, "buffer_donor", "[]")),
        ],
    )
    def test_checked_by_build(self, aliases: list[Any], donors: list[Any], wanted: Wanted) -> None:
        (x,) = parameters("f32[4]")
        for alias in aliases:
            x.builder.set_up_alias(*alias)
        for donor in donors:
            x.builder.add_buffer_donor(*donor)
        with raises(BuilderError, *wanted, "test_services.py"):
            x.builder.build(-x)
        assert not x.builder.is_finished

    def test_sizes(self) -> None:
        (x,) = parameters("f32[4]")
        x.builder.set_up_alias([], 0)
        with raises(BuilderError, modules_codes.ALIAS_SIZE, "f32[2]", "f32[4]"):
            x.builder.build(x[:2])

    def test_kind(self) -> None:
        (x,) = parameters("f32[4]")
        with raises(BuilderError, codes.NAMED_CHOICE, "'may'", "'must'", "'always'"):
            x.builder.set_up_alias([], 0, [], "always")  # type: ignore[arg-type]

    def test_verifier_checks_donors_of_any_module(self) -> None:
        text = "HloModule m, buffer_donor={ (0, {}) }\nENTRY e {\n  ROOT p = (f32[]) parameter(0)\n}\n"
        with raises(VerificationError, modules_codes.ALIAS_BUFFER, "buffer_donor", "[]"):
            xla.parse_hlo(text)


class TestBuild:
    def test_remove_dynamic_dimensions(self) -> None:
        (x,) = parameters("(f32[<=4,2], f32[<=4])")
        y = x[0] + x[0]
        computation = x.builder.build(y, remove_dynamic_dimensions=True)
        verify(computation.module)
        assert computation.program_shape.to_text() == "(p0: (f32[4,2], f32[4])) -> f32[4,2]"
        values = (np.ones((4, 2), np.float32), np.ones(4, np.float32))
        np.testing.assert_array_equal(value_of(computation, values), np.full((4, 2), 2))

    def test_operand_shapes(self) -> None:
        x, y = parameters("f32[4]", "s32[]")
        assert [shape.to_text(layout=False) for shape in x.builder.get_operand_shapes([y, x])] == ["s32[]", "f32[4]"]

    def test_a_finished_builder_is_not_changed(self) -> None:
        (x,) = parameters("f32[4]")
        x.builder.build()
        for call in (
            lambda: x.builder.set_up_alias([], 0),
            lambda: x.builder.add_buffer_donor(0),
            lambda: x.builder.set_instruction_sharding(x, None),
            lambda: x.builder.set_instruction_frontend_attribute(x, "a", "1"),
        ):
            with raises(BuilderError, codes.OPEN_BUILDER):
                call()

    def test_annotations_of_called_computations_are_kept(self) -> None:
        (x,) = parameters("f32[]")
        sub = x.builder.create_sub_builder("f")
        p = ops.parameter(sub, 0, x.shape)
        with sub.frontend_attributes({"a": "1"}), sub.sharding("{replicated}"):
            ops.neg(p)
        ops.call(x.builder, sub.build(), [x])
        assert '%negate = f32[] negate(%p0.1), sharding={replicated}, frontend_attributes={a="1"}' in (
            x.builder.build().as_hlo_text(print_metadata=False)
        )


BY_HAND = [
    (ROWS.replace("[2,1]", "[2,4]").replace("[2]}", "[8]}"), 1, "f32[8,2]",
     "{devices=[2,1,4]<=[8] last_tile_dims={manual}}"),
    ("{devices=[2,4]<=[8]}", 0, "f32[4,6]", "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}"),
    ("{devices=[2,4]<=[8]}", -1, "f32[4,2]", "{manual}"),
    ("{devices=[4,2]0,2,1,3,4,5,6,7}", 1, "f32[8,3]", "{devices=[4,1,2]0,2,1,3,4,5,6,7 last_tile_dims={manual}}"),
    ("{devices=[2,2,2]<=[8] last_tile_dim_replicate}", 1, "f32[8,3]",
     "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}"),
    ("{replicated}", 0, "f32[8,6]", "{manual}"),
]  # fmt: skip


class TestPartitioningByHand:
    @pytest.mark.parametrize(("sharding", "dimension", "shard", "manual"), BY_HAND)
    def test_round_trip(self, sharding: str, dimension: int, shard: str, manual: str) -> None:
        (x,) = parameters("f32[8,6]")
        b = x.builder
        mine = ops.convert_spmd_full_to_shard_shape(b, x, dimension, sharding, [0])
        back = ops.convert_spmd_shard_to_full_shape(b, mine, x.shape, dimension, sharding)
        assert mine.shape.to_text(layout=False) == shard
        assert back.shape.to_text(layout=False) == "f32[8,6]"
        made = [i for i in b._computation if i.operands]
        given = [(i.custom_call_target, i.backend_config, str(i.sharding)) for i in made]
        assert given == [
            ("Sharding", "unspecified_dims=[0]", sharding),
            ("SPMDFullToShardShape", "unspecified_dims=[0]", manual),
            ("Sharding", "", manual),
            ("SPMDShardToFullShape", "", sharding),
        ]
        assert read_by_xla(b.build()).count("custom-call(") == 4

    def test_shards_are_rounded_up(self) -> None:
        (x,) = parameters("f32[7,3]")
        mine = ops.convert_spmd_full_to_shard_shape(x.builder, x, -1, "{devices=[2,2]<=[4]}")
        assert mine.shape.to_text(layout=False) == "f32[4,2]"
        assert x.builder.annotations.sharding is None

    def test_refused(self) -> None:
        (x,) = parameters("f32[8,6]")
        b = x.builder
        cases: list[tuple[Callable[[], XlaOp], Wanted]] = [
            (
                lambda: ops.convert_spmd_full_to_shard_shape(b, x, 2, ROWS),
                (codes.MANUAL_SHARDING, "single_dim", "f32[8,6]"),
            ),
            (
                lambda: ops.convert_spmd_full_to_shard_shape(b, x, 0, "{devices=[2]<=[2]}"),
                (annotations_codes.SHARDING_SHAPE, "f32[8,6]"),
            ),
            (
                lambda: ops.convert_spmd_full_to_shard_shape(b, x, 0, "{mesh['x'=2], [{'x'}, {}]}"),
                (codes.MANUAL_SHARDING,),
            ),
            (
                lambda: ops.convert_spmd_shard_to_full_shape(b, x, Shape.parse("f32[8,6]"), 0, ROWS),
                (codes.SHARD_SHAPE, "f32[8,6]", "f32[4,6]"),
            ),
        ]
        for call, wanted in cases:
            with raises(BuilderError, *wanted):
                call()
        assert opcode_names(x) == []


PUBLIC = """
    ChannelHandle ChannelType RandomAlgorithm FftType Transpose CustomCallSchedule CustomCallApiVersion OutputAlias
    Window WindowDimension GroupList IotaGroups MeshGroups Mesh AxisRef PaddingType Sharding OpMetadata"""


@pytest.mark.parametrize("name", PUBLIC.split())
def test_values_that_functions_take_are_public(name: str) -> None:
    assert getattr(xla, name).__name__ == name
    assert name in xla.__all__
