"""`xlapy explain`."""
