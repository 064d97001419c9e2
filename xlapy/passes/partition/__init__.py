"""Programs with shardings cut up among devices."""

from xlapy.passes.partition.program import Partitioned, partition

__all__ = ["Partitioned", "partition"]
