"""Portable artifacts, and bytecode of StableHLO itself, as jaxlib writes them from StableHLO text."""

from __future__ import annotations

import io

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


def artifact(text: str, version: str = "1.17.0") -> bytes:
    """The artifact of a program for readers of StableHLO's `version`."""
    return stablehlo.serialize_portable_artifact_str(text, version)


def mixed_artifact(text: str) -> bytes:
    """The artifact of a program with operations of Shardy among StableHLO's."""
    with make_ir_context():
        module = ir.Module.parse(text)
        return stablehlo.serialize_portable_artifact(module, "1.17.0", True)


def text_of(data: bytes) -> str:
    """The program that jaxlib finds in an artifact, with its locations."""
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, data)
        assert module.operation.verify()
        return module.operation.get_asm(enable_debug_info=True)


def native(text: str, version: int = 6) -> bytes:
    """A program in bytecode of a version of the format, with the operations as they are."""
    with make_ir_context() as context:
        context.allow_unregistered_dialects = True
        file = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(file, desired_version=version)
        return file.getvalue()
