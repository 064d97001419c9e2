"""Room on Python's stack for recursion whose depth is known and bounded.

Responsible for the recursion limit of the process. Python calls of Python functions do not use the native stack.
"""

from __future__ import annotations

import sys
from types import FrameType


def make_room_for_calls(depth: int, frames: int) -> None:
    """Raises Python's recursion limit if needed for call chains of length `depth`, at `frames` Python frames
    per call."""
    needed = depth * frames + 200
    if needed < sys.getrecursionlimit() // 2:
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        needed += 1
        frame = frame.f_back
    sys.setrecursionlimit(max(sys.getrecursionlimit(), needed))
