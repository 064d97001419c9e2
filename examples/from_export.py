"""Reads a JAX function exported for any number of rows as StableHLO, runs it for one number, and writes other forms.

Needs JAX: pip install 'xlapy[test]'
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

import xlapy as xla


def normalized(x: jax.Array) -> jax.Array:
    """f32[rows,4] -> f32[rows,4], each column of mean 0"""
    return x - jnp.mean(x, axis=0)


(rows,) = export.symbolic_shape("rows")
exported = export.export(jax.jit(normalized))(jax.ShapeDtypeStruct((rows, 4), np.float32))
artifact = exported.mlir_module_serialized  # MLIR bytecode, which any version of XLA reads
print(f"an artifact of {len(artifact)} bytes for any number of rows")

try:
    xla.parse_stablehlo(artifact)
except xla.errors.UnsupportedError as error:
    print("refused:", error)

x = np.arange(12, dtype=np.float32).reshape(3, 4)
module = xla.parse_stablehlo(artifact, argument_shapes=[xla.Shape.of(x)])
print(module.entry_computation.program_shape)
print(np.asarray(xla.Client().compile(module)(x)))
print(module.to_stablehlo(locations=False))
print(f"as HLO text {len(module.to_text())} characters, as HloModuleProto {len(module.to_proto())} bytes")
