"""The builder functions of collectives: appended instructions, inferred shapes, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests import xla_reference
from tests.builder.programs import instruction_texts, listing, opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import Layout, Shape, ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp
from xlapy.builder.core.channels import ChannelHandle, ChannelType
from xlapy.opcodes.attributes.replica_groups import IotaGroups


def reducer(element_type: str = "f32") -> XlaComputation:
    builder = XlaBuilder("sum")
    scalar = Shape.parse(f"{element_type}[]")
    x, y = ops.parameter(builder, 0, scalar, "x"), ops.parameter(builder, 1, scalar, "y")
    return builder.build(x + y)


class TestAllGather:
    def test_array(self) -> None:
        (x,) = parameters("f32[2,3]")
        result = ops.all_gather(x, 0, 4)
        assert result.shape.to_text(layout=False) == "f32[8,3]"
        assert instruction_texts(result) == ["all-gather = f32[8,3] all-gather(p0), replica_groups={}, dimensions={0}"]

    def test_everything(self) -> None:
        (x,) = parameters("f32[2,3]")
        result = ops.all_gather(x, 1, 2, [[0, 1], [2, 3]], 5, Layout([0, 1]), True)
        assert result.shape == Shape.parse("f32[2,6]{0,1}")
        assert instruction_texts(result) == [
            "all-gather = f32[2,6] all-gather(p0), channel_id=5, replica_groups={{0,1},{2,3}}, constrain_layout=true, "
            "dimensions={1}, use_global_device_ids=true"
        ]

    def test_tuple(self) -> None:
        (x,) = parameters("(f32[2], s32[3])")
        assert instruction_texts(ops.all_gather(x, 0, 2)) == [
            "get-tuple-element = f32[2] get-tuple-element(p0), index=0",
            "get-tuple-element.1 = s32[3] get-tuple-element(p0), index=1",
            "all-gather = (f32[4], s32[6]) all-gather(get-tuple-element, get-tuple-element.1), replica_groups={}, "
            "dimensions={0}",
        ]

    def test_list(self) -> None:
        x, y = parameters("f32[2]", "s32[3]")
        result = ops.all_gather_tuple([x, y], 0, 2, layout=Layout([0]))
        assert result.shape == Shape.parse("(f32[4]{0}, s32[6]{0})")
        assert opcode_names(result) == ["all-gather"]

    def test_tuple_of_one_stays_a_tuple(self) -> None:
        x, y = parameters("(f32[2])", "f32[2]")
        assert ops.all_gather(x, 0, 2).shape.to_text(layout=False) == "(f32[4])"
        assert ops.all_gather_tuple([y], 0, 2).shape.to_text(layout=False) == "(f32[4])"

    def test_groups_of_other_forms(self) -> None:
        (x,) = parameters("f32[2]")
        groups = ops.all_gather(x, 0, 2, IotaGroups.make(2, 2, (2, 2), (1, 0))).instruction.replica_groups
        assert groups.to_text() == "[2,2]<=[2,2]T(1,0)"
        assert ops.all_gather(x, 0, 2, np.array([[1, 0]])).instruction.replica_groups.to_text() == "{{1,0}}"  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("call", "wanted"),
        [
            (lambda x: ops.all_gather(x, 1, 2), (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]", "rank 1")),
            (lambda x: ops.all_gather(x, 0, 0), (builder_codes.POSITIVE_COUNT, "shard_count")),
            (
                lambda x: ops.all_gather(x, 0, 2, [[0, 1, 2]]),
                (codes.SHARD_COUNT, "replica_groups", "{{0,1,2}}"),
            ),
            (lambda x: ops.all_gather(x, 0, 2, [0, 1]), (builder_codes.LIST_OF_INTEGERS, "replica_groups")),  # type: ignore[list-item]
            (lambda x: ops.all_gather(x, 0, 2, use_global_device_ids=True), (codes.CHANNEL_GIVEN, "channel_id")),
            (lambda x: ops.all_gather(x, 0, 2, channel_id=0), (builder_codes.CHANNEL_HANDLE, "0")),
            (lambda x: ops.all_gather(ops.tuple(x.builder, ()), 0, 2), (builder_codes.COLLECTIVE_OPERANDS,)),
        ],
    )
    def test_refused(self, call: Callable[[XlaOp], XlaOp], wanted: Wanted) -> None:
        (x,) = parameters("f32[2]")
        with raises(BuilderError, *wanted, "test_collectives.py", "all-gather"):
            call(x)

    def test_layout_of_another_rank_is_refused(self) -> None:
        (x,) = parameters("f32[2]")
        with raises(BuilderError, values_codes.LAYOUT_RANK, "{0,1}"):
            ops.all_gather(x, 0, 2, layout=Layout([0, 1]))


class TestAllReduce:
    def test_array(self) -> None:
        (x,) = parameters("f32[2,3]")
        result = ops.all_reduce(x, reducer())
        assert listing(result.builder.build()) == (
            "sum (x: f32[], y: f32[]) -> f32[] {\n"
            "  x = f32[] parameter(0)\n"
            "  y = f32[] parameter(1)\n"
            "  ROOT add = f32[] add(x, y)\n"
            "}\n"
            "\n"
            "ENTRY test (p0: f32[2,3]) -> f32[2,3] {\n"
            "  p0 = f32[2,3] parameter(0)\n"
            "  ROOT all-reduce = f32[2,3] all-reduce(p0), replica_groups={}, to_apply=sum\n"
            "}"
        )

    def test_everything(self) -> None:
        (x,) = parameters("f32[2,3]")
        handle = ChannelHandle(3, ChannelType.DEVICE_TO_DEVICE)
        result = ops.all_reduce(x, reducer(), [[0, 1]], handle, Shape.parse("f32[2,3]{0,1}"), True)
        assert result.shape == Shape.parse("f32[2,3]{0,1}")
        assert instruction_texts(result) == [
            "all-reduce = f32[2,3] all-reduce(p0), channel_id=3, replica_groups={{0,1}}, constrain_layout=true, "
            "use_global_device_ids=true, to_apply=sum"
        ]

    def test_tuples(self) -> None:
        pair, single, x = parameters("(f32[2], f32[3])", "(f32[2])", "f32[3]")
        assert ops.all_reduce(pair, reducer()).shape.to_text(layout=False) == "(f32[2], f32[3])"
        laid_out = Shape.parse("(f32[2]{0:S(1)})")
        reduced = ops.all_reduce(single, reducer(), shape_with_layout=laid_out)
        assert reduced.shape == laid_out
        assert ops.all_reduce_tuple([x], reducer(), shape_with_layout=x.shape).shape == Shape.tuple([x.shape])
        assert ops.all_reduce_tuple([x, x], reducer()).shape.to_text(layout=False) == "(f32[3], f32[3])"

    def test_refused(self) -> None:
        x, mixed = parameters("f32[2]", "(f32[2], s32[2])")
        with raises(ShapeError, shared.SAME_ELEMENT_TYPE, "operand 0", "f32[2]", "operand 1", "s32[2]"):
            ops.all_reduce(mixed, reducer())
        with raises(ShapeError, shared.RESULT_SHAPE, "f32[2]", "f32[3]"):
            ops.all_reduce(x, reducer(), shape_with_layout=Shape.parse("f32[3]"))
        with raises(ShapeError, codes.CHANNEL_GIVEN, "channel_id"):
            ops.all_reduce_tuple([x], reducer(), use_global_device_ids=True)
        assert opcode_names(x) == []  # the instructions that the failed call appended are removed

    @pytest.mark.parametrize(
        ("shape", "element", "op"),
        [("f32[2]", "f32", "add"), ("pred[2]", "pred", "or"), ("(s32[2], s32[])", "s32", "add")],
    )
    def test_cross_replica_sum(self, shape: str, element: str, op: str) -> None:
        (x,) = parameters(shape)
        result = ops.cross_replica_sum(x, [[0, 1]])
        assert result.shape.to_text(layout=False) == shape
        text = listing(result.builder.build())
        assert f"ROOT {op} = {element}[] {op}(x, y)" in text
        assert "replica_groups={{0,1}}, to_apply=sum" in text

    def test_cross_replica_sum_refused(self) -> None:
        x, nothing = parameters("token[]", "()")
        with raises(ShapeError, shared.ARRAY_OPERAND, "operand 0", "token[]"):
            ops.cross_replica_sum(x)
        with raises(ShapeError, builder_codes.COLLECTIVE_OPERANDS):
            ops.cross_replica_sum(nothing)


class TestReduceScatter:
    def test_array(self) -> None:
        (x,) = parameters("f32[8,3]")
        assert instruction_texts(ops.reduce_scatter(x, reducer(), 0, 4, [[0, 1, 2, 3]])) == [
            "reduce-scatter = f32[2,3] reduce-scatter(p0), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=sum"
        ]

    def test_everything(self) -> None:
        (x,) = parameters("(f32[8,2], f32[4,6])")
        result = ops.reduce_scatter(x, reducer(), 1, 2, [[0, 1]], 1, Layout([0, 1]), True)
        assert result.shape == Shape.parse("(f32[8,1]{0,1}, f32[4,3]{0,1})")
        assert instruction_texts(result)[-1] == (
            "reduce-scatter = (f32[8,1], f32[4,3]) reduce-scatter(get-tuple-element, get-tuple-element.1), "
            "channel_id=1, replica_groups={{0,1}}, constrain_layout=true, use_global_device_ids=true, "
            "dimensions={1}, to_apply=sum"
        )

    def test_tuple_of_one_stays_a_tuple(self) -> None:
        (x,) = parameters("(f32[8])")
        assert ops.reduce_scatter(x, reducer(), 0, 2).shape.to_text(layout=False) == "(f32[4])"

    @pytest.mark.parametrize(
        ("dimension", "count", "wanted"),
        [
            (1, 2, (shared.DIMENSION_NUMBER, "dimension 1", "f32[8]", "rank 1")),
            (0, 3, (codes.GROUP_SIZE_DIVIDES, "dimension 0", "f32[8]")),
            (0, 0, (builder_codes.POSITIVE_COUNT, "shard_count")),
        ],
    )
    def test_refused(self, dimension: int, count: int, wanted: Wanted) -> None:
        (x,) = parameters("f32[8]")
        with raises(ShapeError, *wanted):
            ops.reduce_scatter(x, reducer(), dimension, count)


class TestCollectiveReduce:
    def test_static_root(self) -> None:
        (x,) = parameters("f32[4]")
        assert instruction_texts(ops.collective_reduce(x, reducer(), [[0, 1]])) == [
            "collective-reduce = f32[4] collective-reduce(p0), replica_groups={{0,1}}, has_dynamic_root=false, "
            "to_apply=sum"
        ]

    def test_dynamic_root(self) -> None:
        x, y, root = parameters("f32[4]", "f32[2]", "s32[2]")
        result = ops.collective_reduce([x, y, root], reducer(), [[0, 1]], 1, True, has_dynamic_root=True)
        assert result.shape.to_text(layout=False) == "(f32[4], f32[2])"
        attributes = result.instruction.attributes
        assert (attributes.channel_id, attributes.use_global_device_ids, attributes.has_dynamic_root) == (1, True, True)

    def test_refused(self) -> None:
        x, root = parameters("f32[4]", "s32[2]")
        with raises(ShapeError, codes.ROOT_OPERAND, "s32[1]", "s32[2]"):
            ops.collective_reduce([x, root], reducer(), has_dynamic_root=True)


class TestAllToAll:
    def test_the_example_of_the_specification(self) -> None:
        (x,) = parameters("f32[4,16]")
        assert instruction_texts(ops.all_to_all(x, split_dimension=1, concat_dimension=0, split_count=4)) == [
            "all-to-all = f32[4,16] all-to-all(p0), replica_groups={{0,1,2,3}}, dimensions={1}",
            "reshape = f32[4,4,4] reshape(all-to-all)",
            "transpose = f32[4,4,4] transpose(reshape), dimensions={1,0,2}",
            "reshape.1 = f32[16,4] reshape(transpose)",
        ]

    @pytest.mark.parametrize(
        ("split", "concat", "shape", "order"),
        [
            (0, 1, "f32[2,12,5]", (1, 0, 2, 3)),
            (0, 2, "f32[2,6,10]", (1, 2, 0, 3)),
            (1, 2, "f32[4,3,10]", (0, 2, 1, 3)),
            (1, 0, "f32[8,3,5]", (1, 0, 2, 3)),
        ],
    )
    def test_blocks_move(self, split: int, concat: int, shape: str, order: tuple[int, ...]) -> None:
        (x,) = parameters("f32[4,6,5]")
        result = ops.all_to_all(x, split, concat, 2, [[1, 0]])
        assert result.shape.to_text(layout=False) == shape
        assert result.instruction.operands[0].dimensions == order

    def test_along_one_dimension(self) -> None:
        (x,) = parameters("f32[4,6]")
        assert instruction_texts(ops.all_to_all(x, 1, 1, 2, IotaGroups.make(2, 2), channel_id=7)) == [
            "all-to-all = f32[4,6] all-to-all(p0), channel_id=7, replica_groups=[2,2]<=[4], dimensions={1}"
        ]

    def test_blocks_are_where_a_concatenation_puts_them(self) -> None:
        """With one replica no data moves between replicas, and the array form concatenates blocks as the tuple form
        does.
        """
        x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
        blocks = np.concatenate(np.split(x, 3, axis=1), axis=0)
        (p,) = parameters("f32[4,6]")
        exchanged = ops.all_to_all(p, 1, 0, 3)
        exchanged.builder.build(exchanged)
        reshape = exchanged.instruction.operands[0].operands[0]
        moved = x.reshape(reshape.shape.dimensions).transpose(exchanged.instruction.operands[0].dimensions)
        assert np.array_equal(moved.reshape(exchanged.shape.dimensions), blocks)

    def test_layout_takes_the_tuple_form(self) -> None:
        (x,) = parameters("f32[4,6]")
        result = ops.all_to_all(x, 1, 0, 2, [[0, 1]], Layout([0, 1]))
        assert instruction_texts(result) == [
            "slice = f32[4,3] slice(p0), slice={[0:4], [0:3]}",
            "slice.1 = f32[4,3] slice(p0), slice={[0:4], [3:6]}",
            "all-to-all = (f32[4,3], f32[4,3]) all-to-all(slice, slice.1), replica_groups={{0,1}}, "
            "constrain_layout=true",
            "get-tuple-element = f32[4,3] get-tuple-element(all-to-all), index=0",
            "get-tuple-element.1 = f32[4,3] get-tuple-element(all-to-all), index=1",
            "concatenate = f32[8,3] concatenate(get-tuple-element, get-tuple-element.1), dimensions={0}",
        ]
        exchanged = result.instruction.operands[0].operands[0]
        assert exchanged.shape == Shape.parse("(f32[4,3]{0,1}, f32[4,3]{0,1})")

    def test_tuple_forms(self) -> None:
        x, y = parameters("f32[4]", "f32[4]")
        assert ops.all_to_all_tuple([x, y], [[0, 1]]).shape.to_text(layout=False) == "(f32[4], f32[4])"
        assert ops.all_to_all_tuple(operands=[x], layout=Layout([0])).instruction.constrain_layout
        by_name = ops.all_to_all_tuple(operand=x, split_dimension=0, concat_dimension=0, split_count=1)
        assert by_name.shape.to_text(layout=False) == "f32[4]"

    @pytest.mark.parametrize(
        ("shape", "arguments", "wanted"),
        [
            ("f32[4,6]", (2, 0, 2), (shared.DIMENSION_NUMBER, "split_dimension 2", "f32[4,6]", "rank 2")),
            ("f32[4,6]", (0, -1, 2), (shared.DIMENSION_NUMBER, "concat_dimension -1", "f32[4,6]", "rank 2")),
            ("f32[4,6]", (1, 0, 4), (codes.GROUP_SIZE_DIVIDES, "dimension 1", "f32[4,6]")),
            ("f32[4,6]", (1, 0, 0), (builder_codes.POSITIVE_COUNT, "split_count")),
            (
                "f32[4,6]",
                (1, 0, 2, [[0, 1, 2]]),
                (builder_codes.SPLIT_COUNT, "split_count", "replica_groups", "{{0,1,2}}"),
            ),
            ("f32[<=4,6]", (1, 0, 2), (builder_codes.STATIC_DIMENSIONS, "f32[<=4,6]")),
            ("(f32[4])", (0, 0, 2), (shared.ARRAY_OPERAND, "operand 0", "(f32[4])")),
        ],
    )
    def test_refused(self, shape: str, arguments: tuple[int, ...], wanted: Wanted) -> None:
        (x,) = parameters(shape)
        for function in (ops.all_to_all, ops.all_to_all_tuple):
            with raises(ShapeError, *wanted):
                function(x, *arguments)

    def test_tuple_refused(self) -> None:
        x, y = parameters("f32[4]", "f32[5]")
        with raises(ShapeError, codes.EXCHANGED_SHAPES, "operand 0", "f32[4]", "operand 1", "f32[5]"):
            ops.all_to_all_tuple([x, y])
        with raises(ShapeError, codes.EXCHANGED_OPERANDS, "replica_groups", "{{0,1}}"):
            ops.all_to_all_tuple([x], [[0, 1]])

    def test_ragged(self) -> None:
        p = parameters("f32[8,2]", "s32[2]", "s32[2]", "f32[16,2]", "s32[2]", "s32[2]")
        result = ops.ragged_all_to_all(*p, replica_groups=[[0, 1]], channel_id=1)
        assert instruction_texts(result) == [
            "ragged-all-to-all = f32[16,2] ragged-all-to-all(p0, p3, p1, p2, p4, /*index=5*/p5), channel_id=1, "
            "replica_groups={{0,1}}"
        ]

    def test_ragged_refused(self) -> None:
        p = parameters("f32[8,2]", "s32[2]", "s32[3]", "f32[16,2]", "s32[2]", "s32[2]")
        with raises(ShapeError, codes.RAGGED_OFFSETS, "send_sizes", "input_offsets", "s32[2]", "s32[3]"):
            ops.ragged_all_to_all(*p)


class TestCopies:
    def test_broadcast(self) -> None:
        (x,) = parameters("f32[4]")
        assert instruction_texts(ops.collective_broadcast(x, [[1, 0]], 2)) == [
            "collective-broadcast = f32[4] collective-broadcast(p0), channel_id=2, replica_groups={{1,0}}"
        ]

    def test_broadcast_from_a_dynamic_root(self) -> None:
        x, y, root = parameters("f32[4]", "s32[]", "s32[2]")
        result = ops.collective_broadcast([x, y, root], [[0, 1]], has_dynamic_root=True)
        assert result.shape.to_text(layout=False) == "(f32[4], s32[])"
        assert result.instruction.has_dynamic_root

    def test_broadcast_refused(self) -> None:
        (x,) = parameters("f32[4]")
        with raises(ShapeError, codes.ROOT_OPERAND, "f32[4]"):
            ops.collective_broadcast(x, [[0]], has_dynamic_root=True)

    def test_permute(self) -> None:
        (x,) = parameters("f32[4]")
        assert instruction_texts(ops.collective_permute(x, [(0, 1), (1, 0)], 1)) == [
            "collective-permute = f32[4] collective-permute(p0), channel_id=1, source_target_pairs={{0,1},{1,0}}"
        ]

    def test_multi_permute(self) -> None:
        x, y = parameters("f32[4]", "s32[]")
        assert instruction_texts(ops.multi_collective_permute([x, y], [(0, 1)])) == [
            "collective-permute = (f32[4], s32[]) collective-permute(p0, p1), source_target_pairs={{0,1}}"
        ]

    def test_permute_refused(self) -> None:
        x, pair = parameters("f32[4]", "(f32[4])")
        with raises(ShapeError, codes.PERMUTATION_ONCE, "target 1", "source_target_pairs={{0,1},{2,1}}"):
            ops.collective_permute(x, [(0, 1), (2, 1)])
        with raises(ShapeError, shared.ARRAY_OPERAND, "operand 0", "(f32[4])"):
            ops.multi_collective_permute([pair], [(0, 1)])


def test_identifiers() -> None:
    builder = XlaBuilder("test")
    both = ops.replica_id(builder) + ops.partition_id(builder)
    assert instruction_texts(both) == [
        "replica-id = u32[] replica-id()",
        "partition-id = u32[] partition-id()",
        "add = u32[] add(replica-id, partition-id)",
    ]


def test_identifiers_refused() -> None:
    builder = XlaBuilder("test")
    ops.replica_id(builder)
    builder.build()
    for function in (ops.replica_id, ops.partition_id):
        with raises(BuilderError, builder_codes.OPEN_BUILDER):
            function(builder)


def test_jaxlib_reads_built_programs() -> None:
    x, pair = parameters("f32[4,8]", "(f32[2], f32[3])")
    total = reducer()
    results = [
        ops.all_gather(x, 0, 2, [[0, 1]], 1, use_global_device_ids=True),
        ops.all_reduce(pair, total, shape_with_layout=pair.shape),
        ops.reduce_scatter(x, total, 1, 2, [[0, 1]]),
        ops.all_to_all(x, 1, 0, 2),
        ops.all_to_all(x, 1, 0, 2, layout=Layout([1, 0])),
        ops.collective_broadcast(x, [[0, 1]]),
        ops.multi_collective_permute([x, x], [(0, 1)]),
        ops.replica_id(x.builder),
    ]
    text = x.builder.build(ops.tuple(x.builder, results)).as_hlo_text(print_metadata=False)
    assert xla_reference.parse_and_print(text) == text
