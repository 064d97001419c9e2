"""The typed interface of XLA to native custom-call targets: its C structures, its functions, and calls through it.

Must not know: custom-call instructions. Source: xla/ffi/api/c_api.h, version 0.4.
"""
