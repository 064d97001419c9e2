"""The bytes that are live while each instruction runs, for an order of the instructions of a computation.

Responsible for that figure. Does not depend on where values lie: fragments of free memory are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.analysis.memory.graph import MemoryGraph


def live_bytes(graph: MemoryGraph, order: Iterable[int]) -> list[int]:
    """Returns the bytes of temporaries and results that are live while each node of an order runs."""
    pending = [len(readers) for readers in graph.readers]
    held = list(graph.sizes)
    live, found = 0, list[int]()
    for node in order:
        dying = [value for value in graph.reads[node] if _is_last_read(graph, pending, value)]
        shared = _shared(graph, node, dying, held)
        live += sum(held[value] for value in graph.defines[node] if value not in shared)
        found.append(live + graph.scratch[node])
        taken = set(shared.values())
        live -= sum(held[value] for value in dying if value not in taken)
        for value, operand in shared.items():
            held[value] = held[operand]
        live -= sum(held[v] for v in graph.defines[node] if not graph.readers[v] and not graph.is_result[v])
    return found


def peak_bytes(graph: MemoryGraph, order: Iterable[int]) -> int:
    """Returns the bytes that temporaries and results need at once. The memory of results is there from the start."""
    return max(max(live_bytes(graph, order), default=0), graph.result_bytes)


def _is_last_read(graph: MemoryGraph, pending: list[int], value: int) -> bool:
    pending[value] -= 1
    return not pending[value] and not graph.is_result[value]


def _shared(graph: MemoryGraph, node: int, dying: list[int], held: list[int]) -> dict[int, int]:
    """Returns the values that a node computes in the memory of values that die there."""
    found: dict[int, int] = {}
    if not dying:
        return found
    free = set(dying)
    for value, operand in graph.shares[node]:
        if operand in free and value not in found:
            found[value] = operand
            free.discard(operand)
    return found
