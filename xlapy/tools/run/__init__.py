"""`xlapy run`."""
