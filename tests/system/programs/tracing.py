"""Traces of `jax.profiler`: the launches of programs, their operations, and the times of each."""

import gzip
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from jax.profiler import ProfileData

from tests.threads import run_in_threads
from xlapy.cpu.llvm.instrumentation import counters

PLANE = "/device:CUSTOM:xlapy:0"


QUIET = jax.profiler.ProfileOptions()
QUIET.python_tracer_level = 0


def traced(work):
    """Returns the device's lines in a trace of `work`: (name, start, end, stats) of each event, in nanoseconds."""
    _, _, lines = profile(work)
    return lines


def profile(work, options=QUIET, **more):
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options, **more):
            result = work()
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = ProfileData.from_file(str(path))
        perfetto = [json.loads(gzip.decompress(file.read_bytes())) for file in Path(folder).rglob("perfetto*")]
    planes = {plane.name: plane for plane in data.planes}
    return result, perfetto, lines_of(planes[PLANE])


def lines_of(plane):
    return {
        line.name: [(event.name, event.start_ns, event.end_ns, dict(event.stats)) for event in line.events]
        for line in plane.lines
    }


@jax.jit
def step(w, x):
    return jax.lax.fori_loop(0, 7, lambda _, w: w @ x, w), jnp.sum(jnp.exp(x), axis=0)


def test_each_launch_and_operation_is_recorded():
    w, x = (jnp.asarray(np.random.default_rng(seed).normal(size=(96, 96)), jnp.float32) for seed in (0, 1))
    before = step(w, x)

    def work():
        return [jax.block_until_ready(step(w, x)) for _ in range(3)]

    results, (perfetto,), lines = profile(work, create_perfetto_trace=True)
    for result in results:
        assert all(np.array_equal(one, other) for one, other in zip(result, before, strict=True))
    runs = lines["XLA Modules"]
    assert [run[0] for run in runs] == ["jit_step"] * 3
    assert [run[3]["run_id"] for run in runs] == [1, 2, 3]
    assert all(one[2] <= other[1] + 1 for one, other in pairwise(runs))
    for _, start, end, stats in lines["XLA Ops"]:
        run = runs[stats["run_id"] - 1]
        assert run[1] - 1 <= start <= end <= run[2] + 1
        assert stats["hlo_module"] == "jit_step"
    names = [op[3]["hlo_op"] for op in lines["XLA Ops"]]
    dots = [op for op in lines["XLA Ops"] if op[3]["hlo_op"].startswith("dot_general")]
    loops = [op for op in lines["XLA Ops"] if op[3]["hlo_op"].startswith("while")]
    assert len(dots) == 21 and names.count(dots[0][3]["hlo_op"]) == 21
    longest = max(loops, key=lambda op: op[2] - op[1])
    inside = [op for op in dots if longest[1] - 1 <= op[1] and op[2] <= longest[2] + 1]
    assert len(inside) == 7
    shown = [event for event in perfetto["traceEvents"] if event.get("name") == dots[0][0]]
    about = shown[0]["args"]
    assert len(shown) >= 21 and about["hlo_category"] == "dot" and int(about["bytes_accessed"]) == 3 * 4 * 96**2
    assert about["tf_op"].endswith("dot_general") and "tracing.py:" in about["source"]
    assert "f32[96,96]" in about["long_name"]


def test_times_are_those_of_the_host():
    x = jnp.ones(100_000)
    f = jax.jit(lambda x: jnp.sin(x) * 2)
    f(x).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=QUIET):
            f(x).block_until_ready()  # compiles the instrumented copy
            with jax.profiler.StepTraceAnnotation("train", step_num=5), jax.profiler.TraceAnnotation("mine"):
                f(x).block_until_ready()
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = ProfileData.from_file(str(path))
    host = [event for line in data.find_plane_with_name("/host:CPU").lines for event in line.events]
    (train,) = [event for event in host if event.name == "train"]
    (mine,) = [event for event in host if event.name == "mine"]
    assert dict(train.stats)["step_num"] == 5
    runs = lines_of(data.find_plane_with_name(PLANE))["XLA Modules"]
    assert len(runs) == 2 and runs[0][2] < mine.start_ns
    assert mine.start_ns - 20_000 <= runs[1][1] <= runs[1][2] <= mine.end_ns + 20_000


def test_callbacks_and_programs_inside_them_are_recorded():
    """Callbacks into Python, JAX's own programs inside them, and donation."""

    def work():
        y = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, x, x) + 1)(jnp.arange(4.0))
        z = jax.jit(lambda x: x * 3, donate_argnums=0)(jnp.full((1000,), 2.0))
        return np.asarray(y), np.asarray(z)

    (y, z), _, lines = profile(work)
    assert y.tolist() == [1, 3, 5, 7] and (z == 6).all()
    runs = [run[0] for run in lines["XLA Modules"]]
    assert runs.count("jit__lambda_") == 2 or runs.count("jit__lambda") == 2, runs
    assert any("callback" in op[3]["hlo_op"] for op in lines["XLA Ops"]), lines["XLA Ops"]


