"""Orders of the instructions of a computation that need little memory at once.

Several orders are made, each in near linear time, and that with the smallest peak is chosen; of equals, the first. All
of them place an instruction that updates an array in place after the other readers of that array, if dependences allow
that, so that it need not be copied.

Responsible for orders. Does not depend on kernels or on the memory that values get. XLA's counterpart is
HloMemoryScheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from xlapy.analysis.memory.graph import MemoryGraph
from xlapy.analysis.memory.profile import peak_bytes

MIN_PEAK_BYTES = 1 << 16
"""A computation with a smaller peak keeps the order in which XLA prints it."""


def schedule(graph: MemoryGraph) -> tuple[list[int], int]:
    """Returns an order of the nodes of a graph with a small peak, and that peak in bytes."""
    best: list[int] = []
    least = 0
    bound = max(MIN_PEAK_BYTES, _lower_bound(graph))
    for order in _orders(graph):
        peak = peak_bytes(graph, order)
        if not best or peak < least:
            best, least = order, peak
        if least <= bound:
            break
    return best, least


def _lower_bound(graph: MemoryGraph) -> int:
    """Returns the bytes that any order needs: those of the results, and of what one node reads or defines."""
    sizes = graph.sizes
    each = (
        max(sum(sizes[v] for v in reads), sum(sizes[v] for v in defines))
        for reads, defines in zip(graph.reads, graph.defines, strict=True)
    )
    return max(max(each, default=0), graph.result_bytes)


def _orders(graph: MemoryGraph) -> Iterator[list[int]]:
    given = list(range(len(graph.instructions)))
    yield _ListScheduler(graph, given).order(_by_rank)
    yield _ListScheduler(graph, given).order(_releasing_first)
    deepest_first = _depth_first_ranks(graph)
    yield _ListScheduler(graph, deepest_first).order(_by_rank)
    yield _ListScheduler(graph, deepest_first).order(_releasing_first)
    yield _ListScheduler(graph, deepest_first).order(_most_released_first)


def _by_rank(rank: int, gain: int) -> tuple[int, int]:
    return 0, rank


def _releasing_first(rank: int, gain: int) -> tuple[int, int]:
    """Instructions that release at least what they allocate run as soon as they can."""
    return gain < 0, rank


def _most_released_first(rank: int, gain: int) -> tuple[int, int]:
    return -gain, rank


_Priority = Callable[[int, int], tuple[int, int]]
"""Of a node's rank and the bytes that it releases, less those that it allocates: what runs first is smallest."""


class _ListScheduler:
    """Takes one node after the other of those whose dependencies have been taken.

    ranks: the rank of each node in the order that decides where priorities do not.
    """

    def __init__(self, graph: MemoryGraph, ranks: list[int]) -> None:
        self._graph = graph
        self._ranks = ranks
        self._pending = [len(dependencies) for dependencies in graph.dependencies]
        self._unread = [len(readers) for readers in graph.readers]
        self._last_reader = [sum(readers) for readers in graph.readers]
        """The sum of the nodes that have not read a value yet: the last of them if it is one."""
        self._gains = [self._initial_gain(node) for node in range(len(graph.instructions))]
        self._overwriters: dict[int, list[int]] = {}
        self._blocked = [0] * len(graph.instructions)
        """The reads that each node that updates in place should wait for."""
        for node, overwritten in enumerate(graph.overwrites):
            for value in overwritten:
                self._overwriters.setdefault(value, []).append(node)
                self._blocked[node] += len(graph.readers[value]) - 1
        self._done = [False] * len(graph.instructions)

    def order(self, priority: _Priority) -> list[int]:
        """Returns all nodes, those of the smallest priority first."""
        ready = [self._entry(node, priority) for node, count in enumerate(self._pending) if not count]
        waiting: list[tuple[tuple[int, int], int]] = []
        heapify(ready)
        result: list[int] = []
        while ready or waiting:
            is_free = bool(ready)
            entry = heappop(ready if is_free else waiting)
            node = entry[1]
            if self._done[node]:
                continue
            if is_free and self._blocked[node]:
                heappush(waiting, entry)
                continue
            self._done[node] = True
            result.append(node)
            for changed in self._take(node):
                if not self._pending[changed] and not self._done[changed]:
                    heappush(ready, self._entry(changed, priority))
        return result

    def _entry(self, node: int, priority: _Priority) -> tuple[tuple[int, int], int]:
        return priority(self._ranks[node], self._gains[node]), node

    def _take(self, node: int) -> list[int]:
        """Notes that a node runs; returns the nodes that become ready or change their priority."""
        graph, changed = self._graph, list[int]()
        for dependent in graph.dependents[node]:
            self._pending[dependent] -= 1
            if not self._pending[dependent]:
                changed.append(dependent)
        for value in graph.reads[node]:
            self._unread[value] -= 1
            self._last_reader[value] -= node
            if self._unread[value] == 1 and not graph.is_result[value] and graph.sizes[value]:
                last = self._last_reader[value]
                self._gains[last] += graph.sizes[value]
                changed.append(last)
            for overwriter in self._overwriters.get(value, ()):
                if overwriter != node:
                    self._blocked[overwriter] -= 1
                    if not self._blocked[overwriter]:
                        changed.append(overwriter)
        return changed

    def _initial_gain(self, node: int) -> int:
        graph = self._graph
        allocated = sum(graph.sizes[value] for value in graph.defines[node] if not graph.is_result[value])
        alone = [v for v in graph.reads[node] if len(graph.readers[v]) == 1 and not graph.is_result[v]]
        return sum(graph.sizes[value] for value in alone) - allocated


def _depth_first_ranks(graph: MemoryGraph) -> list[int]:
    """Returns the rank of each node in a post-order that visits the operand with the longest chain of operands first.

    What is computed from few operations, such as a value that is computed again for a gradient, then follows the long
    chain of operations that its user waits for as well. The results of the computation, which stay in memory, are
    visited in the opposite order.
    """
    depths: list[int] = []
    for dependencies in graph.dependencies:
        depths.append(1 + max((depths[other] for other in dependencies), default=0))
    ranks = [-1] * len(depths)
    entered = [False] * len(depths)
    count = 0
    for root in range(len(depths)):
        if graph.dependents[root]:
            continue
        stack = [root]
        while stack:
            node = stack[-1]
            if ranks[node] >= 0:
                stack.pop()
            elif entered[node]:
                stack.pop()
                ranks[node], count = count, count + 1
            else:
                entered[node] = True
                left = [other for other in graph.dependencies[node] if ranks[other] < 0]
                is_root = node == root
                stack += sorted(left, key=lambda other: -depths[other] if is_root else depths[other])
    return ranks
