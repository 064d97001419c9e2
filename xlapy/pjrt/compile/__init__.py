"""Compilation on behalf of PJRT clients: options, programs, caching."""
