"""Collectives: the specification's examples and every form of replica groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.replica import floats, lists, make_client, module, run_on_devices
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.error_codes.structure import annotations as annotations_codes
from xlapy.base.errors import ExecutionError, ShapeError, VerificationError
from xlapy.interpreter import Context, evaluate_computation
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupList, GroupMode, IotaGroups, participants
from xlapy.text import parse_hlo

IDENTIFIERS = """HloModule m, replica_count=4, num_partitions=3
ENTRY e { r = u32[] replica-id() p = u32[] partition-id() ROOT t = (u32[], u32[]) tuple(r, p) }
"""


@pytest.mark.parametrize(("replica", "partition"), [(0, 0), (3, 0), (0, 2), (3, 2)])
def test_each_device_knows_its_numbers(replica: int, partition: int) -> None:
    context = Context(replica_id=replica, partition_id=partition)
    ids = evaluate_computation(context, parse_hlo(IDENTIFIERS).entry_computation, [])
    assert [(int(value), value.dtype, value.shape) for value in ids] == [
        (replica, "uint32", ()),
        (partition, "uint32", ()),
    ]


def test_devices_are_numbered_replica_by_replica() -> None:
    assert lists(run_on_devices(IDENTIFIERS)) == [(r, p) for r in range(4) for p in range(3)]


# -- groups

PAIRED = GroupList(((0, 1), (2, 3)))


@pytest.mark.parametrize(
    ("groups", "mode", "replicas", "partitions", "expected"),
    [
        (ALL_REPLICAS, GroupMode.CROSS_REPLICA, 2, 3, [(0, 3), (1, 4), (2, 5), (0, 3), (1, 4), (2, 5)]),
        (ALL_REPLICAS, GroupMode.CROSS_PARTITION, 2, 2, [(0, 1), (0, 1), (2, 3), (2, 3)]),
        (ALL_REPLICAS, GroupMode.CROSS_REPLICA_AND_PARTITION, 2, 2, [(0, 1, 2, 3)] * 4),
        (GroupList(((1, 0),)), GroupMode.CROSS_REPLICA_AND_PARTITION, 2, 2, [(2, 3, 0, 1)] * 4),
        (GroupList(((3, 0), (1, 2))), GroupMode.FLATTENED_ID, 2, 2, [(3, 0), (1, 2), (1, 2), (3, 0)]),
        (PAIRED, GroupMode.CROSS_REPLICA, 4, 1, [(0, 1), (0, 1), (2, 3), (2, 3)]),
        (IotaGroups.make(2, 2, (2, 2), (1, 0)), GroupMode.CROSS_REPLICA, 4, 1, [(0, 2), (1, 3), (0, 2), (1, 3)]),
        (GroupList(((1,),)), GroupMode.CROSS_REPLICA, 2, 1, [(), (1,)]),
    ],
)  # fmt: skip
def test_participants(groups: Any, mode: GroupMode, replicas: int, partitions: int, expected: list[Any]) -> None:
    devices = range(replicas * partitions)
    assert [participants(groups, mode, replicas, partitions, device) for device in devices] == expected


@pytest.mark.parametrize(
    ("mode", "values"),
    [
        (GroupMode.CROSS_REPLICA, ("replica_groups", "{{0,1},{2,3}}", "id 3", "are 2")),
        (GroupMode.CROSS_PARTITION, ("id 3", "are 1")),
        (GroupMode.FLATTENED_ID, ("id 3", "are 2")),
    ],
)
def test_participants_beyond_the_device_count_are_rejected(mode: GroupMode, values: tuple[str, ...]) -> None:
    with raises(ShapeError, collectives_codes.PARTICIPANTS, *values):
        participants(PAIRED, mode, 2, 1, 0)


@pytest.mark.parametrize(
    ("ids", "code", "values"),
    [
        ((0, -1), collectives_codes.PARTICIPANTS, ("id -1", "are 2")),
        ((0, 1, 0), collectives_codes.GROUP_IDS, ("0,1,0",)),
    ],
)
def test_each_participant_is_listed_once(ids: tuple[int, ...], code: ErrorCode, values: tuple[str, ...]) -> None:
    with raises(ShapeError, code, *values):
        participants(GroupList((ids,)), GroupMode.CROSS_REPLICA, 2, 1, 0)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("{}", [10.0, 10.0, 10.0, 10.0]),
        ("{{0,2},{1,3}}", [4.0, 6.0, 4.0, 6.0]),
        ("[2,2]<=[4]", [3.0, 3.0, 7.0, 7.0]),
        ("[2,2]<=[2,2]T(1,0)", [4.0, 6.0, 4.0, 6.0]),
        ("mesh['a'=2,'b'=2] {'b'}", [3.0, 3.0, 7.0, 7.0]),
        ("mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'a'}", [4.0, 6.0, 4.0, 6.0]),
        ("mesh['a'=4] {'a':(1)2}", [4.0, 6.0, 4.0, 6.0]),
        ("{{0},{1,2,3}}", [1.0, 9.0, 9.0, 9.0]),
    ],
)
def test_all_reduce_in_every_form_of_groups(groups: str, expected: list[float]) -> None:
    text = module(f"p = f32[] parameter(0) ROOT r = f32[] all-reduce(p), replica_groups={groups}, to_apply=add", 4)
    assert lists(run_on_devices(text, [floats(d + 1) for d in range(4)])) == expected


# -- each operation


def test_all_reduce_applies_any_reducer_in_the_order_of_the_group() -> None:
    text = module(
        "p = f32[2] parameter(0) ROOT r = f32[2] all-reduce(p), replica_groups={{2,0,1}}, to_apply=subtract", 3
    )
    results = run_on_devices(text, [floats([1, 10]), floats([2, 20]), floats([4, 5])])
    assert lists(results) == [[1.0, -25.0]] * 3


def test_all_reduce_of_several_operands() -> None:
    text = module(
        """p = f32[2] parameter(0) q = f32[] parameter(1)
        ROOT r = (f32[2], f32[]) all-reduce(p, q), replica_groups={}, to_apply=add""",
        2,
    )
    assert lists(run_on_devices(text, [floats([1, 2], 3), floats([10, 20], 30)])) == [([11.0, 22.0], 33.0)] * 2


ARGUMENT_OF_MAXIMUM = """
larger { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  m = pred[] compare(a, b), direction=GE
  x = f32[] select(m, a, b) k = s32[] select(m, i, j) ROOT r = (f32[], s32[]) tuple(x, k) }
