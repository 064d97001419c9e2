"""Programs that native code runs, calling Python functions from there: values, errors, threads and nested calls."""

import gc
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from tests.threads import run_in_threads
from xlapy.custom_calls.registry import register_custom_call_target, unregister_custom_call_target
from xlapy.pjrt.objects import executable as executables


def shapes(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def runs_natively(name):
    loaded = [one for one in executables._executables.values() if name in one.executable.name]
    return any(one.record["calls_python"] for one in loaded)


def test_values_of_all_types_and_sizes():
    arrays = [
        np.float32(1.5), np.ones((2, 3), np.int8), np.zeros((0, 3), np.float32), np.array([True, False]),
        jnp.arange(5, dtype=jnp.bfloat16), np.arange(200_000, dtype=np.float32).reshape(2, 100_000),
        np.array([1 + 2j], np.complex64), np.arange(2048, dtype=np.uint16), np.ones((), jnp.float8_e4m3fn),
    ]  # fmt: skip

    def typed_values(*given):
        return jax.pure_callback(lambda *x: tuple(x[::-1]), tuple(shapes(arrays))[::-1], *given)

    arrays = list(map(jnp.asarray, arrays))
    found = jax.jit(typed_values)(*arrays)
    assert runs_natively("typed_values")
    for got, want in zip(found, arrays[::-1], strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_several_callbacks_run_in_order():
    seen = []

    def several(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x)
        y = io_callback(lambda v: np.float32(v + 1), shapes(x), x)
        jax.debug.callback(lambda v: seen.append(float(v)), y)
        return y * 2

    run = jax.jit(several)
    for number in range(3):
        seen.clear()
        assert float(run(jnp.float32(number))) == 2 * number + 2
        jax.effects_barrier()
        assert sorted(seen) == [number, number + 1]
    assert runs_natively("several")


def test_a_callback_may_keep_its_operands():
    kept = []

    def keeping(x):
        return jax.pure_callback(lambda v: (kept.append(np.asarray(v)), v)[1], shapes(x), x)

    run = jax.jit(keeping)
    for number in range(4):
        run(jnp.full(3, number, jnp.float32) + 0).block_until_ready()
    assert [one.tolist() for one in kept] == [[n] * 3 for n in range(4)]


def failing(x):
    def callback(v):
        if v > 1:
            raise ValueError(f"no {float(v)}")
        return v

    y = jax.pure_callback(lambda v: v, shapes(x), x)
    return jax.pure_callback(callback, shapes(x), y)


def test_errors_end_the_call_and_no_other():
    run = jax.jit(failing)
    for _ in range(2):
        assert float(run(jnp.float32(1))) == 1
        try:
            run(jnp.float32(2)).block_until_ready()
            raise AssertionError("it ran")
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            assert "ValueError: no 2.0" in str(error)
    assert runs_natively("failing")


def test_results_of_other_types_are_refused():
    for result, message in ((np.zeros(3, np.float32), "shape"), (np.zeros(2, np.int32), "dtype")):
        run = jax.jit(
            lambda x, result=result: jax.pure_callback(lambda _: result, jax.ShapeDtypeStruct((2,), jnp.float32), x)
        )
        try:
            run(jnp.ones(2)).block_until_ready()
            raise AssertionError("it ran")
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            assert f"Incorrect output {message} for return value #0" in str(error)


def test_an_interrupt_in_a_callback_ends_the_call():
    def interrupted(x):
        def callback(_):
            raise KeyboardInterrupt

        return jax.pure_callback(callback, shapes(x), x)

    try:
        jax.jit(interrupted)(jnp.float32(1)).block_until_ready()
        raise AssertionError("it ran")
    except (jax.errors.JaxRuntimeError, ValueError, KeyboardInterrupt):
        pass
    assert float(jax.jit(lambda x: x + 1)(1.0)) == 2


def test_nested_calls_and_threads():
    """A callback that got the arguments of another thread's call, or of the outer call, would return another value."""
    inner = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, shapes(x), x) + 1)

    def nesting(x):
        return jax.pure_callback(lambda v: np.asarray(inner(jnp.asarray(np.asarray(v)))), shapes(x), x)

    run = jax.jit(nesting)

    def work(number):
        return [float(run(jnp.float32(100 * number + n))) for n in range(20)]

    assert run_in_threads(4, work) == [[2 * (100 * k + n) + 1 for n in range(20)] for k in range(4)]


def test_errors_belong_to_their_threads():
    """An error that is kept in one place for all calls would end the call of another thread."""
    run = jax.jit(failing)

    def work(number):
        found = []
        for _ in range(10):
            try:
                found.append(float(run(jnp.float32(number))))
            except (jax.errors.JaxRuntimeError, ValueError) as error:
                found.append("ValueError: no " + str(float(number)) in str(error))
        return found

    assert run_in_threads(4, work) == [[0.0] * 10, [1.0] * 10, [True] * 10, [True] * 10]


def test_arguments_that_are_not_ready_and_donated_ones():
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 200_000, lambda i, c: jnp.sin(c) * 0 + c, x))
    run = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) + 1, shapes(x), x) * 2, donate_argnums=0)
    pending = slow(jnp.ones(500))
    np.testing.assert_array_equal(np.asarray(run(pending)), np.full(500, 4))
    assert pending.is_deleted()
    np.testing.assert_array_equal(np.asarray(run(jnp.ones(500))), np.full(500, 4))


def test_registered_targets_are_found_again():
    run = jax.jit(lambda x: jax.pure_callback(lambda v: v, shapes(x), x))
    assert float(run(jnp.float32(1))) == 1
    register_custom_call_target("another", lambda x: x)
    assert float(run(jnp.float32(2))) == 2
    unregister_custom_call_target("another")
    assert float(run(jnp.float32(3))) == 3


def test_a_callback_that_refers_to_its_program_is_freed():
    class Large:
        pass

    def make():
        held = Large()

        def referring(x):
            return jax.pure_callback(lambda v: (held, run)[1] and v, shapes(x), x)

        run = jax.jit(referring)
        assert float(run(jnp.float32(1))) == 1
        assert runs_natively("referring")
        return weakref.ref(held)

    held = make()
    jax.clear_caches()
    for _ in range(50):
        gc.collect()
        if held() is None:
            return
        time.sleep(0.05)
    raise AssertionError("it is not freed")


for name, test in sorted(globals().items()):
    if name.startswith("test_"):
        test()
print("ok")
