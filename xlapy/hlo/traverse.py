"""Orders over the IR: instructions of a computation, computations of a module. All iterative: no recursion limit.

Owns: post-orders (the same ones XLA prints in), reachability, cycle search. Must not know: what ops mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module

T = TypeVar("T")


def post_order(computation: Computation) -> list[Instruction]:
    """Every instruction after its operands and control predecessors, in XLA's order.

    Depth first from each instruction without users, in the computation's order; control predecessors are visited before
    operands, the last of them first, operands from the first on.
    """
    done: set[Instruction] = set()
    order: list[Instruction] = []
    for instruction in computation:
        if not instruction.has_users:
            _visit(instruction, done, order)
    return order


def _visit(root: Instruction, done: set[Instruction], order: list[Instruction]) -> None:
    entered: set[Instruction] = set()
    stack = [root]
    while stack:
        current = stack[-1]
        if current in done:
            stack.pop()
        elif current in entered:
            stack.pop()
            done.add(current)
            order.append(current)
        else:
            entered.add(current)
            stack.extend([operand for operand in reversed(current.operands) if operand not in done])
            stack.extend([before for before in current.control_predecessors if before not in done])


def ancestors(roots: Iterable[Instruction]) -> set[Instruction]:
    """The instructions that the roots depend on through operands and control edges, the roots included."""
    found: set[Instruction] = set()
    stack = list(roots)
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            stack.extend(current.operands)
            stack.extend(current.control_predecessors)
    return found


def find_cycle(computation: Computation) -> list[Instruction]:
    """Instructions that depend on each other in a circle, each using the next; empty if there are none."""
    return _cycle(list(computation), lambda i: (*i.operands, *i.control_predecessors))


def find_call_cycle(module: Module) -> list[Computation]:
    """Computations that call each other in a circle; empty if there are none."""
    return _cycle(list(module.computations), lambda c: called_computations(c))


def called_computations(computation: Computation) -> list[Computation]:
    """The computations called by the instructions, each once, in the order of the calls."""
    return list(dict.fromkeys(called for instruction in computation for called in instruction.computations))


def _cycle(nodes: list[T], successors: Callable[[T], Iterable[T]]) -> list[T]:
    """A circle in a graph by iterative depth-first search."""
    entered: set[T] = set()
    done: set[T] = set()
    for start in nodes:
        stack: list[tuple[T, Iterator[T]]] = []
        if start not in done:
            entered.add(start)
            stack.append((start, iter(successors(start))))
        while stack:
            node, remaining = stack[-1]
            following = next(remaining, None)
            if following is None:
                stack.pop()
                done.add(node)
            elif following in entered and following not in done:
                path = [entry for entry, _ in stack]
                return path[path.index(following) :]
            elif following not in done:
                entered.add(following)
                stack.append((following, iter(successors(following))))
    return []


def computation_post_order(module: Module) -> list[Computation]:
    """Every computation after those it calls, in the order in which XLA prints a module."""
    called = {callee for computation in module.computations for callee in called_computations(computation)}
    order: dict[Computation, None] = {}
    for root in module.computations:
        if root not in called:
            _visit_computation(root, order)
    for left_over in module.computations:  # part of a call cycle, which the verifier refuses
        order.setdefault(left_over)
    return list(order)


def _visit_computation(root: Computation, order: dict[Computation, None]) -> None:
    entered: set[Computation] = set()
    stack = [root]
    while stack:
        current = stack[-1]
        if current in order:
            stack.pop()
        elif current in entered:
            stack.pop()
            order[current] = None
        else:
            entered.add(current)
            stack.extend(c for c in reversed(called_computations(current)) if c not in order and c not in entered)
