"""What the functions of the C library do in the checker.

Responsible for their effects on the state. Must not know schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xlapy.native.records import SLOT

Model: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""What an external function does in the checker: from the `Execution` of a thread and its arguments to its result."""


def _copy_memory(execution: Any, arguments: Sequence[Any]) -> Any:
    """memcpy: slots of 8 bytes, as plain accesses."""
    target, source, size = arguments
    actor, memory = execution.thread.actor, execution.state.memory
    for offset in range(0, size, SLOT):
        read, written = (source[0], source[1] + offset), (target[0], target[1] + offset)
        value = memory.read(actor, read, execution.initial(read, "memcpy"), "the source of memcpy", copies=True)
        memory.write(actor, written, execution.initial(written, "memcpy"), value, "the target of memcpy")
    return target


def _set_memory(execution: Any, arguments: Sequence[Any]) -> Any:
    """memset: slots of 8 bytes, as plain accesses."""
    target, value, size = arguments
    for offset in range(0, size, SLOT):
        written = target[0], target[1] + offset
        initial = execution.initial(written, "memset")
        execution.state.memory.write(execution.thread.actor, written, initial, value, "the target of memset")
    return target


MODELS: Mapping[str, Model] = {
    "malloc": lambda execution, arguments: execution.allocate(arguments[0]),
    "aligned_alloc": lambda execution, arguments: execution.allocate(arguments[1]),
    "madvise": lambda execution, arguments: 0,
    "free": lambda execution, arguments: execution.free(arguments[0]),
    "memcpy": _copy_memory,
    "memset": _set_memory,
    "pthread_key_create": lambda execution, arguments: 1,
    "thread_pointer": lambda execution, arguments: (("thread", execution.thread.actor.number), 0),
}
