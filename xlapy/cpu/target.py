"""Describes the host CPU as a target of kernel generation."""

from __future__ import annotations

from functools import cache

from xlapy.codegen.target import Target
from xlapy.cpu.llvm.jit import vector_bytes


@cache
def host_target() -> Target:
    """The CPU that this process runs on: AVX-512 has 32 vector registers, AVX2 and SSE2 have 16."""
    width = vector_bytes()
    return Target(vector_bytes=width, vector_registers=32 if width == 64 else 16)
