"""The reference implementation on several devices: jaxlib's XLA:CPU with eight devices, in its own process.

The child process is needed because the number of CPU devices is fixed when jax starts. Does not depend on xlapy.
`tests/xla_reference.py` describes how programs reach XLA. XLA rejects or crashes on `all-to-all` in its tuple form,
send and recv.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Value = Any  # np.ndarray, or a tuple of values

DEVICES = 8
_SECONDS = 120


@dataclass(frozen=True)
class Case:
    """A program and the arguments of each device; device i is partition i % partitions of replica i // partitions."""

    text: str
    arguments: Sequence[Sequence[Value]]
    replicas: int = 1
    partitions: int = 1


def run_on_devices(cases: Sequence[Case]) -> list[list[Value] | str]:
    """Returns for each case the result of every device, or jaxlib's message if it rejects the program."""
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, __file__], input=pickle.dumps([_plain(case) for case in cases]), env=environment,
        capture_output=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"XLA:CPU on {DEVICES} devices: {done.stderr.decode()[-2000:]}")
    results: list[list[Value] | str] = pickle.loads(done.stdout)
    return results


def _plain(case: Case) -> tuple[Any, ...]:
    return case.text, [list(arguments) for arguments in case.arguments], case.replicas, case.partitions


# -- in the child process


def _serve() -> None:
    cases = pickle.loads(sys.stdin.buffer.read())
    results = [_attempt(*case) for case in cases]
    sys.stdout.buffer.write(pickle.dumps(results))


def _attempt(text: str, arguments: list[list[Value]], replicas: int, partitions: int) -> list[Value] | str:
    try:
        return _run(text, arguments, replicas, partitions)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _run(text: str, arguments: list[list[Value]], replicas: int, partitions: int) -> list[Value]:
    import jax
    import numpy as np
    from jax._src.lib import _jax, hlo

    jax.config.update("jax_enable_x64", True)
    module = hlo.hlo_module_from_text(text)
    computation = hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    options = _jax.CompileOptions()
    options.env_option_overrides = [("xla_allow_excess_precision", False), ("xla_backend_optimization_level", 0)]
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = replicas, partitions
    build.use_spmd_partitioning = partitions > 1
    build.use_shardy_partitioner = False
    count = replicas * partitions
    numbers = np.arange(count, dtype=np.int32).reshape(replicas, partitions)
    build.device_assignment = _jax.DeviceAssignment.create(numbers)
    devices = jax.devices()[:count]
    mlir = _jax.mlir.xla_computation_to_mlir_module(computation)
    executable = devices[0].client.compile_and_load(mlir, devices, options)
    columns = [_on_devices(devices, column) for column in zip(*arguments, strict=True)]
    shards = executable.execute_sharded(columns).disassemble_into_single_device_arrays()
    is_tuple = computation.program_shape().result_shape().is_tuple()
    rows = [tuple(np.asarray(leaf[number]) for leaf in shards) for number in range(count)]
    return list(rows) if is_tuple else [row[0] for row in rows]


def _on_devices(devices: list[Any], values: Sequence[Any]) -> Any:
    """Makes one array whose shard on each device is the value for that device; the sharding that it declares is
    irrelevant.
    """
    import jax
    import numpy as np

    arrays = [jax.device_put(np.atleast_1d(value), device) for value, device in zip(values, devices, strict=True)]
    mesh = jax.sharding.Mesh(np.array(devices), "d")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    shape = (arrays[0].shape[0] * len(devices), *arrays[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays)


if __name__ == "__main__":
    _serve()
