"""`jax.experimental.custom_partitioning`: functions that define how they are partitioned, over four devices."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import SdyShardingRule, custom_partitioning
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
rows, columns, replicated = (NamedSharding(mesh, spec) for spec in (P("x"), P(None, "y"), P()))
x = np.arange(64, dtype=np.float32).reshape(8, 8)
seen = []


@partial(custom_partitioning, static_argnums=(2,))
def product(a, b, factor):
    found = factor * (a @ b)
    return found, found.sum()


def partition(factor, mesh, arguments, results):
    """The contracted dimension is split: partial products are summed over its axis."""
    shardings = jax.tree.map(lambda one: one.sharding, arguments)
    seen.append((factor, [one.spec for one in shardings], [one.sharding.spec for one in results]))

    def local(a, b):
        found = factor * jax.lax.psum(a @ b, "y")
        return found, jax.lax.psum(found.sum(), "x")

    return mesh, local, (results[0].sharding, NamedSharding(mesh, P())), shardings


rule = SdyShardingRule(operand_mappings=(("i", "j"), ("j", "k")), result_mappings=(("i", "k"), ()))
product.def_partition(partition, infer_sharding_from_operands=None, sharding_rule=rule)
a, b = jax.device_put(x, NamedSharding(mesh, P("x", "y"))), jax.device_put(x.T, NamedSharding(mesh, P("y")))
found, total = jax.jit(product, static_argnums=2)(a, b, 3)
np.testing.assert_array_equal(np.asarray(found), 3 * (x @ x.T))
assert total == (3 * (x @ x.T)).sum()
assert seen == [(3, [P("x", "y"), P("y", None)], [P("x", None), P()])], seen
assert found.sharding.is_equivalent_to(rows, 2)


# A rule as text. The function asks for other shardings of its argument and result than the program has.
@custom_partitioning
def row_sums(a):
    return jnp.cumsum(a, axis=1)


def by_rows(mesh, arguments, result):
    return mesh, lambda a: jnp.cumsum(a, axis=1), rows, (rows,)


row_sums.def_partition(by_rows, sharding_rule="i j -> i j")
for given in rows, columns, replicated:
    found = jax.jit(lambda a: row_sums(a) + 1, out_shardings=columns)(jax.device_put(x, given))
    np.testing.assert_array_equal(np.asarray(found), np.cumsum(x, 1) + 1)


# Errors of the functions, and programs of other shapes, are errors of the compilation.
def failing(mesh, arguments, result):
    raise ValueError("no way to split this")


row_sums.def_partition(failing, sharding_rule="i j -> i j")
try:
    jax.jit(row_sums)(jax.device_put(x, rows))
except Exception as error:
    assert "custom_partitioning failed: no way to split this" in str(error), error
    assert "E8040" in str(error), error
else:
    raise AssertionError("the function's error is lost")
print("ok")
