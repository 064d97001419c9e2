"""`xlapy ops`, and the pages of operations and builder functions."""
