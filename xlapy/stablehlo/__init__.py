"""StableHLO in and out: the operations, types and attributes of MLIR that it is written in, readers and writers."""
