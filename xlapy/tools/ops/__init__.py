"""`xlapy ops`, and the pages of operations and builder functions."""

from xlapy.tools.ops.command import ops

__all__ = ["ops"]
