"""The platform `reference`: runs small programs by the definitions in `xlapy.reference`, element by element.

Responsible for connecting these definitions with devices, custom-call targets (those of the platform `interpreter`) and
the random numbers of a run; the rest is as on that platform.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context
from xlapy.interpreter.custom import custom_call_rule
from xlapy.reference.core import Device, evaluate_computation
from xlapy.runtime.backends.interpreter import InterpreterBackend, InterpreterProgram
from xlapy.runtime.values import Value


class ReferenceProgram(InterpreterProgram):
    """A module that runs by the definitions of its operations."""

    platform = "reference"
    frames_per_call = 12

    def evaluate(self, context: Context, arguments: Sequence[Value]) -> Value:
        """Evaluates the entry computation on the device of an interpreter context."""

        def call_target(_: Device, instruction: Instruction, operands: Sequence[Value]) -> Value:
            return custom_call_rule(instruction)(context, instruction, operands)

        device = Device(
            context.replica_id,
            context.partition_id,
            context.communicator,
            context.random_state().counter,
            call_target,
            context.observer,
            context.replace_value,
            context.canceled,
        )
        return evaluate_computation(device, self.module.entry_computation, arguments)


class ReferenceBackend(InterpreterBackend):
    """Runs programs by the executable specification."""

    name = "reference"
    program_class = ReferenceProgram
