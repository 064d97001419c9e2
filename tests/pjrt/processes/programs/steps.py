"""A process of a JAX program that runs steps over a mesh of 8 devices: prints what each device has, as a digest.

Arguments: the number of processes, and names of programs of `benchmarks/multi_device_programs.py`, or `adam` for the
steps that are here. The variable XLAPY_FLAGS gives the number of devices of each process.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.multi_device_programs import GRID, PROGRAMS


def adam_step(state: Any, x: Any, y: Any) -> Any:
    """A step of Adam for two layers and a norm; the largest gradient is clipped, and rows are dropped at random."""
    weights, first, second, count = state
    keep = jax.random.bernoulli(jax.random.fold_in(jax.random.key(0), count), 0.9, x.shape)

    def loss(weights: Any) -> Any:
        up, down, scale = weights
        h = jax.nn.gelu(jnp.where(keep, x, 0) @ up) @ down
        h = h / jnp.sqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6) * scale
        return jnp.mean((h - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(weights)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda g: g / jnp.maximum(norm, 1), gradients)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)
    weights = jax.tree.map(lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return (weights, first, second, count + 1), value


def adam() -> tuple[Any, Any]:
    """Four steps over a mesh of data and model, whose state is donated; returns the state and the losses."""
    random = np.random.default_rng(0)
    mesh = mesh_of(GRID)
    specifications = [P(None, "model"), P("model"), P()]
    shapes = [(32, 64), (64, 32), (32,)]
    drawn = [random.standard_normal(shape).astype(np.float32) / 6 for shape in shapes]
    weights = [placed(value, mesh, spec) for value, spec in zip(drawn, specifications, strict=True)]
    moments = [
        [placed(np.zeros_like(value), mesh, spec) for value, spec in zip(drawn, specifications, strict=True)]
        for _ in range(2)
    ]
    state: Any = (weights, *moments, placed(np.int32(0), mesh, P()))
    step = jax.jit(adam_step, donate_argnums=0)
    losses = []
    for _ in range(4):
        x, y = (placed(random.standard_normal((32, 32)).astype(np.float32), mesh, P("data")) for _ in range(2))
        state, loss = step(state, x, y)
        losses.append(loss)
    return state, losses


def benchmark(name: str) -> Callable[[], Any]:
    program = PROGRAMS[name]

    def run() -> Any:
        mesh = mesh_of(program.axes)
        arguments = program.arguments()
        inputs = shardings(mesh, program.inputs)
        given = jax.tree.map(
            lambda where, values: jax.tree.map(lambda value: placed(value, mesh, where.spec), values),
            inputs,
            tuple(arguments) if isinstance(inputs, tuple) else arguments,
            is_leaf=lambda one: isinstance(one, NamedSharding),
        )
        function = jax.jit(program.make(mesh), out_shardings=shardings(mesh, program.outputs))
        return function(*given), function(*given)

    return run


def mesh_of(axes: Any) -> Mesh:
    return Mesh(np.array(jax.devices()).reshape([size for _, size in axes]), [name for name, _ in axes])


def shardings(mesh: Mesh, specifications: Any) -> Any:
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specifications, is_leaf=lambda one: isinstance(one, P))


def placed(value: Any, mesh: Mesh, specification: Any) -> jax.Array:
    value = np.asarray(value)
    return jax.make_array_from_callback(
        value.shape, NamedSharding(mesh, specification), lambda index: value[index], dtype=value.dtype
    )


def main(process_count: int, names: list[str]) -> None:
    if process_count > 1:
        jax.distributed.initialize(cluster_detection_method="mpi4py")
    numbers = {device: number for number, device in enumerate(jax.devices())}
    assert len(numbers) == 8
    for name in names:
        digests: dict[int, Any] = {numbers[device]: hashlib.sha256() for device in jax.local_devices()}
        for array in jax.tree.leaves((adam if name == "adam" else benchmark(name))()):
            for shard in array.addressable_shards:
                assert np.isfinite(np.asarray(shard.data).astype(np.float64)).all()
                digests[numbers[shard.device]].update(np.asarray(shard.data).tobytes())
        for number, digest in digests.items():
            print(f"{name}, device {number}: {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
