"""Makes portable artifacts and bytecode of the StableHLO dialect with jaxlib, from StableHLO text."""

from __future__ import annotations

import io

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


def artifact(text: str, version: str = "1.17.0") -> bytes:
    """Returns the portable artifact of a program for a StableHLO version."""
    return stablehlo.serialize_portable_artifact_str(text, version)


def mixed_artifact(text: str) -> bytes:
    """Returns the portable artifact of a program that contains Shardy operations too."""
    with make_ir_context():
        module = ir.Module.parse(text)
        return stablehlo.serialize_portable_artifact(module, "1.17.0", True)


def text_of(data: bytes) -> str:
    """Returns the text of the program that jaxlib reads from an artifact, with its locations."""
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, data)
        assert module.operation.verify()
        return module.operation.get_asm(enable_debug_info=True)


def native(text: str, version: int = 6) -> bytes:
    """Returns MLIR bytecode of a program in its own dialects, in the given version of the format."""
    with make_ir_context() as context:
        context.allow_unregistered_dialects = True
        file = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(file, desired_version=version)
        return file.getvalue()
