"""Division of large programs into modules, and their compilation at the same time."""
