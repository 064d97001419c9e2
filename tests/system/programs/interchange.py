"""DLPack shares memory with NumPy, JAX's CPU and torch in both directions without a copy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

cpu = jax.devices("cpu")[0]
ours = jnp.arange(10_000.0).reshape(100, 100)
address = ours.unsafe_buffer_pointer()

# Export.
assert ours.__dlpack_device__() == (1, 0)
shown = np.from_dlpack(ours)
assert shown.ctypes.data == address and np.array_equal(shown, ours)
theirs = jax.dlpack.from_dlpack(ours, device=cpu)
assert theirs.devices() == {cpu} and np.array_equal(theirs, ours)
changed = jax.jit(lambda v: v + 1, donate_argnums=0)(ours)
assert ours.is_deleted() and shown[0, 1] == 1 and changed[0, 1] == 2
pending = jax.jit(lambda v: jax.lax.fori_loop(0, 3000, lambda i, c: jnp.sin(c) + 1, v))(changed)
assert np.array_equal(np.from_dlpack(pending), np.asarray(pending))
copy = np.from_dlpack(changed, copy=True)
assert copy.ctypes.data != changed.unsafe_buffer_pointer()
for dtype in (np.int8, np.float16, np.complex64, np.bool_, jnp.bfloat16):
    values = jnp.array([1, 0, 1], dtype)
    assert np.array_equal(jax.dlpack.from_dlpack(values), values), dtype

# Import.
host = np.arange(10_000, dtype=np.float32).reshape(100, 100)
taken = jax.dlpack.from_dlpack(host)
assert taken.devices() == {jax.devices()[0]} and taken.unsafe_buffer_pointer() == host.ctypes.data
assert np.array_equal(taken @ taken, jnp.asarray(host) @ jnp.asarray(host))
assert jax.jit(lambda v: v * 0, donate_argnums=0)(taken).sum() == 0 and host[0, 1] == 1
kept = jax.dlpack.from_dlpack(np.full(20_000, 3, np.int32))
assert jnp.from_dlpack(np.full(5, 3, np.int32)).sum() == 15 and int(kept.sum()) == 60_000
shifted = np.arange(40_001, dtype=np.float32)[1:]
assert np.array_equal(jax.dlpack.from_dlpack(shifted) * 2, shifted * 2)
turned = jax.dlpack.from_dlpack(host.T, copy=False)
assert turned.unsafe_buffer_pointer() == host.ctypes.data and turned.format.layout.major_to_minor == (1, 0)
assert np.array_equal(turned, host.T) and np.array_equal(turned + 1, host.T + 1)
with pytest.raises(Exception, match="strides"):
    jax.dlpack.from_dlpack(host[:, ::2], copy=False)
from_cpu = jax.dlpack.from_dlpack(jax.device_put(host, cpu))
assert from_cpu.devices() == {jax.devices()[0]} and np.array_equal(from_cpu, host)

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    tensor = torch.from_dlpack(changed)
    assert tensor.data_ptr() == changed.unsafe_buffer_pointer() and float(tensor[0, 1]) == 2
    tensor = torch.arange(1000, dtype=torch.float32)
    back = jax.dlpack.from_dlpack(tensor)
    assert back.unsafe_buffer_pointer() == tensor.data_ptr() and float(back.sum()) == 499_500
print("ok")
