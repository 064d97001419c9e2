"""`xlapy tune`: measures plans of kernels, and writes the fastest ones to a tuning file or into the module."""

from xlapy.tools.tune.command import tune

__all__ = ["tune"]
