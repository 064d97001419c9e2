"""Custom-call targets: their registry, and calls of native code by the C and typed (FFI) conventions of XLA."""
