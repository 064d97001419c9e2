"""`xlapy demo`."""

from xlapy.tools.demo.command import demo

__all__ = ["demo"]
