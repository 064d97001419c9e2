"""Programs with shardings cut up among devices."""

from xlapy.spmd.program import Partitioned, partition

__all__ = ["Partitioned", "partition"]
