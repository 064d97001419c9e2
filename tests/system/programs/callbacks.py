"""Python called from programs: pure, with effects, ordered, failing; debugging; native targets."""

import contextlib
import ctypes
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify, io_callback

from xlapy.base.error_codes.interfaces.pjrt import CALLBACK

x = jnp.arange(4.0)
like = jax.ShapeDtypeStruct(x.shape, x.dtype)

assert np.allclose(jax.jit(lambda x: jax.pure_callback(np.sin, like, x) + 1)(x), np.sin(x) + 1)
rows = jax.vmap(lambda v: jax.pure_callback(np.cos, jax.ShapeDtypeStruct((), x.dtype), v, vmap_method="sequential"))
assert np.allclose(jax.jit(rows)(x), np.cos(x))

seen = []


@jax.jit
def ordered(x):
    for number in range(3):
        io_callback(lambda v, number=number: seen.append((number, float(v))), None, x[number], ordered=True)
    return jax.lax.fori_loop(
        0,
        3,
        lambda i, s: s + io_callback(lambda i: np.float32(i), jax.ShapeDtypeStruct((), np.float32), i, ordered=True),
        0.0,
    )


for _ in range(3):
    assert ordered(x) == 3.0
jax.effects_barrier()
assert seen == [(0, 0.0), (1, 1.0), (2, 2.0)] * 3

printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    jax.jit(lambda x: jax.debug.print("sum {s} of {n}", s=x.sum(), n=x.size))(x)
    jax.effects_barrier()
assert printed.getvalue() == "sum 6.0 of 4\n"


def fail(value):
    raise LookupError(f"no {value.sum()}")


with pytest.raises(RuntimeError, match=rf"LookupError: no 6(?s:.*)\[{CALLBACK}\]"):
    jax.jit(lambda x: jax.pure_callback(fail, like, x))(x).block_until_ready()
with pytest.raises(RuntimeError, match="Incorrect output shape"):
    jax.jit(lambda x: jax.pure_callback(lambda v: v[:2], like, x))(x).block_until_ready()

checked = checkify.checkify(jax.jit(lambda i: x[i]), errors=checkify.index_checks)
assert checked(1)[0].get() is None and "out-of-bounds" in checked(7)[0].get()
with jax.debug_nans(True), pytest.raises(FloatingPointError):
    jax.jit(lambda x: jnp.log(x - 10))(x)

# A native target with the original interface: out = 2 * in, through libc's memcpy.
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


@SIGNATURE
def double(out, operands):
    source = np.ctypeslib.as_array(ctypes.cast(operands[0], ctypes.POINTER(ctypes.c_float)), (4,))
    np.ctypeslib.as_array(ctypes.cast(out, ctypes.POINTER(ctypes.c_float)), (4,))[:] = 2 * source


jax.ffi.register_ffi_target("double", jax.ffi.pycapsule(double), platform="xlapy", api_version=0)
call = jax.ffi.ffi_call("double", like, custom_call_api_version=1)
assert jax.jit(call)(x).tolist() == [0, 2, 4, 6]
with pytest.raises(Exception, match="nobody"):
    jax.jit(jax.ffi.ffi_call("nobody", like))(x)
print("ok")
