"""What a program takes is freed after its last use."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import xlapy as xla
from xlapy.runtime.engine import calls, device_programs

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
REPLICA = "i = u32[] replica-id() f = f32[] convert(i) b = f32[300] broadcast(f), dimensions={}"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_program_that_has_run_is_freed(devices: int) -> None:
    text = f"""HloModule m, replica_count={devices}
        {ADD} ENTRY e {{ p = f32[300] parameter(0) {REPLICA} s = f32[300] add(p, b)
          ROOT r = f32[300] all-reduce(s), replica_groups={{}}, to_apply=add }}"""
    executable = xla.Client("cpu", devices=devices).compile(text)
    results = executable.execute_sharded([[np.ones(300, np.float32)]] * devices)
    assert [float(np.asarray(result)[0]) for result in results] == [devices + sum(range(devices))] * devices
    program = weakref.ref(executable.program)
    gc.collect()
    calls.free_retired()
    before = len(device_programs._runnable)
    del executable, results
    gc.collect()
    assert program() is None
    calls.free_retired()
    assert len(device_programs._runnable) == before - 1


LONG = """
counts { s = (s32[], f32[2000]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(200000)
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[2000]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  x = f32[2000] get-tuple-element(s), index=1 j = s32[] add(i, one) y = f32[2000] cosine(x)
  ROOT q = (s32[], f32[2000]) tuple(j, y) }
ENTRY e { x = f32[2000] parameter(0) z = s32[] constant(0) t = (s32[], f32[2000]) tuple(z, x)
  w = (s32[], f32[2000]) while(t), condition=counts, body=step ROOT r = f32[2000] get-tuple-element(w), index=1 }
"""

EXIT = """
import atexit, sys
import numpy as np
import xlapy as xla

client = xla.Client("cpu")
x = client.device_put(np.ones(2000, np.float32))

@atexit.register  # before the first call, so that it runs after what that registers
def run_programs() -> None:
    results = [client.compile(f"HloModule m{number}" + sys.argv[1])(x) for number in range(4)]
    for result in results:
        assert abs(np.asarray(result)[0] - 0.739085) < 1e-5

queued = client.compile("HloModule m" + sys.argv[1])(x)
"""


def test_programs_that_are_dropped_while_the_interpreter_exits_stay_until_they_have_run() -> None:
    finished = subprocess.run([sys.executable, "-c", EXIT, LONG], capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stderr) == (0, "")


LATE = """
import sys
import numpy as np
import xlapy as xla

class Holder:
    def __del__(self) -> None:
        print(float(self.buffer.array[0]), self.buffer.is_ready())

holder = Holder()
holder.buffer = xla.Client("cpu").device_put(np.full(2, 3, np.float32))
sys.modules["held to the end"] = holder
"""


def test_finalizers_read_buffers_when_the_interpreter_ends() -> None:
    finished = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert (finished.stdout, finished.stderr) == ("3.0 True\n", "")


ENDLESS = """
import contextlib, sys, threading
import numpy as np
import xlapy as xla

run = xla.Client("cpu").compile(sys.argv[1])
is_running = threading.Event()

def wait() -> None:
    result = run(np.int32(0))
    is_running.set()
    with contextlib.suppress(BaseException):  # it is canceled
        result.block_until_ready()

threading.Thread(target=wait, daemon=True).start()
assert is_running.wait(30)
print("the main thread ends")
"""

FOREVER = """HloModule forever
always { s = (s32[]) parameter(0) ROOT r = pred[] constant(true) }
count { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) n = s32[] add(i, one)
  ROOT r = (s32[]) tuple(n) }
ENTRY e { x = s32[] parameter(0) s = (s32[]) tuple(x) w = (s32[]) while(s), condition=always, body=count
  ROOT r = s32[] get-tuple-element(w), index=0 }
"""


def test_endless_programs_of_daemon_threads_end_with_the_interpreter() -> None:
    finished = subprocess.run([sys.executable, "-c", ENDLESS, FOREVER], capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "the main thread ends\n", "")
