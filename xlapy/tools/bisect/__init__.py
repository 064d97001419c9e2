"""`xlapy bisect`."""
