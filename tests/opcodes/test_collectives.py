"""Shape rules of collectives, replica groups in each of their forms, meshes; text as jaxlib prints it."""

from __future__ import annotations

from typing import Any

import pytest

from tests import xla_reference
from tests.opcodes.rules import accepts, field, inferred, read, refused, rewritten, written
from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ParseError, ShapeError
from xlapy.opcodes.attributes.mesh import AxisRef, Iota, Mesh
from xlapy.opcodes.attributes.replica_groups import GroupList, GroupMode, IotaGroups, MeshGroups, group_mode
from xlapy.opcodes.registry import Effect, OpDef

ADD = "(a: f32[], b: f32[]) -> f32[]"
FOUR = GroupList(((0, 1, 2, 3),))
TWO = GroupList(((0, 1), (2, 3)))

# Each text of replica groups, what jaxlib 0.10.2 prints for it, and the groups that it denotes.
GROUP_TEXTS = [
    ("{}", "{}", ()),
    ("{{0,1},{2,3}}", "{{0,1},{2,3}}", ((0, 1), (2, 3))),
    ("{ { 0 , 2 } , { 1 , 3 } }", "{{0,2},{1,3}}", ((0, 2), (1, 3))),
    ("{{0},{1,2}}", "{{0},{1,2}}", ((0,), (1, 2))),
    ("[2,4]<=[8]", "[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ("[ 2 , 2 ] <= [ 4 ]", "[2,2]<=[4]", ((0, 1), (2, 3))),
    ("[2,4]<=[4,2]T(1,0)", "[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
    ("[2,4]<=[2,4]T(0,1)", "[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ("[2,4]<=[2,2,2]T(2,0,1)", "[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
    ("[2,4]<=[1,8]T(1,0)", "[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ("[2,4]<=[2,1,4]T(2,1,0)", "[2,4]<=[2,4]T(1,0)", ((0, 4, 1, 5), (2, 6, 3, 7))),
    ("[4,3]<=[2,3,2]T(2,0,1)", "[4,3]<=[6,2]T(1,0)", ((0, 2, 4), (6, 8, 10), (1, 3, 5), (7, 9, 11))),
    ("[1,1]<=[1]", "[1,1]<=[1]", ((0,),)),
    ("mesh['a'=2,'b'=4] {'a'}", "mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ("mesh['a'=2,'b'=2] {'b','a'}", "mesh['a'=2,'b'=2] {'b','a'}", ((0, 2, 1, 3),)),
    ('mesh["a"=2] {"a"}', "mesh['a'=2] {'a'}", ((0, 1),)),
    ("mesh['a'=4] {'0'}", "mesh['a'=4] {'a'}", ((0, 1, 2, 3),)),
    ("mesh['a'=8] {'a':(1)2}", "mesh['a'=8] {'a':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ("mesh['a'=8] {'a':(2)2}", "mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
    ("mesh['a'=8] {'a':(4)2,'a':(1)2}", "mesh['a'=8] {'a':(4)2,'a':(1)2}", ((0, 4, 1, 5), (2, 6, 3, 7))),
    (
        "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}",
        "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}",
        ((0, 2, 4, 6), (1, 3, 5, 7)),
    ),
    ("mesh['a'=2,'b'=4], device_ids=([8]) {'b'}", "mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
    (
        "mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'b'}",
        "mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'b'}",
        ((3, 2), (1, 0)),
    ),
]


@pytest.mark.parametrize(("text", "printed", "groups"), GROUP_TEXTS)
def test_replica_groups(text: str, printed: str, groups: tuple[tuple[int, ...], ...]) -> None:
    value = read(opcodes.ALL_REDUCE, "replica_groups", text)
    assert value.to_text() == printed
    assert value.groups == groups
    assert value.group_count == len(groups)
    assert value.group_size == (len(groups[0]) if groups else 0)
    assert read(opcodes.ALL_REDUCE, "replica_groups", printed) == value


@pytest.mark.parametrize(("text", "printed"), [(text, printed) for text, printed, _ in GROUP_TEXTS])
def test_replica_groups_as_jaxlib_prints_them(text: str, printed: str) -> None:
    module = (
        "HloModule m\nr { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        f"ENTRY e {{ p = f32[4] parameter(0) ROOT x = f32[4] all-reduce(p), replica_groups={text}, to_apply=r }}"
    )
    assert f"replica_groups={printed}, to_apply=%r" in xla_reference.parse_and_print(module)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[8]<=[8]", (attributes_codes.ATTRIBUTE_FORM,)),
        ("[2,4]<=[7]", (attributes_codes.GROUPS_OF_IOTA, "[2,4]", "[7]")),
        ("[2,4]<=[4,2]", (attributes_codes.ATTRIBUTE_FORM,)),
        ("[2,4]<=[4,2]T(0,0)", (attributes_codes.IOTA_PERMUTATION, "T(0,0)", "[4,2]")),
        ("[2,0]<=[0]", (attributes_codes.DEVICE_COUNT,)),
        ("mesh['a'=2] {'b'}", (attributes_codes.MESH_AXIS_NAME, "'b'")),
        ("mesh['a'=2] {b}", (attributes_codes.ATTRIBUTE_FORM, "'a'")),
        ("mesh['a'=2,'a'=2] {'a'}", (attributes_codes.MESH_AXES,)),
        ("mesh['a'=2], device_ids=(0,1,2) {'a'}", (attributes_codes.MESH_DEVICES, "[2]")),
        ("mesh['a'=2], device_ids=(0,2) {'a'}", (attributes_codes.MESH_DEVICES,)),
        ("mesh['a'=8] {'a':(3)2}", (attributes_codes.SUB_AXIS, "'a'", "size 8")),
        ("mesh['a'=8] {'a','a':(1)2}", (attributes_codes.AXES_OVERLAP, "'a'")),
        ("mesh['a'=8] {'a':(1)2,'a':(2)2}", (attributes_codes.AXES_MERGED, "'a'")),
        ("8", (attributes_codes.ATTRIBUTE_FORM, "maximal_mesh[")),
    ],
)
def test_replica_groups_refused(text: str, wanted: Wanted) -> None:
    with raises(ParseError, *wanted):
        read(opcodes.ALL_REDUCE, "replica_groups", text)


def test_explicit_replica_groups() -> None:
    assert IotaGroups.make(2, 2).groups == ((0, 1), (2, 3))
    mesh = Mesh.make(("x", "y"), (2, 2), Iota.make((2, 2), (1, 0)))
    groups = MeshGroups.make(mesh, (AxisRef(0),))
    assert groups.groups == ((0, 1), (2, 3))
    assert groups.to_text() == "mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'x'}"
    assert MeshGroups.make(Mesh.maximal(3), ()).groups == ((3,),)
    assert Mesh.maximal(3).to_text() == "maximal_mesh[device_id=3]"
    assert Mesh().to_text() == "mesh[]"
    with raises(ShapeError, attributes_codes.DEVICE_LIMIT, "[1099511627776]", "1048576"):
        Iota.make((1 << 40,)).ids()


def test_group_modes() -> None:
    assert group_mode(None, False) is group_mode(None, None) is GroupMode.CROSS_REPLICA
    assert group_mode(1, None) is GroupMode.CROSS_PARTITION
    assert group_mode(1, False) is GroupMode.CROSS_REPLICA_AND_PARTITION
    assert group_mode(1, True) is GroupMode.FLATTENED_ID
    with raises(ShapeError, codes.CHANNEL_GIVEN, "use_global_device_ids=true", "channel_id"):
        group_mode(None, True)


def test_all_gather() -> None:
    along = {"all_gather_dimension": 0}
    assert accepts(opcodes.ALL_GATHER, "f32[8,3]", "f32[2,3]", replica_groups=FOUR, **along)
    assert accepts(
        opcodes.ALL_GATHER, "f32[8,3]", "f32[2,3]", **along
    )  # the number of participants depends on the module
    assert accepts(opcodes.ALL_GATHER, "(f32[4], s32[6])", "f32[2]", "s32[3]", replica_groups=TWO, **along)
    assert accepts(opcodes.ALL_GATHER, "f32[16]", "f32[2]", channel_id=1, replica_groups=FOUR, **along)
    assert accepts(opcodes.ALL_GATHER_START, "(f32[2], f32[4])", "f32[2]", replica_groups=TWO, **along)
    assert inferred(opcodes.ALL_GATHER_DONE, "(f32[2], f32[4])") == "f32[4]"


@pytest.mark.parametrize(
    ("shape", "operands", "attributes", "wanted"),
    [
        (
            "f32[4]",
            ["f32[2]"],
            {"all_gather_dimension": 1},
            (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]", "rank 1"),
        ),
        ("f32[5]", ["f32[2]"], {}, (shared.RESULT_SHAPE, "f32[6]", "f32[5]")),
        (
            "f32[4]",
            ["f32[2]"],
            {"replica_groups": FOUR},
            (codes.SHARD_COUNT, "replica_groups", "{{0,1,2,3}}"),
        ),
        ("f32[4]", ["f32[2]", "f32[2]"], {}, (codes.COLLECTIVE_RESULTS, "f32[4]")),
        ("f32[4]", ["token[]"], {}, (shared.ARRAY_OPERAND, "operand 0", "token[]")),
        (
            "f32[4]",
            ["f32[2]"],
            {"use_global_device_ids": True},
            (codes.CHANNEL_GIVEN, "use_global_device_ids=true", "channel_id"),
        ),
        (
            "f32[4]",
            ["f32[2]"],
            {"use_global_device_ids": True, "channel_id": 1},
            (codes.GROUPS_GIVEN, "use_global_device_ids=true", "replica_groups"),
        ),
        ("f32[6]", ["f32[2]"], {"channel_id": 1, "replica_groups": TWO}, (codes.SHARD_COUNT,)),
    ],
)
def test_all_gather_refuses(shape: str, operands: list[str], attributes: dict[str, Any], wanted: Wanted) -> None:
    attributes = {"all_gather_dimension": 0, **attributes}
    refused(wanted, opcodes.ALL_GATHER, shape, *operands, **attributes)


def test_all_gather_start_and_done_refuse() -> None:
    refused(
        (shared.RESULT_SHAPE, "f32[2]", "f32[3]"),
        opcodes.ALL_GATHER_START,
        "(f32[3], f32[4])",
        "f32[2]",
        all_gather_dimension=0,
    )
    refused((codes.START_SHAPE, "f32[4]"), opcodes.ALL_GATHER_START, "f32[4]", "f32[2]", all_gather_dimension=0)
    refused((codes.DONE_OPERAND, "f32[4]"), opcodes.ALL_GATHER_DONE, None, "f32[4]")


def test_all_reduce() -> None:
    for op in (opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START):
        assert inferred(op, "f32[2,3]", calls=[ADD]) == "f32[2,3]"
        assert (
            inferred(op, "f32[2]", "f32[3]", calls=[ADD], replica_groups=GroupList(((0,), (1, 2))))
            == "(f32[2], f32[3])"
        )
    assert inferred(opcodes.ALL_REDUCE_DONE, "(f32[2], f32[3])") == "(f32[2], f32[3])"
    assert set(opcodes.ALL_REDUCE.ignored_attributes) == {"mode"}


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        (GroupList(((0, 1), ())), (codes.EMPTY_GROUP, "replica_groups", "{{0,1},{}}")),
        (GroupList(((0, 1), (1, 2))), (codes.GROUP_IDS, "replica_groups", "{{0,1},{1,2}}")),
        (GroupList(((1, 2),)), (codes.GROUP_IDS, "replica_groups", "{{1,2}}")),
    ],
)
def test_all_reduce_refuses_groups(groups: GroupList, wanted: Wanted) -> None:
    refused(wanted, opcodes.ALL_REDUCE, None, "f32[2]", calls=[ADD], replica_groups=groups)


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([], (shared.CALLED_COMPUTATIONS, "0")),
        (["(a: f32[2], b: f32[2]) -> f32[2]"], (codes.COLLECTIVE_REDUCER,)),
        (["(a: f32[]) -> f32[]"], (codes.COLLECTIVE_REDUCER, "(a: f32[]) -> f32[]")),
    ],
)
def test_all_reduce_refuses_reducers(calls: list[str], wanted: Wanted) -> None:
    refused(wanted, opcodes.ALL_REDUCE, None, "f32[2]", calls=calls)


def test_reduce_scatter() -> None:
    along = {"scatter_dimension": 1, "calls": [ADD]}
    assert accepts(opcodes.REDUCE_SCATTER, "f32[2,2]", "f32[2,8]", replica_groups=FOUR, **along)
    assert accepts(opcodes.REDUCE_SCATTER, "(f32[2,2], f32[1,1])", "f32[2,4]", "f32[1,2]", replica_groups=TWO, **along)
    refused(
        (codes.SHARD_COUNT, "replica_groups", "{{0,1,2,3}}"),
        opcodes.REDUCE_SCATTER,
        "f32[2,4]",
        "f32[2,8]",
        replica_groups=FOUR,
        **along,
    )
    refused(
        (codes.GROUP_SIZE_DIVIDES, "dimension 1", "f32[2,8]"), opcodes.REDUCE_SCATTER, "f32[2,3]", "f32[2,8]", **along
    )
    refused((shared.RESULT_SHAPE, "f32[2,2]", "f32[1,2]"), opcodes.REDUCE_SCATTER, "f32[1,2]", "f32[2,8]", **along)
    refused(
        (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]", "rank 1"),
        opcodes.REDUCE_SCATTER,
        "f32[2]",
        "f32[2,8]",
        **along,
    )
    refused(
        (codes.GROUP_SIZES, "replica_groups", "{{0},{1,2}}"),
        opcodes.REDUCE_SCATTER,
        "f32[2,4]",
        "f32[2,8]",
        replica_groups=GroupList(((0,), (1, 2))),
        **along,
    )


def test_all_to_all() -> None:
    assert inferred(opcodes.ALL_TO_ALL, "f32[4,6]", split_dimension=0, replica_groups=TWO) == "f32[4,6]"
    assert inferred(opcodes.ALL_TO_ALL, "f32[4]", "f32[4]", replica_groups=TWO) == "(f32[4], f32[4])"
    assert inferred(opcodes.ALL_TO_ALL, "f32[4]", "f32[4]", "f32[4]") == "(f32[4], f32[4], f32[4])"


@pytest.mark.parametrize(
    ("operands", "attributes", "wanted"),
    [
        (["f32[4]"], {"split_dimension": 1}, (shared.DIMENSION_NUMBER, "split dimension 1", "f32[4]", "rank 1")),
        (
            ["f32[3]"],
            {"split_dimension": 0},
            (codes.GROUP_SIZE_DIVIDES, "dimension 0", "f32[3]"),
        ),
        (["f32[2]", "f32[2]"], {"split_dimension": 0}, (codes.EXCHANGED_OPERANDS, "2")),
        (["f32[2]", "s32[2]"], {}, (codes.EXCHANGED_SHAPES, "operand 0", "f32[2]", "operand 1", "s32[2]")),
        (
            ["f32[2]"],
            {},
            (codes.EXCHANGED_OPERANDS, "replica_groups", "{{0,1},{2,3}}"),
        ),
    ],
)
def test_all_to_all_refuses(operands: list[str], attributes: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, opcodes.ALL_TO_ALL, None, *operands, replica_groups=TWO, **attributes)


def test_ragged_all_to_all() -> None:
    offsets = ["s32[4]"] * 4
    assert inferred(opcodes.RAGGED_ALL_TO_ALL, "f32[8,2]", "f32[16,2]", *offsets) == "f32[16,2]"
    assert opcodes.RAGGED_ALL_TO_ALL.in_place_pairs == ((1, ()),)
    refused(
        (codes.RAGGED_OFFSETS, "send_sizes", "input_offsets", "s32[4]", "s32[3]"),
        opcodes.RAGGED_ALL_TO_ALL,
        None,
        "f32[8]",
        "f32[8]",
        "s32[4]",
        "s32[3]",
        "s32[4]",
        "s32[4]",
    )
    refused(
        (codes.RAGGED_OFFSETS, "input_offsets", "rank 1", "s32[]"),
        opcodes.RAGGED_ALL_TO_ALL,
        None,
        "f32[8]",
        "f32[8]",
        *["s32[]"] * 4,
    )
    refused((shared.OPERAND_COUNT, "6", "1"), opcodes.RAGGED_ALL_TO_ALL, None, "f32[8]")


@pytest.mark.parametrize(("op", "calls"), [(opcodes.COLLECTIVE_BROADCAST, []), (opcodes.COLLECTIVE_REDUCE, [ADD])])
def test_rooted_collectives(op: OpDef, calls: list[str]) -> None:
    assert inferred(op, "f32[4]", calls=calls) == "f32[4]"
    assert inferred(op, "f32[4]", "f32[2]", "s32[2]", calls=calls, has_dynamic_root=True) == "(f32[4], f32[2])"
    refused(
        (codes.ROOT_OPERAND, op.name, "s32[1]", "s32[2]"),
        op,
        None,
        "f32[4]",
        "s32[2]",
        calls=calls,
        has_dynamic_root=True,
    )
    refused(
        (codes.ROOT_OPERAND, op.name, "has_dynamic_root=true", "s32[1]"),
        op,
        None,
        "s32[1]",
        calls=calls,
        has_dynamic_root=True,
    )
    assert op.effect is Effect.SIDE_EFFECT


def test_collective_permute() -> None:
    ring = {"source_target_pairs": ((0, 1), (1, 2), (2, 0))}
    assert inferred(opcodes.COLLECTIVE_PERMUTE, "f32[4]", **ring) == "f32[4]"
    assert inferred(opcodes.COLLECTIVE_PERMUTE, "f32[4]", "s32[]", **ring) == "(f32[4], s32[])"
    assert accepts(opcodes.COLLECTIVE_PERMUTE_START, "(f32[4], f32[4])", "f32[4]", **ring)
    assert accepts(opcodes.COLLECTIVE_PERMUTE_START, "(f32[4], f32[4], u32[], u32[])", "f32[4]", **ring)
    assert inferred(opcodes.COLLECTIVE_PERMUTE_DONE, "(f32[4], f32[8], u32[])") == "f32[8]"


def test_collective_permute_of_slices() -> None:
    twice = {"source_target_pairs": ((0, 1), (0, 1)), "slice_sizes": ((1, 2), (1, 2))}
    two_places = "((s32[], s32[]), (s32[], s32[]))"
    operands = ["f32[2,4]", "f32[6,4]", two_places, two_places]
    assert inferred(opcodes.COLLECTIVE_PERMUTE, *operands, **twice) == "f32[6,4]"
    assert accepts(opcodes.COLLECTIVE_PERMUTE_START, "(f32[2,4], f32[6,4])", *operands, **twice)
    refused((codes.PERMUTATION_BUFFERS, "slice_sizes"), opcodes.COLLECTIVE_PERMUTE, None, *operands[:3], **twice)
    refused(
        (codes.PERMUTATION_OFFSETS, "f32[6,4]", "(s32[])"),
        opcodes.COLLECTIVE_PERMUTE,
        None,
        *operands[:3],
        "(s32[])",
        **twice,
    )
    refused(
        (codes.PERMUTATION_BUFFERS, "(f32[2,4])", "f32[6,4]"),
        opcodes.COLLECTIVE_PERMUTE,
        None,
        "(f32[2,4])",
        *operands[1:],
        **twice,
    )
    flat = ["f32[2,4]", "f32[6,4]", "(s32[], s32[])", "(s32[], s32[])"]
    assert (
        inferred(opcodes.COLLECTIVE_PERMUTE, *flat, **twice) == "f32[6,4]"
    )  # XLA counts a flat tuple's entries as slices
    thrice = {**twice, "source_target_pairs": ((0, 1), (0, 1), (0, 1))}
    refused(
        (codes.PERMUTATION_ONCE, "source 0", "source_target_pairs={{0,1},{0,1},{0,1}}"),
        opcodes.COLLECTIVE_PERMUTE,
        None,
        *operands,
        **thrice,
    )


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        (
            ((0, 1), (0, 2)),
            (codes.PERMUTATION_ONCE, "source 0", "source_target_pairs={{0,1},{0,2}}"),
        ),
        (
            ((0, 1), (2, 1)),
            (codes.PERMUTATION_ONCE, "target 1", "source_target_pairs={{0,1},{2,1}}"),
        ),
        (((0, -1),), (codes.PERMUTATION_PAIRS, "source_target_pairs", "[0, -1]")),
        (((0, 1, 2),), (codes.PERMUTATION_PAIRS, "source_target_pairs", "[0, 1, 2]")),
    ],
)
def test_collective_permute_refuses(pairs: tuple[tuple[int, ...], ...], wanted: Wanted) -> None:
    refused(wanted, opcodes.COLLECTIVE_PERMUTE, None, "f32[2]", source_target_pairs=pairs)


