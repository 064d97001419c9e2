"""The codes of errors in building programs."""
