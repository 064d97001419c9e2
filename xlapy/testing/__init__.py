"""Samples, worked examples, random modules and comparison: what tests and tools check programs with."""