def test_collective_permute_start_refuses_shapes() -> None:
    pairs = ((0, 1),)
    refused(
        (codes.START_SHAPE, "f32[2]"), opcodes.COLLECTIVE_PERMUTE_START, "f32[2]", "f32[2]", source_target_pairs=pairs
    )
    refused(
        (shared.RESULT_SHAPE, "(f32[2], f32[2])", "(f32[2], f32[3])"),
        opcodes.COLLECTIVE_PERMUTE_START,
        "(f32[2], f32[3])",
        "f32[2]",
        source_target_pairs=pairs,
    )


def test_identifiers() -> None:
    assert inferred(opcodes.REPLICA_ID) == inferred(opcodes.PARTITION_ID) == "u32[]"
    refused((shared.RESULT_SHAPE, "u32[]", "s32[]"), opcodes.REPLICA_ID, "s32[]")


def test_attributes_are_written_in_the_order_of_xla() -> None:
    everything = {"channel_id": 1, "constrain_layout": True, "use_global_device_ids": True}
    gather = opcodes.ALL_GATHER.attributes.make(all_gather_dimension=0, **everything)
    assert written(opcodes.ALL_GATHER, gather) == [
        "channel_id",
        "replica_groups",
        "constrain_layout",
        "dimensions",
        "use_global_device_ids",
    ]
    scatter = opcodes.REDUCE_SCATTER.attributes.make(scatter_dimension=0, **everything)
    assert written(opcodes.REDUCE_SCATTER, scatter) == [
        "channel_id",
        "replica_groups",
        "constrain_layout",
        "use_global_device_ids",
        "dimensions",
    ]
    assert written(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE.attributes.make()) == ["replica_groups"]
    assert written(opcodes.ALL_TO_ALL, opcodes.ALL_TO_ALL.attributes.make()) == ["replica_groups"]
    permute = opcodes.COLLECTIVE_PERMUTE.attributes.make(source_target_pairs=(), slice_sizes=((1,),), channel_id=0)
    assert written(opcodes.COLLECTIVE_PERMUTE, permute) == ["channel_id", "source_target_pairs", "slice_sizes"]
    assert rewritten(opcodes.COLLECTIVE_PERMUTE, "source_target_pairs", "{ {0,1}, {1,0} }") == "{{0,1},{1,0}}"
    assert field(opcodes.ALL_GATHER, "dimensions").name == "all_gather_dimension"


def test_effects_follow_channels_and_layouts() -> None:
    make = opcodes.ALL_REDUCE.attributes.make
    assert opcodes.ALL_REDUCE.effect_of(make()) is Effect.PURE
    assert opcodes.ALL_REDUCE.effect_of(make(channel_id=1)) is Effect.SIDE_EFFECT
    assert opcodes.ALL_REDUCE.effect_of(make(constrain_layout=True)) is Effect.SIDE_EFFECT
    assert opcodes.ALL_REDUCE_START.effect_of(make()) is Effect.SIDE_EFFECT
    assert opcodes.RAGGED_ALL_TO_ALL.effect_of(opcodes.RAGGED_ALL_TO_ALL.attributes.make(channel_id=1)) is Effect.PURE
