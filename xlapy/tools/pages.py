"""Embeds data in HTML pages so that browsers cannot interpret it as markup."""

from __future__ import annotations

import json
from typing import Any


def script_json(value: Any) -> str:
    """Returns JSON for a `script` element, without `<`, so that no text can end the element or start a comment."""
    return (
        json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
