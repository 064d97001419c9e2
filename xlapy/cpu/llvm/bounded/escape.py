"""Calls of LLVM that end when they exceed a limit of time or memory.

LLVM cannot be interrupted. A timer of the calling thread therefore sends signals to it while it is in LLVM, each after
a tenth of a second of its processor time. When a limit is exceeded, the handler of the signal returns to the caller by
`longjmp`, past LLVM's functions. It does so only if the signal has interrupted an instruction of LLVM's library, so
that the thread does not hold a lock of the C library. What LLVM was working on is left as it is, and must not be used
again. A call that takes less than a tenth of a second sees no signal.

Time is that of the thread, so that other work on the machine does not count. Memory is the number of bytes by which the
most memory that the process ever used has grown.

Responsible for leaving calls. Does not depend on what is called.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight

_TICK_NANOSECONDS = 100_000_000
_BYTES_OF_FULL_TIME = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """seconds: processor time. memory: bytes by which the largest memory of the process may grow."""

    seconds: float
    memory: int

    @staticmethod
    def of(text: str) -> Limits:
        """The limits that the flags set for a module. Large modules have proportionally more time."""
        seconds = float(int(flags.get("compile_timeout"))) or float("inf")
        memory = int(flags.get("compile_memory")) << 20
        return Limits(seconds * max(1.0, len(text) / _BYTES_OF_FULL_TIME), memory or 1 << 62)


class LimitExceededError(Exception):
    """A call has exceeded a limit. limit: which one. function: the name of what it worked on, if that is known."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"LLVM exceeded {limit}")
        self.limit = limit
        self.function = ""


class Guard(ctypes.Structure):
    """What the handler of a thread's signals reads and writes. is_active: whether the thread is in a call."""

    _fields_ = (
        ("is_active", ctypes.c_int64),
        ("ticks", ctypes.c_int64),
        ("most_ticks", ctypes.c_int64),
        ("most_kibibytes", ctypes.c_int64),
        ("exceeds_time", ctypes.c_int64),
        ("result", ctypes.c_uint64),
        ("environment", ctypes.c_char * 512),
    )


_INSTRUCTION_OFFSETS: Mapping[str, int] = {"x86_64": 168, "aarch64": 440}
"""The offset in bytes of the address of the interrupted instruction in a `ucontext_t` of Linux."""

GUARDED_CALL, ON_TICK, RUN_PASSES = "xlapy_guarded_call", "xlapy_on_tick", "xlapy_run_passes"

