"""jit, grad, vmap and scan give the results of JAX's CPU; buffers behave like arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.threads import run_in_threads

cpu = jax.devices("cpu")[0]


def same(function, *arguments, tolerance=1e-5):
    ours = jax.jit(function)(*arguments)
    with jax.default_device(cpu):
        theirs = jax.jit(function)(*arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), ours, theirs)
    return ours


rng = np.random.default_rng(0)
x = rng.standard_normal((5, 7)).astype(np.float32)

assert jax.default_backend() == "xlapy" and jax.devices()[0].device_kind == "xlapy"
same(lambda x: (x @ x.T, jnp.tanh(x).sum(0), x.argmax(1)), x)
same(jax.grad(lambda x: jnp.sum(jax.nn.softmax(x @ x.T) ** 2)), x)
same(jax.vmap(lambda row: jnp.sort(row)[::-1]), x)
same(lambda x: jax.lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x), x)
same(lambda x: jax.lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, jnp.cos(s[1])), (0, x)), x)
same(lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), x)
same(lambda x: x.at[jnp.array([0, 2])].add(1.5), x)
same(lambda x: jnp.fft.rfft(x, axis=1), x)
same(lambda x: jax.image.resize(x, (9, 4), "bilinear"), x)
same(lambda key: jax.random.normal(key, (20,)), jax.random.key_data(jax.random.key(3)) * 0 + 1)
sizes, weights = np.array([1, 0, 3], np.int32), rng.standard_normal((3, 7, 4)).astype(np.float32)
same(lambda x, w: jax.lax.ragged_dot(x, w, sizes), x, weights)
same(jax.grad(lambda x, w: (jax.lax.ragged_dot(x, w, sizes) ** 2).sum(), (0, 1)), x, weights)
assert "chlo.ragged_dot" in jax.jit(jax.lax.ragged_dot).lower(x, weights, sizes).as_text()
of_batch = jax.lax.RaggedDotDimensionNumbers((([2], [1]), ([0], [0])), [0], [])
same(lambda x, w: jax.lax.ragged_dot_general(x, w, sizes[:2], of_batch), x[:3, None], weights)
rows = jax.lax.RaggedDotDimensionNumbers((([2], [1]), ([], [])), [0], [0])  # which jaxlib takes for those of a batch
cube = rng.standard_normal((4, 5, 7)).astype(np.float32)
same(lambda x, w: jax.lax.ragged_dot_general(x, w, sizes, rows), cube, weights)
same(jax.grad(lambda x, w: (jax.lax.ragged_dot_general(x, w, sizes, rows) ** 2).sum(), (0, 1)), cube, weights)
same(lambda x: jax.lax.conv(x[None, None], x[None, None, :2, :3], (1, 1), "SAME"), x)

# Types, empty and scalar arrays, host layouts.
for dtype in (bool, np.int8, np.uint32, np.float16, jnp.bfloat16, np.complex64, jnp.int4, jnp.float8_e4m3fn):
    values = np.array([[0, 1], [1, 0], [1, 1]], dtype)
    assert np.array_equal(np.asarray(jax.jit(lambda v: v)(values)), values), dtype
    assert np.array_equal(np.asarray(jax.device_put(values.T)), values.T), dtype
assert (
    jnp.ones((0, 3)).sum() == 0
    and float(jnp.float32(2.5)) == 2.5
    and jnp.arange(6).reshape(2, 3)[::-1, 1].tolist() == [4, 1]
)
with jax.enable_x64(True):
    assert np.asarray(jnp.arange(3) / 3).dtype == np.float64

# Constant folding keeps denormal numbers exactly, and so do operations that only move bits.
smallest = np.float32(1e-45)
spacings = same(jnp.spacing, np.array([-smallest, 0, smallest], np.float32), tolerance=0)
assert np.array_equal(np.asarray(spacings), np.array([-smallest, smallest, smallest], np.float32)) and smallest > 0

# A token has no elements, and programs pass it through.
token = jax.jit(lambda token: jax.lax.after_all(token, jax.lax.create_token()))(jax.lax.create_token())
with pytest.raises(RuntimeError, match="token"):
    np.asarray(token._buf)
token.block_until_ready()

# Host arrays are borrowed; results are read without a copy; donated buffers are deleted, their views stay valid.
large = np.arange(100_000, dtype=np.float32)
held = jax.device_put(large)
shown = np.asarray(held)
assert shown[-1] == 99_999 and not shown.flags.writeable
increment = jax.jit(lambda v: v + 1, donate_argnums=0)
given = jnp.zeros(1000)
view = np.asarray(given)
assert increment(given).sum() == 1000 and given.is_deleted() and view.sum() == 0
given = jnp.zeros(1000)
address = given.unsafe_buffer_pointer()
assert increment(given).unsafe_buffer_pointer() == address
with pytest.raises(RuntimeError, match="deleted"):
    given + 1
pair = jnp.ones(4)
with pytest.raises(Exception, match="donate"):
    jax.jit(lambda a, b: a + b, donate_argnums=0)(pair, pair)

# Concurrent calls from many threads: one that got another's frame or memory would return another product.
f = jax.jit(lambda a, b: a * b + 1)


def work(number):
    return [float(f(jnp.float32(number), jnp.float32(step))) for step in range(200)]


assert run_in_threads(6, work) == [[number * step + 1 for step in range(200)] for number in range(6)]

# Properties of a compiled function.
compiled = f.lower(x, x).compile()
assert compiled.as_text().startswith("HloModule") and "fusion" in compiled.as_text()
assert compiled.cost_analysis()["flops"] == 70
assert compiled.memory_analysis().output_size_in_bytes == 140
stats = jax.devices()[0].memory_stats()
assert 0 < stats["bytes_in_use"] <= stats["peak_bytes_in_use"]
print("ok")
