"""Calls many programs from many threads at once; checks results and that memory, threads and files do not grow.

    python benchmarks/stress.py [--calls 10000] [--threads 8] [--iterations 100000]

Each thread calls programs that all threads share and programs of its own: small and large arrays, donated buffers,
loops, native and Python targets, programs loaded from bytes, programs on several devices. Every result is checked.
Resident memory, threads and open files after a warm-up are compared with those at the end. Then eight devices exchange
data in a loop of many iterations.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import xlapy as xla

ALLOWED_GROWTH_BYTES = 24 << 20
"""The allowed growth of resident memory in bytes: an allowance for the C library's allocator, which keeps freed
memory."""

RETAINED_BYTES_PER_PROGRAM = 12 << 10
"""The bytes that LLVM does not free for each program that was compiled or loaded, even after the program is freed."""

ADD = "HloModule add\nENTRY e { x = f32[N] parameter(0)  y = f32[N] parameter(1)  ROOT r = f32[N] add(x, y) }"
LOOP = """HloModule loop
less { s = (s32[], f32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(7)
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[N] get-tuple-element(s), index=1  y = f32[N] add(x, x)  one = s32[] constant(1)  j = s32[] add(i, one)
  ROOT r = (s32[], f32[N]) tuple(j, y) }
ENTRY e { x = f32[N] parameter(0)  i = s32[] constant(0)  s = (s32[], f32[N]) tuple(i, x)
  w = (s32[], f32[N]) while(s), condition=less, body=step  ROOT r = f32[N] get-tuple-element(w), index=1 }"""
CUSTOM_CALL = """HloModule custom_call
ENTRY e { x = f32[N] parameter(0)  y = f32[N] custom-call(x), custom_call_target="stress.negate"
  ROOT r = f32[N] add(y, x) }"""
ALL_REDUCE = """HloModule all_reduce, replica_count=3
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[N] parameter(0)  ROOT r = f32[N] all-reduce(x), replica_groups={{0,1,2}}, to_apply=add }"""

DEVICES = 8
MODULUS = 10_007
COLLECTIVE_LOOP = """HloModule collective_loop, replica_count=8
add { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }
less { s = (s32[], s32[], s32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], s32[], s32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  x = s32[N] get-tuple-element(s), index=2
  one = s32[] constant(1)  j = s32[] add(i, one)  k = token[] after-all()
  id = u32[] replica-id()  d = s32[] convert(id)  e = s32[N] broadcast(d), dimensions={}  y = s32[N] add(x, e)
  t = (s32[N], u32[], token[]) send(y, k), RING  v = (s32[N], u32[], token[]) recv(k), RING
  u = token[] send-done(t)  w = (s32[N], token[]) recv-done(v)  a = s32[N] get-tuple-element(w), index=0
  p = s32[N] collective-permute(a), source_target_pairs={{0,3},{3,0},{1,2},{5,7}}
  q = s32[N] all-reduce(p), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=add
  g = s32[M] all-gather(q), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}
  f = s32[N] slice(g), slice={[0:N]}  h = s32[N] slice(g), slice={[N:M]}  z = s32[N] add(f, h)  b = s32[N] add(z, a)
  m = s32[] constant(10007)  c = s32[N] broadcast(m), dimensions={}  o = s32[N] remainder(b, c)
  ROOT r = (s32[], s32[], s32[N]) tuple(j, n, o) }