_TEXT = """
%guard = type {{ i64, i64, i64, i64, i64, i64, [512 x i8] }}
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare i32 @getrusage(i32, ptr)

; Calls a function with four arguments, and stores its result. Returns 1 instead if the handler has left the call.
define i64 @xlapy_guarded_call(ptr %guard, ptr %function, ptr %a, ptr %b, i64 %c, i64 %d) {{
entry:
  %environment = getelementptr %guard, ptr %guard, i32 0, i32 6
  %left = call i32 @_setjmp(ptr %environment) returns_twice
  %is.left = icmp ne i32 %left, 0
  br i1 %is.left, label %out, label %call
call:
  store atomic volatile i64 1, ptr %guard seq_cst, align 8
  %value = call i64 %function(ptr %a, ptr %b, i64 %c, i64 %d)
  store atomic volatile i64 0, ptr %guard seq_cst, align 8
  %result = getelementptr %guard, ptr %guard, i32 0, i32 5
  store i64 %value, ptr %result
  ret i64 0
out:
  ret i64 1
}}

; The handler: counts ticks, and leaves the call if a limit is exceeded.
define void @xlapy_on_tick(i32 %signal, ptr %information, ptr %context) {{
entry:
  %usage = alloca [64 x i64], align 16
  %guard.place = getelementptr i8, ptr %information, i64 24
  %guard = load ptr, ptr %guard.place
  %ticks.place = getelementptr %guard, ptr %guard, i32 0, i32 1
  %before = load i64, ptr %ticks.place
  %ticks = add i64 %before, 1
  store i64 %ticks, ptr %ticks.place
  %most.ticks.place = getelementptr %guard, ptr %guard, i32 0, i32 2
  %most.ticks = load i64, ptr %most.ticks.place
  %is.late = icmp sgt i64 %ticks, %most.ticks
  %failed = call i32 @getrusage(i32 0, ptr %usage)
  %used.place = getelementptr i64, ptr %usage, i64 4
  %used = load i64, ptr %used.place
  %most.used.place = getelementptr %guard, ptr %guard, i32 0, i32 3
  %most.used = load i64, ptr %most.used.place
  %is.large = icmp sgt i64 %used, %most.used
  %exceeds = or i1 %is.late, %is.large
  %active = load atomic volatile i64, ptr %guard seq_cst, align 8
  %is.active = icmp ne i64 %active, 0
  %may.leave = and i1 %exceeds, %is.active
  br i1 %may.leave, label %look, label %out
look:
  %place = getelementptr i8, ptr %context, i64 {place}
  %instruction = load i64, ptr %place
  %offset = sub i64 %instruction, {begin}
  %is.inside = icmp ult i64 %offset, {size}
  br i1 %is.inside, label %leave, label %out
leave:
  store atomic volatile i64 0, ptr %guard seq_cst, align 8
  %reason = zext i1 %is.late to i64
  %reason.place = getelementptr %guard, ptr %guard, i32 0, i32 4
  store i64 %reason, ptr %reason.place
  %environment = getelementptr %guard, ptr %guard, i32 0, i32 6
  call void @longjmp(ptr %environment, i32 1)
  unreachable
out:
  ret void
}}

; Runs passes on functions of a module. A row of the table has the name of a function, a manager of passes and a builder
; of passes. Stores the number of the row, so that it is known after the call was left.
define i64 @xlapy_run_passes(ptr %module, ptr %table, i64 %count, i64 %position) {{
entry:
  %place = inttoptr i64 %position to ptr
  %find = inttoptr i64 {find} to ptr
  %run = inttoptr i64 {run} to ptr
  br label %head
head:
  %number = phi i64 [ 0, %entry ], [ %next, %body ]
  %is.end = icmp eq i64 %number, %count
  br i1 %is.end, label %end, label %body
body:
  store atomic volatile i64 %number, ptr %place seq_cst, align 8
  %name.place = getelementptr [3 x ptr], ptr %table, i64 %number, i64 0
  %manager.place = getelementptr [3 x ptr], ptr %table, i64 %number, i64 1
  %builder.place = getelementptr [3 x ptr], ptr %table, i64 %number, i64 2
  %name = load ptr, ptr %name.place
  %manager = load ptr, ptr %manager.place
  %builder = load ptr, ptr %builder.place
  %function = call ptr %find(ptr %module, ptr %name)
  call void %run(ptr %manager, ptr %function, ptr %builder)
  %next = add i64 %number, 1
  br label %head
end:
  ret i64 0
}}
"""


def text() -> str | None:
    """Returns the LLVM text of the three functions; None if calls cannot be left on this machine."""
    place, instructions = _INSTRUCTION_OFFSETS.get(platform.machine()), _instructions_of_llvm()
    if place is None or instructions is None:
        return None
    find, run = (_function("LLVMPY_GetNamedFunction"), _function("LLVMPY_RunNewFunctionPassManager"))
    return _TEXT.format(place=place, begin=instructions[0], size=instructions[1], find=find, run=run)


def _function(name: str) -> int:
    """The address of a function of llvmlite's library. Its lock is not needed: LLVM may work on different contexts at
    once."""
    return int(ctypes.cast(getattr(llvm.ffi.lib, name)._cfn, ctypes.c_void_p).value or 0)


def _instructions_of_llvm() -> tuple[int, int] | None:
    """The address and the size in bytes of the machine code of the library that contains LLVM."""
    name = os.path.realpath(str(llvm.ffi.lib._name))
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, permissions, *_, path = f"{line.rstrip()} ".split(" ", 5)
            if "x" in permissions and path.strip() == name:
                begin, end = (int(address, 16) for address in addresses.split("-"))
                return begin, end - begin
    return None


_kept: list[object] = []


class Escape:
    """Makes guarded calls. guarded_call, on_tick, run_passes: the addresses of the functions of `text`; owner: keeps
    them alive."""

    def __init__(self, guarded_call: int, on_tick: int, run_passes: int, owner: object) -> None:
        _kept.append(owner)  # the handler of the signal is installed for the rest of the process
        self._run_passes = run_passes
        arguments = (*(ctypes.c_void_p,) * 4, ctypes.c_int64, ctypes.c_int64)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(guarded_call)
        self._signal = _install(on_tick)

    @contextmanager
    def limited(self, limits: Limits, lock: threading.RLock) -> Iterator[GuardedCalls]:
        """Calls that together must not exceed limits. They are made by the thread that enters the context, which holds
        the lock during each of them."""
        guard = Guard()
        guard.most_ticks = int(min(limits.seconds * 1e9 / _TICK_NANOSECONDS, 1 << 62))
        guard.most_kibibytes = _most_kibibytes() + (limits.memory >> 10)
        with _ticking(self._signal, guard):
            yield GuardedCalls(self._call, self._run_passes, guard, limits, lock)