"""


def test_all_reduce_with_a_reducer_of_all_operands_at_once() -> None:
    text = module(
        """p = f32[3] parameter(0) i = s32[3] parameter(1)
        ROOT r = (f32[3], s32[3]) all-reduce(p, i), replica_groups={}, to_apply=larger""",
        2,
        computations=ARGUMENT_OF_MAXIMUM,
    )
    arguments = [[np.array(v, np.float32), np.full(3, d, np.int32)] for d, v in enumerate([[1, 5, 3], [2, 4, 3]])]
    assert lists(run_on_devices(text, arguments)) == [([2.0, 5.0, 3.0], [1, 0, 0])] * 2
    uneven = text.replace("s32[3] parameter(1)", "s32[1] parameter(1)").replace("s32[3]) all", "s32[1]) all")
    with raises(ExecutionError, codes.REDUCED_SIZES, "(all-reduce)", "[3], [1]"):
        run_on_devices(uneven, [[p, i[:1]] for p, i in arguments])


def test_all_gather_joins_in_the_order_of_the_group() -> None:
    text = module(
        "p = f32[2,1] parameter(0) ROOT r = f32[2,3] all-gather(p), replica_groups={{2,0,1}}, dimensions={1}", 3
    )
    assert lists(run_on_devices(text, [floats([[d], [d + 10]]) for d in range(3)])) == [[[2, 0, 1], [12, 10, 11]]] * 3


def test_all_gather_of_several_operands_and_as_start_and_done() -> None:
    text = module(
        """p = f32[1] parameter(0) q = s32[2] parameter(1)
        s = ((f32[1], s32[2]), (f32[2], s32[4])) all-gather-start(p, q), replica_groups={}, dimensions={0}
        d = (f32[2], s32[4]) all-gather-done(s)
        ROOT t = ((f32[2], s32[4])) tuple(d)""",
        2,
    )
    arguments = [[np.array([d], np.float32), np.array([d, 5], np.int32)] for d in range(2)]
    gathered = ([0.0, 1.0], [0, 5, 1, 5])
    assert lists(run_on_devices(text, arguments)) == [(gathered,)] * 2


def test_all_reduce_and_collective_permute_as_start_and_done() -> None:
    text = module(
        """p = f32[2] parameter(0)
        s = f32[2] all-reduce-start(p), replica_groups={}, to_apply=add
        d = f32[2] all-reduce-done(s)
        c = (f32[2], f32[2], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1}}
        e = f32[2] collective-permute-done(c)
        ROOT t = (f32[2], f32[2]) tuple(d, e)""",
        2,
    )
    assert lists(run_on_devices(text, [floats([1, 2]), floats([3, 5])])) == [([4, 7], [0, 0]), ([4, 7], [1, 2])]


def test_a_collective_in_a_generic_asynchronous_pair() -> None:
    text = module(
        """p = f32[4] parameter(0)
        s = ((f32[4]), f32[2]) reduce-scatter-start(p), replica_groups={}, dimensions={0}, to_apply=add
        u = ((f32[4]), f32[2]) reduce-scatter-update(s)
        ROOT d = f32[2] reduce-scatter-done(u)""",
        2,
    )
    results = run_on_devices(text, [floats([1, 2, 3, 4]), floats([10, 20, 30, 40])])
    assert lists(results) == [[11, 22], [33, 44]]


def test_reduce_scatter_distributes_blocks_by_group_position() -> None:
    text = module(
        """p = f32[2,4] parameter(0) q = f32[1,2] parameter(1)
        ROOT r = (f32[2,2], f32[1,1]) reduce-scatter(p, q), replica_groups={{1,0}}, dimensions={1}, to_apply=add""",
        2,
    )
    arguments = [floats(np.arange(8).reshape(2, 4), [[1, 2]]), floats(np.full((2, 4), 10), [[30, 40]])]
    assert lists(run_on_devices(text, arguments)) == [([[12, 13], [16, 17]], [[42]]), ([[10, 11], [14, 15]], [[31]])]


def test_all_to_all_of_blocks() -> None:
    text = module(
        "p = f32[4,2] parameter(0) ROOT r = f32[4,2] all-to-all(p), replica_groups={{1,0}}, dimensions={0}", 2
    )
    arguments = [floats(np.arange(8).reshape(4, 2) + 10 * d) for d in range(2)]
    # block 0 goes to the first member, device 1; the block from device 1 is first
    assert lists(run_on_devices(text, arguments)) == [
        [[14, 15], [16, 17], [4, 5], [6, 7]],
        [[10, 11], [12, 13], [0, 1], [2, 3]],
    ]


def test_all_to_all_of_operands() -> None:
    text = module(
        """p = f32[] parameter(0) q = f32[] parameter(1)
        ROOT r = (f32[], f32[]) all-to-all(p, q), replica_groups={{1,0}}""",
        2,
    )
    assert lists(run_on_devices(text, [floats(1, 2), floats(10, 20)])) == [(20, 2), (10, 1)]


RAGGED = """x = f32[3] parameter(0) y = f32[4] parameter(1) a = s32[2] parameter(2) b = s32[2] parameter(3)
  c = s32[2] parameter(4) d = s32[2] parameter(5)
  ROOT r = f32[4] ragged-all-to-all(x, y, a, b, c, d), replica_groups={}"""


def ragged(values: Sequence[float], *numbers: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Returns the arguments of a device: input, input_offsets, send_sizes, output_offsets, recv_sizes."""
    return [*floats(values, [0] * 4), *(np.array(n, np.int32) for n in numbers)]


