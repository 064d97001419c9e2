"""Emits `rng-get-and-update-state`: returns a counter of 128 bits, and adds a constant to it in place."""

from __future__ import annotations

from xlapy.base.element_types import U64
from xlapy.base.shape import Shape
from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Kernel
from xlapy.loops.types import I64
from xlapy.opcodes.random import RngGetAndUpdateStateAttributes

STATE_SHAPE = Shape.array(U64, [2])
"""The shape of the counter."""

_BASE = 2**64
"""The counter has two digits to this base."""


def random_state_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Returns the kernel. Buffers: the result and the counter, both u64[2] with the lower half first."""
    builder = kernel_builder(instruction.name, target)
    result, state = (result_buffer(builder, instruction.shape, name) for name in ("out0", "state"))
    low, high = (builder.load(state, Affine((), half)) for half in range(2))
    builder.store(result, Affine((), 0), low)
    builder.store(result, Affine((), 1), high)
    upper, lower = divmod(instruction.attributes_as(RngGetAndUpdateStateAttributes).delta % _BASE**2, _BASE)
    next_low = builder.add(low, builder.constant(I64, lower))
    carry = builder.convert("zext", builder.compare("ult", next_low, low), I64)
    next_high = builder.add(builder.add(high, carry), builder.constant(I64, upper))
    builder.store(state, Affine((), 0), next_low)
    builder.store(state, Affine((), 1), next_high)
    return builder.kernel
