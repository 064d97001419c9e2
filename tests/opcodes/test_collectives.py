"""Shape rules of collectives, replica groups in each of their forms, meshes; text as jaxlib prints it."""

from __future__ import annotations

from typing import Any

import pytest

from tests import xla_reference
from tests.opcodes.rules import accepts, field, inferred, read, refusal, rewritten, written
from xlapy import opcodes
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
    ("text", "message"),
    [
        ("[8]<=[8]", "expected the number of groups and their size before <=, found 1 sizes"),
        ("[2,4]<=[7]", r"replica groups \[2,4\] hold 8 ids, \[7\] gives 7"),
        ("[2,4]<=[4,2]", r"expected T\( and a permutation after more than one dimension of device ids"),
        ("[2,4]<=[4,2]T(0,0)", r"T\(0,0\) is not a permutation of the dimensions of \[4,2\]"),
        ("[2,0]<=[0]", r"need sizes of at least 1|have a dimension below 1"),
        ("mesh['a'=2] {'b'}", "'b' is not an axis of mesh"),
        ("mesh['a'=2] {b}", "expected a mesh axis such as 'a'"),
        ("mesh['a'=2,'a'=2] {'a'}", "mesh axes need one distinct name each"),
        ("mesh['a'=2], device_ids=(0,1,2) {'a'}", r"mesh of sizes \[2\] has 2 devices, given 3 device ids"),
        ("mesh['a'=2], device_ids=(0,2) {'a'}", "device ids of a mesh of 2 must be 0 to 1 in some order"),
        ("mesh['a'=8] {'a':(3)2}", "sub-axis 'a':.* does not divide its axis of size 8"),
        ("mesh['a'=8] {'a','a':(1)2}", "axes 'a' and 'a':.*overlap or cannot coexist"),
        ("mesh['a'=8] {'a':(1)2,'a':(2)2}", "adjacent axes 'a':.*must be written as one"),
        ("8", r"expected mesh\[ or maximal_mesh\["),
    ],
)
def test_replica_groups_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
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
    with pytest.raises(ShapeError, match="more than"):
        Iota.make((1 << 40,)).ids()


def test_group_modes() -> None:
    assert group_mode(None, False) is group_mode(None, None) is GroupMode.CROSS_REPLICA
    assert group_mode(1, None) is GroupMode.CROSS_PARTITION
    assert group_mode(1, False) is GroupMode.CROSS_REPLICA_AND_PARTITION
    assert group_mode(1, True) is GroupMode.FLATTENED_ID
    with pytest.raises(ShapeError, match="use_global_device_ids=true needs a channel_id, none is given"):
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
    ("shape", "operands", "attributes", "message"),
    [
        (
            "f32[4]",
            ["f32[2]"],
            {"all_gather_dimension": 1},
            "all-gather: dimension 1 is out of bounds for f32[2] of rank 1",
        ),
        ("f32[5]", ["f32[2]"], {}, "all-gather has shape f32[6], declared f32[5]"),
        (
            "f32[4]",
            ["f32[2]"],
            {"replica_groups": FOUR},
            "all-gather: the shapes imply 2 shards, but replica_groups {{0,1,2,3}}",
        ),
        ("f32[4]", ["f32[2]", "f32[2]"], {}, "all-gather of 2 operands returns as many arrays, declared f32[4]"),
        ("f32[4]", ["token[]"], {}, "all-gather takes arrays, operand 0 is token[]"),
        (
            "f32[4]",
            ["f32[2]"],
            {"use_global_device_ids": True},
            "all-gather: use_global_device_ids=true needs a channel_id",
        ),
        (
            "f32[4]",
            ["f32[2]"],
            {"use_global_device_ids": True, "channel_id": 1},
            "all-gather with use_global_device_ids=true needs replica_groups, given none",
        ),
        ("f32[6]", ["f32[2]"], {"channel_id": 1, "replica_groups": TWO}, "all-gather: the shapes imply 3 shards"),
    ],
)
def test_all_gather_refuses(shape: str, operands: list[str], attributes: dict[str, Any], message: str) -> None:
    attributes = {"all_gather_dimension": 0, **attributes}
    assert refusal(opcodes.ALL_GATHER, shape, *operands, **attributes).startswith(message)


