"""`xlapy fuzz`."""

from xlapy.tools.fuzz.command import fuzz

__all__ = ["fuzz"]
