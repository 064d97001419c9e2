"""Profiler traces of programs that run through PJRT."""
