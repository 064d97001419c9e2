"""Libraries that choose code for the platform `cpu` choose it for xlapy too, unless they name xlapy as well."""

import jax
import jax.numpy as jnp
from jax import export, lax


def above(x):
    return x + 1


def below(x):
    return x - 1


def chosen(**branches):
    return jax.jit(lambda x: lax.platform_dependent(x, **branches))


assert chosen(cpu=above, default=below)(1.0) == 2
assert chosen(tpu=above, cpu=below)(1.0) == 0
assert chosen(cpu=above, xlapy=below)(1.0) == 0
assert chosen(tpu=above, default=below)(1.0) == 0
assert jax.vmap(chosen(cpu=above, default=below))(jnp.ones(2)).tolist() == [2, 2]
assert chosen(cpu=above, xlapy=below)(jax.device_put(1.0, jax.devices("cpu")[0])) == 2

for platforms in ("cpu",), ("tpu", "cpu"), ("cpu", "xlapy"):
    exported = export.export(chosen(cpu=above, default=below), platforms=platforms)(1.0)
    assert exported.call(1.0) == 2
    assert jax.jit(exported.call)(1.0) == 2
    assert export.deserialize(exported.serialize()).call(1.0) == 2

own = export.export(chosen(tpu=above, cpu=above, xlapy=below), platforms=("cpu", "xlapy"))(1.0)
assert own.call(1.0) == 0

try:
    export.export(jax.jit(above), platforms=("tpu",))(1.0).call(1.0)
    raise AssertionError("it ran")
except ValueError as error:
    assert "exported for platforms '('tpu',)' but it is used on '('xlapy',)'" in str(error)

print("ok")