def test_ragged_all_to_all_example_of_the_specification() -> None:
    arguments = [ragged([1, 2, 2], [0, 1], [1, 2], [0, 0], [1, 1]), ragged([3, 4, 0], [0, 1], [1, 1], [1, 2], [2, 1])]
    assert lists(run_on_devices(module(RAGGED, 2), arguments)) == [[1, 3, 0, 0], [2, 2, 4, 0]]


def test_ragged_all_to_all_of_several_updates_keeps_other_rows() -> None:
    text = module(RAGGED.replace("s32[2]", "s32[2,2]"), 2)
    first = ragged([1, 2, 3], [[0, 0], [1, 2]], [[0, 0], [1, 1]], [[0, 0], [3, 0]], [[0, 0], [1, 0]])
    second = ragged([7, 8, 9], [[2, 0], [0, 0]], [[1, 0], [0, 0]], [[1, 0], [0, 0]], [[1, 1], [0, 0]])
    for arguments in (first, second):
        arguments[1][:] = [-1, -2, -3, -4]
    assert lists(run_on_devices(text, [first, second])) == [[-1, 9, -3, -4], [3, -2, -3, 2]]


@pytest.mark.parametrize(
    ("change", "code", "values"),
    [
        ((2, [0, 2]), codes.SLICE_BOUNDS, ("2 rows", "row 2", "3 rows")),
        ((2, [0, -1]), codes.SLICE_BOUNDS, ("2 rows", "row -1", "3 rows")),
        ((4, [0, 3]), codes.SLICE_BOUNDS, ("2 rows", "row 3", "4 rows")),
        ((3, [1, 1]), codes.RECEIVED_SIZES, ("recv_sizes", "expect 2", "member 0", "sends 1", "(send_sizes)")),
    ],
)
def test_ragged_all_to_all_refuses_rows_that_do_not_exist(
    change: tuple[int, list[int]], code: ErrorCode, values: tuple[str, ...]
) -> None:
    arguments = [ragged([1, 2, 2], [0, 1], [1, 2], [0, 0], [1, 1]), ragged([3, 4, 0], [0, 1], [1, 1], [1, 2], [2, 1])]
    arguments[0][change[0]] = np.array(change[1], np.int32)
    with raises(ExecutionError, code, "device 1", "r (ragged-all-to-all)", *values):
        run_on_devices(module(RAGGED, 2), arguments)


