"""The built-in platforms."""