@dataclass(frozen=True, slots=True)
class GuardedCalls:
    """Calls of a thread within limits."""

    _call: Callable[..., int]
    _run_passes: int
    _guard: Guard
    _limits: Limits
    _lock: threading.RLock

    def run_passes(self, module: Any, managers: Sequence[tuple[str, Any]], builder: Any) -> None:
        """Runs the passes of a manager on each named function of a module, all in one call, because other threads would
        make this one wait for Python after each. If the call was left, the error has the function."""
        table, position = (ctypes.c_void_p * (3 * len(managers)))(), ctypes.c_int64()
        names = [name.encode() for name, _ in managers]
        for row, (name, (_, manager)) in enumerate(zip(names, managers, strict=True)):
            name_address = ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p).value
            table[3 * row : 3 * row + 3] = [name_address, _address(manager), _address(builder)]
        places = ctypes.addressof(table), ctypes.addressof(position)
        try:
            self._make(self._run_passes, _address(module), places[0], len(managers), places[1])
        except LimitExceededError as error:
            error.function = managers[position.value][0]
            raise

    def emit(self, machine: Any, module: Any, error: int) -> int:
        """Returns the address of a memory buffer with the object file of a module, or 0. error: where the address of a
        message is stored in this case."""
        function = _function("LLVMPY_TargetMachineEmitToMemory")
        return self._make(function, _address(machine), _address(module), _OBJECT_FILE, error)

    def _make(self, function: int, a: int, b: int, c: int, d: int) -> int:
        """Calls the function at an address; returns its result. `LimitExceededError` if the call was left. What it
        worked on must not be used again then."""
        with self._lock:
            is_left = self._call(ctypes.addressof(self._guard), function, a, b, c, d)
        if not is_left:
            return int(self._guard.result)
        if self._guard.exceeds_time:
            raise LimitExceededError(f"{self._limits.seconds:g} s of processor time")
        raise LimitExceededError(f"{self._limits.memory >> 20} MiB of memory")


_OBJECT_FILE = 1
"""LLVM's number of the kind of output."""


def _address(reference: Any) -> int:
    return int(ctypes.cast(reference._ptr, ctypes.c_void_p).value or 0)


# -- signals and timers


class _SignalAction(ctypes.Structure):
    """`struct sigaction` of the C library."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _SignalEvent(ctypes.Structure):
    """`struct sigevent` of the C library, for a signal to one thread."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_int * 11),
    )


_SIGINFO, _RESTART, _NODEFER = 4, 0x10000000, 0x40000000
_THREAD_CLOCK, _TO_THREAD = 3, 4
"""CLOCK_THREAD_CPUTIME_ID and SIGEV_THREAD_ID."""


@SingleFlight
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _install(handler: int) -> int:
    """Installs a handler of the last real-time signal that nobody uses; returns the signal."""
    for number in range(int(signal.SIGRTMAX), int(signal.SIGRTMIN), -1):
        old = _SignalAction()
        action = _SignalAction(handler, flags=_SIGINFO | _RESTART | _NODEFER)
        _c_library().sigaction(number, None, ctypes.byref(old))
        if not old.handler and not _c_library().sigaction(number, ctypes.byref(action), None):
            return number
    raise OSError("every real-time signal is in use")


@contextmanager
def _ticking(number: int, guard: Guard) -> Iterator[None]:
    """Sends a signal to this thread after each tick of its processor time."""
    event = _SignalEvent(ctypes.addressof(guard), number, _TO_THREAD, threading.get_native_id())
    timer = ctypes.c_void_p()
    if _c_library().timer_create(_THREAD_CLOCK, ctypes.byref(event), ctypes.byref(timer)):
        yield  # there are no timers left: without limits
        return
    try:
        times = (ctypes.c_int64 * 4)(0, _TICK_NANOSECONDS, 0, _TICK_NANOSECONDS)
        _c_library().timer_settime(timer, 0, times, None)
        yield
    finally:
        _c_library().timer_delete(timer)


def _most_kibibytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