def test_ragged_all_to_all_takes_integers() -> None:
    text = module(RAGGED.replace("s32", "f32").replace("replica_groups={}", "replica_groups={{0}}"))
    with raises(ExecutionError, codes.INTEGER_OFFSETS, "f32"):
        evaluate_computation(Context(), parse_hlo(text).entry_computation, floats([1] * 3, [0] * 4, *[[0, 0]] * 4))


def test_all_reduce_in_another_type_than_that_of_the_operands() -> None:
    text = module("p = bf16[] parameter(0) ROOT r = bf16[] all-reduce(p), replica_groups={}, to_apply=add", 2)
    bf16 = parse_hlo(text).entry_computation.parameters[0].shape.dtype
    results = run_on_devices(text, [[np.array(256, bf16)], [np.array(3, bf16)]])
    assert [(float(r), r.dtype) for r in results] == [
        (260.0, bf16)
    ] * 2  # rounded once, because 259 is not a bf16 number
    with raises(ExecutionError, codes.REDUCED_TYPE, "c64", "f32"):
        run_on_devices(text.replace("bf16", "c64"), [[np.array(1j, np.complex64)]] * 2)


def test_collective_permute() -> None:
    text = module(
        """p = f32[2] parameter(0) q = s32[] parameter(1)
        ROOT r = (f32[2], s32[]) collective-permute(p, q), source_target_pairs={{0,1},{2,0}}""",
        3,
    )
    arguments = [[np.array([d, d + 0.5], np.float32), np.array(d + 10, np.int32)] for d in range(3)]
    assert lists(run_on_devices(text, arguments)) == [([2, 2.5], 12), ([0, 0.5], 10), ([0, 0], 0)]


