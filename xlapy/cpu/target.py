"""Describes the host CPU as a target of kernel generation."""

from __future__ import annotations

from pathlib import Path

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.codegen.target import Target
from xlapy.cpu.llvm.dot_instructions import dot_instructions
from xlapy.cpu.llvm.pool import thread_count
from xlapy.cpu.llvm.processor import target_processor, vector_bytes
from xlapy.cpu.llvm.vectors.matrix_products import tile_instructions
from xlapy.loops.dot_instructions import DotInstruction

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def host_target() -> Target:
    """The processor that code is generated for: AVX-512 has 32 vector registers, AVX2 and SSE4.2 have 16.

    There is a processor for each thread of the pool. With `--max_isa`, caches and processors are the defaults instead
    of the host's, so that all machines compile the same code. Dot instructions of floats read and write denormal
    numbers as 0: `--denormals=keep` excludes them.
    """
    keeps_denormals = flags.get("denormals") == "keep"
    instructions = (
        dot_instructions(target_processor()) if flags.get("dot_instructions") else frozenset[DotInstruction]()
    )
    usable = frozenset(i for i in instructions if not (i.sum.is_float and keeps_denormals))
    tiled = tile_instructions(target_processor()) if flags.get("dot_instructions") else frozenset[DotInstruction]()
    usable_tiles = frozenset(i for i in tiled if not (i.sum.is_float and keeps_denormals))
    return _target(vector_bytes(), usable, usable_tiles, thread_count(), bool(flags.get("max_isa")))


@SingleFlight
def _target(
    vector_bytes: int,
    usable: frozenset[DotInstruction],
    tiled: frozenset[DotInstruction],
    processors: int,
    is_common: bool,
) -> Target:
    registers = 32 if vector_bytes == 64 else 16
    if is_common:
        return Target(vector_bytes, registers, usable, tiled)
    caches = host_caches()
    known = {"l1_bytes": caches.get(1), "l2_bytes": caches.get(2), "l3_bytes": caches.get(3)}
    sizes = {name: value for name, value in known.items() if value is not None}
    return Target(vector_bytes, registers, usable, tiled, processors=processors, **sizes)


def host_caches() -> dict[int, int]:
    """Returns the sizes of the host's data caches by their level, as far as they are known."""
    return cache_bytes(_CACHES)


def cache_bytes(folder: Path) -> dict[int, int]:
    """Returns the sizes of the data caches of one processor by their level, as Linux describes them in a folder; only
    those that it describes."""
    found: dict[int, int] = {}
    for cache in folder.glob("index*"):
        try:
            level, kind, size = ((cache / name).read_text("ascii").strip() for name in ("level", "type", "size"))
            if kind != "Instruction" and size.endswith("K"):
                found[int(level)] = int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return found
