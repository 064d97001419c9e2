"""Many calls from many threads at once: right results, and nothing that grows.

    python benchmarks/stress.py [--calls 10000] [--threads 8] [--rounds 100000]

Each thread calls programs that all share and programs of its own: small and large arrays, donated buffers, loops,
native and Python targets, programs loaded from bytes, programs on several devices. Every result is compared with what
it must be. Behind a first round for warming up, memory, threads and open files are compared with those at the end.
Then eight devices meet and send to each other in a loop of many rounds.
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

ALLOWED_GROWTH = 24 << 20
"""Bytes of resident memory: what the C library keeps for itself by the way."""

KEPT_OF_PROGRAMS = 12 << 10
"""Bytes that LLVM keeps of each program that was loaded or compiled, and is gone."""

ADD = "HloModule add\nENTRY e { x = f32[N] parameter(0)  y = f32[N] parameter(1)  ROOT r = f32[N] add(x, y) }"
LOOP = """HloModule loop
less { s = (s32[], f32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(7)
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[N] get-tuple-element(s), index=1  y = f32[N] add(x, x)  one = s32[] constant(1)  j = s32[] add(i, one)
  ROOT r = (s32[], f32[N]) tuple(j, y) }
ENTRY e { x = f32[N] parameter(0)  i = s32[] constant(0)  s = (s32[], f32[N]) tuple(i, x)
  w = (s32[], f32[N]) while(s), condition=less, body=step  ROOT r = f32[N] get-tuple-element(w), index=1 }"""
CALL = """HloModule call
ENTRY e { x = f32[N] parameter(0)  y = f32[N] custom-call(x), custom_call_target="stress.negate"
  ROOT r = f32[N] add(y, x) }"""
TOGETHER = """HloModule together, replica_count=3
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[N] parameter(0)  ROOT r = f32[N] all-reduce(x), replica_groups={{0,1,2}}, to_apply=add }"""

DEVICES = 8
MODULUS = 10_007
ROUNDS = """HloModule rounds, replica_count=8
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
"""Eight devices send around, permute, sum in groups and gather across them."""

Work = Callable[[int], None]
"""Takes a number, which makes calls differ."""


def works(client: xla.Client, size: int) -> list[Work]:
    """Calls of programs on arrays of a size; each checks its result."""

    def sized(text: str) -> str:
        return text.replace("f32[N]", f"f32[{size}]")

    add, loop, call = (client.compile(sized(text)) for text in (ADD, LOOP, CALL))
    donating = client.compile(sized(ADD), donate=[0])
    loaded = client.deserialize(loop.serialize())
    together = client.compile(sized(TOGETHER))
    ones = np.ones(size, np.float32)

    def sum_of_buffers(number: int) -> None:
        held = client.device_put(ones * number)
        expect(add(held, ones), number + 1)
        expect(add(held, held), 2 * number)

    def donation(number: int) -> None:
        given = client.device_put(ones * number)
        expect(donating(given, ones), number + 1)
        assert given.is_deleted()

    def chain(number: int) -> None:
        value = add(ones * number, ones)
        for _ in range(3):
            value = donating(value, ones)
        expect(value, number + 4)

    def devices(number: int) -> None:
        for result in together.execute_sharded([[ones * number], [ones], [ones]]):
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


WORKS = 8
"""How many those are; the last makes a program."""


def rounds(size: int, count: int) -> None:
    """One run of so many rounds of eight devices on arrays of a size; its result is checked."""
    ring = ",".join(f"{{{d},{(d + 1) % DEVICES}}}" for d in range(DEVICES))
    text = ROUNDS.replace("RING", f'frontend_attributes={{_xla_send_recv_source_target_pairs="{{{ring}}}"}}')
    text = text.replace("[N]", f"[{size}]").replace("[M]", f"[{2 * size}]")
    text = text.replace("[0:N]", f"[0:{size}]").replace("[N:M]", f"[{size}:{2 * size}]")
    executable = xla.Client("cpu", devices=DEVICES).compile(text)
    values = list(range(DEVICES))
    given = [[np.int32(count), np.full(size, value, np.int32)] for value in values]
    for _ in range(count):
        sent = [(values[d - 1] + (d - 1) % DEVICES) for d in range(DEVICES)]
        total = sent[0] + sent[1] + sent[3] + sent[5]  # what the permutation hands on, to members of both groups
        values = [(total + own) % MODULUS for own in sent]
    for result, value in zip(executable.execute_sharded(given), values, strict=True):
        expect(result, value)


def expect(result: object, value: int) -> None:
    array = np.asarray(result)
    if not (array == value).all():
        raise AssertionError(f"{array[array != value][:5]} where {value} is expected")


def run(threads: int, calls: int, shared: list[Work], client: xla.Client) -> None:
    """Shares the calls out over threads; the first error is raised."""
    errors: list[BaseException] = []

    def body(thread: int) -> None:
        try:
            own = works(client, 5 + thread)
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


def standing() -> dict[str, int]:
    """What the process holds."""
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
    parser.add_argument("--rounds", type=int, default=100_000)
    options = parser.parse_args()
    xla.register_custom_call_target("stress.negate", np.negative)
    client = xla.Client("cpu", devices=3)
    shared = works(client, 1000) + works(client, 100_000)
    run(options.threads, options.calls // 4, shared, client)
    programs = options.calls // WORKS + options.threads * WORKS
    check("calls", lambda: run(options.threads, options.calls, shared, client), options.calls, programs)
    add, ones = client.compile(ADD.replace("[N]", "[16]")), client.device_put(np.ones(16, np.float32))

    def dispatches() -> None:
        for _ in range(options.dispatches):
            add(ones, ones)

    check("dispatches", dispatches, options.dispatches)
    rounds(5, options.rounds // 10)
    rounds(50_000, options.rounds // 1000)
    check("rounds", lambda: rounds(5, options.rounds), options.rounds, 1)
    check("rounds of large arrays", lambda: rounds(50_000, options.rounds // 100), options.rounds // 100, 1)


def check(what: str, work: Callable[[], None], count: int, programs: int = 0) -> None:
    """Does the work, which makes some programs, and tells what has grown; an error if it is more than it may."""
    before, begin = standing(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - begin, standing()
    print(f"{count} {what} in {seconds:.1f} s")
    for name, value in after.items():
        print(f"  {name}: {before[name]} before, {value} after")
    if after["resident bytes"] - before["resident bytes"] > ALLOWED_GROWTH + programs * KEPT_OF_PROGRAMS:
        raise SystemExit(f"memory grows with {what}")
    if any(after[name] > before[name] for name in ("threads", "open files")):
        raise SystemExit(f"threads or open files grow with {what}")


if __name__ == "__main__":
    main()
