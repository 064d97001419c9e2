"""Arrays in layouts other than row-major: how they are made and how programs use them, compared with JAX's CPU."""

import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import SingleDeviceSharding

cpu, ours = (SingleDeviceSharding(jax.devices(name)[0]) for name in ("cpu", "xlapy"))
values = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


def strides(array):
    return np.asarray(array).strides


# device_put with a layout, and reading.
for order in itertools.permutations(range(3)):
    format = Format(Layout(order), ours)
    x, on_cpu = jax.device_put(values, format), jax.device_put(values, Format(Layout(order), cpu))
    assert np.array_equal(x, values) and strides(x) == strides(on_cpu), order
    assert x.format.layout == on_cpu.format.layout
    # Programs take the array in its layout; their results are row-major by default.
    result = jax.jit(lambda v: jnp.sin(v) @ jnp.ones((4, 2)))(x)
    np.testing.assert_allclose(result, np.sin(values) @ np.ones((4, 2)), rtol=1e-5)
    assert strides(result) == (24, 8, 4)
    turned = jax.jit(lambda v: jnp.cos(v), out_shardings=format)(values)
    assert turned.format.layout.major_to_minor == order and strides(turned) == strides(x)
    # Results with the same layout reuse donated memory.
    address = x.unsafe_buffer_pointer()
    doubled = jax.jit(lambda v: v * 2, out_shardings=format, donate_argnums=0)(x)
    assert doubled.unsafe_buffer_pointer() == address and x.is_deleted() and np.array_equal(doubled, values * 2)

# Layouts that the compiler chooses.
for function, order in [(lambda v: v.T, (2, 1, 0)), (lambda v: jnp.exp(v.T), (2, 1, 0)), (lambda v: v + 1, (0, 1, 2))]:
    compiled = jax.jit(function, out_shardings=Format(Layout.AUTO)).lower(values).compile()
    assert compiled.output_formats.layout.major_to_minor == order
    result = compiled(values)
    np.testing.assert_allclose(result, function(values), rtol=1e-6)
    assert result.format == compiled.output_formats
    assert (strides(result) == (4, 16, 48)) == (order == (2, 1, 0))
kept = jax.jit(lambda v: with_layout_constraint(v.T, Layout((0, 1, 2))) * 2)(jnp.asarray(values))
assert strides(kept) == (24, 8, 4) and np.array_equal(kept, values.T * 2)

# Other uses of arrays.
turned = jax.device_put(values, Format(Layout((2, 0, 1)), ours))
assert np.array_equal(pickle.loads(pickle.dumps(turned)), values)
assert np.array_equal(jax.device_put(turned, cpu), values)
assert np.array_equal(jnp.stack([turned, jnp.asarray(values)])[0], values) and turned[1, 2, 3] == values[1, 2, 3]
called = jax.jit(lambda v: jax.pure_callback(lambda w: np.asarray(w) + 1, jax.typeof(v), v))(turned)
assert np.array_equal(called, values + 1)
compiled = jax.jit(lambda v: v - 1, out_shardings=Format(Layout((1, 0, 2)), ours)).lower(turned).compile()
text = compiled.as_text()
assert "(f32[2,3,4]{1,0,2})->f32[2,3,4]{2,0,1}" in text, text[:300]
again = deserialize_and_load(*serialize(compiled))
assert np.array_equal(again(turned), values - 1) and again(turned).format.layout.major_to_minor == (1, 0, 2)
empty = jax.device_put(np.zeros((0, 3), np.int8), Format(Layout((1, 0)), ours))
assert jax.jit(lambda v: v.T)(empty).shape == (3, 0)
print("ok")