SLICES = """p = f32[3,2] parameter(0) q = f32[4,2] parameter(1) i = s32[] parameter(2) o = s32[] parameter(3)
  z = s32[] constant(0) from = (s32[], s32[]) tuple(i, z) to = (s32[], s32[]) tuple(o, z)"""
PERMUTE_SLICE = "collective-permute(p, q, from, to), source_target_pairs={{0,1},{1,2}}, slice_sizes={{2,2}}"


def slices(*offsets: tuple[int, int]) -> list[list[np.ndarray[Any, Any]]]:
    """Returns the arguments of device d: an input 10 d, 10 d + 1 ..., an output -d, and offsets in both."""
    return [
        [
            *floats(np.arange(6).reshape(3, 2) + 10 * d, np.full((4, 2), -d)),
            np.array(i, np.int32),
            np.array(o, np.int32),
        ]
        for d, (i, o) in enumerate(offsets)
    ]


@pytest.mark.parametrize("start", [False, True])
def test_collective_permute_of_a_slice(start: bool) -> None:
    entry = f"{SLICES} ROOT r = f32[4,2] {PERMUTE_SLICE}"
    if start:
        call = PERMUTE_SLICE.replace("permute", "permute-start", 1)
        entry = f"{SLICES} s = (f32[3,2], f32[4,2], u32[], u32[]) {call} ROOT r = f32[4,2] collective-permute-done(s)"
    results = run_on_devices(module(entry, 3), slices((1, 0), (0, 2), (0, 1)))
    # the sender's offset in the input, the receiver's in the output; device 0 receives nothing
    assert lists(results) == [
        np.zeros((4, 2)).tolist(),
        [[-1, -1], [-1, -1], [2, 3], [4, 5]],
        [[-2, -2], [10, 11], [12, 13], [-2, -2]],
    ]


def test_collective_permute_of_several_slices_of_several_buffers() -> None:
    text = module(
        """p = f32[2] parameter(0) q = s32[2] parameter(1) x = f32[3] parameter(2) y = s32[2] parameter(3)
        zero = s32[] constant(0) one = s32[] constant(1) two = s32[] constant(2)
        a = (s32[]) tuple(zero) b = (s32[]) tuple(one) c = (s32[]) tuple(two)
        up = ((s32[]), (s32[])) tuple(a, b) over = ((s32[]), (s32[])) tuple(a, c) down = ((s32[]), (s32[])) tuple(b, a)
        from = (((s32[]), (s32[])), ((s32[]), (s32[]))) tuple(up, up)
        to = (((s32[]), (s32[])), ((s32[]), (s32[]))) tuple(over, down)
        in = (f32[2], s32[2]) tuple(p, q) out = (f32[3], s32[2]) tuple(x, y)
        ROOT r = (f32[3], s32[2]) collective-permute(in, out, from, to),
          source_target_pairs={{0,1},{1,2},{2,0},{0,2},{2,1}}, slice_sizes={{1},{1},{1},{1}}""",
        3,
    )
    arguments = [
        [
            np.array(v, t)
            for v, t in ([[d, d + 0.5], "f4"], [[10 * d, 10 * d + 5], "i4"], [[-1] * 3, "f4"], [[-1] * 2, "i4"])
        ]
        for d in range(3)
    ]
    # one ring sends the first slice forward, the other sends the second slice backward, without the pair (1, 0)
    assert lists(run_on_devices(text, arguments)) == [
        ([2, -1, -1], [-1, 20]),
        ([0, -1, 2.5], [25, 0]),
        ([1, -1, 0.5], [5, 10]),
    ]


