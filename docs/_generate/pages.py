"""All pages that `python -m docs._generate` writes, by their paths in the repository."""

from __future__ import annotations

import functools

from docs._generate import broadcasting, operation_semantics
from docs._generate.examples import HERE

ROOT = HERE.parents[1]


@functools.cache
def pages() -> dict[str, str]:
    """Returns the text of each page."""
    folder = "docs/reference/operation-semantics"
    return {
        **{f"{folder}/{name}": text for name, text in operation_semantics.pages().items()},
        **{f"docs/reference/{name}": text for name, text in broadcasting.pages().items()},
    }
