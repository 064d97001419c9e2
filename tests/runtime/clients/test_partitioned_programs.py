"""`Client.compile(use_spmd_partitioning=True)`: calls with global arrays, what stays as it was, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.base.error_codes.compilation.compiling import SHARDED_VALUE
from xlapy.base.error_codes.compilation.partitioner import PARTITION_COUNT
from xlapy.base.error_codes.execution.calls import ARGUMENT_SHAPE, DEVICE_ARGUMENTS
from xlapy.base.error_codes.execution.devices import RUN_DEVICES
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.runtime import Buffer

DOT = """HloModule dot
ENTRY e { x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[4,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = s32[] constant(3)
  ROOT t = (f32[8,6], s32[]) tuple(y, n), sharding={{devices=[2,2]<=[4]}, {replicated}} }
"""
RANDOM = np.random.default_rng(0)
X, W = RANDOM.integers(-8, 8, (8, 4)).astype(np.float32), RANDOM.integers(-8, 8, (4, 6)).astype(np.float32)


@pytest.fixture(params=["cpu", "interpreter"])
def client(request: pytest.FixtureRequest) -> xla.Client:
    return xla.Client(request.param, devices=4)


def test_a_call_takes_and_returns_global_arrays(client: xla.Client) -> None:
    program = client.compile(DOT, use_spmd_partitioning=True)
    product, number = program(X, W)
    assert isinstance(product, Buffer) and isinstance(number, Buffer)
    np.testing.assert_array_equal(np.asarray(product), X @ W)
    assert np.asarray(number) == 3 and (program.num_replicas, program.num_partitions) == (1, 4)
    assert [shape.dimensions for shape in program.program_shape.parameters] == [(2, 4), (4, 3)]
    shardings = program.entry_shardings
    assert shardings is not None and shardings.program_shape.parameters[0].dimensions == (8, 4)
    product, _ = program(client.device_put(X), W.tolist())  # any argument of a call on one device
    np.testing.assert_array_equal(np.asarray(product), X @ W)


def test_results_do_not_share_memory_with_arguments(client: xla.Client) -> None:
    text = "HloModule m ENTRY e { ROOT x = f32[4] parameter(0), sharding={devices=[4]<=[4]} }"
    given = np.arange(4, dtype=np.float32)
    (result,) = [client.compile(text, use_spmd_partitioning=True)(given)]
    given[:] = 9
    assert np.asarray(result).tolist() == [0, 1, 2, 3]


def test_the_program_is_not_changed(client: xla.Client) -> None:
    module = xla.parse_hlo(DOT)
    before = module.to_text()
    program = client.compile(module, use_spmd_partitioning=True)
    assert module.to_text() == before and program.module is not module
    assert module.config.num_partitions == 1 and program.module.config.num_partitions == 4


def test_without_the_option_nothing_is_partitioned(client: xla.Client) -> None:
    with pytest.raises(UnsupportedError, match="use_spmd_partitioning") as error:
        client.compile(DOT, num_partitions=4)
    assert error.value.code == SHARDED_VALUE
    assert client.compile(DOT).entry_shardings is None


def test_a_serialized_program_keeps_its_shardings() -> None:
    client = xla.Client("cpu", devices=4)
    program = client.compile(DOT, use_spmd_partitioning=True)
    loaded = client.deserialize(program.serialize())
    assert loaded.entry_shardings == program.entry_shardings
    np.testing.assert_array_equal(np.asarray(loaded(X, W)[0]), X @ W)
    placed = client.place(program, [3, 2, 1, 0])
    np.testing.assert_array_equal(np.asarray(placed(X, W)[0]), X @ W)


def test_one_partition(client: xla.Client) -> None:
    text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    program = client.compile(text, use_spmd_partitioning=True)
    assert np.asarray(program(np.ones(4, np.float32))).tolist() == [-1] * 4 and program.num_partitions == 1


def test_programs_without_shardings_are_replicated(client: xla.Client) -> None:
    text = "HloModule m ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }"
    program = client.compile(text, num_partitions=4, use_spmd_partitioning=True)
    assert np.asarray(program(np.ones(3, np.float32))).tolist() == [-1] * 3 and program.num_partitions == 4


def test_replicas_take_arguments_of_their_own(client: xla.Client) -> None:
    text = """HloModule m, replica_count=2
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
      s = f32[4] all-reduce(x), replica_groups={}, to_apply=add
      z = f32[] constant(0)
      n = f32[] reduce(s, z), dimensions={0}, to_apply=add
      ROOT t = (f32[4], f32[]) tuple(s, n), sharding={{devices=[2]<=[2]}, {replicated}} }"""
    program = client.compile(text, use_spmd_partitioning=True)
    shardings = program.entry_shardings
    assert shardings is not None and program.num_replicas == 2
    arrays = [np.float32([1, 2, 3, 4]), np.float32([10, 20, 30, 40])]
    results = program.execute_sharded([shardings.local_arguments([arrays[d // 2]], d % 2) for d in range(4)])
    for replica in range(2):
        whole, total = shardings.global_result(results[2 * replica : 2 * replica + 2])
        assert whole.tolist() == [11, 22, 33, 44] and np.asarray(total) == 110
    with pytest.raises(InvalidArgumentError, match="execute_sharded") as error:
        program(arrays[0])
    assert error.value.code == DEVICE_ARGUMENTS


def test_errors(client: xla.Client) -> None:
    for partitions, code in ((2, PARTITION_COUNT), (8, RUN_DEVICES)):
        with pytest.raises(InvalidArgumentError) as error:
            client.compile(DOT, num_partitions=partitions, use_spmd_partitioning=True)
        assert error.value.code == code
    program = client.compile(DOT, use_spmd_partitioning=True)
    with pytest.raises(InvalidArgumentError, match=r"parameter 0 \(x\) takes f32\[8,4\].*float32\[2,4\]") as error:
        program(X[:2], W)
    assert error.value.code == ARGUMENT_SHAPE