def test_one_slice_can_go_to_several_devices() -> None:
    entry = f"{SLICES} ROOT r = f32[4,2] {PERMUTE_SLICE.replace('{1,2}', '{0,2}')}"
    results = run_on_devices(module(entry, 3), slices((1, 0), (0, 0), (0, 2)))
    assert lists(results)[1:] == [[[2, 3], [4, 5], [-1, -1], [-1, -1]], [[-2, -2], [-2, -2], [2, 3], [4, 5]]]


@pytest.mark.parametrize(
    ("offsets", "values"),
    [
        ([(2, 0), (0, 0), (0, 0)], ("[2, 2]", "[2, 0]", "[3, 2]")),
        ([(0, 0), (0, -1), (0, 0)], ("[-1, 0]", "[4, 2]")),
    ],
)
def test_slices_must_be_within_their_buffers(offsets: list[tuple[int, int]], values: tuple[str, ...]) -> None:
    with raises(ExecutionError, codes.SLICE_BOUNDS, "r (collective-permute)", *values):
        run_on_devices(module(f"{SLICES} ROOT r = f32[4,2] {PERMUTE_SLICE}", 3), slices(*offsets))


@pytest.mark.parametrize(
    ("before", "after", "code", "values"),
    [
        (
            "{{2,2}}",
            "{{2,2},{2,2}}",
            codes.SLICE_COUNT,
            ("2 slice_sizes", "slice_sizes", "1 buffers", "describe 1"),
        ),
        ("{{2,2}}", "{{4,2}}", codes.SLICE_SIZES, ("[4, 2]", "f32[3,2]", "f32[4,2]")),
        ("{{2,2}}", "{{2}}", codes.SLICE_SIZES, ("[2]", "f32[3,2]")),
        ("f32[3,2]", "s32[3,2]", codes.SLICE_SIZES, ("s32[3,2]", "f32[4,2]")),
        (
            "i = s32[] parameter(2)",
            "j = f32[] parameter(2) i = f32[] negate(j)",
            codes.INTEGER_OFFSETS,
            ("f32",),
        ),
    ],
)
def test_slices_that_do_not_fit_are_refused(before: str, after: str, code: ErrorCode, values: tuple[str, ...]) -> None:
    entry = f"{SLICES} ROOT r = f32[4,2] {PERMUTE_SLICE}".replace(before, after)
    if "f32[] negate" in after:
        entry = entry.replace("from = (s32[]", "from = (f32[]")
    with raises(VerificationError, code, "r (collective-permute)", *values):
        make_client(3).compile(module(entry, 3))


def test_collective_broadcast() -> None:
    text = module("p = f32[2] parameter(0) ROOT r = f32[2] collective-broadcast(p), replica_groups={{2,1}}", 4)
    assert lists(run_on_devices(text, [floats([d, -d]) for d in range(4)])) == [[0, 0], [2, -2], [2, -2], [0, 0]]


ROOTED = """p = f32[] parameter(0) q = f32[2] parameter(1) root = s32[2] parameter(2)
  ROOT r = (f32[], f32[2]) {}(p, q, root), replica_groups={{{{2,0,1}}}}, has_dynamic_root=true{}"""


def rooted(*roots: Sequence[int]) -> list[list[np.ndarray[Any, Any]]]:
    return [[*floats(d, [d, 10]), np.array(root, np.int32)] for d, root in enumerate(roots)]


def test_collective_broadcast_from_dynamic_roots() -> None:
    text = module(ROOTED.format("collective-broadcast", ""), 3)
    assert lists(run_on_devices(text, rooted(*[[0, 2]] * 3))) == [(2.0, [1.0, 10.0])] * 3


def test_collective_reduce() -> None:
    entry = "p = f32[] parameter(0) ROOT r = f32[] collective-reduce(p), replica_groups={{2,0,1}}, to_apply=add"
    assert lists(run_on_devices(module(entry, 3), [floats(d + 1) for d in range(3)])) == [0, 0, 6]
    text = module(ROOTED.format("collective-reduce", ", to_apply=add"), 3)
    assert lists(run_on_devices(text, rooted(*[[1, 2]] * 3))) == [(3, [0, 0]), (0, [3, 30]), (0, [0, 0])]


