"""A process of a JAX program on xlapy, of 2 processes with 2 devices each: prints `name: passed` for each check.

The argument is a folder for a checkpoint. With three more, the process was started by hand: they are the coordinator
address, the number of processes and the index of this one.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import P
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

FOLDER, *BY_HAND = sys.argv[1:]


def mesh(*order: int) -> Mesh:
    return Mesh(np.array([jax.devices()[number] for number in order]), ("x",))


def global_array(values: np.ndarray, where: Mesh) -> jax.Array:
    """An array cut along its first dimension, of which each process gives what it holds."""
    return jax.make_array_from_callback(values.shape, NamedSharding(where, P("x")), lambda index: values[index])


def whole(array: jax.Array) -> np.ndarray:
    """The value of an array on devices of all processes."""
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def devices() -> None:
    index = jax.process_index()
    assert (jax.process_count(), jax.device_count(), jax.local_device_count()) == (2, 4, 2)
    assert [device.id for device in jax.devices()] == [0, 1, 2048, 2049]
    assert [device.process_index for device in jax.devices()] == [0, 0, 1, 1]
    assert [device.local_hardware_id for device in jax.local_devices()] == [0, 1]
    assert [device.id for device in jax.local_devices()] == [2048 * index, 2048 * index + 1]


def programs_of_one_process() -> None:
    made = jax.jit(lambda x: x * 2)(jnp.arange(3) + jax.process_index())
    assert made.devices() == {jax.local_devices()[0]}
    assert made.tolist() == [(number + jax.process_index()) * 2 for number in range(3)]


def local_data() -> None:
    given = np.arange(4, dtype=np.float32) + 10 * jax.process_index()
    array = jax.make_array_from_process_local_data(NamedSharding(mesh(0, 1, 2, 3), P("x")), given)
    assert array.shape == (8,) and not array.is_fully_addressable
    doubled = jax.jit(lambda x: x * 2)(array)
    assert [shard.data.tolist() for shard in doubled.addressable_shards] == [
        (given[:2] * 2).tolist(),
        (given[2:] * 2).tolist(),
    ]
    assert float(jax.jit(jnp.sum)(array)) == 52


def collectives() -> None:
    values = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (3, 0, 2, 1)):
        where, parts = mesh(*order), np.split(values, 4)
        array = global_array(values, where)

        def run(function, where=where, array=array):
            return whole(jax.jit(jax.shard_map(function, mesh=where, in_specs=P("x"), out_specs=P("x")))(array))

        total = ((parts[0] + parts[1]) + parts[2]) + parts[3]
        np.testing.assert_allclose(run(lambda x: jax.lax.psum(x, "x") + 0 * x), np.tile(total, (4, 1)), rtol=1e-6)
        shifted = run(lambda x: jax.lax.ppermute(x, "x", [(0, 1), (1, 2), (2, 3), (3, 0)]))
        assert shifted.tolist() == np.concatenate([parts[3], *parts[:3]]).tolist()
        gathered = run(lambda x: jax.lax.all_gather(x, "x", tiled=True)[:2] + 0 * x)
        assert gathered.tolist() == np.tile(parts[0], (4, 1)).tolist()
        exchanged = run(lambda x: jax.lax.all_to_all(x, "x", 1, 0, tiled=True).reshape(2, 4))
        expected = [np.concatenate([part[:, column] for part in parts]).reshape(2, 4) for column in range(4)]
        assert exchanged.tolist() == np.concatenate(expected).tolist()
        scattered = run(lambda x: jax.lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True))
        np.testing.assert_allclose(scattered, np.concatenate(np.split(total, 4, axis=1)), rtol=1e-6)


def partitioned_programs() -> None:
    where = mesh(0, 2, 1, 3)
    left = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
    right = np.random.default_rng(2).standard_normal((16, 8)).astype(np.float32)
    made = jax.jit(lambda a, b: a.T @ b, out_shardings=NamedSharding(where, P()))(
        global_array(left, where), global_array(right, where)
    )
    assert made.is_fully_replicated
    np.testing.assert_allclose(np.asarray(made), left.T @ right, rtol=1e-5, atol=1e-5)


def random_numbers() -> None:
    sharding = NamedSharding(mesh(0, 1, 2, 3), P("x"))
    drawn = jax.jit(lambda key: jax.random.normal(key, (8,)), out_shardings=sharding)(jax.random.key(7))
    assert whole(drawn).tolist() == jax.random.normal(jax.random.key(7), (8,)).tolist()


def donation() -> None:
    array = global_array(np.arange(8, dtype=np.float32), mesh(0, 1, 2, 3))
    pointers = [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]
    made = jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    assert array.is_deleted()
    assert [shard.data.unsafe_buffer_pointer() for shard in made.addressable_shards] == pointers
    assert whole(made).tolist() == list(range(1, 9))


def utilities() -> None:
    index = jax.process_index()
    multihost_utils.sync_global_devices("here")
    assert multihost_utils.broadcast_one_to_all(np.int32(index + 5)) == 5
    assert multihost_utils.process_allgather(np.int32([index])).tolist() == [[0], [1]]
    multihost_utils.assert_equal(3, "all give 3")


def devices_of_another_process() -> None:
    """A process compiles a program of the other's devices, and does not launch it."""
    is_own = jax.process_index() == 1
    other = NamedSharding(Mesh(np.array(jax.local_devices(process_index=1)), ("x",)), P("x"))
    array = jax.make_array_from_callback((4,), other, lambda index: np.arange(4.0)[index], dtype=np.float32)
    made = jax.jit(lambda x: x.sum() + x)(array)
    assert [shard.data.tolist() for shard in made.addressable_shards] == ([[6, 7], [8, 9]] if is_own else [])
    sharding = SingleDeviceSharding(jax.devices()[3])
    single = jax.make_array_from_callback((), sharding, lambda _: np.float32(1), dtype=np.float32)
    made = jax.jit(lambda x: x + 1)(single)
    assert [shard.data.item() for shard in made.addressable_shards] == ([2.0] if is_own else [])


