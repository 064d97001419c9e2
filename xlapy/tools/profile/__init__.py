"""`xlapy profile`: where the time of a program goes."""

from xlapy.tools.profile.command import profile

__all__ = ["profile"]
