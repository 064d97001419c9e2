"""A worker function that aborts its process if one of the texts is "kill"."""

from __future__ import annotations

import os


def outcomes(texts: list[str], platform: str) -> list[tuple[str, str]]:
    if "kill" in texts:
        os.abort()
    return [("ran", "") for _ in texts]
