"""A fork while another thread stays in LLVM: the child says why it does not compile, and runs what ran before."""

from __future__ import annotations

import os
import threading

import llvmlite.binding as llvm
import numpy as np

import xlapy as xla
from tests.raising import raises
from xlapy.base.concurrency import forking
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError

PROGRAM = "HloModule m\nENTRY main {{ p = f32[{0}] parameter(0)  ROOT r = f32[{0}] add(p, p) }}"


def test_a_child_that_cannot_compile_says_so(monkeypatch):
    monkeypatch.setattr(forking, "MAX_WAIT_SECONDS", 0.05)
    client = xla.Client("cpu")
    before = client.compile(PROGRAM.format(5))
    before(np.zeros(5, np.float32))
    is_held, may_end = threading.Event(), threading.Event()

    def stay() -> None:
        with llvm.ffi.lib._lock:
            is_held.set()
            may_end.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    assert is_held.wait(20)
    child = os.fork()
    if not child:
        code = 1
        try:
            with raises(UnsupportedError, codes.FORKED_COMPILER, "'spawn'", "'forkserver'"):
                client.compile(PROGRAM.format(6))
            np.testing.assert_array_equal(before(np.ones(5, np.float32)), np.full(5, 2, np.float32))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    may_end.set()
    thread.join()
    client.compile(PROGRAM.format(7))
