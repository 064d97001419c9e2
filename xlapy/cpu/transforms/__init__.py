"""HLO passes of the CPU compiler alone."""
