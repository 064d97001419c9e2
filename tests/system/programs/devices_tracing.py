"""Traces of programs on four devices: one plane per device with its own operations."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import shard_map
from jax.profiler import ProfileData
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

devices = jax.devices()
mesh = Mesh(np.array(devices), "i")
rows = jax.device_put(jnp.arange(64.0).reshape(8, 8), NamedSharding(mesh, P("i")))
meet = jax.jit(shard_map(lambda v: jax.lax.psum(jnp.sin(v), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
alone = jax.jit(jnp.cos)
there = jax.device_put(jnp.ones(1000), devices[2])
expected = np.asarray(meet(rows)), np.asarray(alone(there))

for _ in range(2):  # the second trace finds the programs of the first
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            results = [(meet(rows), alone(there)) for _ in range(3)]
            jax.block_until_ready(results)
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = ProfileData.from_file(str(path))
    for result in results:
        assert all(np.array_equal(one, other) for one, other in zip(result, expected, strict=True))
    for number in range(4):
        plane = data.find_plane_with_name(f"/device:CUSTOM:xlapy:{number}")
        events = [(line.name, event) for line in plane.lines for event in line.events]
        runs = [event.name for line, event in events if line.startswith("XLA Modules")]
        assert sorted(runs) == ["jit__lambda"] * 3 + (["jit_cos"] * 3 if number == 2 else []), runs
        ops = [dict(event.stats)["hlo_op"] for line, event in events if line.startswith("XLA Ops")]
        assert len([op for op in ops if op.startswith("psum")]) >= 3, ops
print("ok")
