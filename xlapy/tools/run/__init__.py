"""`xlapy run`."""

from xlapy.tools.run.command import run

__all__ = ["run"]
