"""Runs a pass written with xlapy inside XLA: JAX passes each program to it before XLA schedules and compiles the
program.

The pass shows what a program computes if sums are kept in bfloat16: it rounds the result of each f32 addition,
including those inside XLA's fusions. Needs JAX: pip install 'xlapy[test]'
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.xla import clear_hlo_module_transformation, register_hlo_module_transformation

import xlapy as xla
from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction

BFLOAT16 = opcodes.REDUCE_PRECISION.attributes.make(exponent_bits=8, mantissa_bits=7)
rounded: list[str] = []


def round_sums(data: bytes) -> bytes | None:
    """Rounds sums in a serialized HloModuleProto; returns the changed proto, or None if nothing changed."""
    module = xla.Module.from_proto(data)
    sums = [each for each in module.instructions() if is_sum(each)]
    for instruction in sums:
        assert instruction.parent is not None
        narrow = edit.create(instruction.parent, opcodes.REDUCE_PRECISION, (instruction,), BFLOAT16)
        edit.replace_uses(instruction, narrow)
        rounded.append(f"{instruction.name} in {instruction.parent.name}")
    return module.to_proto() if sums else None


def is_sum(instruction: Instruction) -> bool:
    return instruction.op is opcodes.ADD and instruction.shape.element_type is xla.PrimitiveType.F32


def mean_and_norm(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """f32[n] -> f32[], f32[]"""
    return jnp.mean(x), jnp.sqrt(jnp.sum(x * x) + 1.0)


x = np.linspace(0, 1, 1000, dtype=np.float32)
exact = jax.jit(mean_and_norm)(x)
register_hlo_module_transformation(round_sums, name="round-sums", platforms="cpu")
jax.clear_caches()
narrow = jax.jit(mean_and_norm)(x)
clear_hlo_module_transformation("round-sums", platforms="cpu")

print(f"{len(rounded)} sums rounded by a pass inside XLA, among them {rounded[0]}")
for name, ours, theirs in zip(("mean", "norm"), narrow, exact, strict=True):
    print(f"{name}: {float(theirs):.6f} with sums in float32, {float(ours):.6f} in bfloat16")
