"""The last handle of an executable is destroyed anywhere, also in code that holds locks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from tests.pjrt.c_api.calls import call, compile_program
from xlapy.pjrt.objects import executable

SECONDS = 20.0
PROGRAM = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


def is_freed(handle: int) -> bool:
    deadline = time.monotonic() + SECONDS
    while handle in executable._executables and time.monotonic() < deadline:
        time.sleep(0.001)
    return handle not in executable._executables


def in_child(body: Callable[[], bool]) -> bool:
    """Calls a function in the main thread of a forked process, which must end in time."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(SECONDS))
        os._exit(0 if body() else 1)
    return os.waitpid(child, 0)[1] == 0


def test_code_that_holds_the_table_destroys_an_executable():
    """No Python code runs for that in the thread itself, which would wait for the lock that it holds."""
    handle = compile_program(PROGRAM)

    def destroy() -> bool:
        compile_program(PROGRAM)
        with executable._lock:
            call("LoadedExecutable_Destroy", executable=handle)
            for _ in range(1000):  # runs what is pending for the main thread
                assert handle in executable._executables
        return is_freed(handle)

    assert in_child(destroy)


def test_executables_are_freed_in_the_child_of_a_fork():
    before = compile_program(PROGRAM)

    def destroy() -> bool:
        call("LoadedExecutable_Destroy", executable=before)
        after = compile_program(PROGRAM)
        call("LoadedExecutable_Destroy", executable=after)
        return is_freed(before) and is_freed(after)

    assert in_child(destroy)
    call("LoadedExecutable_Destroy", executable=before)
    assert is_freed(before)
