"""Many programs in many threads at once, thread pools of any size, and processes that fork."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import xlapy as xla
from tests.threads import run_in_threads

TEXT = """
HloModule rows
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  zero = f32[] constant(0)
  e = f32[{rows},{columns}] exponential(x)
  s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add
  t = f32[{rows},{columns}] broadcast(s), dimensions={{0}}
  ROOT r = f32[{rows},{columns}] divide(e, t)
}}
"""

SUMS = {
    "total": ("ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add", "x.sum()"),
    "flat total": (
        "g = f32[262144] slice(f), slice={[0:262144]} ROOT r = f32[] reduce(g, z), dimensions={0}, to_apply=add",
        "x.reshape(-1)[:262144].sum()",
    ),
    "rows": ("ROOT r = f32[333] reduce(x, z), dimensions={1}, to_apply=add", "x.sum(1)"),
    "columns": ("ROOT r = f32[1001] reduce(x, z), dimensions={0}, to_apply=add", "x.sum(0)"),
    "product": ("ROOT r = f32[333,333] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "x @ x.T"),
    "matrix times vector": ("v = f32[1001] slice(f), slice={[0:1001]} "
        "ROOT r = f32[333] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "x @ x[0]"),
    "cumulative": ("ROOT r = f32[333333] reduce-window(f, z), window={size=333333 pad=333332_0}, to_apply=add",
        "x.reshape(-1).cumsum()"),
    "scatter": ("i = s32[333333] iota(), iota_dimension=0  n = s32[] constant(7) "
        "m = s32[333333] broadcast(n), dimensions={}  j = s32[333333] remainder(i, m) "
        "u = s32[333333,1] reshape(j)  o = f32[7] broadcast(z), dimensions={} "
        "ROOT r = f32[7] scatter(o, u, f), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        "[x.reshape(-1)[k::7].sum() for k in range(7)]"),
    "convolution": ("s = f32[999] slice(f), slice={[0:999]} "
        "a = f32[1,333,1001,1] reshape(x)  k = f32[333,3,1,1] reshape(s) "
        "ROOT r = f32[1,1,999,1] convolution(a, k), window={size=333x3}, dim_labels=b01f_01io->b01f",
        "[(x[:, c:c + 3] * x.reshape(-1)[:999].reshape(333, 3)).sum() for c in range(999)]"),
    "attention": ("q = f32[333,64] slice(x), slice={[0:333], [0:64]} "
        "k = f32[333,64] slice(x), slice={[0:333], [64:128]} "
        "v = f32[333,64] slice(x), slice={[0:333], [128:192]} "
        "s = f32[333,333] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1} "
        "n = f32[] constant(0.1)  m = f32[333,333] broadcast(n), dimensions={}  t = f32[333,333] multiply(s, m) "
        "p = f32[333,333] exponential(t)  l = f32[333] reduce(p, z), dimensions={1}, to_apply=add "
        "b = f32[333,333] broadcast(l), dimensions={0}  w = f32[333,333] divide(p, b) "
        "ROOT r = f32[333,64] dot(w, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "(lambda p: p / p.sum(1, keepdims=True))(np.exp(x[:, :64] @ x[:, 64:128].T * 0.1)) @ x[:, 128:192]"),
}  # fmt: skip
"""Programs with sums over 333 x 1001 numbers (`f`: in one dimension), and NumPy's form."""

DIGESTS = f"""
import hashlib, os, numpy as np, xlapy as xla
x = np.random.default_rng(0).standard_normal((333, 1001)).astype(np.float32)
digests, correct = [], 0
for body, form in {list(SUMS.values())!r}:
    text = '''HloModule m
    add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
    ENTRY e {{ x = f32[333,1001] parameter(0)  z = f32[] constant(0)  f = f32[333333] reshape(x)
      ''' + body + " }}"
    result = np.asarray(xla.Client("cpu").compile(text)(x))
    expected = np.asarray(eval(form, {{"np": np, "x": x.astype(np.float64)}})).reshape(result.shape)
    correct += bool(np.abs(result - expected).max() < 0.05 < np.abs(expected).max())
    digests.append(hashlib.sha256(result.tobytes()).hexdigest())
print(len(os.listdir("/proc/self/task")), correct, *digests)
"""