def test_all_gather_start_and_done_refuse() -> None:
    start = refusal(opcodes.ALL_GATHER_START, "(f32[3], f32[4])", "f32[2]", all_gather_dimension=0)
    assert start == "all-gather-start: the first element has shape f32[2], declared f32[3]"
    start = refusal(opcodes.ALL_GATHER_START, "f32[4]", "f32[2]", all_gather_dimension=0)
    assert start == "all-gather-start has shape (operands, gathered), declared f32[4]"
    done = refusal(opcodes.ALL_GATHER_DONE, None, "f32[4]")
    assert done == "all-gather-done takes (operands, results, ...), given f32[4]"


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
    ("groups", "message"),
    [
        (GroupList(((0, 1), ())), "all-reduce: replica_groups {{0,1},{}} have an empty group"),
        (GroupList(((0, 1), (1, 2))), "all-reduce: replica_groups {{0,1},{1,2}} must hold each id from 0 to 3 once"),
        (GroupList(((1, 2),)), "all-reduce: replica_groups {{1,2}} must hold each id from 0 to 1 once"),
    ],
)
def test_all_reduce_refuses_groups(groups: GroupList, message: str) -> None:
    assert refusal(opcodes.ALL_REDUCE, None, "f32[2]", calls=[ADD], replica_groups=groups) == message


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([], "all-reduce calls 1 computation, given 0"),
        (["(a: f32[2], b: f32[2]) -> f32[2]"], "all-reduce: the reducer must take and return scalars, given"),
        (["(a: f32[]) -> f32[]"], "all-reduce of 1 operands needs a reducer of two scalars, given (a: f32[]) -> f32[]"),
    ],
)
def test_all_reduce_refuses_reducers(calls: list[str], message: str) -> None:
    assert refusal(opcodes.ALL_REDUCE, None, "f32[2]", calls=calls).startswith(message)


def test_reduce_scatter() -> None:
    along = {"scatter_dimension": 1, "calls": [ADD]}
    assert accepts(opcodes.REDUCE_SCATTER, "f32[2,2]", "f32[2,8]", replica_groups=FOUR, **along)
    assert accepts(opcodes.REDUCE_SCATTER, "(f32[2,2], f32[1,1])", "f32[2,4]", "f32[1,2]", replica_groups=TWO, **along)
    assert refusal(opcodes.REDUCE_SCATTER, "f32[2,4]", "f32[2,8]", replica_groups=FOUR, **along) == (
        "reduce-scatter: the shapes imply 2 shards, but replica_groups {{0,1,2,3}} have 4 members"
    )
    assert refusal(opcodes.REDUCE_SCATTER, "f32[2,3]", "f32[2,8]", **along) == (
        "reduce-scatter: dimension 1 of f32[2,8] must be divisible by the number of shards 3"
    )
    assert refusal(opcodes.REDUCE_SCATTER, "f32[1,2]", "f32[2,8]", **along) == (
        "reduce-scatter has shape f32[2,2], declared f32[1,2]"
    )
    assert refusal(opcodes.REDUCE_SCATTER, "f32[2]", "f32[2,8]", **along) == (
        "reduce-scatter: dimension 1 is out of bounds for f32[2] of rank 1"
    )
    assert refusal(
        opcodes.REDUCE_SCATTER, "f32[2,4]", "f32[2,8]", replica_groups=GroupList(((0,), (1, 2))), **along
    ) == ("reduce-scatter: replica_groups {{0},{1,2}} must all have the same size")


def test_all_to_all() -> None:
    assert inferred(opcodes.ALL_TO_ALL, "f32[4,6]", split_dimension=0, replica_groups=TWO) == "f32[4,6]"
    assert inferred(opcodes.ALL_TO_ALL, "f32[4]", "f32[4]", replica_groups=TWO) == "(f32[4], f32[4])"
    assert inferred(opcodes.ALL_TO_ALL, "f32[4]", "f32[4]", "f32[4]") == "(f32[4], f32[4], f32[4])"


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        (["f32[4]"], {"split_dimension": 1}, "all-to-all: split dimension 1 is out of bounds for f32[4] of rank 1"),
        (
            ["f32[3]"],
            {"split_dimension": 0},
            "all-to-all: dimension 0 of f32[3] must be divisible by the 2 group members",
        ),
        (["f32[2]", "f32[2]"], {"split_dimension": 0}, "all-to-all along a dimension takes one operand, given 2"),
        (["f32[2]", "s32[2]"], {}, "all-to-all: operand 0 is f32[2], operand 1 is s32[2]"),
        (
            ["f32[2]"],
            {},
            "all-to-all takes one operand per member: 1 operands, replica_groups {{0,1},{2,3}} have 2 members",
        ),
    ],
)
def test_all_to_all_refuses(operands: list[str], attributes: dict[str, Any], message: str) -> None:
    assert refusal(opcodes.ALL_TO_ALL, None, *operands, replica_groups=TWO, **attributes) == message


