"""Import rules for dialects other than StableHLO."""