@pytest.mark.parametrize(
    ("roots", "values"),
    [
        ([[0, 0], [0, 0], [0, 1]], ("[(0, 1), (0, 0), (0, 0)]",)),
        ([[0, 3]] * 3, ("3 members", "[0, 3]")),
        ([[-1, 0]] * 3, ("[-1, 0]",)),
    ],
)
def test_all_members_must_give_the_same_valid_roots(roots: list[list[int]], values: tuple[str, ...]) -> None:
    with raises(ExecutionError, codes.BROADCAST_ROOT, *values):
        run_on_devices(module(ROOTED.format("collective-broadcast", ""), 3), rooted(*roots))


def test_a_single_device_reduces_and_gathers_its_own_operand() -> None:
    text = module(
        """p = f32[2] parameter(0)
        a = f32[2] all-reduce(p), replica_groups={}, to_apply=add
        b = f32[2] all-gather(a), replica_groups={{0}}, dimensions={0}
        c = f32[2] all-to-all(b), replica_groups={{0}}, dimensions={0}
        ROOT d = f32[2] collective-permute(c), source_target_pairs={{0,0}}"""
    )
    assert evaluate_computation(Context(), parse_hlo(text).entry_computation, floats([1, 2])).tolist() == [1, 2]
    assert lists(run_on_devices(text, [floats([1, 2])])) == [[1, 2]]


@pytest.mark.parametrize(
    ("entry", "replicas", "partitions", "code", "values"),
    [
        (
            "ROOT r = f32[4] all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=add", 2, 1,
            annotations_codes.GROUP_MEMBERS, ("r (all-reduce)", "replica_groups", "{{0,1},{2,3}}", "have 4", "has 2"),
        ),
        (
            "ROOT r = f32[4] all-reduce(p), replica_groups={{0,1}}, to_apply=add", 3, 1,
            annotations_codes.GROUP_MEMBERS, ("replica_groups", "{{0,1}}", "have 2", "has 3"),
        ),
        (
            "ROOT r = f32[12] all-gather(p), replica_groups={}, dimensions={0}", 2, 1,
            collectives_codes.SHARD_COUNT, ("dimension 0", "f32[12]", "f32[4]", "have 2"),
        ),
        (
            "ROOT r = f32[2] reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=add", 4, 1,
            collectives_codes.SHARD_COUNT, ("dimension 0", "f32[4]", "f32[2]", "have 4"),
        ),
        (
            "ROOT r = f32[4] all-to-all(p), replica_groups={}, dimensions={0}", 3, 1,
            collectives_codes.GROUP_SIZE_DIVIDES, ("dimension 0", "f32[4]", "have 3"),
        ),
        (
            "ROOT r = (f32[4], f32[4]) all-to-all(p, p), replica_groups={}", 3, 1,
            collectives_codes.EXCHANGED_OPERANDS, ("2 operands", "have 3"),
        ),
        (
            "z = s32[2] constant({0,0}) ROOT r = f32[4] ragged-all-to-all(p, p, z, z, z, z), replica_groups={}", 3, 1,
            collectives_codes.RAGGED_OFFSETS, ("input_offsets", "s32[2]", "have 3"),
        ),
        (
            "ROOT r = f32[4] collective-permute(p), source_target_pairs={{0,2}}", 2, 4,
            annotations_codes.PAIR_MEMBERS, ("target 2", "source_target_pairs", "below 2"),
        ),
        (
            "ROOT r = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,2}}", 4, 2,
            annotations_codes.PAIR_MEMBERS, ("target 2", "source_target_pairs", "below 2"),
        ),
    ],
)  # fmt: skip
def test_groups_that_do_not_match_the_devices_are_refused(
    entry: str, replicas: int, partitions: int, code: ErrorCode, values: tuple[str, ...]
) -> None:
    text = module(f"p = f32[4] parameter(0) {entry}", replicas, partitions)
    with raises(VerificationError, code, *values):
        make_client(8).compile(text)