def test_ragged_all_to_all() -> None:
    offsets = ["s32[4]"] * 4
    assert inferred(opcodes.RAGGED_ALL_TO_ALL, "f32[8,2]", "f32[16,2]", *offsets) == "f32[16,2]"
    assert opcodes.RAGGED_ALL_TO_ALL.in_place_pairs == ((1, ()),)
    assert refusal(opcodes.RAGGED_ALL_TO_ALL, None, "f32[8]", "f32[8]", "s32[4]", "s32[3]", "s32[4]", "s32[4]") == (
        "ragged-all-to-all: send_sizes must have the shape of input_offsets s32[4], given s32[3]"
    )
    assert refusal(opcodes.RAGGED_ALL_TO_ALL, None, "f32[8]", "f32[8]", *["s32[]"] * 4) == (
        "ragged-all-to-all: input_offsets must have rank 1 or 2, given s32[]"
    )
    assert refusal(opcodes.RAGGED_ALL_TO_ALL, None, "f32[8]") == "ragged-all-to-all takes 6 operands, given 1"


@pytest.mark.parametrize(("op", "calls"), [(opcodes.COLLECTIVE_BROADCAST, []), (opcodes.COLLECTIVE_REDUCE, [ADD])])
def test_rooted_collectives(op: OpDef, calls: list[str]) -> None:
    assert inferred(op, "f32[4]", calls=calls) == "f32[4]"
    assert inferred(op, "f32[4]", "f32[2]", "s32[2]", calls=calls, has_dynamic_root=True) == "(f32[4], f32[2])"
    assert refusal(op, None, "f32[4]", "s32[2]", calls=calls, has_dynamic_root=True) == (
        f"{op.name}: the root of 1 data operands must be s32[1], given s32[2]"
    )
    assert refusal(op, None, "s32[1]", calls=calls, has_dynamic_root=True) == (
        f"{op.name} with has_dynamic_root=true takes data operands before the root, given only s32[1]"
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
    assert refusal(opcodes.COLLECTIVE_PERMUTE, None, *operands[:3], **twice) == (
        "collective-permute with slice_sizes takes input, output and their offsets: 4 operands, given 3"
    )
    assert refusal(opcodes.COLLECTIVE_PERMUTE, None, *operands[:3], "(s32[])", **twice) == (
        "collective-permute: offsets into f32[6,4] must be a tuple of 2 scalars, given (s32[])"
    )
    assert refusal(opcodes.COLLECTIVE_PERMUTE, None, "(f32[2,4])", *operands[1:], **twice) == (
        "collective-permute: input (f32[2,4]) and output f32[6,4] must have the same number of buffers"
    )
    flat = ["f32[2,4]", "f32[6,4]", "(s32[], s32[])", "(s32[], s32[])"]
    assert (
        inferred(opcodes.COLLECTIVE_PERMUTE, *flat, **twice) == "f32[6,4]"
    )  # XLA counts a flat tuple's entries as slices
    thrice = {**twice, "source_target_pairs": ((0, 1), (0, 1), (0, 1))}
    assert refusal(opcodes.COLLECTIVE_PERMUTE, None, *operands, **thrice) == (
        "collective-permute: source 0 appears 3 times in source_target_pairs={{0,1},{0,1},{0,1}}, at most 2 allowed"
    )


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            ((0, 1), (0, 2)),
            "collective-permute: source 0 appears 2 times in source_target_pairs={{0,1},{0,2}}, at most 1",
        ),
        (
            ((0, 1), (2, 1)),
            "collective-permute: target 1 appears 2 times in source_target_pairs={{0,1},{2,1}}, at most 1",
        ),
        (((0, -1),), "collective-permute: source_target_pairs must be pairs of ids from 0 on, found [0, -1]"),
        (((0, 1, 2),), "collective-permute: source_target_pairs must be pairs of ids from 0 on, found [0, 1, 2]"),
    ],
)
def test_collective_permute_refuses(pairs: tuple[tuple[int, ...], ...], message: str) -> None:
    assert refusal(opcodes.COLLECTIVE_PERMUTE, None, "f32[2]", source_target_pairs=pairs).startswith(message)


def test_collective_permute_start_refuses_shapes() -> None:
    pairs = ((0, 1),)
    assert refusal(opcodes.COLLECTIVE_PERMUTE_START, "f32[2]", "f32[2]", source_target_pairs=pairs) == (
        "collective-permute-start has shape (operands, results, ...), declared f32[2]"
    )
    assert refusal(opcodes.COLLECTIVE_PERMUTE_START, "(f32[2], f32[3])", "f32[2]", source_target_pairs=pairs) == (
        "collective-permute-start has shape (f32[2], f32[2]), declared (f32[2], f32[3])"
    )


def test_identifiers() -> None:
    assert inferred(opcodes.REPLICA_ID) == inferred(opcodes.PARTITION_ID) == "u32[]"
    assert refusal(opcodes.REPLICA_ID, "s32[]") == "replica-id of () has shape u32[], declared s32[]"


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