def test_overlapping_launches_have_separate_lines():
    """A line on which launches overlap, or an operation outside of its launch, comes from times of another thread."""
    f = jax.jit(lambda x: jnp.sin(x).sum())
    g = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda i, v: jnp.cos(v), x))
    x = jnp.ones(10_000)

    def many(number):
        for _ in range(20):
            (f, g)[number % 2](x).block_until_ready()

    lines = traced(lambda: run_in_threads(4, many))
    runs = [run for name, events in lines.items() if name.startswith("XLA Modules") for run in events]
    assert len(runs) == 80 and len({run[3]["run_id"] for run in runs}) == 80
    for name, events in lines.items():
        if name.startswith("XLA Modules"):
            assert all(one[2] <= other[1] + 1 for one, other in pairwise(events))
    ops = [op for name, events in lines.items() if name.startswith("XLA Ops") for op in events]
    whole = {run[3]["run_id"]: run for run in runs}
    for _, start, end, stats in ops:
        run = whole[stats["run_id"]]
        assert run[1] - 1 <= start <= end <= run[2] + 1 and run[0] == stats["hlo_module"]


def test_unfinished_launches_are_recorded_partially():
    long = jax.jit(lambda v: jax.lax.fori_loop(0, 4000, lambda i, c: jnp.sin(c), v))
    x = jnp.ones(20_000)
    expected = np.asarray(long(x))

    def work():
        long(x).block_until_ready()
        results = [long(x) for _ in range(3)]
        time.sleep(0.02)
        return results

    results, _, lines = profile(work)
    runs = lines["XLA Modules"]
    assert 1 <= len(runs) <= 4 and "unfinished" not in runs[0][3]
    assert all("unfinished" not in run[3] for run in runs[:-1])
    for result in results:
        assert np.array_equal(result, expected)
    again = traced(lambda: long(x).block_until_ready())
    assert [run[0] for run in again["XLA Modules"]] == [runs[0][0]]


def test_long_loops_are_recorded_partially():
    many = jax.jit(lambda v: jax.lax.while_loop(lambda s: s[0] < 5000, lambda s: (s[0] + 1, s[1] @ s[1]), v))
    with tempfile.TemporaryDirectory() as folder, patch.object(counters, "MAX_EVENTS_IN_LOOPS", 1500):
        with jax.profiler.trace(folder, profiler_options=QUIET):
            jax.block_until_ready(many((0, jnp.eye(40))))
        (path,) = Path(folder).rglob("*.xplane.pb")
        plane = ProfileData.from_file(str(path)).find_plane_with_name(PLANE)
        lines, (dropped,) = lines_of(plane), [text for name, text in plane.stats if name == "dropped"]
    (loop,) = [op for op in lines["XLA Ops"] if op[0].startswith("while")]
    inside = [op for op in lines["XLA Ops"] if op[0] == "dot_general"]
    assert 100 < len(inside) <= 1500 and all(loop[1] - 1 <= op[1] <= op[2] <= loop[2] + 1 for op in inside)
    count, of = dropped.split(" thunks of ")
    assert int(count) + len(inside) > 5000 and of == "jit__lambda"


def test_one_trace_at_a_time():
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder)
        try:
            jax.profiler.start_trace(folder)
        except RuntimeError as error:
            assert "already been started" in str(error)
        else:
            raise AssertionError("two traces at the same time")
        jax.profiler.stop_trace()


def test_errors_pass_through():
    f = jax.jit(lambda x: jax.pure_callback(lambda v: 1 // 0, jax.ShapeDtypeStruct((), jnp.int32), x) + 1)

    def work():
        try:
            f(1).block_until_ready()
        except Exception as error:
            return str(error)
        return ""

    assert "division" in work()
    message, _, lines = profile(work)
    assert "division" in message and len(lines["XLA Modules"]) == 1
    assert "division" in work()


def test_host_levels():
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level = 0
    _, _, lines = profile(lambda: jax.jit(lambda x: x + 1)(1.0).block_until_ready(), options)
    assert len(lines["XLA Modules"]) >= 1


def test_memory_profile():
    kept = jnp.ones((512, 1024))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.prof"
        jax.profiler.save_device_memory_profile(path)
        data = gzip.decompress(path.read_bytes())
    assert kept.nbytes == 1 << 21 and b"buffer" in data and b"tracing.py" in data


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
print("ok")
