"""Kernel emitters, one file per strategy: each turns a region of HLO into loop IR."""
