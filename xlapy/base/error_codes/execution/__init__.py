"""The codes of errors in running programs."""
