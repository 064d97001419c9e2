"""`xlapy demo`."""
