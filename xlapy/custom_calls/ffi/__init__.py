"""XLA's typed interface (XLA FFI) to native custom-call targets: its C structures, its functions, and calls.

Does not depend on custom-call instructions. Source: xla/ffi/api/c_api.h, version 0.4.
"""
