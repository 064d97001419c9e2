"""`xlapy explain-error`."""

from xlapy.tools.explain_error.command import explain_error

__all__ = ["explain_error"]
