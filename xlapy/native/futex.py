"""Futexes: waiting for a 32-bit word of memory to change, and waking the threads that wait, in LLVM text.

Responsible for these two system calls and their numbers. Does not depend on what the words mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SYSTEM_CALL_NUMBERS: Final[Mapping[str, int]] = {"x86_64": 202, "aarch64": 98}
"""The number of the Linux system call `futex` by machine."""

_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_ALL_WAITERS = 2**31 - 1

DECLARATION: Final = "declare i64 @syscall(i64, ...)"
"""Declaration that LLVM modules need for `wake_text` and `wait_text`."""


def wake_text(word: str, machine: str = "x86_64", count: int = _ALL_WAITERS) -> str:
    """LLVM call that wakes threads waiting on a word, at most `count`. word: a pointer value, such as `%word`."""
    return _call_text(word, machine, f"i32 {_WAKE_PRIVATE}, i32 {count}, ptr null")


def wait_text(word: str, seen: str, timeout: str = "null", machine: str = "x86_64") -> str:
    """LLVM call that waits while a word equals `seen`. timeout: pointer to a `timespec`, `null` to wait forever."""
    return _call_text(word, machine, f"i32 {_WAIT_PRIVATE}, i32 {seen}, ptr {timeout}")


def _call_text(word: str, machine: str, arguments: str) -> str:
    number = SYSTEM_CALL_NUMBERS[machine]
    return f"call i64 (i64, ...) @syscall(i64 {number}, ptr {word}, {arguments}, ptr null, i32 0)"
