"""The reference interpreter as a platform.

Owns: the adapter between `Backend` and `xlapy.interpreter`. Must not know: devices, arguments of users.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.errors import UnsupportedError
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, Plan, evaluate_computation, make_plan
from xlapy.hlo.computation import Computation
from xlapy.runtime.backend import Observer, Value


class InterpreterProgram:
    """A module with the plan of each of its computations, made once and shared by every run."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._plans: dict[Computation, Plan] = {}
        for computation in module.computations:
            self._plans[computation] = make_plan(computation)

    def execute(self, arguments: Sequence[Value], observer: Observer | None = None) -> Value:
        context = Context(observer=observer, plans=self._plans)
        return evaluate_computation(context, self.module.entry_computation, arguments)


class InterpreterBackend:
    """Runs programs as the definitions of the operations say, on NumPy arrays."""

    name = "interpreter"

    def compile(self, module: Module) -> InterpreterProgram:
        _refuse_dynamic(module)
        return InterpreterProgram(module)


def _refuse_dynamic(module: Module) -> None:
    for instruction in module.instructions():
        if instruction.shape.is_dynamic:
            raise UnsupportedError(
                f"{instruction.name} has the dynamic shape {instruction.shape.brief}: not executable yet by the interpreter"
            )
