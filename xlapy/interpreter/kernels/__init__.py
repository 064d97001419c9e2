"""NumPy functions that the interpreter's rules call."""
