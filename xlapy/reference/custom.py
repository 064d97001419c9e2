"""Definition of custom-call."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.reference.core import Device, Function, Value, defines_on_device


@defines_on_device(opcodes.CUSTOM_CALL)
def custom_call(device: Device, instruction: Instruction, *functions_and_operands: Function | Value) -> Value:
    """What the function that is registered for the target returns; it is called even if nothing uses the result."""
    operands = functions_and_operands[len(instruction.computations) :]
    return device.call_target(device, instruction, operands)
