"""The state of a few threads that run native functions.

Responsible for what the next steps depend on. Must not know instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from xlapy.native.checker.code import Program
from xlapy.native.checker.memory import NOTHING_SEEN, Actor, Clock, Location, Memory, Pointer, View

RUNNING, ASLEEP, FINISHED = "running", "asleep", "finished"


@dataclass(slots=True)
class Frame:
    """A call of a function: its next instruction, its registers and its stack memory."""

    name: str
    position: int
    registers: dict[int, Any]
    stack: tuple[Pointer, ...] = ()

    def key(self, program: Program) -> tuple[Any, ...]:
        live = program.codes[self.name].live[self.position]
        registers = tuple(sorted((r, v) for r, v in self.registers.items() if r in live))
        return self.name, self.position, registers, self.stack


@dataclass(slots=True)
class Thread:
    """A thread. sleeps_on: the futex on which it sleeps."""

    frames: tuple[Frame, ...]
    actor: Actor
    status: str = RUNNING
    sleeps_on: Location | None = None
    allocations: int = 0
    held: tuple[Location, ...] = ()


def copied(thread: Thread) -> Thread:
    """A copy that may be changed."""
    frames = tuple(Frame(one.name, one.position, dict(one.registers), one.stack) for one in thread.frames)
    actor = Actor(thread.actor.number, thread.actor.clock, dict(thread.actor.view))
    return replace(thread, frames=frames, actor=actor)


@dataclass(slots=True)
class Block:
    """Allocated memory. size in bytes."""

    size: int
    is_freed: bool = False
    is_zeroed: bool = False
    name: str = ""


@dataclass(slots=True)
class LockState:
    """holder: the thread that holds the lock, or -1. clock, view: what the last holder knew."""

    holder: int = -1
    clock: Clock | None = None
    view: View = field(default_factory=lambda: NOTHING_SEEN)


@dataclass(slots=True)
class State:
    """Everything that the next steps depend on."""

    threads: list[Thread]
    memory: Memory
    blocks: dict[Any, Block]
    locks: dict[Location, LockState] = field(default_factory=dict)

    def copy(self, changing: int) -> State:
        """A copy whose thread `changing` may be changed."""
        threads = list(self.threads)
        threads[changing] = copied(threads[changing])
        return State(threads, self.memory.copy(), dict(self.blocks), dict(self.locks))


class Privacy:
    """Which locations only one thread accesses. An exploration learns that as it goes; if one turns out to be shared
    that was taken for private, it has missed schedules and must be repeated."""

    def __init__(self, is_used: bool = True) -> None:
        self.shared = set[Location]()
        self._is_used = is_used
        self._threads: dict[Location, int] = {}

    def is_private(self, location: Location, thread: int) -> bool:
        """Whether no other thread is known to access a location that a thread is about to access."""
        if self._threads.setdefault(location, thread) != thread:
            self.shared.add(location)
        return self._is_used and location not in self.shared
