"""Computes what independent iterations of a loop compute for all iterations at once, in vectors."""
