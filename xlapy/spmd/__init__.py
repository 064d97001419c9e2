"""SPMD partitioning: turns a program with shardings into the program that each device runs."""

from xlapy.spmd.partitioner import EntryShardings, partition

__all__ = ["EntryShardings", "partition"]