ENTRY e { n = s32[] parameter(0)  x = s32[N] parameter(1)  i = s32[] constant(0)
  s = (s32[], s32[], s32[N]) tuple(i, n, x)  w = (s32[], s32[], s32[N]) while(s), condition=less, body=step
  ROOT r = s32[N] get-tuple-element(w), index=2 }"""
"""Eight devices per iteration send around a ring, permute, sum within groups and gather across them."""

CheckedCall = Callable[[int], None]
"""A call of a program that checks its result. Its argument is a number that varies the operands."""


def checked_calls(client: xla.Client, size: int) -> list[CheckedCall]:
    """Compiles programs on arrays of `size` elements and returns calls of them."""

    def sized(text: str) -> str:
        return text.replace("f32[N]", f"f32[{size}]")

    add, loop, call = (client.compile(sized(text)) for text in (ADD, LOOP, CUSTOM_CALL))
    donating = client.compile(sized(ADD), donate=[0])
    loaded = client.deserialize(loop.serialize())
    all_reduce = client.compile(sized(ALL_REDUCE))
    ones = np.ones(size, np.float32)

    def sum_of_buffers(number: int) -> None:
        buffer = client.device_put(ones * number)
        expect(add(buffer, ones), number + 1)
        expect(add(buffer, buffer), 2 * number)

    def donation(number: int) -> None:
        arguments = client.device_put(ones * number)
        expect(donating(arguments, ones), number + 1)
        assert arguments.is_deleted()

    def chain(number: int) -> None:
        value = add(ones * number, ones)
        for _ in range(3):
            value = donating(value, ones)
        expect(value, number + 4)

    def devices(number: int) -> None:
        for result in all_reduce.execute_sharded([[ones * number], [ones], [ones]]):
            expect(result, number + 2)

    return [
        sum_of_buffers,
        donation,
        chain,
        devices,
        lambda number: expect(loop(ones * number), 128 * number),
        lambda number: expect(loaded(ones * number), 128 * number),
        lambda number: expect(call(ones * number), 0),
        lambda number: expect(client.deserialize(add.serialize())(ones * number, ones), number + 1),
    ]


CALLS_PER_SIZE = 8
"""The number of calls that `checked_calls` returns. The last of them loads a program each time."""


def run_collective_loop(size: int, count: int) -> None:
    """Runs the loop of eight devices on arrays of `size` elements for `count` iterations and checks its result."""
    ring = ",".join(f"{{{d},{(d + 1) % DEVICES}}}" for d in range(DEVICES))
    text = COLLECTIVE_LOOP.replace("RING", f'frontend_attributes={{_xla_send_recv_source_target_pairs="{{{ring}}}"}}')
    text = text.replace("[N]", f"[{size}]").replace("[M]", f"[{2 * size}]")
    text = text.replace("[0:N]", f"[0:{size}]").replace("[N:M]", f"[{size}:{2 * size}]")
    executable = xla.Client("cpu", devices=DEVICES).compile(text)
    values = list(range(DEVICES))
    arguments = [[np.int32(count), np.full(size, value, np.int32)] for value in values]
    for _ in range(count):
        sent = [(values[d - 1] + (d - 1) % DEVICES) for d in range(DEVICES)]
        total = (
            sent[0] + sent[1] + sent[3] + sent[5]
        )  # the sum, over members of both groups, of what the permutation delivers
        values = [(total + own) % MODULUS for own in sent]
    for result, value in zip(executable.execute_sharded(arguments), values, strict=True):
        expect(result, value)


def expect(result: object, value: int) -> None:
    array = np.asarray(result)
    if not (array == value).all():
        raise AssertionError(f"{array[array != value][:5]} where {value} is expected")


def run(threads: int, calls: int, shared: list[CheckedCall], client: xla.Client) -> None:
    """Distributes the calls over threads and raises the first error."""
    errors: list[BaseException] = []

    def body(thread: int) -> None:
        try:
            own = checked_calls(client, 5 + thread)
            everything = [*shared, *own]
            for number in range(calls // threads):
                everything[(number * 7 + thread) % len(everything)](number % 1000)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=body, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


def resource_use() -> dict[str, int]:
    """Returns the resident memory, the number of threads and the number of open files of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "resident bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "threads": len(os.listdir("/proc/self/task")),
        "open files": len(os.listdir("/proc/self/fd")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--dispatches", type=int, default=100_000)
    parser.add_argument("--iterations", type=int, default=100_000)
    options = parser.parse_args()
    xla.register_custom_call_target("stress.negate", np.negative)
    client = xla.Client("cpu", devices=3)
    shared = checked_calls(client, 1000) + checked_calls(client, 100_000)
    run(options.threads, options.calls // 4, shared, client)
    programs = options.calls // CALLS_PER_SIZE + options.threads * CALLS_PER_SIZE
    check_growth("calls", lambda: run(options.threads, options.calls, shared, client), options.calls, programs)
    add, ones = client.compile(ADD.replace("[N]", "[16]")), client.device_put(np.ones(16, np.float32))

    def dispatches() -> None:
        for _ in range(options.dispatches):
            add(ones, ones)

    check_growth("dispatches", dispatches, options.dispatches)
    run_collective_loop(5, options.iterations // 10)
    run_collective_loop(50_000, options.iterations // 1000)
    check_growth("iterations", lambda: run_collective_loop(5, options.iterations), options.iterations, 1)
    check_growth(
        "iterations on large arrays",
        lambda: run_collective_loop(50_000, options.iterations // 100),
        options.iterations // 100,
        1,
    )


def check_growth(what: str, work: Callable[[], None], count: int, programs: int = 0) -> None:
    """Runs `work`, which compiles or loads `programs` programs, and prints resource use; exits if more grew than is
    allowed.
    """
    before, begin = resource_use(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - begin, resource_use()
    print(f"{count} {what} in {seconds:.1f} s")
    for name, value in after.items():
        print(f"  {name}: {before[name]} before, {value} after")
    if (
        after["resident bytes"] - before["resident bytes"]
        > ALLOWED_GROWTH_BYTES + programs * RETAINED_BYTES_PER_PROGRAM
    ):
        raise SystemExit(f"memory grows with {what}")
    if any(after[name] > before[name] for name in ("threads", "open files")):
        raise SystemExit(f"threads or open files grow with {what}")


if __name__ == "__main__":
    main()
