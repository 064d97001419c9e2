"""Programs compiled ahead of time for topologies, and callbacks that write their results in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import buffer_callback, topologies
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import NamedSharding, PartitionSpec

from xlapy.base.error_codes.interfaces.commands import SERIALIZABLE_PROGRAM

# A topology has as many devices as its name says, whatever this process has.
(device,) = topologies.get_topology_desc("1", platform="xlapy").devices
assert device.platform == "xlapy"
topology = topologies.get_topology_desc(platform="xlapy")
assert len(topology.devices) == len(jax.devices()) == 4
assert len(topologies.get_topology_desc("8", platform="xlapy").devices) == 8


def compiled(devices):
    mesh = topologies.make_mesh(devices, (2, 2), ("x", "y"))
    sharding = NamedSharding(mesh, PartitionSpec("x", "y"))
    given = jax.ShapeDtypeStruct((4, 4), jnp.float32, sharding=sharding)
    return jax.jit(lambda v: (v * 2).sum(0)).lower(given).compile()


ahead = compiled(topology)
assert "ENTRY" in ahead.as_text()
loaded = deserialize_and_load(*serialize(ahead))
x = jnp.arange(16, dtype=jnp.float32).reshape(4, 4)
attached = topologies.make_mesh(topologies.get_attached_topology(), (2, 2), ("x", "y"))
shards = jax.device_put(x, NamedSharding(attached, PartitionSpec("x", "y")))
assert np.array_equal(loaded(shards), (x * 2).sum(0))


# A callback reads its operands and writes its results, which JAX does not copy.
def write(context, outputs, first, second):
    assert context.stage == buffer_callback.ExecutionStage.EXECUTE
    assert not first.writeable and outputs["sum"].writeable and first.ndim == 1
    with pytest.raises(jax.errors.JaxRuntimeError, match="GPU context is not available"):
        _ = context.stream
    np.asarray(outputs["sum"])[...] = np.from_dlpack(first) + np.asarray(second)
    np.asarray(outputs["flags"])[...] = np.asarray(first) > 1


def form(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


results = {"sum": form((3,), jnp.float32), "flags": form((3,), jnp.bool_)}
call = jax.jit(buffer_callback.buffer_callback(write, results))
a, b = jnp.arange(3.0), jnp.ones(3)
found = call(a, b)
assert np.array_equal(found["sum"], a + b) and found["flags"].tolist() == [False, False, True]


def increment(context, output, value):
    assert np.asarray(output).ctypes.data == np.asarray(value).ctypes.data
    np.asarray(output)[...] += 1


in_place = jax.jit(buffer_callback.buffer_callback(increment, form((3,), jnp.float32), input_output_aliases={0: 0}))
assert np.array_equal(in_place(a), a + 1) and np.array_equal(a, np.arange(3))
rows = jax.vmap(
    buffer_callback.buffer_callback(
        increment, form((3,), jnp.float32), vmap_method="sequential", input_output_aliases={0: 0}
    )
)
assert np.array_equal(rows(jnp.zeros((2, 3))), np.ones((2, 3)))


def fail(context, output, value):
    raise ValueError("the callback gave up")


with pytest.raises(jax.errors.JaxRuntimeError, match="the callback gave up"):
    jax.block_until_ready(buffer_callback.buffer_callback(fail, form((3,), jnp.float32))(a))
with pytest.raises(jax.errors.JaxRuntimeError, match="must not return any values"):
    jax.block_until_ready(buffer_callback.buffer_callback(lambda *_: 1, form((3,), jnp.float32))(a))
with pytest.raises(jax.errors.JaxRuntimeError, match=rf"calls Python functions.*\[{SERIALIZABLE_PROGRAM}\]"):
    serialize(call.lower(a, b).compile())

print("ok")