def executables() -> None:
    sharding = NamedSharding(mesh(0, 1, 2, 3), P("x"))
    shape = jax.ShapeDtypeStruct((8,), np.float32, sharding=sharding)
    compiled = jax.jit(lambda x: x * jnp.sum(x)).lower(shape).compile()
    assert "all-reduce" in compiled.as_text() and compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 8
    executable = compiled.runtime_executable()
    assert len(executable.local_devices()) == 2
    assert whole(compiled(global_array(np.ones(8, np.float32), mesh(0, 1, 2, 3)))).tolist() == [8] * 8


def serialized_executables() -> None:
    from jax.experimental import serialize_executable

    array = global_array(np.ones(8, np.float32), mesh(0, 1, 2, 3))
    compiled = jax.jit(lambda x: x * jnp.sum(x)).lower(array).compile()
    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    assert whole(loaded(array)).tolist() == [8] * 8


def training() -> None:
    """Data-parallel steps are those of one device, to rounding, and equal in all processes."""
    data = np.random.default_rng(3).standard_normal((16, 5)).astype(np.float32)
    weights = np.linspace(-1, 1, 5, dtype=np.float32)

    def step(weights, data):
        gradient = jax.grad(lambda w: jnp.mean(jnp.tanh(data @ w) ** 2))(weights)
        return weights - 0.1 * gradient

    where = mesh(0, 1, 2, 3)
    split, alone = weights, weights
    for _ in range(3):
        split = jax.jit(step, out_shardings=NamedSharding(where, P()))(split, global_array(data, where))
        split, alone = np.asarray(split), np.asarray(jax.jit(step)(alone, data))
    np.testing.assert_allclose(split, alone, rtol=1e-5)
    multihost_utils.assert_equal(split, "the weights are equal")


def checkpoints() -> None:
    import orbax.checkpoint

    array = global_array(np.arange(8, dtype=np.float32), mesh(0, 1, 2, 3))
    with orbax.checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(Path(FOLDER) / "checkpoint", {"x": array})
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(Path(FOLDER) / "checkpoint", {"x": jax.jit(lambda x: x * 0)(array)})
    assert whole(restored["x"]).tolist() == list(range(8))


CHECKS = (
    devices,
    programs_of_one_process,
    local_data,
    collectives,
    partitioned_programs,
    random_numbers,
    donation,
    utilities,
    devices_of_another_process,
    executables,
    serialized_executables,
    training,
    checkpoints,
)


if __name__ == "__main__":
    if BY_HAND:
        jax.distributed.initialize(BY_HAND[0], int(BY_HAND[1]), int(BY_HAND[2]))
    else:
        jax.distributed.initialize(cluster_detection_method="mpi4py")
    for check in CHECKS[:2] if BY_HAND else CHECKS:
        try:
            check()
        except Exception:
            print(f"{check.__name__}: failed in process {jax.process_index()}\n{traceback.format_exc()}", flush=True)
        else:
            if jax.process_index() == 0:
                print(f"{check.__name__}: passed", flush=True)
