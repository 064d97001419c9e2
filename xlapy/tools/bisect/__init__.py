"""`xlapy bisect`."""

from xlapy.tools.bisect.command import bisect

__all__ = ["bisect"]
