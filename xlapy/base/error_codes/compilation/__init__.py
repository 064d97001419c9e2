"""The codes of errors in compiling programs."""
