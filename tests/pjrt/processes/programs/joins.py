"""A process of a JAX program that makes the client, and sums over all devices: prints both, or the error.

Arguments: what is special (`reversed`: JAX counts the processes from the last of mpirun; `devices`: process 1 has one
device more), and the coordinator address.
"""

from __future__ import annotations

import os
import sys

import jax

way, address = sys.argv[1:]
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
if way == "devices":
    jax.config.update("jax_num_cpu_devices", 2 + rank)
jax.distributed.initialize(address, 2, 1 - rank if way == "reversed" else rank)
try:
    own = jax.process_index()
    print(f"index {own}: {[device.id for device in jax.local_devices()]}", flush=True)
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jax.numpy.arange(2.0) + 10 * own)
    print(f"index {own} sums to {total.addressable_shards[0].data.item()}", flush=True)
except RuntimeError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
