"""Traversals of the IR: the instructions of a computation and the computations of a module.

Responsible for post-orders (those in which XLA prints), reachability and cycle detection. The algorithms are iterative,
so deep graphs do not exceed Python's recursion limit. Does not depend on what ops mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import WHILE

T = TypeVar("T")


def post_order(computation: Computation) -> list[Instruction]:
    """The instructions in XLA's post-order: each one follows its operands and control predecessors.

    Visits depth first from each instruction without users, in the order of the computation. Control predecessors are
    visited before operands, the last one first; operands are visited in order.

    The order is kept until the computation changes, because most passes need it and change few computations.
    """
    if computation._post_order is None:
        done: set[Instruction] = set()
        order: list[Instruction] = []
        for instruction in computation:
            if not instruction.has_users:
                _visit(instruction, done, order)
        computation._post_order = tuple(order)
    return list(computation._post_order)


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
            pending = [operand for operand in reversed(current.operands) if operand not in done]
            if current.control_predecessors:
                pending += [before for before in current.control_predecessors if before not in done]
            if pending:
                entered.add(current)
                stack += pending
            else:
                stack.pop()
                done.add(current)
                order.append(current)


def ancestors(roots: Iterable[Instruction]) -> set[Instruction]:
    """The instructions on which the roots depend through operands and control edges, including the roots."""
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
    """A cycle of instructions, each of which depends on the next; empty if there is none."""
    return _find_cycle(list(computation), lambda i: (*i.operands, *i.control_predecessors))


def find_call_cycle(module: Module) -> list[Computation]:
    """A cycle of computations, each of which calls the next; empty if there is none."""
    return _find_cycle(list(module.computations), called_computations)


def called_computations(computation: Computation) -> list[Computation]:
    """The computations that a computation's instructions call, each once, in the order in which XLA visits them."""
    if computation._called is None:
        found: dict[Computation, None] = {}
        for instruction in computation:
            if instruction.computations:
                found.update(dict.fromkeys(_calls(instruction)))
        computation._called = tuple(found)
    return list(computation._called)


def _find_cycle(nodes: list[T], successors: Callable[[T], Iterable[T]]) -> list[T]:
    """A cycle of a graph, found by iterative depth-first search; empty if there is none."""
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
    """The computations in post-order: each one follows those it calls. `print_order` differs in rare cases."""
    order: dict[Computation, None] = {}
    for root in _uncalled(module):
        _visit_computation(root, order)
    for left_over in module.computations:  # part of a call cycle, which the verifier refuses
        order.setdefault(left_over)
    return list(order)


def callees_first(module: Module) -> list[Computation]:
    """The computations in the order of the module, except that each one follows those it calls."""
    order: dict[Computation, None] = {}
    for computation in module.computations:
        _visit_computation(computation, order)
    return list(order)


def _uncalled(module: Module) -> list[Computation]:
    """The computations without callers: the entry computation and unused ones."""
    return [computation for computation in module.computations if not computation.callers]


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


def print_order(module: Module) -> list[Computation]:
    """The computations in the order in which XLA prints them.

    XLA marks a computation as visited when it finds the first call, before it visits the computation. A computation
    that is called both by a caller and by another callee of that caller may therefore follow the latter.
    """
    order: dict[Computation, None] = {}
    for root in _uncalled(module):
        _append_callees(root, order)
        order[root] = None
    for left_over in module.computations:  # part of a call cycle, which the verifier refuses
        order.setdefault(left_over)
    return list(order)


def _append_callees(root: Computation, order: dict[Computation, None]) -> None:
    discovered: set[Computation] = set()
    for instruction in root:
        stack = _discover(instruction, discovered)
        while stack:
            computation, remaining = stack[-1]
            following = next(remaining, None)
            if following is None:
                stack.pop()
                order.setdefault(computation)
            else:
                stack.extend(_discover(following, discovered))


def _discover(
    instruction: Instruction, discovered: set[Computation]
) -> list[tuple[Computation, Iterator[Instruction]]]:
    """The callees of an instruction that were not discovered before, in reverse order."""
    found: list[tuple[Computation, Iterator[Instruction]]] = []
    for callee in reversed(_calls(instruction)):
        if callee not in discovered:
            discovered.add(callee)
            found.append((callee, iter(callee)))
    return found


def _calls(instruction: Instruction) -> tuple[Computation, ...]:
    """The callees in XLA's order: the body of a while precedes its condition, although it is printed after it."""
    called = instruction.computations
    return called[::-1] if instruction.op is WHILE else called