def compiled(rows: int, columns: int) -> tuple[xla.Executable, np.ndarray, np.ndarray]:
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    e = np.exp(x.astype(np.float64))
    return xla.Client("cpu").compile(TEXT.format(rows=rows, columns=columns)), x, e / e.sum(1, keepdims=True)


def test_several_programs_in_several_threads():
    """Eight threads call 24 programs in the same order, so that calls of one program overlap.

    Catches a pool that gives one caller's work to another or returns before the work is done, and programs whose runs
    share memory: each thread has arguments and results of its own.
    """
    sizes = (5, 17, 100, 256, 777, 1000, 2048, 4097)
    programs = [compiled(rows, columns) for rows in (3, 64, 500) for columns in sizes]

    def work(number: int) -> int:
        correct = 0
        for turn in range(40):
            executable, x, expected = programs[turn % len(programs)]
            result = np.asarray(executable(np.roll(x, number, axis=1)))
            correct += np.allclose(result, np.roll(expected, number, axis=1), rtol=1e-5)
        return correct

    assert run_in_threads(8, work) == [40] * 8


def test_the_bits_do_not_depend_on_the_number_of_threads():
    """Every kernel that divides a sum among threads, or might: a total, columns, products, scans, scatters.

    Catches a division of sums that follows from the number of threads. The results are compared with NumPy as well, so
    that equal results are not equally wrong.
    """
    results = []
    for count in (1, 3, 8):
        environment = {**os.environ, "XLAPY_FLAGS": f"--num_threads={count}"}
        run = subprocess.run([sys.executable, "-c", DIGESTS], capture_output=True, check=True, env=environment)
        threads, correct, *digests = run.stdout.decode().split()
        assert int(threads) >= count and int(correct) == len(digests) == len(SUMS)
        results.append(digests)
    assert results[1:] == results[:1] * 2


def test_a_forked_process_computes_too():
    """The child's pool has lost its threads, so the calling thread does the work."""
    executable, x, expected = compiled(500, 1000)
    np.testing.assert_allclose(np.asarray(executable(x)), expected, rtol=1e-5)
    child = os.fork()
    if child == 0:
        same = np.allclose(np.asarray(executable(x)), expected, rtol=1e-5)
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_memory_does_not_grow():
    executable, x, _ = compiled(64, 1000)
    for _ in range(50):
        executable(x)
    before = resident()
    for _ in range(3000):
        executable(x)
    assert resident() - before < 8 << 20


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


COUNTED = """
define internal void @count(ptr %counts, i64 %begin, i64 %end) {
entry:
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %j, %next ]
  %place = getelementptr i32, ptr %counts, i64 %i
  %before = atomicrmw add ptr %place, i32 1 monotonic
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %end
  br i1 %more, label %next, label %over
over:
  ret void
}
define i64 @drive(ptr %parallel, ptr %counts, i64 %rounds) {
entry:
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %following, %good ]
  %odd = trunc i64 %r to i1
  %size = select i1 %odd, i64 2, i64 64
  call void %parallel(ptr @count, ptr %counts, i64 %size, i64 1, ptr null, i64 0, i64 0)
  br label %check
check:
  %i = phi i64 [ 0, %round ], [ %j, %fine ]
  %place = getelementptr i32, ptr %counts, i64 %i
  %found = load atomic i32, ptr %place monotonic, align 4
  %once = icmp eq i32 %found, 1
  br i1 %once, label %fine, label %bad
fine:
  store atomic i32 0, ptr %place monotonic, align 4
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %size
  br i1 %more, label %check, label %good
good:
  %following = add i64 %r, 1
  %again = icmp ult i64 %following, %rounds
  br i1 %again, label %round, label %over
bad:
  ret i64 %r
over:
  ret i64 %rounds
}
"""
"""Alternates jobs of 64 and of 2 chunks, each of which must run once; prints the number of the first wrong job."""

DRIVE = f"""
import ctypes
from xlapy.cpu.llvm.jit import compile_text
from xlapy.cpu.llvm.pool import parallel_function
code = compile_text({COUNTED!r}, ["drive"], {{}})
drive = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.addresses["drive"])
print(drive(parallel_function().address, (ctypes.c_int32 * 64)(), 600_000))
"""


def test_late_threads_take_no_work_of_the_next_job():
    environment = {**os.environ, "XLAPY_FLAGS": "--num_threads=8"}
    given = subprocess.run(
        [sys.executable, "-c", DRIVE], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert given.stdout == "600000\n"
