"""`xlapy fuzz`."""
