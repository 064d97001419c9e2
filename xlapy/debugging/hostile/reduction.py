"""Makes an input smaller that causes a fault, by leaving out pieces as long as the fault remains.

Responsible for the choice of the pieces: halves, quarters and so on down to single bytes. Does not depend on formats.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError, WorkerTimeout
from xlapy.debugging.hostile.campaign import WALL_SECONDS
from xlapy.debugging.hostile.examiner import Outcome, Verdict


def reduce_input(format_: str, data: bytes, outcome: Outcome, seconds: float) -> bytes:
    """Returns a smaller input with the same fault, found within `seconds`."""
    with Worker("xlapy.debugging.hostile.examiner:examine_bytes", seconds=WALL_SECONDS) as worker:

        def has_fault(smaller: bytes) -> bool:
            try:
                found: Outcome = worker.call(format_, smaller)
            except WorkerTimeout:
                return outcome.verdict is Verdict.HANG
            except WorkerDied:
                return outcome.verdict is Verdict.DIED
            except WorkerError:
                return False
            return found.is_like(outcome)

        return shortest(data, has_fault, seconds)


def shortest(data: bytes, is_wanted: Callable[[bytes], bool], seconds: float) -> bytes:
    """Returns `data` without the pieces that can be left out, while `is_wanted` holds and time is left.

    Text loses whole lines first.
    """
    end = time.monotonic() + seconds
    for lines in (True, False):
        pieces = data.splitlines(keepends=True) if lines else [data[i : i + 1] for i in range(len(data))]
        data = b"".join(_without_pieces(pieces, is_wanted, end))
    return data


def _without_pieces(pieces: list[bytes], is_wanted: Callable[[bytes], bool], end: float) -> list[bytes]:
    size = len(pieces) // 2
    while size:
        start, before = 0, len(pieces)
        while start < len(pieces) and time.monotonic() < end:
            shorter = pieces[:start] + pieces[start + size :]
            if is_wanted(b"".join(shorter)):
                pieces = shorter
            else:
                start += size
        # Leaving one piece out may allow to leave out another of the same size.
        size = min(size, len(pieces)) if len(pieces) < before and time.monotonic() < end else size // 2
    return pieces
