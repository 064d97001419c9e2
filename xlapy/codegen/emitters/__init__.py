"""Kernel emitters, one file per strategy. Each emits the loop IR of a region of HLO instructions."""
