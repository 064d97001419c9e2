"""The platform's name as JAX knows it. Standard library only: the plugin's entry point imports this module."""

from __future__ import annotations

from typing import Final

PLATFORM_NAME: Final = "xlapy"
