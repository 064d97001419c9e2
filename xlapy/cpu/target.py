"""Describes the host CPU as a target of kernel generation."""

from __future__ import annotations

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.codegen.target import Target
from xlapy.cpu.llvm.processor import vector_bytes


def host_target() -> Target:
    """The processor that code is generated for: AVX-512 has 32 vector registers, AVX2 and SSE4.2 have 16."""
    return _target(vector_bytes())


@SingleFlight
def _target(vector_bytes: int) -> Target:
    return Target(vector_bytes=vector_bytes, vector_registers=32 if vector_bytes == 64 else 16)
