"""Halo exchange: operations on split dimensions that need elements of other tiles."""
