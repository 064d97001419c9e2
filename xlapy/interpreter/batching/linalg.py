"""Factorizations, solutions and Fourier transforms of many instances: their rules take any leading dimensions.

Must not know: the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import LIFTED, instance_count, lift, ordinary, spread_all
from xlapy.interpreter.core import Context, Value

LIFTED.rule(opcodes.CHOLESKY)(ordinary)


@LIFTED.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = instance_count(instruction, values)
    return ordinary(context, instruction, spread_all(instruction, values, count))


@LIFTED.rule(opcodes.FFT)
def fft(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return lift(context, instruction, values, len(values[0]))
