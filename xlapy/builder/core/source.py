"""Where the user's program stands: the first frame outside the builder, for metadata and for messages.

Owns: finding that frame and naming it. Must not know: ops, instructions being built.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from xlapy.hlo.metadata import OpMetadata

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN = tuple(os.path.join(_PACKAGE, layer) + os.sep for layer in ("base", "ops", "hlo", "builder"))


def user_line() -> tuple[str, int]:
    """(source file, 1-based line) of the innermost running frame outside the builder and the layers below.

    ("", 0) if no frame is outside.
    """
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN):
        outer = frame.f_back
        if outer is None:
            return "", 0
        frame = outer
    return frame.f_code.co_filename, frame.f_lineno


def user_metadata() -> OpMetadata | None:
    """Metadata with the user's line; None if there is no frame of the user's."""
    file, line = user_line()
    return _metadata(file, line) if line else None


def located(message: str) -> str:
    """`model.py:12: message`: the user's line in front, its file relative to the working directory if inside it."""
    file, line = user_line()
    return f"{_shown(file)}:{line}: {message}" if line else message


@lru_cache(maxsize=4096)
def _metadata(file: str, line: int) -> OpMetadata:
    return OpMetadata(source_file=file, source_line=line)


def _shown(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # another drive, or no working directory any more
        return file
    return file if relative.startswith(os.pardir) else relative
