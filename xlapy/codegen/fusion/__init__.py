"""Fusion: groups instructions into kernels, HLO to HLO."""
