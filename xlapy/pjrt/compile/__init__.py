"""Compilation for PJRT clients: options, programs, caching."""
