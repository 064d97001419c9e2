"""Custom-call targets: their registry, and calls of native code by C and typed (FFI) conventions."""
