"""The reference interpreter as a platform.

Owns: the adapter between `Backend` and `xlapy.interpreter`, and what it refuses: dynamic dimensions, shapes that NumPy
has no arrays for, calls nested too deep, programs larger than the memory.
Must not know: devices, arguments of users.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType

from xlapy.base import flags
from xlapy.base.errors import ExecutionError, ShapeError, UnsupportedError
from xlapy.base.literal import check_holdable
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order
from xlapy.interpreter import Context, Plan, evaluate_computation, make_plan
from xlapy.runtime.backend import Observer, Value
from xlapy.runtime.memory import available_bytes, demand, readable

MAX_CALL_DEPTH = 5_000
"""How deep computations may call each other."""

_FRAMES_PER_CALL = 4
_SMALL = 1 << 24
"""Bytes that are there without asking."""


class InterpreterProgram:
    """A module with the plan of each of its computations, made once and shared by every run."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._plans: dict[Computation, Plan] = {}
        for computation in module.computations:
            self._plans[computation] = make_plan(computation)
        self._demand = demand(module, self._plans)
        self._call_depth = call_depth(module)

    def execute(self, arguments: Sequence[Value], observer: Observer | None = None) -> Value:
        """Runs the program; `ExecutionError` if the memory that it needs is not there."""
        self._check_memory()
        _make_room_for_calls(self._call_depth)
        context = Context(seed=int(flags.get("rng_seed")), observer=observer, plans=self._plans)
        return evaluate_computation(context, self.module.entry_computation, arguments)

    def _check_memory(self) -> None:
        if self._demand.size > _SMALL and self._demand.size > (available := available_bytes()):
            raise ExecutionError(f"out of memory: the program needs {self._demand}, {readable(available)} are available")


class InterpreterBackend:
    """Runs programs as the definitions of the operations say, on NumPy arrays."""

    name = "interpreter"

    def compile(self, module: Module) -> InterpreterProgram:
        """`UnsupportedError` for operations without a rule and for what the module's docstring lists."""
        _refuse_shapes(module)
        depth = call_depth(module)
        if depth > MAX_CALL_DEPTH:
            raise UnsupportedError(
                f"computations call each other {depth} deep, the interpreter follows at most {MAX_CALL_DEPTH} calls"
            )
        return InterpreterProgram(module)


def _refuse_shapes(module: Module) -> None:
    for instruction in module.instructions():
        if instruction.shape.is_dynamic:
            raise UnsupportedError(
                f"{instruction.name} has the dynamic shape {instruction.shape.brief}: not executable yet by the interpreter"
            )
        try:
            for _, leaf in instruction.shape.leaves():
                if leaf.is_array:
                    check_holdable(leaf)
        except ShapeError as error:
            raise UnsupportedError(f"{instruction.name}: {error}: not executable by the interpreter") from error


def call_depth(module: Module) -> int:
    """The length of the longest chain of computations that call each other, the entry included."""
    depth: dict[Computation, int] = {}
    for computation in computation_post_order(module):
        depth[computation] = 1 + max((depth[callee] for callee in called_computations(computation)), default=0)
    return depth[module.entry_computation]


def _make_room_for_calls(depth: int) -> None:
    """Raises Python's recursion limit where a deep chain of calls needs it: a call is a few Python frames."""
    needed = depth * _FRAMES_PER_CALL + 200
    if needed < sys.getrecursionlimit() // 2:
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        needed += 1
        frame = frame.f_back
    sys.setrecursionlimit(max(sys.getrecursionlimit(), needed))
