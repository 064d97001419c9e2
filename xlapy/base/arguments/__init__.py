"""Checks of the Python types of arguments: `expected_types` reads annotations, `checking` raises the errors."""
