"""StableHLO: MLIR operations as objects (`ir`), text and bytecode, import into HLO and export from HLO."""
