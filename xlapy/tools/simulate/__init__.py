"""`xlapy simulate`: predicts the time and the memory of a program on a cluster."""

from xlapy.tools.simulate.command import simulate

__all__ = ["simulate"]
