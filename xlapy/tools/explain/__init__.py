"""`xlapy explain`."""

from xlapy.tools.explain.command import explain

__all__ = ["explain"]
