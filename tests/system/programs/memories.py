"""Memory kinds, layouts, compiler options, and the properties of programs and devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding

device = jax.devices()[0]
assert [memory.kind for memory in device.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
assert device.default_memory().kind == "device"
on_device, on_host = (SingleDeviceSharding(device, memory_kind=kind) for kind in ("device", "pinned_host"))
x = jnp.arange(12.0).reshape(3, 4)
host = jax.device_put(x, on_host)
assert host.sharding.memory_kind == "pinned_host" and np.array_equal(host, x)
assert jax.device_put(host, on_device).sharding.memory_kind == "device"


def kinds(function, *arguments, **options):
    expected = np.asarray(arguments[0]) + 1
    results = jax.jit(function, **options)(*arguments)
    assert np.array_equal(results[0], expected)
    return [result.sharding.memory_kind for result in results]


def both(v):
    return v + 1, v * 2


def moved(v):
    return jax.device_put(v, on_device) + 1, jax.device_put(jax.device_put(v, on_device) * 2, on_host)


assert kinds(both, x) == ["device", "device"]
assert kinds(both, x, out_shardings=(on_host, on_device)) == ["pinned_host", "device"]
assert kinds(both, x, out_shardings=on_host, donate_argnums=0) == ["pinned_host", "pinned_host"]
x = jnp.arange(12.0).reshape(3, 4)
assert kinds(moved, host, in_shardings=on_host) == ["device", "pinned_host"]
printing = jax.jit(lambda v: (jax.debug.callback(lambda _: None, v), v * 2)[1], out_shardings=on_host)
assert printing(x).sharding.memory_kind == "pinned_host"

# Buffers report their layout, which is row-major.
row_major = Format(Layout((0, 1)), SingleDeviceSharding(device))
assert x.format.layout.major_to_minor == (0, 1)
compiled = jax.jit(lambda v: v.T, in_shardings=row_major).lower(x).compile()
((given,),) = (compiled.input_formats[0],)
assert given.layout.major_to_minor == compiled.output_formats.layout.major_to_minor == (0, 1)
assert np.array_equal(jax.device_put(x, row_major), x)

# XLA validates the compiler options.
lowered = jax.jit(lambda v: v + 1).lower(x)
assert np.array_equal(lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})(x), x + 1)
for options, message in (
    ({"no_option": True}, "No such compile option: 'no_option'"),
    ({"xla_embed_ir_in_executable": "perhaps"}, "'perhaps' is not a valid bool value"),
):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        lowered.compile(compiler_options=options)

# Properties.
assert compiled.memory_analysis().output_size_in_bytes == 48 and compiled.cost_analysis()["bytes accessed"] == 96
used = device.memory_stats()["bytes_in_use"]
large = jnp.zeros(1_000_000)
assert device.memory_stats()["bytes_in_use"] - used >= 4_000_000 <= device.memory_stats()["peak_bytes_in_use"]

for option, function in (("jax_debug_nans", lambda v: jnp.log(v - 1) * 0), ("jax_debug_infs", lambda v: 1 / v)):
    jax.config.update(option, True)
    with pytest.raises(FloatingPointError, match="invalid value"):
        jax.jit(function)(jnp.zeros(3))
    jax.config.update(option, False)
print("ok")
