"""Factorizations, solutions and Fourier transforms of many instances: their rules take any leading dimensions.

Must not know: the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import ops
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import Context, Value
from xlapy.interpreter.lifting.core import LIFTED, instance_count, lift, ordinary, spread_all

LIFTED.rule(ops.CHOLESKY)(ordinary)


@LIFTED.rule(ops.TRIANGULAR_SOLVE)
def triangular_solve(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = instance_count(instruction, values)
    return ordinary(context, instruction, spread_all(instruction, values, count))


@LIFTED.rule(ops.FFT)
def fft(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return lift(context, instruction, values, len(values[0]))
