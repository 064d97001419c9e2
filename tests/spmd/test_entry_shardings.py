"""The entry of partitioned programs: global and local arrays, the number of partitions, and groups of replicas."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.base.error_codes.compilation.partitioner import DYNAMIC_SHARDED, PARTITION_COUNT
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.hlo.sharding import Sharding
from xlapy.opcodes.attributes.replica_groups import IotaGroups
from xlapy.opcodes.collectives import AllGatherAttributes
from xlapy.spmd import EntryShardings, partition
from xlapy.spmd.entry.partition_count import check_partition_count, needs_partitioning, partition_count_of

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"


def shardings_of(shape: str, sharding: str, devices: int) -> EntryShardings:
    """The shardings of a program with one parameter, which is its result."""
    text = f"HloModule m ENTRY e {{ ROOT x = {shape} parameter(0), sharding={sharding} }}"
    return partition(xla.parse_hlo(text), devices)


@pytest.mark.parametrize(
    ("sharding", "devices", "tiles", "holders"),
    [
        ("{devices=[4,1]<=[4]}", 4, [(0, 0), (1, 0), (2, 0), (3, 0)], [0, 1, 2, 3]),
        ("{devices=[2,2]<=[2,2]T(1,0)}", 4, [(0, 0), (1, 0), (0, 1), (1, 1)], [0, 1, 2, 3]),
        ("{devices=[1,2]1,0}", 2, [(0, 1), (0, 0)], [0, 1]),
        ("{devices=[1,2,2]3,1,2,0 last_tile_dim_replicate}", 4, [(0, 1), (0, 0), (0, 1), (0, 0)], [0, 1]),
        ("{mesh['a'=2,'b'=2], [{'b'}, {}]}", 4, [(0, 0), (1, 0), (0, 0), (1, 0)], [0, 1]),
        ("{replicated}", 3, [(0, 0)] * 3, [0]),
        ("{maximal device=1}", 2, [(0, 0)] * 2, [0]),
        ("{manual}", 2, [(0, 0)] * 2, [0]),
    ],
)
def test_each_partition_holds_its_tile(
    sharding: str, devices: int, tiles: list[tuple[int, int]], holders: list[int]
) -> None:
    array = np.arange(32, dtype=np.float32).reshape(8, 4)
    shardings = shardings_of("f32[8,4]", sharding, devices)
    rows, columns = (
        8 // (max(t[d] for t in tiles) + 1) if d == 0 else 4 // (max(t[d] for t in tiles) + 1) for d in (0, 1)
    )
    local = [shardings.local_arguments([array], number)[0] for number in range(devices)]
    for part, (row, column) in zip(local, tiles, strict=True):
        expected = array[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
        np.testing.assert_array_equal(part, expected)
    assert shardings.holders(0) == holders
    np.testing.assert_array_equal(shardings.global_result(local), array)
    only = {number: local[number] for number in holders}
    np.testing.assert_array_equal(shardings.global_leaf(0, only), array)


@pytest.mark.parametrize("dtype", ["pred", "s4", "u8", "s64", "f8e4m3fn", "bf16", "f64", "c64"])
def test_all_element_types_keep_their_bits(dtype: str) -> None:
    shardings = shardings_of(f"{dtype}[4,6]", "{devices=[2,3]<=[6]}", 6)
    shape = shardings.program_shape.result
    array = np.random.default_rng(0).integers(0, 2, (4, 6)).astype(shape.dtype)
    whole = shardings.global_result([shardings.local_arguments([array], number)[0] for number in range(6)])
    assert whole.dtype == array.dtype and whole.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", ["f32[10,3]", "f32[0,4]", "f32[1,8]"])
def test_dimensions_that_do_not_divide_are_whole(shape: str) -> None:
    shardings = shardings_of(shape, "{devices=[4,1]<=[4]}", 4)
    dimensions = shardings.program_shape.result.dimensions
    array = np.ones(dimensions, np.float32)
    assert shardings.local_arguments([array], 3)[0].shape == (dimensions if dimensions[0] % 4 else (0, 4))
    assert shardings.global_result([array[: dimensions[0]]] * 4).shape == dimensions


def test_tuples_have_one_sharding_for_each_leaf() -> None:
    text = """HloModule m ENTRY e {
      p = (f32[4], (s32[2,2], pred[])) parameter(0), sharding={{devices=[2]<=[2]}, {devices=[1,2]<=[2]}, {replicated}}
      ROOT t = ((f32[4], (s32[2,2], pred[]))) tuple(p), sharding={{devices=[2]<=[2]}, {replicated}, {replicated}} }"""
    shardings = partition(xla.parse_hlo(text), 2)
    given: Any = (np.float32([1, 2, 3, 4]), (np.int32([[1, 2], [3, 4]]), np.bool_(True)))
    ((first, (second, flag)),) = shardings.local_arguments([given], 1)
    assert (first.tolist(), second.tolist(), bool(flag)) == ([3, 4], [[2], [4]], True)
    rows = [((shardings.local_arguments([given], number)[0][0], given[1]),) for number in range(2)]
    ((whole, rest),) = shardings.global_result(rows)
    assert whole.tolist() == [1, 2, 3, 4] and rest is not None and rest[0].tolist() == [[1, 2], [3, 4]]


def test_unreduced_arrays_are_sums() -> None:
    sharding = "{devices=[2,2]<=[4] last_tile_dims={unreduced}}"
    array = np.float32([-0.0, 1, np.inf, np.nan])
    shardings = shardings_of("f32[4]", sharding, 4)
    local = [shardings.local_arguments([array], number)[0] for number in range(4)]
    assert [part.size for part in local] == [2] * 4 and np.signbit(local[1]).all() and not local[1].any()
    assert shardings.global_result(local).tobytes() == array.tobytes()
    whole = shardings.global_result([np.float32([1, 2]), np.float32([10, 20]), np.float32([3, 4]), np.float32([5, 6])])
    assert whole.tolist() == [11, 22, 8, 10]
    integers = shardings_of("u8[4]", sharding, 4)
    parts = [integers.local_arguments([np.uint8([1, 2, 3, 255])], number)[0] for number in range(4)]
    assert integers.global_result(parts).tolist() == [1, 2, 3, 255]


def test_sums_of_narrow_types() -> None:
    shardings = shardings_of("bf16[2]", "{devices=[1,2]<=[2] last_tile_dims={unreduced}}", 2)
    parts = [np.array([1.5, -0.0], ml_dtypes.bfloat16), np.array([2.5, -0.0], ml_dtypes.bfloat16)]
    whole = shardings.global_result(parts)
    assert whole.dtype == ml_dtypes.bfloat16 and whole.tolist() == [4, 0] and np.signbit(whole[1])


@pytest.mark.parametrize("sharding", ["{devices=[1,2]<=[2]}", "{devices=[2,1]<=[2]}"])
def test_split_arrays_have_static_shapes(sharding: str) -> None:
    with pytest.raises(UnsupportedError, match=r"x \(parameter\) is split.*f32\[<=8,4\]") as error:
        shardings_of("f32[<=8,4]", sharding, 2)
    assert error.value.code == DYNAMIC_SHARDED
    shardings_of("f32[<=8,4]", "{replicated}", 2)


# -- whether, and for how many partitions


@pytest.mark.parametrize(
    ("header", "body", "expected"),
    [
        ("m", "ROOT x = f32[8] parameter(0), sharding={devices=[2]<=[2]}", True),
        ("m, is_scheduled=true", "ROOT x = f32[8] parameter(0), sharding={devices=[2]<=[2]}", False),
        ("m", "ROOT x = f32[8] parameter(0), sharding={replicated}", False),
        ("m", "ROOT x = f32[8] parameter(0), sharding={maximal device=0}", False),
        ("m", "ROOT x = f32[8] parameter(0), sharding={devices=[1,2]<=[2] last_tile_dims={manual}}", False),
        ("m", "ROOT x = f32[8] parameter(0), sharding={unreduced}", True),
        ("m", "ROOT x = f32[8] parameter(0), sharding={mesh['a'=2], [{'a'}]}", True),
        ("m", "ROOT x = f32[8] parameter(0), sharding={mesh['a'=2], [{}]}", False),
        ("m", "ROOT x = f32[8] parameter(0)", False),
        (
            "m",
            'x = f32[8] parameter(0) ROOT y = f32[4] custom-call(x), custom_call_target="SPMDFullToShardShape"',
            True,
        ),
        (
            "m, replica_count=2",
            "x = f32[8] parameter(0), sharding={devices=[2]<=[2]} ROOT y = f32[8] all-reduce(x), to_apply=add",
            True,
        ),
        (
            "m, num_partitions=2",
            "x = f32[8] parameter(0), sharding={devices=[2]<=[2]} ROOT y = f32[16] all-gather(x), channel_id=1, "
            "replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true",
            False,
        ),
    ],
)
def test_which_modules_are_written_for_all_partitions(header: str, body: str, expected: bool) -> None:
    reducer = ADD if "to_apply" in body else ""
    assert needs_partitioning(xla.parse_hlo(f"HloModule {header}\n{reducer}ENTRY e {{ {body} }}")) is expected


@pytest.mark.parametrize(
    ("header", "sharding", "given", "expected"),
    [
        ("m", "{devices=[4]<=[4]}", None, 4),
        ("m", "{devices=[2,4]<=[8] last_tile_dim_replicate}", None, 8),
        ("m", "{mesh['a'=2,'b'=3], [{'b'}]}", None, 6),
        ("m", "{maximal device=5}", None, 1),
        ("m, num_partitions=16", "{devices=[4]<=[4]}", None, 16),
        ("m, num_partitions=16", "{devices=[4]<=[4]}", 2, 2),
        ("m", "{devices=[4]<=[4]}", 1, 1),
    ],
)
def test_the_number_of_partitions(header: str, sharding: str, given: int | None, expected: int) -> None:
    module = xla.parse_hlo(f"HloModule {header} ENTRY e {{ ROOT x = f32[12] parameter(0), sharding={sharding} }}")
    assert partition_count_of(module, given) == expected


@pytest.mark.parametrize(
    ("sharding", "problem"),
    [
        ("{devices=[4]<=[4]}", ""),
        ("{devices=[4]0,2,1,3}", ""),
        ("{replicated}", ""),
        ("{manual}", ""),
        ("{maximal device=3}", ""),
        ("{mesh['a'=4], [{'a'}]}", ""),
        ("{maximal_mesh[device_id=3]}", ""),
        ("{devices=[2]<=[2]}", "names 2 devices"),
        ("{devices=[8]<=[8]}", "names 8 devices"),
        ("{devices=[4]0,1,2,4}", "names device 4"),
        ("{maximal device=4}", "names device 4"),
        ("{maximal_mesh[device_id=4]}", "names device 4"),
        ("{mesh['a'=2,'b'=4], [{'a'}]}", "names 8 devices"),
    ],
)
def test_shardings_fit_the_number_of_partitions(sharding: str, problem: str) -> None:
    module = xla.parse_hlo(f"HloModule m ENTRY e {{ ROOT x = f32[8] parameter(0), sharding={sharding} }}")
    if not problem:
        check_partition_count(module, 4)
        return
    with pytest.raises(InvalidArgumentError, match=problem) as error:
        check_partition_count(module, 4)
    assert error.value.code == PARTITION_COUNT and "num_partitions=4" in error.value.message


# -- replicas


def test_each_replica_has_its_own_groups() -> None:
    text = """HloModule m, replica_count=3
    ENTRY e { x = f32[8,2] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
      y = f32[8,2] tanh(x)
      ROOT z = f32[8,2] copy(y), sharding={replicated} }"""
    module = xla.parse_hlo(text)
    partition(module, 4)
    (gather,) = [one for one in module.instructions() if one.op.name == "all-gather"]
    groups = gather.attributes_as(AllGatherAttributes).replica_groups
    assert isinstance(groups, IotaGroups)
    assert groups.groups == tuple((4 * r + p, 4 * r + p + 2) for r in range(3) for p in range(2))


def test_listed_groups_of_replicas() -> None:
    text = """HloModule m, replica_count=2
    ENTRY e { x = f32[6] parameter(0), sharding={devices=[3]2,0,1}
      ROOT z = f32[6] negate(x), sharding={replicated} }"""
    client = xla.Client("interpreter", devices=6)
    program = client.compile(text, use_spmd_partitioning=True)
    shardings = program.entry_shardings
    assert shardings is not None
    arrays = [np.arange(6, dtype=np.float32) + 10 * r for r in range(2)]
    local = [shardings.local_arguments([arrays[d // 3]], d % 3) for d in range(6)]
    results = program.execute_sharded(local)
    for device, result in enumerate(results):
        np.testing.assert_array_equal(np.asarray(result), -arrays[device // 3])


def test_sharding_texts_describe_the_tiles() -> None:
    shardings = shardings_of("f32[8,4]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 4)
    assert shardings.parameters == (Sharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),)
    assert shardings.num_partitions == 4 and shardings.program_shape.parameters[0].dimensions == (8, 4)
