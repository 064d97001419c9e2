"""SPMD partitioning: turns a program with shardings into the program that each device runs.

The partitioner is imported on first use: the runtime needs `EntryShardings` only.
"""

from typing import TYPE_CHECKING, Any

from xlapy.spmd.entry.shardings import EntryShardings

if TYPE_CHECKING:
    from xlapy.spmd.partitioner import partition
else:

    def __getattr__(name: str) -> Any:
        if name != "partition":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from xlapy.spmd.partitioner import partition

        globals()[name] = partition
        return partition


__all__ = ["EntryShardings", "partition"]
