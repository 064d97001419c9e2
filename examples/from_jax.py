"""Reads the HLO text of a JAX function, prints its instructions, and runs it on the interpreter and in JAX.

Needs JAX: pip install 'xlapy[test]'
"""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

import xlapy as xla


def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Softmax attention: f32[rows,features] three times -> f32[rows,features]."""
    scores = query @ key.T / jnp.sqrt(query.shape[-1])
    return jax.nn.softmax(scores) @ value


rng = np.random.default_rng(0)
arguments = [rng.standard_normal((5, 8)).astype(np.float32) for _ in range(3)]

lowered = jax.jit(attention).lower(*arguments)
text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)  # by default, long constants print as {...}
module = xla.parse_hlo(text)

operations = Counter(instruction.op.name for instruction in module.instructions())
print(f"{module.name}: {module.instruction_count} instructions")
for name, count in operations.most_common():
    print(f"{count:4} {name}")

ours = np.asarray(xla.Client("interpreter").compile(module)(*arguments))
theirs = np.asarray(jax.jit(attention)(*arguments))
print("largest difference from JAX:", np.abs(ours - theirs).max())
assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
