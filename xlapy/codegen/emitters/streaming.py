"""Lets kernels store large results past the caches.

A store to memory that is not in a cache first reads the line that it changes. A nontemporal store of a whole line does
not. Alone, on two processors, fills of 64 MiB take 0.3x of the time, copies in vectors 0.6x, sums of two arrays 0.7x;
kernels that overwrite an operand, whose lines they have read anyway, 1.4x, so they do without
(`cpu/llvm/program_kernels.py`). The C library's `memmove` is as fast without it.

Responsible for the choice of results. Does not depend on how stores are emitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlapy.base.shape import Shape
from xlapy.codegen.target import Target
from xlapy.loops import Buffer


def store_past_caches(
    target: Target, results: Iterable[tuple[Buffer, Shape]], lanes: int, pitches: Sequence[int] = ()
) -> None:
    """Marks the results that are large and whose vectors of `lanes` elements are whole cache lines.

    pitches: the distances in elements of what vectors run along, from its first vector on.
    """
    line = target.cache_line_bytes
    for buffer, shape in results:
        size = shape.element_type.byte_size
        is_line = size * lanes == line == target.vector_bytes and not shape.element_type.is_complex
        is_aligned = all(pitch * size % line == 0 for pitch in pitches)
        buffer.nontemporal = is_line and is_aligned and shape.size * size >= target.streamed_bytes
