"""Many programs in many threads at once, thread pools of any size, and processes that fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np

import xlapy as xla

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

LOOP = """
HloModule loop
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
below {{ s = (s32[], f32[{rows},{columns}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)  ROOT r = pred[] compare(i, n), direction=LT }}
next {{ s = (s32[], f32[{rows},{columns}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[{rows},{columns}] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  zero = f32[] constant(0)  v = f32[{columns}] reduce(x, zero), dimensions={{0}}, to_apply=add
  w = f32[{columns}] tanh(v)  b = f32[{rows},{columns}] broadcast(w), dimensions={{1}}
  y = f32[{rows},{columns}] add(x, b)  ROOT r = (s32[], f32[{rows},{columns}]) tuple(j, y) }}
ENTRY main {{ x = f32[{rows},{columns}] parameter(0)  zero = s32[] constant(0)
  t = (s32[], f32[{rows},{columns}]) tuple(zero, x)
  w = (s32[], f32[{rows},{columns}]) while(t), condition=below, body=next
  ROOT y = f32[{rows},{columns}] get-tuple-element(w), index=1 }}
"""

HASH = """
import hashlib, numpy as np, xlapy as xla
x = np.random.default_rng(0).standard_normal((333, 1001)).astype(np.float32)
for text in {texts!r}:
    print(hashlib.sha256(np.asarray(xla.Client("cpu").compile(text)(x)).tobytes()).hexdigest())
"""


def compiled(rows: int, columns: int) -> tuple[xla.Executable, np.ndarray, np.ndarray]:
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    e = np.exp(x.astype(np.float64))
    return xla.Client("cpu").compile(TEXT.format(rows=rows, columns=columns)), x, e / e.sum(1, keepdims=True)


def test_several_programs_in_several_threads():
    sizes = (5, 17, 100, 256, 777, 1000, 2048, 4097)
    programs = [compiled(rows, columns) for rows in (3, 64, 500) for columns in sizes]
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(40):
            executable, x, expected = programs[(number * 7 + turn) % len(programs)]
            if not np.allclose(np.asarray(executable(x)), expected, rtol=1e-5):
                wrong.append(f"thread {number}, turn {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_bits_do_not_depend_on_the_number_of_threads():
    script = HASH.format(texts=[text.format(rows=333, columns=1001) for text in (TEXT, LOOP)])
    hashes = set()
    for count in (1, 2, 3, 8):
        environment = {**os.environ, "XLAPY_FLAGS": f"--num_threads={count}"}
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        hashes.add(run.stdout)
    assert len(hashes) == 1


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
