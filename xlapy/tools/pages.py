"""Data inside of pages: text that no browser takes for anything else.

Owns: that form. Must not know: what the data says.
"""

from __future__ import annotations

import json
from typing import Any


def script_json(value: Any) -> str:
    """JSON inside a `script` element: no `<`, so that no text in it ends the element or begins a comment."""
    return (
        json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
