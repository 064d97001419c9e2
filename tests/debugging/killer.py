"""A function for a worker that kills its process when it is asked to."""

from __future__ import annotations

import os


def outcomes(texts: list[str], platform: str) -> list[tuple[str, str]]:
    if "kill" in texts:
        os.abort()
    return [("ran", "") for _ in texts]
