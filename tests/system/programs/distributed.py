"""jax.distributed with one process: jaxlib tells the client about processes from a thread of its own."""

import socket
import time

import jax
import jax.numpy as jnp

with socket.socket() as listener:
    listener.bind(("localhost", 0))
    port = listener.getsockname()[1]
jax.distributed.initialize(f"localhost:{port}", num_processes=1, process_id=0)
assert (jax.default_backend(), jax.process_count(), jax.process_index()) == ("xlapy", 1, 0)
assert float(jnp.ones(3).sum()) == 3
time.sleep(1)
assert float(jnp.ones(4).sum()) == 4
jax.distributed.shutdown()
print("ok")
