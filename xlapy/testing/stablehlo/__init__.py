"""StableHLO programs in MLIR text: one per assembly format, and one per family of operations that run."""
