"""The codes of errors in the structure of modules, shapes and values."""
