"""Batched factorizations, solves and Fourier transforms: their ordinary rules accept any leading dimensions.

Does not depend on the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    apply_ordinary_rule,
    batch_size,
    broadcast_operands_to_batch,
    evaluate_batched,
)
from xlapy.interpreter.core import Context, Value

BATCHING_RULES.rule(opcodes.CHOLESKY)(apply_ordinary_rule)


@BATCHING_RULES.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = batch_size(instruction, values)
    return apply_ordinary_rule(context, instruction, broadcast_operands_to_batch(instruction, values, count))


@BATCHING_RULES.rule(opcodes.FFT)
def fft(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return evaluate_batched(context, instruction, values, len(values[0]))
