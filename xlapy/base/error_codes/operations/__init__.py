"""The codes of errors in operations."""
