"""Orders over the IR: instructions of a computation, computations of a module. All iterative: no recursion limit.

Owns: post-orders (the same ones XLA prints in), reachability, cycle search. Must not know: what ops mean.
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
            waits = [operand for operand in reversed(current.operands) if operand not in done]
            if current.control_predecessors:
                waits += [before for before in current.control_predecessors if before not in done]
            if waits:
                entered.add(current)
                stack += waits
            else:
                stack.pop()
                done.add(current)
                order.append(current)


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
    return _cycle(list(module.computations), called_computations)


def called_computations(computation: Computation) -> list[Computation]:
    """The computations called by the instructions, each once, in the order in which XLA visits the calls."""
    found: dict[Computation, None] = {}
    for instruction in computation:
        if instruction.computations:
            found.update(dict.fromkeys(_calls(instruction)))
    return list(found)


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
    """Every computation after those it calls; nearly the order in which XLA prints a module (see `print_order`)."""
    order: dict[Computation, None] = {}
    for root in _uncalled(module):
        _visit_computation(root, order)
    for left_over in module.computations:  # part of a call cycle, which the verifier refuses
        order.setdefault(left_over)
    return list(order)


def callees_first(module: Module) -> list[Computation]:
    """The computations in the module's own order, but none before those it calls."""
    order: dict[Computation, None] = {}
    for computation in module.computations:
        _visit_computation(computation, order)
    return list(order)


def _uncalled(module: Module) -> list[Computation]:
    """The computations that no other calls: the entry, and what is not used."""
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

    XLA takes note of a computation when it meets the first call, not when it visits it: one that is called both by a
    caller and by another callee of that caller may come after the latter.
    """
    order: dict[Computation, None] = {}
    for root in _uncalled(module):
        _append_callees(root, order)
        order[root] = None
    for left_over in module.computations:  # part of a call cycle, which the verifier refuses
        order.setdefault(left_over)
    return list(order)


def _append_callees(root: Computation, order: dict[Computation, None]) -> None:
    noticed: set[Computation] = set()
    for instruction in root:
        stack = _notice(instruction, noticed)
        while stack:
            computation, remaining = stack[-1]
            following = next(remaining, None)
            if following is None:
                stack.pop()
                order.setdefault(computation)
            else:
                stack.extend(_notice(following, noticed))


def _notice(instruction: Instruction, noticed: set[Computation]) -> list[tuple[Computation, Iterator[Instruction]]]:
    """The callees of an instruction that were not met before, the first of them last."""
    found: list[tuple[Computation, Iterator[Instruction]]] = []
    for callee in reversed(_calls(instruction)):
        if callee not in noticed:
            noticed.add(callee)
            found.append((callee, iter(callee)))
    return found


def _calls(instruction: Instruction) -> tuple[Computation, ...]:
    """The callees in XLA's order: it keeps the body of a loop before its condition, although it prints it behind."""
    called = instruction.computations
    return called[::-1] if instruction.op is WHILE else called
