"""JAX programs on the plugin, each in its own process, because JAX reads JAX_PLATFORMS once.

Each program in `programs/` checks its results, mostly against JAX's own CPU, and prints `ok` at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def run(*arguments: str, platforms: str = "xlapy,cpu", flags: str = "") -> subprocess.CompletedProcess[str]:
    flags = f"--verify_buffers {flags}"
    environment = {**os.environ, "JAX_PLATFORMS": platforms, "XLAPY_FLAGS": flags, "PYTHONPATH": str(Path.cwd())}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_program(program):
    for needed in ("optax", "flax", "equinox", "diffrax", "numpyro"):
        if f"import {needed}" in program.read_text():
            pytest.importorskip(needed)
    done = run(str(program), flags="--num_devices=4" if program.stem.startswith("devices") else "")
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1:] == ["ok"]
    assert "Exception in thread" not in done.stderr, done.stderr[-4000:]  # ends only that thread


def test_the_plugin_is_not_loaded_unless_requested():
    module = "xlapy.pjrt.c_api.native_library"
    code = f"import jax, sys; jax.numpy.ones(3); print(jax.default_backend(), '{module}' in sys.modules)"
    for platforms in ("", "cpu"):
        done = run("-c", code, platforms=platforms)
        assert done.stdout.split() == ["cpu", "False"], done.stderr
        assert "xlapy" not in done.stderr


def test_the_plugin_enables_the_cpu_for_callbacks():
    done = run("-c", "import jax; print(jax.default_backend(), jax.devices('cpu')[0].platform)", platforms="xlapy")
    assert done.stdout.split() == ["xlapy", "cpu"], done.stderr


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise ValueError('end')", "import os; os._exit(3)"])
def test_process_exit(end):
    """Arrays, functions and host memory are still alive at exit."""
    code = (
        "import jax, jax.numpy as jnp, numpy as np\n"
        "f = jax.jit(lambda x: jnp.sin(x) @ x)\n"
        "x = jax.device_put(np.ones((200, 200), np.float32)); y = f(x); z = np.asarray(y)\n" + end
    )
    done = run("-c", code)
    expected = {"": 0, "raise ValueError('end')": 1}.get(end, 3)
    assert done.returncode == expected, done.stderr
    assert ("ValueError: end" in done.stderr) == ("ValueError" in end)
    assert "Fatal" not in done.stderr and "Check failed" not in done.stderr


LONG = """
import atexit, os, signal, threading, time
atexit.register(lambda: print(np.asarray(y)[0], np.asarray(jax.jit(lambda v: v * 3)(y + 1))[0]))
import jax, jax.numpy as jnp, numpy as np
y = jax.jit(lambda v: jax.lax.fori_loop(0, 100_000, lambda i, c: jnp.sin(c) * 0, v))(jnp.ones(1000))
"""


TOGETHER = """
import atexit, jax, numpy as np
from jax.sharding import PartitionSpec as P
atexit.register(lambda: print(np.asarray(y)[0], np.asarray(y + 3)[-1]))
mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
step = jax.shard_map(lambda c: jax.lax.psum(c, "i") * 0, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
x = jax.device_put(np.ones(8, np.float32), jax.sharding.NamedSharding(mesh, P("i")))
y = jax.jit(lambda v: jax.lax.fori_loop(0, 2000, lambda i, c: step(c), v))(x)
"""


@pytest.mark.parametrize("program", [LONG, TOGETHER], ids=["alone", "together"])
@pytest.mark.parametrize("end", ["", "raise ValueError('end')"])
def test_process_exit_waits_for_running_launches(program, end):
    """Exit handlers may still use JAX."""
    done = run("-c", program + end, flags="--num_devices=4")
    assert done.returncode == bool(end) and done.stdout.split() == ["0.0", "3.0"], done.stderr
    assert "Fatal" not in done.stderr and "Check failed" not in done.stderr


@pytest.mark.parametrize("devices", [1, 4])
def test_interrupts_end_waits_and_then_running_launches(devices):
    code = f"""
import os, signal, threading, time, jax, numpy as np
from jax.sharding import PartitionSpec as P
mesh = jax.make_mesh(({devices},), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.device_put(np.ones(4000, np.float32), jax.sharding.NamedSharding(mesh, P("i")))
y = jax.jit(lambda v: jax.lax.while_loop(lambda c: c.sum() >= 0, jax.numpy.abs, v))(x)
def interrupt():
    while True:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    y.block_until_ready()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    done = run("-c", code, flags="--num_devices=4")
    assert done.stdout.split() == ["interrupted"], done.stderr
    assert "Fatal" not in done.stderr


def test_invalid_flags_are_errors_of_jax():
    done = run("-c", "import jax; jax.devices()", flags="--num_devices=0")
    assert done.returncode == 1
    assert "--num_devices is at least 1, given 0" in done.stderr


@pytest.mark.parametrize(("asked", "flags", "devices"), [(-1, "", 1), (3, "", 3), (2, "--num_devices=4", 4)])
def test_the_number_of_devices_follows_the_flag_or_jax(asked, flags, devices):
    code = f"import jax; jax.config.update('jax_num_cpu_devices', {asked}); print(len(jax.devices()))"
    assert run("-c", code, flags=flags).stdout.split() == [str(devices)]


def test_executables_run_in_other_processes(tmp_path):
    """Uses jax.experimental.serialize_executable. Executables of several devices keep their shardings."""
    write = f"""
import pickle, jax, jax.numpy as jnp, pytest
from jax.experimental.serialize_executable import serialize
from jax.sharding import PartitionSpec as P
mesh = jax.make_mesh((2,), ("d",))
split = jax.NamedSharding(mesh, P("d"))
x, parts = jnp.arange(6.0), jax.device_put(jnp.arange(6.0), split)
functions = [(jax.jit(lambda v: (jnp.sin(v), v.sum())), x), (jax.jit(lambda v: v * 2, out_shardings=split), parts)]
compiled = [serialize(function.lower(given).compile()) for function, given in functions]
pickle.dump(compiled, open({str(tmp_path / "compiled")!r}, "wb"))
calls = jax.jit(lambda v: jax.pure_callback(lambda w: w, jax.typeof(x), v)).lower(x).compile()
with pytest.raises(jax.errors.JaxRuntimeError, match="calls Python functions of this process"):
    serialize(calls)
"""
    read = f"""
import pickle, jax, jax.numpy as jnp, numpy as np
from jax.experimental.serialize_executable import deserialize_and_load as load
plain, split = pickle.load(open({str(tmp_path / "compiled")!r}, "rb"))
x, devices = jnp.arange(6.0), jax.devices()
sine, total = load(*plain, execution_devices=devices[:1])(x)
assert np.allclose(sine, np.sin(x)) and total == 15
double = load(*split, execution_devices=devices)
(wanted,), _ = double.input_shardings
assert double.output_shardings == wanted and len(wanted.device_set) == 2
assert np.asarray(double(jax.device_put(x, wanted))).tolist() == [0, 2, 4, 6, 8, 10]
print("ok")
"""
    for code in (write, read):
        done = run("-c", code, flags="--num_devices=2")
        assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["ok"]


def test_the_persistent_cache_of_jax(tmp_path):
    code = f"""
import collections, jax, jax.numpy as jnp, numpy as np, warnings
warnings.simplefilter("error")
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_raise_persistent_cache_errors", True)
seen = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: seen.update([event.rsplit("/", 1)[1]]))
jax.jit(lambda v: jnp.sin(v) @ v)(jax.device_put(np.ones(2)))
jax.jit(lambda v: jax.debug.callback(lambda w: print(np.asarray(w).sum()), v))(jax.device_put(np.ones(2)))
jax.effects_barrier()
print(seen["cache_hits"], seen["cache_misses"])
"""
    outputs = [run("-c", code, flags=flags).stdout.split() for flags in ("", "", "--denormals=keep")]
    assert outputs == [["2.0", "0", "1"], ["2.0", "1", "0"], ["2.0", "0", "1"]]


@pytest.mark.parametrize(("rounds", "runs"), [(0, 50_000), (3, 10_000)])
def test_dispatches_do_not_leak(rounds, runs):
    """Runs short programs, and loops of unknown trip count, which run asynchronously."""
    code = f"""
import resource, jax, jax.numpy as jnp
f = jax.jit(lambda x, y, n: (x + y, jax.lax.fori_loop(0, n, lambda i, v: v * y, x) if {rounds} else x * y))
g = jax.jit(lambda x, y: (x * y, x - y), donate_argnums=0)
x = jnp.ones(1000)
def run(times):
    for _ in range(times): g(*f(x, x, {rounds}))
    x.block_until_ready()
run(1000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run({runs} // 2)
f(x, x, {rounds})[1].block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, jax.devices()[0].memory_stats()["bytes_in_use"])
"""
    grown, used = map(int, run("-c", code).stdout.split())
    assert grown < 2000 and used < 200_000
